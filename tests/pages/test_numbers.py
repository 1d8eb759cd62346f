"""The numbers of equations, figures, theorems, algorithms and exercises, as the rendered pages show them."""

import re
from collections import defaultdict
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lxml import html

pytestmark = pytest.mark.page
NAME = re.compile(r"(\d+[a-z]?|[A-Z])\. ")  # in front of a chapter's title
# "(5.9)", "Figure 4b.2", and "Figure 1" of a page that is no chapter.
NUMBER = re.compile(r"\((?:\w+\.)?\d+\)|\b[A-Z][a-z]+ (?:\w+\.)?\d+\b")


def text_of(tag) -> str:
    return " ".join(tag.text_content().split())


def of_class(*names: str) -> str:
    """The XPath condition of a tag that has one of these classes."""
    return " or ".join(f"contains(concat(' ', normalize-space(@class), ' '), ' {name} ')" for name in names)


def wrong_numbers(site: Path) -> tuple[list[str], int]:
    """What does not follow the rule or differs from its target, and how many references were compared."""
    pages = {path.resolve(): html.document_fromstring(path.read_text("utf8")).find(".//article")
             for path in sorted((site / "book").rglob("*.html"))}  # fmt: skip
    wrong, targets, compared = [], {}, 0
    for path, page in pages.items():
        name, counts = NAME.match(text_of(page.find(".//h1"))), defaultdict(int)
        for shown in page.xpath(f".//*[{of_class('eqno', 'caption-number')}]"):
            number = NUMBER.match(text_of(shown))
            if number is None:
                wrong.append(f"{path.stem}: {text_of(shown)!r} is no number")
                continue
            number = number[0]
            targets[path, shown.xpath("string(ancestor::*[@id][1]/@id)")] = number
            kind, place = re.fullmatch(r"(\w*) ?\(?(.*?)\)?", number).groups()
            counts[kind] += 1
            if name and place != f"{name[1]}.{counts[kind]}":
                wrong.append(f"{path.stem}: {number} is number {counts[kind]} of its kind")
    for path, page in pages.items():
        for link in page.xpath(f".//a[{of_class('internal')}][contains(@href, '#')]"):
            parts = urlsplit(link.get("href"))
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            number, said = targets.get((target, unquote(parts.fragment))), NUMBER.search(text_of(link))
            if number is None or said is None:  # a link may say it in words
                continue
            compared += 1
            if said[0] != number:
                wrong.append(f"{path.stem}: {text_of(link)!r} leads to {number}")
    if len(set(targets.values())) < len(targets):
        wrong.append("two things have one number")
    return wrong, compared


def test_numbers_tell_their_chapter_and_references_their_targets(site):
    wrong, compared = wrong_numbers(site)
    assert wrong == []
    assert compared > 700


EQUATION = '<div class="math" id="equation-{0}"><span class="eqno">({1})<a href="#equation-{0}">#</a></span></div>'
FIGURE = '<figure id="{0}"><p><span class="caption-number">Figure {1} </span>A curve.</p></figure>'
LINK = '<a class="reference internal" href="{0}">{1}</a>'


@pytest.mark.parametrize(("changed", "says"), [
    ({}, []),
    ({"(5.2)</a>": "(5.1)</a>"}, ["b: '(5.1)' leads to (5.2)"]),
    ({"Figure 5.1</a>": "Figure 1</a>"}, ["b: 'Figure 1' leads to Figure 5.1"]),
    ({"Figure 5.1 ": "Fig. 5.1 "}, ["a: 'Fig. 5.1' is no number"]),
    ({"(5.2)": "(5.3)"}, ["a: (5.3) is number 2 of its kind"]),
    ({"(5.1)": "(4.1)"}, ["a: (4.1) is number 1 of its kind"]),
    ({"Figure 5.1": "Figure 7"}, ["a: Figure 7 is number 1 of its kind"]),
    ({"Figure 1<": "Figure 5.1<", "Figure 1 ": "Figure 5.1 "}, ["two things have one number"]),
])  # fmt: skip
def test_a_wrong_number_is_found(tmp_path, changed, says):
    chapter = [EQUATION.format("x", "5.1"), FIGURE.format("f", "5.1"), EQUATION.format("y", "5.2")]
    other = [LINK.format("a.html#equation-y", "y (5.2)"), LINK.format("a.html#f", "Figure 5.1"),
             FIGURE.format("g", "1"), LINK.format("#g", "Figure 1")]  # fmt: skip
    (tmp_path / "book").mkdir()
    for page, title, parts in (("a", "5. A", chapter), ("b", "B", other)):
        text = f"<article><h1>{title}</h1>{''.join(parts)}</article>"
        for old, new in changed.items():
            text = text.replace(old, new)
        (tmp_path / "book" / f"{page}.html").write_text(text, "utf8")
    found, compared = wrong_numbers(tmp_path)
    assert [each.replace("'y ", "'") for each in found] == says
    assert compared >= 2
