"""A prediction's answer stands folded: its output, and the words that tell it."""

import json

import pytest
from docutils import nodes
from docutils.utils import new_document
from folds import Page, answer
from myst_nb.sphinx_ import HideCodeCellNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from sphinx.errors import ExtensionError

from tests.book.predictions import ANSWER, QUESTION, STILL, all_told, told
from tests.book.test_chapters import cells_of, chapters, tags


@chapters
def test_a_prediction_has_a_question_above_and_an_answer_below(path):
    cells = cells_of(path)
    for place, cell in enumerate(cells):
        if "hide-output" in tags(cell):
            assert QUESTION.search(cells[place - 1]["source"]), f"{cell['id']}: no question ends the cell above"
            assert ANSWER.match(cells[place + 1]["source"]), f"{cell['id']}: no {{answer}} begins the cell below"


def test_the_words_below_a_prediction_tell_no_more_of_its_answer():
    """`python -m tests.book.predictions` takes what tells no longer off the list."""
    now, before = all_told(), json.loads(STILL.read_text("utf8"))
    new = {name: more for name, each in now.items() if (more := [n for n in each if n not in before.get(name, [])])}
    assert new == {}, "these numbers tell an answer: move the words into its {answer}"
    stale = {name: more for name, each in before.items() if (more := [n for n in each if n not in now.get(name, [])])}
    assert stale == {}, "these tell no longer: `python -m tests.book.predictions`"


def test_what_tells_an_answer():
    question = new_markdown_cell("```{admonition} Predict\n:class: predict\nOf 75, 10 or 99?\n```")
    output = new_output("stream", text="75 cars, -3.618 s, 1,200 m, 0.5, 20, 0.25, 2.5e-2")
    cell = new_code_cell("w = 0.25", id="a", metadata={"tags": ["hide-output"]}, outputs=[output])
    said = "75 of $-3.62$ and 3.61, 1{,}200 or 0.5, 20, 0.25, `3.618`, {eq}`x-3.618`, 0.025.\n\n## Next\n\n3.6"
    text = new_markdown_cell(f"```{{answer}}\nIt is 3.6.\n```\n\n{said}")
    assert told([question, cell, text]) == {"a": ["3.62", "1200", "0.025"]}


def test_the_build_stops_at_a_prediction_without_an_answer():
    def arranged(*below: nodes.Node) -> str:
        output = HideCodeCellNode("", nodes.paragraph("", "4.5"), classes=["above-output"])
        code = nodes.container("", nodes.literal_block("", "print(4.5)"))
        cell = nodes.container("", code, output, nb_element="cell_code", classes=["cell", "tag_hide-output"])
        page = new_document("page")
        page += [cell, *below]
        Page(page, "book/some", {}).arrange()
        return page.pformat()

    assert "answer" in arranged(answer("", nodes.paragraph("", "Four and a half.")))
    with pytest.raises(ExtensionError, match=r"book/some: the cell that begins 'print\(4.5\)': wanted an \{answer\}"):
        arranged(nodes.paragraph("", "Four and a half."))
