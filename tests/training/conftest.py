"""The command line, called in this process."""

from __future__ import annotations

import signal
import sys

import pytest

from minerva_lite import __main__
from minerva_lite.training import loop


@pytest.fixture
def minerva(monkeypatch, tmp_path):
    """Give the command line some words, in a folder of its own. What it exits with comes back: None, or its line."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def run(words):
        monkeypatch.setattr(sys, "argv", ["minerva_lite", *words.split(" ")])
        try:
            __main__.main()
        except SystemExit as end:
            return end.code

    return run


@pytest.fixture
def means(monkeypatch):
    """What the evaluations of a training give, one after another: a number, or an error to raise; then 0 for ever."""
    queue = []

    def pretend(agent, **how):
        mean = queue.pop(0) if queue else 0.0
        if isinstance(mean, BaseException):
            raise mean
        return {"eval/mean": mean}

    monkeypatch.setattr(loop, "evaluate", pretend)
    return queue


@pytest.fixture
def terminal():
    """Ctrl-C as in a terminal: a shell starts its background jobs, and so perhaps these tests, deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
