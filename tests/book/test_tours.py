"""The openings of the annotated pages; this book's names and defaults beside those of other libraries."""

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

ROOT = Path(__file__).resolve().parents[2]
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


def opening_faults(page: str) -> list[str]:
    """What a page lacks before its first source: a line to begin with, a way back to a chapter or to the guide."""
    before = page.partition("```{annotated}")[0]
    wanted = {"where to begin": r"\{src\}`", "a chapter": r"\]\(\.\./(?:\d+\w*\.ipynb|train\.md)\)"}
    return [what for what, pattern in wanted.items() if not re.search(pattern, before)]


def unfolded_imports(page: str) -> list[str]:
    """The whole files whose imports are not folded."""
    shown = re.findall(r"^```\{annotated\} (minerva_lite(?:\.[a-z_]+)+)\n((?::.*\n)*)```", page, re.M)
    return [name for name, options in shown if "imports" not in options and ":form:" not in options]


@pytest.mark.parametrize("path", sorted({*PAGES.glob("*.md")} - {PAGES / "index.md"}), ids=lambda path: path.stem)
def test_a_page_of_source_says_where_to_begin_and_leads_back_to_its_chapter(path):
    page = path.read_text("utf8")
    assert opening_faults(page) == []
    assert [each for each in unfolded_imports(page) if (ROOT / f"{each.replace('.', '/')}.py").is_file()] == []


TWO_FORMS = ["ppo", "a2c", "reinforce", "trpo", "mpo", "vmpo", "duals", "objectives", "trust_region"]


@pytest.mark.parametrize("name", TWO_FORMS)
def test_a_page_of_an_algorithm_has_its_lines_in_place_and_as_a_list_and_links_to_both(name):
    page = (PAGES / f"{name}.md").read_text("utf8")
    forms = re.findall(r"^```\{annotated\} (\S+)\n((?::.*\n)*)```", page, re.M)
    listed = [each for each, options in forms if ":form: B" in options]
    assert len(listed) == 1 and listed[0].endswith(f".{name}")
    assert any(each.startswith(listed[0]) and ":form:" not in options for each, options in forms)
    top = page.partition("\n## ")[0]
    assert "](#the-same-lines-as-a-list)" in top and "\n## The same lines as a list\n" in page
    assert "](#the-file)" not in top or "\n## The file\n" in page


def test_a_page_without_its_opening_is_found():
    page = "# A\n\n```{annotated} minerva_lite.agents.ppo\n```\n[5](../05_ppo.ipynb) {src}`minerva_lite`\n"
    assert opening_faults(page) == ["where to begin", "a chapter"]
    assert unfolded_imports(page) == ["minerva_lite.agents.ppo"]
    assert unfolded_imports(page.replace("ppo\n", "ppo\n:fold: imports\n")) == []
