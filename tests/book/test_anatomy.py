"""The anatomy of a chapter as a reader sees it: what is shown, what is folded, what is asked before it is answered."""

import re

from tests.book.test_chapters import cells_of, chapters, figure_of, is_picture, is_shown, kept_open, tags
from tests.copies.second_pass import changed
from tests.equations import markdown

GRADE = re.compile(r"^```\{exercise\} (?P<kind>[\w ]+): .*? (?P<grade>★{1,3})$", re.M)


def printed(cell: dict) -> list[str]:
    """The lines that a cell prints, or shows as its last value, or in a table below its head."""
    lines = []
    for output in cell["outputs"]:
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        if not is_picture(output):
            rows = "".join(output.get("data", {}).get("text/html", "")).count("<tr><td")
            lines += "".join(text).splitlines()[-rows:]
    return [line for line in lines if line.strip()]


def is_verdict(line: str) -> bool:
    """Whether a line says True or False and nothing that can be compared: no number stands beside it."""
    return bool(re.search(r"\b(?:True|False)\b", line)) and not re.search(r"\d\.\d|\d{2}", line)


@chapters
def test_what_is_shown_is_worth_reading(path):
    """Numbers that can be compared, a small table, a picture: at most a fifth is only True."""
    shown = [cell for cell in cells_of(path, "code") if is_shown(cell)]
    assert 6 <= len(shown) <= 14, len(shown)
    lines = [line for cell in shown for line in printed(cell)]
    verdicts = [line for line in lines if is_verdict(line)]
    assert len(verdicts) <= 0.2 * len(lines), verdicts
    silent = [cell["source"] for cell in shown if not printed(cell) and not cell["outputs"]]
    assert silent == [], "a shown cell shows something"
    only = [cell["source"] for cell in shown if printed(cell) and all(map(is_verdict, printed(cell)))]
    assert len(only) <= 0.2 * len(shown), only
    for cell in cells_of(path, "code"):
        if kept_open(cell):
            assert len(printed(cell)) <= 12, printed(cell)


@chapters
def test_folded_cells_say_what_they_hold(path):
    for cell in cells_of(path, "code"):
        if tags(cell) & {"hide-cell", "hide-input", "hide-output"}:
            assert {"code_prompt_show", "code_prompt_hide"} <= set(cell["metadata"].get("mystnb", {})), cell["source"]


@chapters
def test_a_chapter_opens_with_a_number_and_a_picture(path):
    cells = [cell for cell in cells_of(path) if "device" not in tags(cell)]  # a line that the page does not have
    first = next(i for i, cell in enumerate(cells) if cell["cell_type"] == "code" and is_shown(cell))
    opening = "\n".join(cell["source"] for cell in cells[: first + 1] if cell["cell_type"] == "markdown")
    assert re.search(r"\d\.\d|\d{2}", opening)
    drawn = [i for i, cell in enumerate(cells) if cell["cell_type"] == "code" and figure_of(cell)]
    assert drawn and drawn[0] <= 5, "the first picture stands among the first cells"
    assert not re.search(r"^#+ Symbols", "\n".join(cell["source"] for cell in cells[: drawn[0]]), re.M)


@chapters
def test_three_or_four_predictions_are_asked_before_they_are_answered(path):
    cells = cells_of(path)
    asked = [i for i, cell in enumerate(cells) if ":class: predict" in cell["source"]]
    assert 3 <= len(asked) <= 5, len(asked)
    for i in asked:
        assert "?" in cells[i]["source"].split(":class: predict")[1]
        assert "hide-output" in tags(cells[i + 1]), cells[i]["source"]


@chapters
def test_two_or_three_cells_begin_with_a_line_to_change(path):
    """Their code stands open, trains nothing, and is changed as it is told (test_run of the copies runs it)."""
    asking = [cell for cell in cells_of(path, "code") if "change this line" in cell["source"].lower()]
    assert 2 <= len(asking) <= 3
    for cell in asking:
        assert not tags(cell) & {"hide-cell", "hide-input", "remove-cell", "loop"} and printed(cell)
        lengths = [len(line) for line in cell["source"].splitlines()]
        assert changed(cell["source"]) and max(lengths[:2]) <= max(lengths[2:]), "no wider than the code beside it"


@chapters
def test_exercises_are_graded(path):
    text = markdown(path)
    graded = [match.groupdict() for match in GRADE.finditer(text)]
    assert len(graded) == text.count("```{exercise}")
    assert any(each["kind"] == "Derive" and len(each["grade"]) >= 2 for each in graded), "one proof"
    assert any(each["kind"] == "Explore" and len(each["grade"]) == 3 for each in graded), "one open experiment"
