"""Numbers that tell their chapter: names from files, and a small book that is built whole and in part."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.equations import CHAPTERS, ROOT, markdown

EXTENSIONS = ROOT / "book" / "_ext"
sys.path.insert(0, str(EXTENSIONS))

from numbering import chapter_name  # noqa: E402

# A number of this book that is typed and not a reference; papers number with one figure.
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
    pages = {path: markdown(path) for path in CHAPTERS}
    pages |= {path: path.read_text("utf8") for path in (ROOT / "book").rglob("*.md")}
    for folder in ("minerva_lite", "book/minerva_book", "book/homework/course"):
        pages |= {path: path.read_text("utf8") for path in (ROOT / folder).rglob("*.py")}
    assert {path.name: TYPED.findall(text) for path, text in pages.items() if TYPED.search(text)} == {}


@pytest.mark.parametrize("text", ["as Figure 4b.2 shows", "by equation (5.9)", "see Exercise A.1.", "from eq. 5.9"])
def test_a_typed_number_is_found(text):
    assert TYPED.search(text)


def test_numbers_of_papers_may_be_typed():
    assert not TYPED.search("Equation (7) is ours, Theorem 1 of that paper, exercise 2.2 of Spinning Up, Algorithm 1.")


# A small book. The table of contents has its chapters in another order than their names.

CONF = f"""
import sys
sys.path.insert(0, {str(EXTENSIONS)!r})
extensions = ["myst_parser", "sphinx_external_toc", "sphinx_exercise", "sphinx_proof", "numbering"]
myst_enable_extensions = ["dollarmath"]
html_theme = "basic"
numfig_format = {{"figure": "Figure %s"}}


def setup(app):  # what other extensions lack for pages to be read in parallel
    app.extensions["sphinx_multitoc_numbering"].parallel_read_safe = True
    app.registry.domains["prf"].merge_domaindata = lambda *everything: None
"""
ORDER = ["05_late", "plain", "b_more", "04b_step", "10_last", "notes"]
REFERENCES = "{eq}`{0}-first` {eq}`{0}-second` {numref}`fig-{0}` {prf:ref}`thm-{0}` {prf:ref}`alg-{0}` {ref}`ex-{0}`"
SOLUTION = "```{solution} ex-{0}\n:label: sol-{0}\nYes.\n```\n\n"


def page(name: str) -> str:
    """A page with one of each kind, and two equations."""
    first, second = (f"$$x = {number}$$ ({name}-{word})" for number, word in ((1, "first"), (2, "second")))
    parts = [f"# {name}", first, f"```{{figure}} dot.png\n:name: fig-{name}\nA dot.\n```", "## Part", second]
    parts += [f"```{{prf:{kind}}}\n:label: {label}-{name}\nSo it is.\n```"
              for kind, label in (("theorem", "thm"), ("algorithm", "alg"))]  # fmt: skip
    return "\n\n".join([*parts, f"```{{exercise}}\n:label: ex-{name}\nIs it?\n```", ""])


def build(folder: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-j", "2", "-d", "trees", ".", "html"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def shown(folder: Path, name: str, start: str = "") -> list[str]:
    """Every number that a page shows after these words, in its order."""
    text = (folder / "html" / "book" / f"{name}.html").read_text("utf8").partition('<div class="body"')[2]
    text = " ".join(re.sub(r"<[^>]*>", "", text).split())
    found = r"\((?:\w+\.)?\d+\)|(?:Figure|Theorem|Algorithm|Exercise) (?:\w+\.)?\d+"
    return re.findall(found, text[text.index(start) :])


def numbers(name: str, first: int = 1) -> list[str]:
    """What a page of the small book should show of its own."""
    figure = f"{name}.1" if name else str(first)
    equations = [f"({name}.{i})" if name else f"({2 * first - 2 + i})" for i in (1, 2)]
    return [equations[0], f"Figure {figure}", equations[1], *others(figure)]


def others(place: str) -> list[str]:
    return [f"{kind} {place}" for kind in ("Theorem", "Algorithm", "Exercise")]


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    (folder / "book").mkdir()
    (folder / "conf.py").write_text(CONF, "utf8")
    chapters = "\n".join(f"- file: book/{name}" for name in ORDER)
    (folder / "_toc.yml").write_text(f"format: jb-book\nroot: index\nchapters:\n{chapters}\n", "utf8")
    references = "\n\n".join("To: " + REFERENCES.replace("{0}", name) for name in ORDER)
    (folder / "index.md").write_text("# Small\n", "utf8")
    for name in ORDER:
        (folder / "book" / f"{name}.md").write_text(page(name), "utf8")
        (folder / "book" / "dot.png").write_bytes(b"")
    late = folder / "book" / "05_late.md"
    late.write_text(late.read_text("utf8") + SOLUTION.replace("{0}", "04b_step") + references + "\n", "utf8")
    build(folder)
    return folder


def cited(own: list[str]) -> list[str]:
    """The numbers of a page in the order in which the small book refers to them."""
    return [own[0], own[2], own[1], *own[3:]]


def test_each_chapter_counts_for_itself_and_under_its_own_name(book):
    for name in ("04b_step", "b_more", "10_last"):
        assert shown(book, name) == numbers(chapter_name(f"book/{name}"))
    assert shown(book, "05_late")[:6] == numbers("5")
    assert "<h1>05_late<" in (book / "html" / "book" / "05_late.html").read_text("utf8"), "headings get no number"


def test_pages_that_are_no_chapters_share_a_plain_count(book):
    assert shown(book, "plain") == numbers("", 1)
    assert shown(book, "notes") == numbers("", 2)


def test_references_from_another_page_show_the_same_numbers(book):
    own = [shown(book, name)[:6] for name in ORDER]
    assert shown(book, "05_late", "Solution to") == ["Exercise 4b.1", *(each for page in own for each in cited(page))]


def test_a_later_build_renumbers_every_page_that_refers(book):
    """Only one page changes; the number that another page shows of it changes too. Then nothing has to move."""
    step, html = book / "book" / "04b_step.md", book / "html" / "book"
    step.write_text(step.read_text("utf8").replace("# 04b_step\n", "# 04b_step\n\n$$y = 0$$ (new)\n"), "utf8")
    build(book)
    assert shown(book, "04b_step")[:4] == ["(4b.1)", "(4b.2)", "Figure 4b.1", "(4b.3)"]
    assert "(4b.2) (4b.3) Figure 4b.1" in " ".join(shown(book, "05_late", "Solution to"))
    assert 'id="equation-04b-step-first"' in (html / "04b_step.html").read_text("utf8"), "its address stays"
    written = {path.name: path.stat().st_mtime_ns for path in html.glob("*.html")}
    step.write_text(step.read_text("utf8") + "\nMore words.\n", "utf8")
    build(book)
    assert shown(book, "04b_step")[1] == "(4b.2)"
    assert {path.name for path in html.glob("*.html") if path.stat().st_mtime_ns != written[path.name]} == {
        "04b_step.html"
    }
