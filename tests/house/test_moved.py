"""What moved to minerva_book answers under its old names, and says what is missing where minerva_book is."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = """
import runpy, sys
sys.modules["minerva_book"] = None
"""


def run(program: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("room", ["figures", "exercises"])
def test_every_name_leads_to_what_it_named(room):
    before, now = (importlib.import_module(f"{package}.{room}") for package in ("minerva_lite", "minerva_book"))
    assert before.__all__ == now.__all__ and all(getattr(before, name) is getattr(now, name) for name in now.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        before.no_such_name  # noqa: B018
    with pytest.raises(AttributeError, match=f"module 'minerva_lite.{room}' has no attribute '__wrapped__'"):
        before.__wrapped__  # noqa: B018


def test_modules_below_are_found_too():
    from minerva_lite.exercises.answers import compare
    from minerva_lite.figures.widgets import frames_figure

    assert callable(frames_figure) and callable(compare)


@pytest.mark.parametrize("world", ["answer_tree.AnswerTree", "off_policy.error_map", "tabular_trpo.gain"])
def test_worlds_are_found_where_notebooks_of_before_look_for_them(world):
    file, name = world.split(".")
    before, now = (importlib.import_module(f"{package}.worlds.{file}") for package in ("minerva_lite", "minerva_book"))
    assert getattr(before, name) is getattr(now, name)


def test_the_command_of_before_is_the_command_of_now(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "book"))
    told = [subprocess.run([sys.executable, "-m", f"{package}.exercises"], cwd=ROOT, capture_output=True, text=True)
            for package in ("minerva_lite", "minerva_book")]  # fmt: skip
    assert told[0].stderr == told[1].stderr and told[0].stderr.startswith("usage: python -m minerva_book.exercises ")
    assert told[0].returncode == told[1].returncode == 1


@pytest.mark.parametrize("room", ["figures", "exercises"])
def test_nothing_is_imported_until_somebody_asks_and_what_is_missing_is_named(room):
    done = run(f"{WITHOUT}import minerva_lite.{room} as room\nassert not hasattr(room, '__wrapped__')")
    assert (done.returncode, done.stderr) == (0, "")
    done = run(f"{WITHOUT}from minerva_lite.{room} import self_check")
    wanted = f"minerva_lite.{room} is minerva_book.{room} now, which needs `pip install minerva_lite[book]` ("
    assert f"\nImportError: {wanted}" in done.stderr
    done = run(f"{WITHOUT}runpy.run_module('minerva_lite.exercises', run_name='__main__')")
    assert done.stderr.startswith("minerva_lite.exercises is minerva_book.exercises now, which needs ")
