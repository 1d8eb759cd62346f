"""What moved to minerva_book answers under its old names, and says what is missing where minerva_book is."""

from __future__ import annotations

import importlib
import runpy
import sys

import pytest

ROOMS = pytest.mark.parametrize("room", ["figures", "exercises"])


@ROOMS
def test_every_name_leads_to_what_it_named(room):
    before, now = (importlib.import_module(f"{package}.{room}") for package in ("minerva_lite", "minerva_book"))
    assert before.__all__ == now.__all__ and all(getattr(before, name) is getattr(now, name) for name in now.__all__)
    for name in ("no_such_name", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"^module 'minerva_(lite|book).{room}' has no attribute '{name}'"):
            getattr(before, name)


def test_modules_below_are_found_too():
    from minerva_lite.exercises.answers import compare
    from minerva_lite.figures.widgets import frames_figure

    assert callable(frames_figure) and callable(compare)


@pytest.mark.parametrize("world", ["answer_tree.AnswerTree", "off_policy.error_map", "tabular_trpo.gain"])
def test_worlds_are_found_where_notebooks_of_before_look_for_them(world):
    file, name = world.split(".")
    before, now = (importlib.import_module(f"{package}.worlds.{file}") for package in ("minerva_lite", "minerva_book"))
    assert getattr(before, name) is getattr(now, name)


def exit_of_the_command(package: str, monkeypatch) -> str:
    monkeypatch.delitem(sys.modules, "minerva_lite.exercises", raising=False)
    with pytest.raises(SystemExit) as end:
        runpy.run_module(f"{package}.exercises", run_name="__main__")
    return end.value.code


def test_the_command_of_before_is_the_command_of_now(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["exercises"])
    before, now = (exit_of_the_command(package, monkeypatch) for package in ("minerva_lite", "minerva_book"))
    assert before == now and now.startswith("usage: python -m minerva_book.exercises ")


@ROOMS
def test_nothing_is_imported_until_somebody_asks_and_what_is_missing_is_named(room, monkeypatch):
    for name in ["minerva_book", *sys.modules]:
        if name.partition(".")[0] == "minerva_book":
            monkeypatch.setitem(sys.modules, name, None)
    before = importlib.reload(importlib.import_module(f"minerva_lite.{room}"))
    assert not hasattr(before, "__wrapped__")
    told = rf"^minerva_lite\.{room} is minerva_book\.{room} now, which needs `pip install minerva_lite\[book\]` \("
    with pytest.raises(ImportError, match=told):
        _ = before.self_check
    told = exit_of_the_command("minerva_lite", monkeypatch)
    assert told.startswith("minerva_lite.exercises is minerva_book.exercises now, which needs ")
