"""Numbers that tell their chapter, those of references too: in a small book that is built whole and in part."""

import re
from collections import defaultdict
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lxml import html
from numbering import chapter_name

from tests.book.test_annotated_source import build
from tests.equations import CHAPTERS, ROOT, markdown

# A number of this book that is typed and not a reference.
TYPED = re.compile(
    r"\b(?:Figure|Fig\.|Theorem|Lemma|Corollary|Proposition|Definition|Algorithm|Exercise|Equation|equation|[Ee]q\.)"
    r" \(?(?:\d+[a-z]?|[A-Z])\.\d+"
)


@pytest.mark.parametrize(("page", "name"), [
    ("book/05_ppo", "5"), ("book/05_ppo.ipynb", "5"), ("book/04b_trpo_step", "4b"), ("book/a_prerequisites", "A"),
    ("book/b_b_side", "B"), ("book/10_large-models", "10"), ("book/12c_2d_worlds", "12c"), ("book/00_why", "0"),
    ("book/glossary", ""), ("book/index", ""), ("book/annotated/on_policy", ""), ("book/annotated/a_b", ""),
    ("book/on_paper", ""), ("book/5", ""), ("homework/05_ppo", ""), ("book/homework/05_ppo", ""), ("05_ppo", ""),
])  # fmt: skip
def test_a_chapter_is_named_by_its_file(page, name):
    assert chapter_name(page) == name


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_title_of_a_chapter_says_its_name(path):
    assert markdown(path).startswith(f"# {chapter_name(f'book/{path.name}')}. ")


def test_no_page_types_a_number_that_is_the_books():
    """Only what looks like one of its own: papers number with one figure."""
    assert TYPED.search("see Exercise A.1.") and not TYPED.search("Theorem 1 of that paper, by equation (7)")
    pages = {path: markdown(path) for path in CHAPTERS}
    pages |= {path: path.read_text("utf8") for path in (ROOT / "book").rglob("*.md")}
    for folder in ("minerva_lite", "book/minerva_book", "book/homework/course"):
        pages |= {path: path.read_text("utf8") for path in (ROOT / folder).rglob("*.py")}
    assert {path.name: TYPED.findall(text) for path, text in pages.items() if TYPED.search(text)} == {}


TITLE = re.compile(r"(\d+[a-z]?|[A-Z])\. ")  # of a chapter
# "(5.9)", "Figure 4b.2", and "Figure 1" of a page that is no chapter.
NUMBER = re.compile(r"\((?:\w+\.)?\d+\)|\b[A-Z][a-z]+ (?:\w+\.)?\d+\b")


def text_of(tag) -> str:
    return " ".join(tag.text_content().split())


def of_class(*names: str) -> str:
    """The XPath condition of a tag that has one of these classes."""
    return " or ".join(f"contains(concat(' ', normalize-space(@class), ' '), ' {name} ')" for name in names)


def numbers_of(site: Path) -> tuple[dict[str, list[str]], list[str], int]:
    """The numbers of each page, what is wrong with them or with a reference, and how many references were compared.

    In a chapter a number tells its name and its place among those of its kind; a reference shows that of its target.
    """
    pages = {path.resolve(): html.document_fromstring(path.read_text("utf8"))
             for path in sorted((site / "book").rglob("*.html"))}  # fmt: skip
    found, wrong, targets, compared = {}, [], {}, 0
    for path, page in pages.items():
        found[path.stem] = []
        page = pages[path] = (page.xpath("//article") or [page])[0]
        name, counts = TITLE.match(text_of(page.find(".//h1"))), defaultdict(int)
        for shown in page.xpath(f".//*[{of_class('eqno', 'caption-number')}]"):
            number = NUMBER.match(text_of(shown))[0]
            found[path.stem].append(number)
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
            if number and said:  # a link may say it in words
                compared += 1
                wrong += [f"{path.stem}: {text_of(link)!r} leads to {number}"] * (said[0] != number)
    if len(set(targets.values())) < len(targets):
        wrong.append("two things have one number")
    return found, wrong, compared


# A small book. The table of contents has its chapters in another order than their names.

EXTENSIONS = ["annotated", "myst_parser", "sphinx_external_toc", "sphinx_exercise", "sphinx_proof", "numbering"]
TITLES = {"05_late": "5. Late", "plain": "Plain", "b_more": "B. More", "04b_step": "4b. Step", "10_last": "10. Last",
          "notes": "Notes"}  # fmt: skip
BLOCK = "```{kind}\n:{option}: {label}-{{name}}\nSo it is.\n```\n"
PAGE = "\n".join([
    "# {title}\n\n$$x = 1$$ ({name}-first)\n",
    BLOCK.format(kind="{{figure}} dot.png", option="name", label="fig"),
    "## Part\n\n$$x = 2$$ ({name}-second)\n",
    BLOCK.format(kind="{{prf:theorem}}", option="label", label="thm"),
    BLOCK.format(kind="{{prf:algorithm}}", option="label", label="alg"),
    BLOCK.format(kind="{{exercise}}", option="label", label="ex"),
])  # fmt: skip
REFERENCES = (
    "\nTo: {{eq}}`{name}-first` {{eq}}`{name}-second` {{numref}}`fig-{name}` {{prf:ref}}`thm-{name}`"
    " {{prf:ref}}`alg-{name}` {{ref}}`ex-{name}`\n"
)
SOLUTION = "\n```{solution} ex-04b_step\n:label: sol-04b_step\nYes.\n```\n"


def numbers_after(folder: Path, pages: dict[str, str]) -> tuple[dict[str, list[str]], list[str], int]:
    """What `numbers_of` finds once these pages, or those that have changed, are built."""
    target, warnings = build(folder, pages, extensions=EXTENSIONS, numfig=True, numfig_format={"figure": "Figure %s"})
    assert warnings == ""
    return numbers_of(target)


def test_each_chapter_counts_under_its_own_name_and_a_later_build_renumbers_every_page_that_refers(tmp_path):
    chapters = "\n".join(f"- file: book/{name}" for name in TITLES)
    book = tmp_path / "book" / "book"
    book.mkdir(parents=True)
    (book.parent / "_toc.yml").write_text(f"format: jb-book\nroot: index\nchapters:\n{chapters}\n", "utf8")
    (book / "dot.png").write_bytes(b"")
    pages = {f"book/{name}": PAGE.format(name=name, title=title) for name, title in TITLES.items()}
    pages["book/05_late"] += SOLUTION + "".join(REFERENCES.format(name=name) for name in TITLES)
    found, wrong, compared = numbers_after(tmp_path, pages | {"index": "# Small\n"})
    kinds = "({0}1) Figure@{0}1 ({0}2) Theorem@{0}1 Algorithm@{0}1 Exercise@{0}1"
    for name, place in (("05_late", "5."), ("b_more", "B."), ("04b_step", "4b."), ("10_last", "10."), ("plain", "")):
        assert found[name][:6] == [each.replace("@", " ") for each in kinds.format(place).split()]
    assert found["notes"] == ["(3)", "Figure 2", "(4)", "Theorem 2", "Algorithm 2", "Exercise 2"], "a plain count"
    assert wrong == [] and compared == 6 * len(TITLES) + 1
    assert "<h1>5. Late<" in (tmp_path / "html/book/05_late.html").read_text("utf8"), "headings get no number"
    # Only one page changes; the number that another page shows of it changes too.
    step = pages["book/04b_step"].replace("4b. Step\n", "4b. Step\n\n$$y = 0$$ (new)\n")
    found, wrong, compared = numbers_after(tmp_path, {"book/04b_step": step})
    assert found["04b_step"][:4] == ["(4b.1)", "(4b.2)", "Figure 4b.1", "(4b.3)"]
    assert wrong == [] and compared == 6 * len(TITLES) + 1
    # Then nothing has to move.
    written = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "html/book").glob("*.html")}
    numbers_after(tmp_path, {"book/04b_step": step + "\nMore words.\n"})
    now = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "html/book").glob("*.html")}
    assert {name for name in written if written[name] != now[name]} == {"04b_step.html"}
