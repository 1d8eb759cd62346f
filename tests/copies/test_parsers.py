"""Front ends that are not here, by their parsers: KaTeX, MathJax and markdown-it read all that the copies say."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.equations import CHAPTERS, ROOT
from tests.pages import build

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from typeset import typeset  # noqa: E402

MODULES = ROOT / ".assets" / "node_modules"
pytestmark = pytest.mark.skipif(
    not (shutil.which("node") and (MODULES / "katex").is_dir()), reason="no node here, or .assets was not installed"
)


def faults(cells: list[str]) -> tuple[list[str], int]:
    """What a front end would not understand, and the number of formulas."""
    command = ["node", str(Path(__file__).with_name("parsers.js")), str(MODULES)]
    done = subprocess.run(command, input=json.dumps(cells), capture_output=True, text=True, timeout=120, check=True)
    read = json.loads(done.stdout)
    formulas = [tuple(formula) for cell in read for formula in cell["formulas"]]
    each = list(dict.fromkeys(formulas))
    answers = zip(each, typeset(each, {}, MODULES / "mathjax/es5/node-main.js").faults, strict=True)
    found = [f"MathJax: {fault}: {tex}" for (tex, _), fault in answers if fault]
    return [fault for cell in read for fault in cell["faults"]] + found, len(formulas)


def test_every_formula_and_mark_of_every_copy_is_read():
    copies = [nbformat.read(build.site().parents[1] / "copies" / chapter.name, as_version=4) for chapter in CHAPTERS]
    found, count = faults([cell.source for copy in copies for cell in copy.cells if cell.cell_type == "markdown"])
    assert found == [] and count > 7000


@pytest.mark.parametrize(("text", "word"), [
    (r"$\frac{1}$", "KaTeX"),
    (r"$\ensuremath{x}$", "MathJax"),
    ("It costs 5$, and an open * stays.", "a mark is left: It costs 5$"),
    ("$a_1 and b$_2", "a mark is left"),
    ("$x$2", "money"),
    ("> $$\n> x\n> $$", "a sign of quotation"),
    ("> ```\n> a = $x$\n> ```", "in code"),
    ("<details>\n<summary>Open</summary>\n\ntext", "stays open: <details>"),
    ("- <details>\n\n</details>", "closes nothing"),
    ("<details>\n<summary>**bold**</summary>\n\n</details>", "a mark in HTML"),
    ("| a | b |\n| --- |\n| 1 | 2 |", "a mark is left"),
])  # fmt: skip
def test_what_is_not_read_is_told(text, word):
    found, _ = faults(["Fine: $x$, `$y`, **bold** and \\$.", text])
    assert any(word in fault for fault in found), found
