"""A plugin of pytest for nbval: after a notebook's last cell all are run once more, from the last to the first.

A reader goes back and runs a cell again. What then raises, or prints something else than is stored, is told by cell
in the file named by SECOND_PASS. Cells that train (tag `loop`) are left out. A cell that names a line to change is run
with that line changed first: what raises, or prints the same, is told as well. What a cell shows while it runs is no
part of a comparison; but cells of the first pass that show nothing for too long are told, too, judged by the seconds
that the kernel computed, because other tests run beside. `python -m tests.copies.second_pass`
writes what the runs told into the record, and with --seconds, if they had the machine to themselves (`pytest -n 0`),
how long the first passes took.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

import psutil
import pytest

from minerva_lite.training.progress import LIVE

ROOT = Path(__file__).parents[2]
TOLD = ROOT / ".build" / "second_pass"
RECORD = Path(__file__).with_name("second_pass.json")
SECONDS = ROOT / "book" / "results" / "run_all.csv"
LEFT_OUT = {"loop", "nbval-skip"}
# The head of a cell: a line, or as much of it as names it, what to write in the place of its value, what to look for.
CHANGE = re.compile(
    r"# Change this line for now: (for [\w, ]+ in |[\w\[\], :]+?= ?)(\S.*) → (\S.*)\n# Look for: \S.*\n"
)
SILENCE = 3.0  # seconds that a cell may show nothing
SEEN = {"stream", "display_data", "update_display_data", "execute_result", "error"}
ENDS = {"execute_input", "status"}  # of a cell: it begins to run, and has run


class Heard:
    """What a kernel says, without what only shows that it computes; and by cell the longest silence."""

    def __init__(self, kernel):
        self.get, self.last, self.cell, self.silent = kernel.get_message, 0.0, "", {}
        self.process = psutil.Process(kernel.km.provisioner.pid)
        kernel.get_message = self.get_message

    def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
        while True:
            told = self.get(stream, timeout=timeout)
            if told["msg_type"] in SEEN | ENDS:
                now = told["header"]["date"].timestamp()
                if told["msg_type"] != "execute_input":
                    self.silent[self.cell] = max(self.silent.get(self.cell, 0.0), now - self.last)
                self.last = now
            if told["content"].get("metadata") != LIVE:
                return told

    @contextmanager
    def running(self, cell: str) -> Iterator[None]:
        """Seconds in which the kernel waited for a processor count for nothing."""
        self.cell, self.last, began, used = cell, time.time(), time.time(), self.computed()
        yield
        share = (self.computed() - used) / (time.time() - began)
        self.silent[cell] = self.silent.get(cell, 0.0) * min(1.0, share)

    def computed(self) -> float:
        return sum(self.process.cpu_times()[:2])


def too_silent(cells: list[dict[str, Any]], silent: dict[str, float]) -> dict[str, float]:
    """Cells after the imports, which are the first that is not added."""
    code = [cell for cell in cells if cell.cell_type == "code"]
    first = next(i for i, cell in enumerate(code) if not cell.metadata.get("added"))
    return {cell.id: round(silent[cell.id], 1) for cell in code[first + 1 :] if silent.get(cell.id, 0) > SILENCE}


def texts(outputs: list[dict[str, Any]]) -> str:
    """What outputs say, without their pictures, and without what only a copy says."""
    own = (each for each in outputs if not each.get("metadata", {}).get("added"))
    said = [each.get("text") or each.get("data", {}).get("text/plain", "") for each in own]
    return "".join("".join(each) for each in said)


def run(kernel, source: str, timeout: float) -> tuple[str, str]:
    """The name of the exception that a cell raises, or "", and what it prints."""
    message, error, outputs = kernel.execute_cell_input(source, allow_stdin=False), "", []
    kernel.await_reply(message, timeout=timeout)
    while True:
        told = kernel.get_message("iopub", timeout=timeout)
        if told["parent_header"].get("msg_id") != message:
            continue
        content = told["content"]
        if told["msg_type"] == "status" and content["execution_state"] == "idle":
            return error, texts(outputs)
        if told["msg_type"] == "error":
            error = content["ename"]
        elif told["msg_type"] in ("stream", "display_data", "execute_result"):
            outputs.append(content)


def changed(source: str) -> str:
    """A cell's code with the line changed that its head names, or "" if it names none."""
    if not (head := CHANGE.match(source)):
        return ""
    name, old, new = head.groups()
    place = rf"\b{re.escape(name + old)}(?![\w.])"
    code, places = re.subn(place, lambda _: name + new, source[head.end() :])
    assert places == 1, f"{name}{old} stands in {places} places"
    return code


def again(cells: list[dict[str, Any]], kernel, timeout: float) -> dict[str, dict[str, str]]:
    """By cell: the exception, or "other print"; and with its line changed: the exception, or "same print"."""
    found, altered = {}, {}
    for cell in reversed(cells):
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type != "code" or cell.metadata.get("added") or tags & LEFT_OUT:
            continue
        asked = changed(cell.source)
        trial = run(kernel, asked, timeout) if asked else ("", "")
        error, said = run(kernel, cell.source, timeout)  # which also takes the change back
        if error or (said != texts(cell.outputs) and "nbval-ignore-output" not in tags):
            found[cell.id] = error or "other print"
        if asked and (trial[0] or trial[1] == said):
            altered[cell.id] = trial[0] or "same print"
    return {"found": dict(sorted(found.items())), "altered": altered}


def pytest_runtest_setup(item):
    if not hasattr(item.parent, "began"):
        item.parent.began = time.perf_counter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not hasattr(item.parent, "heard"):
        item.parent.heard = Heard(item.parent.kernel)
    with item.parent.heard.running(item.cell.id):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    if nextitem is None and item.parent.kernel.is_alive():
        seconds = time.perf_counter() - item.parent.began
        silent = too_silent(item.parent.nb.cells, item.parent.heard.silent)
        try:
            told = again(item.parent.nb.cells, item.parent.kernel, item.config.option.nbval_cell_timeout)
        except Empty:
            told = {"found": {"": "no answer"}, "altered": {}}
        Path(os.environ["SECOND_PASS"]).write_text(json.dumps({"seconds": seconds, "silent": silent} | told), "utf8")
    return (yield)


def main() -> None:
    runs = {path.stem: json.loads(path.read_text("utf8")) for path in sorted(TOLD.glob("*.json"))}
    parser = argparse.ArgumentParser(prog="python -m tests.copies.second_pass")
    parser.add_argument("--seconds", action="store_true")
    if parser.parse_args().seconds:
        with SECONDS.open("w", newline="", encoding="utf8") as file:
            rows = [(name, round(run["seconds"])) for name, run in runs.items()]
            csv.writer(file, lineterminator="\n").writerows([("chapter", "seconds"), *rows])
    RECORD.write_text(json.dumps({name: run["found"] for name, run in runs.items()}, indent=1) + "\n", "utf8")


if __name__ == "__main__":
    main()
