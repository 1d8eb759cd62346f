"""Finding one's way: the doors of a chapter, what a term or an equation's number stands for, and an index to search.

At its head and foot a chapter leads to its neighbors, its exercises, the annotated source that its text links most, and
its homework. When all pages are finished they are read: `meanings.js` gets the glossary and the equations that another
page cites, `search_index.js` what can be found. Both are scripts, since a page from disk may not fetch, and
`finding.js` loads each when it is first wanted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path

from docutils import nodes
from lxml import html
from numbering import chapter_name

COURSE = Path(__file__).resolve().parents[1] / "homework" / "course"
NOTATION, ASSIGNMENTS = "book/notation", "book/instructors"
ASSIGNMENT = re.compile(r'name="(\w+)",\s+title="(\w+ \d+)[^"]*",\s+chapters="chapters? ([^"]*)"')
MOST_SOURCES = 2  # pages of annotated source, besides an algorithm on one page, that a chapter leads to
# What can be found: each has its own words, and not those of what it holds.
FOUND = """.//*[@id and (self::section or self::dt[starts-with(@id, 'term-')]
    or self::div[starts-with(@id, 'equation-') or contains(@class, 'exercise ') or contains(@class, 'api-method')])]"""
TITLE = """self::dt | ./h1 | ./h2 | ./h3 | ./h4 | ./span[@class='eqno']
    | ./p[contains(@class, 'admonition-title') or @class='rubric']"""
# Not read: what is drawn, code and tables, and what opens only when it is asked for.
DRAWN = re.compile(r"<(mjx-math|annotation|svg|script|style|pre|noscript)\b.*?</\1>", re.S)
SILENT = """.//*[self::table or self::button or self::details[contains(' check code answer ', concat(' ', @class, ' '))]
    or contains(@class, 'headerlink') or contains(@class, 'solution')
    or contains(@class, 'one-function') or contains(@class, 'chapter-doors')]"""
SIGNS = {"msub": "_", "munder": "_", "msup": "^"}  # x_i is no word "xi"
MEANT = ".//dt[starts-with(@id, 'term-')] | .//div[starts-with(@id, 'equation-')]"
CITED = re.compile(r'href="[^"]+\.html#(equation-[^"]+)"')
WORD = re.compile(r"[^\W\d_][\w-]+")
# Characters kept of what a place says. Of the rest those words stay that stand in some title and are not everywhere.
KEPT = {"chapter": 500, "exercise": 300, "page": 200, "source": 120, "helper": 80}
EVERYWHERE = 0.03  # of all places


def homework() -> dict[str, tuple[str, str]]:
    """The name and title of the assignment of each chapter that has one."""
    text = "".join(path.read_text("utf8") for path in sorted(COURSE.glob("hw*.py")))
    return {each: (name, title) for name, title, of in ASSIGNMENT.findall(text) for each in re.findall(r"\d+\w?", of)}


def name_assignments(app, doctree: nodes.document) -> None:
    """A row of the table of assignments is a place that a link can lead to."""
    if app.env.docname == ASSIGNMENTS:
        names = {name for name, _ in homework().values()}
        for row in doctree.findall(nodes.row):
            row["ids"] += names & {row.children[0].astext()}


def door(link: str, title: str) -> str:
    return f'<a href="{link}">{escape(title)}</a>'


def add_doors(app, pagename: str, templatename: str, context: dict, doctree: nodes.document | None) -> None:
    if not chapter_name(pagename) or doctree is None:
        return
    links = [each.get("refuri", "").partition(".html")[0] for each in doctree.findall(nodes.reference)]
    cited = Counter(link for link in links if link.startswith("annotated/"))
    sources = [each for each in cited if "/one_" in each]
    sources += [each for each, _ in cited.most_common() if each not in sources][:MOST_SOURCES]
    own = [door("#exercises", "Exercises"), "Source:"]
    own += [door(f"{each}.html", app.env.titles[f"book/{each}"].astext()) for each in sources]
    if assignment := homework().get(chapter_name(pagename)):
        own.append(door(f"instructors.html#{assignment[0]}", assignment[1]))
    neighbors = [("prev", "‹ Previous"), ("next", "Next ›")]
    before, after = ([door(context[side]["link"], text)] if context.get(side) else [] for side, text in neighbors)
    doors = '<nav class="chapter-doors" aria-label="{}">{}</nav>'
    head = doors.format("This chapter", "\n".join(before + after + own))
    context["body"] = context["body"].replace("</h1>", f"</h1>\n{head}", 1) + doors.format("Beside it", "\n".join(own))


def words(part: html.HtmlElement) -> str:
    return " ".join(part.text_content().split())


def place_of(page: str, part: html.HtmlElement) -> str:
    return f"{page}.html#{part.get('id')}"


def entries(article: html.HtmlElement, page: str, titles: dict[str, str]) -> Iterator[list[str]]:
    """Kind, title, page's title, place and words of all that can be found on a page."""
    for each in article.iter("msub", "msup", "msubsup", "munder", "munderover"):
        for part, sign in zip(each, SIGNS.get(each.tag, "_^"), strict=False):
            part.tail = sign
    for row in article.xpath(".//tbody/tr") if page == NOTATION else []:
        symbol, *said = map(words, row)
        yield ["symbol", symbol, titles[page], place_of(page, next(row.iterancestors("section"))), ". ".join(said)]
    for each in article.xpath(SILENT):
        each.drop_tree()
    for part in reversed(article.xpath(FOUND)):  # the innermost first
        title = next(iter(part.xpath(TITLE)), None)
        if title is None:
            continue
        kind, place, body, named = "page", place_of(page, part), part, words(title)
        if part.tag == "dt":
            kind, body = "term", part.getnext()
        elif "eqno" in title.classes:
            kind = "equation"
        elif "exercise" in part.classes:
            kind = "exercise"
        elif chapter_name(page):
            kind = "chapter"
        elif "#api-minerva_book" in place:
            kind = "helper"
        elif link := part.xpath("./p/a[.='Annotated source']"):
            kind, place = "source", f"book/{link[0].get('href').removeprefix('../')}"
            link[0].drop_tree()
        if title is not part:
            title.drop_tree()
        if said := words(body):
            heading = titles[place.partition(".html")[0]]
            yield [kind, named, heading if named != heading else "", place, said]
        part.drop_tree()


def shortened(found: list[list[str]]) -> list[list[str]]:
    """Keep the first words of a place, and of its others those that one looks for."""
    used = Counter(word for *_, said in found for word in set(WORD.findall(said.lower())))
    sought = {word for _, title, *_ in found for word in WORD.findall(title.lower())}
    sought -= {word for word, count in used.items() if count > EVERYWHERE * len(found)}
    for entry in found:
        kind, said = entry[0], entry[-1]
        if len(said) > KEPT.get(kind, len(said)):
            lead = said[: KEPT[kind]].rpartition(" ")[0]
            later = {*WORD.findall(said[len(lead) :].lower())} & sought - {*WORD.findall(lead.lower())}
            entry[-1] = " ".join([f"{lead} …", *sorted(later)])
    return found


def meaning(place: html.HtmlElement) -> str:
    """A term or an equation, to be shown on other pages: there its own links would lead astray."""
    for each in place.xpath(".//a"):
        each.drop_tree() if "headerlink" in each.classes else each.drop_tag()
    after = meaning(place.getnext()) if place.tag == "dt" else ""
    return html.tostring(place, encoding="unicode", with_tail=False) + after


def write(app, exception: Exception | None) -> None:
    """Write what the search and the meanings are made of."""
    if exception is not None or app.builder.format != "html":
        return
    site, found, meanings = Path(app.outdir), [], {}
    titles = {name: title.astext() for name, title in app.env.titles.items()}
    texts = {name: (site / f"{name}.html").read_text("utf8") for name in sorted(titles)}
    cited = {each for text in texts.values() for each in CITED.findall(text)}
    for name, text in texts.items():
        for place in html.document_fromstring(text).find(".//article").xpath(MEANT) if "MathJax" in text else []:
            if place.tag == "dt" or place.get("id") in cited:
                meanings[place.get("id")] = meaning(place)
        found += entries(html.document_fromstring(DRAWN.sub("", text)).find(".//article"), name, titles)
    for file, name, value in ("search_index", "searchEntries", shortened(found)), ("meanings", "meanings", meanings):
        said = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        (site / "_static" / f"{file}.js").write_text(f"const {name} = {said};\n", "utf8")


def no_index(app) -> None:
    """Sphinx need not index what is searched by the book's own script."""
    app.builder.search = False


def setup(app) -> dict:
    app.connect("builder-inited", no_index)
    app.connect("doctree-read", name_assignments)
    app.connect("html-collect-pages", lambda app: [("search", {}, "search.html")])
    app.connect("html-page-context", add_doors)
    app.connect("build-finished", write, priority=900)  # the pages are as they will be read
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
