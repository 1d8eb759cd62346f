"""Results in rows and columns: an HTML table in notebooks and on the pages, aligned text for the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any

NARROW = 12  # characters; a head breaks into lines of this length, or of its longest cell's
WIDEST = 100  # characters of a line of the aligned text: what a page's column holds


@dataclass(frozen=True)
class Shown:
    """A table in both forms. IPython takes the one that it can show."""

    plain: str
    html: str

    def __repr__(self) -> str:
        return self.plain

    def _repr_html_(self) -> str:
        return self.html


def table(
    rows: Iterable[Iterable[Any]], columns: str | Sequence[str], best: Mapping[str, Callable[..., Any]] | None = None
) -> None:
    """Show rows of results below the heads of their columns.

    rows: a cell is a number, also a 0-d tensor, or a text, which is shown as it is; "" leaves its place empty.
    columns: the heads, with units, and behind a colon the format of the numbers, in one text, "step | KL, nats:.3f",
        or one by one. Numbers stand at the right and texts at the left; after ">" both do at the right, "solved at:>,".
    best: by a column's head which of its numbers is printed in bold, with all that look the same: {"return": max}.
    Raises ValueError: there are no rows; a row has another length; a column holds numbers and texts without a ">";
        `best` names another column; a line of the text has more than 100 characters, so that no page is wide enough.
    """
    from IPython.display import display  # who trains or marks without a notebook need not have it

    rows, best = [tuple(row) for row in rows], best or {}
    columns = columns.split(" | ") if isinstance(columns, str) else columns
    if wrong := [row for row in rows or [()] if len(row) != len(columns)]:
        raise ValueError(f"rows: wanted one or more, each of {len(columns)} cells; got {wrong[0]}")
    if unknown := best.keys() - {column.partition(":")[0] for column in columns}:
        raise ValueError(f"best: wanted heads of columns; got {unknown}")
    drawn = [one_column(*each, best) for each in zip(columns, zip(*rows, strict=True), strict=True)]
    tall = max(len(texts) for texts, _ in drawn)
    padded = [[" " * len(texts[0])] * (tall - len(texts)) + texts for texts, _ in drawn]  # short heads stand low
    lines = ["  ".join(line).rstrip() for line in zip(*padded, strict=True)]
    if len(longest := max(lines, key=len)) > WIDEST:
        raise ValueError(f"columns: wanted lines of at most {WIDEST} characters; got {len(longest)}: {longest}")
    head, *body = (f"<tr>{''.join(row)}</tr>" for row in zip(*(marked for _, marked in drawn), strict=True))
    content = f"<thead>{head}</thead><tbody>{''.join(body)}</tbody>"
    display(Shown("\n".join(lines), f'<table class="result-table">{content}</table>'))


def one_column(column: str, values: Sequence[Any], best: Mapping[str, Callable[..., Any]]) -> tuple[list, list]:
    """A column's lines as aligned text, and its cells as HTML, the head first in both."""
    head, _, form = column.partition(":")
    texts = [value if isinstance(value, str) else format(value, form) for value in values]
    kinds = {isinstance(value, str) for value, text in zip(values, texts, strict=True) if text}
    if len(kinds) == 2 and not form.startswith(">"):
        raise ValueError(f"rows: wanted numbers or texts in {head!r}, or a '>' before its format; got both")
    left = kinds == {True} and not form.startswith(">")
    heads = wrap(head, max(NARROW, *map(len, texts)), break_long_words=False, break_on_hyphens=False)
    width = max(map(len, heads + texts))
    bold = format(best[head](each for each in values if not isinstance(each, str)), form) if head in best else None
    lines = [x.ljust(width) if left else x.rjust(width) for x in heads + texts]
    style = f'style="text-align: {"left" if left else "right"}; white-space: nowrap"'  # a notebook has no other style
    marked = [f"<td {style}>{f'<b>{escape(x)}</b>' if x == bold else escape(x)}</td>" for x in texts]
    return lines, [f"<th {style}>{'<br>'.join(map(escape, heads))}</th>", *marked]
