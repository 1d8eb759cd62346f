"""A prediction's answer stands folded: its output, and the words that tell it."""

import json

from tests.book.predictions import ANSWER, QUESTION, STILL, all_told
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
