"""The runnable copies say what the pages say, in plain Markdown and pictures that need no trust."""

import base64
import io
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import nbformat
import numpy as np
import pytest
from docutils import nodes
from lxml import html
from PIL import Image
from sphinx.errors import ExtensionError
from sphinx_exercise.nodes import exercise_enumerable_node, exercise_title

from tests.copies.fresh import environment, execute, install, linked
from tests.equations import CHAPTERS, ROOT, markdown
from tests.pages import build

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from copies import Copy, by_cell  # noqa: E402
from pictures import MARGIN, WIDTH  # noqa: E402
from plain import Plain, Unknown  # noqa: E402

# Roles, fences of directives and their options, labels of blocks and of equations, comments.
RAW = re.compile(r"\{[a-z:]+\}`|^:{3,}|^`{3,}\{|^\([\w:-]+\)=|\$\$ *\([\w-]+\)|^:[a-z-]+:|<!--|<svg\b", re.MULTILINE)
TWICE = re.compile(r"\b(chapter|exercise|theorem|lemma|algorithm|figure) \[?\1\b", re.IGNORECASE)
by_chapter = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)


@cache
def copy_of(chapter: Path) -> nbformat.NotebookNode:
    return nbformat.read(build.site().parents[1] / "copies" / chapter.name, as_version=4)


def stored(cell) -> list[nbformat.NotebookNode]:
    """The outputs that a cell has from its chapter."""
    return [output for output in cell.get("outputs", []) if not output.get("metadata", {}).get("added")]


def texts(notebook) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


@by_chapter
def test_nothing_is_left_raw_and_a_copy_is_small(chapter):
    notebook = copy_of(chapter)
    nbformat.validate(notebook)
    assert RAW.findall(texts(notebook)) == [] and len(nbformat.writes(notebook)) < 1_000_000
    assert TWICE.findall(texts(notebook)) == []
    assert "widgets" not in notebook.metadata


@by_chapter
def test_cells_and_their_code_are_the_chapters(chapter):
    source = nbformat.read(chapter, as_version=4)
    own = [cell for cell in copy_of(chapter).cells if not cell.metadata.get("added")]
    assert [(cell.cell_type, cell.id) for cell in own] == [(cell.cell_type, cell.id) for cell in source.cells]
    for ours, theirs in zip(own, source.cells, strict=True):
        if ours.cell_type == "code":
            code = re.sub(r"\A# @title .*\n", "", ours.source)
            assert code.replace('("retina", dpi=192)', '("svg")') == theirs.source
            assert len(stored(ours)) == len(theirs.outputs)


@by_chapter
def test_names_and_numbers_are_the_pages(chapter):
    page = html.parse(build.site() / "book" / f"{chapter.stem}.html")
    text = texts(copy_of(chapter))

    def on_the_page(kind: str) -> list[str]:
        found = page.xpath(f'//*[contains(concat(" ", @class, " "), " {kind} ")]')
        return [" ".join(each.text_content().split()) for each in found]

    numbered = [each.rstrip(".") for each in on_the_page("caption-number")]
    bold = re.findall(r"\*\*((?:Theorem|Lemma|Algorithm|Exercise|Figure) [\w.]+?)\.?(?: |\*\*)", text)
    assert sorted(bold) == sorted(each for each in numbered if re.search(r"\d", each))
    assert [f"({number})" for number in re.findall(r"\\tag\{(.*?)\}", text)] == [
        each.removesuffix("#") for each in on_the_page("eqno")
    ]
    assert text.count("*Proof.*") == len(page.xpath('//*[@class="proof admonition"]'))
    folded = [len(on_the_page(kind)) for kind in ("answer", "solution", "aside")]
    assert text.count("<summary>") == sum(folded) and text.count("<b>Answer</b>") == folded[0]


@by_chapter
def test_every_link_arrives(chapter):
    """A copy alone has none; one that lies beside others to these, and to the pages that are served there."""
    leading = re.compile(r"\]\((?!#|https?://)(\S+?)\)")
    assert leading.findall(texts(copy_of(chapter))) == []
    made, site = build.site().parents[1] / "copies" / "lab", build.site()
    found = leading.findall(texts(nbformat.read(made / chapter.name, as_version=4)))
    for where in found:
        path, _, part = where.removeprefix("/static/").partition("#")
        file = site / path if where.startswith("/static/") else made / path
        assert file.is_file() and (not part or f'id="{part}"' in file.read_text("utf8")), where
    assert found


@by_chapter
def test_a_folded_check_is_titled_by_its_equations(chapter):
    labels = re.findall(r"\$\$ *\(([\w-]+)\)$", markdown(chapter), re.MULTILINE)
    number = dict(zip(labels, re.findall(r"\\tag\{(.*?)\}", texts(copy_of(chapter))), strict=True))
    for cell in copy_of(chapter).cells:
        checked = [tag.removeprefix("checks:") for tag in cell.metadata.get("tags", []) if tag.startswith("checks:")]
        if checked and cell.source.startswith("# @title Check of ("):
            said = re.findall(r"\((.*?)\)", cell.source.partition("\n")[0])
            assert said == [number[label] for label in checked]
        assert not (checked and cell.source.startswith("# @title The check\n"))


@by_chapter
def test_pictures_are_png_and_widgets_their_picture_alone(chapter):
    source = {cell.id: cell for cell in nbformat.read(chapter, as_version=4).cells}
    sizes = []
    for cell in copy_of(chapter).cells:
        for place, output in enumerate([] if cell.metadata.get("added") else stored(cell)):
            data, before = output.get("data", {}), source[cell.id].outputs[place].get("data", {})
            assert set(data) <= {"image/png", "text/plain", "text/html"}
            if "image/svg+xml" in before:
                picture = Image.open(io.BytesIO(file := base64.b64decode(data["image/png"])))
                assert picture.width == WIDTH and picture.mode == "P"
                edge = np.asarray(picture.convert("RGB"))
                assert (edge[:MARGIN] == 255).all() and (edge[:, :MARGIN] == 255).all()
                sizes.append(len(file))
    assert not sizes or sum(sizes) / len(sizes) < 60_000


@by_chapter
def test_below_each_implement_exercise_is_its_stub_and_its_check(chapter):
    """Nothing stands between, and the solution comes after them."""
    cells, labels = copy_of(chapter).cells, re.findall(r"Implement: .*\n:label: ([\w-]+)", markdown(chapter))
    places = [place for place, cell in enumerate(cells) if cell.id.endswith("-stub")]
    assert [cells[place].id.removesuffix("-stub") for place in places] == labels
    for label, place in zip(labels, places, strict=True):
        above, stub, check, below = cells[place - 1 : place + 3]
        last = above.source.rpartition("> **")[2]
        assert re.match(r"Exercise [\w.]+ \(Implement: ", last) and "<details>" not in last
        assert check.id == f"{label}-check" and check.outputs[0].text == "not answered yet\n"
        assert re.match("<details>\n<summary>.*Implement: ", below.source)
        assert all(cell.metadata.added for cell in (stub, check, below))


def test_an_implement_exercise_without_a_stub_stops_the_build():
    title, label = exercise_title("", " (Implement: a new thing)"), "ex-a-new-thing"
    node = exercise_enumerable_node("", title, nodes.section(), label=label, ids=[label])
    copy = Copy.__new__(Copy)
    copy.docname, copy.blocks, copy.plain = "book/05_ppo", [(7, 1, node)], Plain({"exercise": {label: (5, 1)}}, str)
    with pytest.raises(ExtensionError, match="book/05_ppo: cell 7: no stub .*ex-a-new-thing"):
        list(copy.text(nbformat.v4.new_markdown_cell(), 7))


def test_what_has_no_plain_form_is_an_error():
    writer = Plain({}, lambda node: "")
    with pytest.raises(Unknown, match="^sidebar$"):
        writer.block(nodes.sidebar())
    with pytest.raises(Unknown, match="^superscript$"):
        writer.block(nodes.paragraph("", "", nodes.superscript("", "2")))


def test_text_is_not_taken_for_markdown():
    writer = Plain({}, lambda node: "")
    said = "2 * 3 * 4 costs $5, a_b_c [x] <b>"
    text = writer.block(nodes.paragraph("", "", nodes.Text(said)))
    assert text == r"2 \* 3 \* 4 costs \$5, a\_b\_c \[x\] \<b\>"
    said = "1. first\n10) tenth\n1.6, 0.4\n- 3\n# 4"
    assert writer.block(nodes.paragraph("", "", nodes.Text(said))) == "1\\. first\n10\\) tenth\n1.6, 0.4\n\\- 3\n\\# 4"
    for said, wanted in (("a_b", "`a_b`"), ("two words", "two words")):  # the name of a function, or words for it
        link = nodes.reference("", "", nodes.inline("", said), refuri="ppo.html#src-minerva_lite.a_b")
        assert writer.inline(nodes.paragraph("", "", link)) == wanted


def test_a_block_stands_in_the_cell_of_its_line():
    paragraphs = [nodes.paragraph("", "", nodes.Text("x")) for _ in range(3)]
    for paragraph, line in zip(paragraphs, (10_002, 30_002, None), strict=True):
        paragraph.line = line
    section = nodes.section("", *paragraphs[1:])
    assert [(cell, level) for cell, level, _ in by_cell([paragraphs[0], section])] == [(0, 0), (2, 1), (2, 1)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Of the branch that the script pushes to a repository of this machine, twice, from what a build leaves."""
    folder = tmp_path_factory.mktemp("published")
    tree, remote, clone = (folder / name for name in ("tree", "remote.git", "clone"))
    git("clone", "--quiet", "--depth", "1", f"file://{ROOT}", tree)
    shutil.copytree(build.site().parents[1] / "copies", tree / ".build" / "copies")
    (tree / ".build" / "_build" / "html").mkdir(parents=True)
    (wheel,) = build.site().glob("*.whl")
    shutil.copy(wheel, tree / ".build" / "_build" / "html")
    git("init", "--quiet", "--bare", remote)
    for _ in range(2):
        subprocess.run([tree / ".ci" / "publish", remote], check=True)
    git("clone", "--quiet", "--branch", "notebooks", remote, clone)
    return clone


def test_the_branch_that_is_launched_holds_copies_and_the_wheel(clone):
    assert sorted(each.name for each in (clone / "book").iterdir()) == [each.name for each in CHAPTERS]
    listed = re.findall(r"^- \[(.*)\]\(book/(.*)\)$", (clone / "README.md").read_text("utf8"), re.MULTILINE)
    assert listed == [(copy_of(each).cells[0].source.split("\n")[0][2:], each.name) for each in CHAPTERS]
    assert [*clone.glob("minerva_lite-*.whl")] and (clone / ".binder" / "postBuild").is_file()


@pytest.mark.slow
def test_a_copy_of_that_branch_runs_with_its_wheel_alone(clone, tmp_path):
    python, _ = environment(tmp_path / "venv", linked(tmp_path / "links"))
    install(python, *clone.glob("*.whl"))
    execute(python, clone / "book" / "a_prerequisites.ipynb", tmp_path / "alone")


def git(*words) -> None:
    subprocess.run(["git", *words], check=True)
