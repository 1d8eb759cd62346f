"""The openings of the annotated pages; this book's names and defaults beside those of other libraries."""

import ast
import inspect
import re
from dataclasses import fields

import pytest

from minerva_lite.agents.mpo import MPOConfig
from minerva_lite.agents.settings import BoundSettings
from minerva_lite.agents.vmpo import VMPOConfig
from minerva_lite.formulas import duals
from tests.equations import ROOT

PAGES = ROOT / "book" / "annotated"


def first_column(page: str) -> list[str]:
    """The first cell of each row of the table that begins with this book."""
    table = re.search(r"^\| this book \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.M)[1]
    return [row.split("|")[1] for row in table.splitlines()]


def defaults(page: str) -> dict[str, object]:
    """What that column says of this book's defaults: `name = value`."""
    told = re.findall(r"`(\w+) = ([^`]+)`", "\n".join(first_column(page)))
    assert len(dict(told)) == len(told), "a name stands once"
    return {name: ast.literal_eval(value) for name, value in told}


@pytest.mark.parametrize(("name", "config"), [("mpo", MPOConfig()), ("vmpo", VMPOConfig())])
def test_the_table_beside_other_libraries_has_the_defaults_of_the_code(name, config):
    page = (PAGES / f"{name}.md").read_text("utf8")
    told = defaults(page)
    assert told == {name: getattr(config, name) for name in told}
    assert told.keys() >= {each.name for each in fields(BoundSettings)}
    assert len(told) == len(first_column(page)), "each row has a field and its default"


def test_the_table_of_the_duals_names_each_function_and_its_constants():
    page = (PAGES / "duals.md").read_text("utf8")
    told = defaults(page)
    normalizer = inspect.signature(duals.vmpo_temperature_loss).parameters["normalizer"].default
    assert told == {"FLOOR": duals.FLOOR, "RAW_MIN": duals.RAW_MIN, "normalizer": normalizer}
    named = set(re.findall(r"`(\w+)`", "\n".join(first_column(page))))
    own = [each.__name__ for each in vars(duals).values() if getattr(each, "__module__", "") == duals.__name__]
    assert named == {name for name in own if not name.startswith("_")} - {"raw_of"}, "raw_of only goes back"


OPENING = {
    "where to begin": r"\{src\}`", "a chapter or the guide": r"\]\(\.\./(?:\d+\w*\.ipynb|train\.md)\)",
    "what to read first": r"## In reading order|\b[Rr]ead |[Bb]egin|in this order|in the order|from top to bottom",
}  # fmt: skip


@pytest.mark.parametrize("path", sorted({*PAGES.glob("*.md")} - {PAGES / "index.md"}), ids=lambda path: path.stem)
def test_a_page_of_source_says_where_to_begin_and_leads_back_to_its_chapter(path):
    page = path.read_text("utf8")
    before = re.split(r"```\{(?:annotated|one_page)\}", page)[0]
    if path.stem.startswith("one_"):
        assert "](../notation.md)" in before and "](../symbols.md)" in before, "what the symbols mean"
    assert [what for what, pattern in OPENING.items() if not re.search(pattern, before)] == []
    for name, options in re.findall(r"^```\{annotated\} (minerva_lite(?:\.[a-z_]+)+)\n((?::.*\n)*)```", page, re.M):
        if (ROOT / f"{name.replace('.', '/')}.py").is_file():
            assert "imports" in options, f"the imports of {name} are not folded"
