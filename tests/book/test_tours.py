"""The tours through MPO, V-MPO and their duals: this book's names and defaults beside those of other libraries."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from minerva_lite.agents.mpo import MPOConfig
from minerva_lite.agents.settings import BoundSettings
from minerva_lite.agents.vmpo import VMPOConfig
from minerva_lite.formulas import duals

PAGES = Path(__file__).resolve().parents[2] / "book" / "annotated"


def first_column(page: str) -> list[str]:
    """The first cell of each row of the table that begins with this book."""
    table = re.search(r"^\| this book \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.M)[1]
    return [row.split("|")[1] for row in table.splitlines()]


def defaults(page: str) -> dict[str, object]:
    """What that column says of this book's defaults: `name = value`."""
    told = re.findall(r"`(\w+) = ([^`]+)`", "\n".join(first_column(page)))
    assert len(dict(told)) == len(told), "a name stands once"
    return {name: ast.literal_eval(value) for name, value in told}


def settings_faults(page: str, config: object) -> list[str]:
    told, mine = defaults(page), {each.name: getattr(config, each.name) for each in fields(config)}
    wrong = [f"{name}: {value}, not {mine.get(name)}" for name, value in told.items() if mine.get(name, ...) != value]
    return wrong + [f"{each.name} is missing" for each in fields(BoundSettings) if each.name not in told]


@pytest.mark.parametrize(("name", "config"), [("mpo", MPOConfig()), ("vmpo", VMPOConfig())])
def test_the_table_beside_other_libraries_has_the_defaults_of_the_code(name, config):
    page = (PAGES / f"{name}.md").read_text("utf8")
    assert settings_faults(page, config) == []
    assert len(defaults(page)) == len(first_column(page)), "each row has a field and its default"
    wrong = page.replace("`eps_eta = 0.1`", "`eps_eta = 0.2`", 1).replace("`eta_init = ", "`eta = ", 1)
    assert settings_faults(wrong, config) == ["eps_eta: 0.2, not 0.1", "eta: 1.0, not None", "eta_init is missing"]


def test_the_table_of_the_duals_names_each_function_and_its_constants():
    page = (PAGES / "duals.md").read_text("utf8")
    told = defaults(page)
    normalizer = inspect.signature(duals.vmpo_temperature_loss).parameters["normalizer"].default
    assert told == {"FLOOR": duals.FLOOR, "RAW_MIN": duals.RAW_MIN, "normalizer": normalizer}
    named = set(re.findall(r"`(\w+)`", "\n".join(first_column(page))))
    own = [each.__name__ for each in vars(duals).values() if getattr(each, "__module__", "") == duals.__name__]
    assert named == {name for name in own if not name.startswith("_")} - {"raw_of"}, "raw_of only goes back"
