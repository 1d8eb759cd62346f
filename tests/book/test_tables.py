"""Results in rows and columns: HTML and text of the same words, here and in the chapters; what is refused."""

import re

import lxml.html
import pytest
import torch

from minerva_book.tables import WIDEST, Shown, table
from tests.book.test_chapters import cells_of, chapters

PADDED = re.compile(r"\{[^{}]*:[<>]?\d+(?:\.\d+)?[a-z,%]*\}")  # a field of an f-string that asks for a width
ROWS = [("a & b", torch.tensor(0.5), 3, "never"), ("c", 0.1234, "", 20_000)]
HEADS = ["agent", "KL, nats:.3f", "how many steps there were", "solved after:>,"]
TEXT = """\
                    how many
                 steps there
agent  KL, nats         were  solved after
a & b     0.500            3         never
c         0.123                     20,000"""


@pytest.fixture
def shown(monkeypatch) -> list[Shown]:
    """The tables that are displayed."""
    tables: list[Shown] = []
    monkeypatch.setattr("IPython.display.display", tables.append)
    return tables


def agree(html: str, text: str) -> bool:
    """Whether both forms have the same words: below the head line by line; in it some columns have more lines."""
    head, *rows = lxml.html.fromstring(html.replace("<br>", " ")).iterfind(".//tr")
    words = [[word for cell in row for word in cell.text_content().split()] for row in (head, *rows)]
    lines = [line.split() for line in text.splitlines()]
    above = [word for line in lines[: -len(rows)] for word in line]
    return lines[-len(rows) :] == words[1:] and sorted(above) == sorted(words[0])


def test_a_table_is_aligned_text_and_html_of_the_same_words(shown):
    table(ROWS, HEADS)
    assert repr(shown[0]) == TEXT
    assert agree(shown[0].html, TEXT)
    assert not agree(shown[0].html, TEXT.replace("0.123", "0.124"))
    assert not agree(shown[0].html, TEXT.replace("nats", "bits"))


def test_without_our_style_numbers_stand_right_and_texts_left_on_one_line(shown):
    table(ROWS, HEADS)
    cells = lxml.html.fromstring(shown[0]._repr_html_()).xpath("//th | //td")
    sides = ["left" if cell.text_content() in ("agent", "a & b", "c") else "right" for cell in cells]
    assert [cell.get("style") for cell in cells] == [f"text-align: {side}; white-space: nowrap" for side in sides]


def test_the_best_are_bold_with_what_looks_the_same(shown):
    rows = [(0.121, 1.0), (0.1213, 2.0), (0.5, "")]
    table(rows, ["loss:.2f", "return:.1f"], best={"loss": min, "return": max})
    bold = lxml.html.fromstring(shown[0].html).iterfind(".//b")
    assert [each.text for each in bold] == ["0.12", "0.12", "2.0"]


@pytest.mark.parametrize(
    "told, rows, columns, best",
    [
        ("rows: wanted one or more, each of 2 cells; got ()", [], ["a", "b"], {}),
        ("rows: wanted one or more, each of 2 cells; got (3,)", [(1, 2), (3,)], ["a", "b"], {}),
        ("rows: wanted numbers or texts in 'b', or a '>' before", [(1, 2.0), (1, "never")], ["a", "b:.2f"], {}),
        ("best: wanted heads of columns; got {'b'}", [(1,)], ["a"], {"b": max}),
        (
            f"columns: wanted lines of at most {WIDEST} characters; got {WIDEST + 1}: x",
            [("x" * (WIDEST + 1),)],
            ["a"],
            {},
        ),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(shown, told, rows, columns, best):
    with pytest.raises(ValueError) as error:
        table(rows, columns, best)
    assert str(error.value).startswith(told) and not shown


def test_a_table_as_wide_as_a_page_is_shown(shown):
    table([("x" * (WIDEST - 4), 10)], ["a", "b"])
    assert len(repr(shown[0]).splitlines()[-1]) == WIDEST


@chapters
def test_the_tables_of_a_chapter_have_the_same_words_in_both_forms(path):
    data = [output.get("data", {}) for cell in cells_of(path, "code") for output in cell["outputs"]]
    forms = [["".join(each[kind]) for kind in ("text/html", "text/plain")] for each in data if "text/html" in each]
    tables = [form for form in forms if "result-table" in form[0]]
    assert tables and all(agree(*form) and "tensor(" not in form[1] for form in tables)


@chapters
def test_what_stands_in_columns_stands_in_a_table(path):
    for cell in cells_of(path, "code"):
        assert [line for line in cell["source"].splitlines() if len(PADDED.findall(line)) > 1] == []
