"""Whether tests run what `reach.py` does not know of: `python -m tests.mutants.watch TEST …`; without a name, all."""

from __future__ import annotations

import ast
import json
import sys
import tempfile
from pathlib import Path

import pytest

from tests.equations import mutants

from .faults import MUTANTS
from .reach import DEFINITIONS, Sources, modules
from .runner import ROOT, copy_package, copy_tests, in_a_fork, located, preload

Place = tuple[str, str]  # module, and the name of a function or class of its top level


class Entered:
    """A pytest plugin that notes the functions that a test and its fixtures enter."""

    def __init__(self, folders: list[str]) -> None:
        self.folders, self.codes = folders, set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self):
        sys.setprofile(self.note)
        result = yield
        sys.setprofile(None)
        return result

    def note(self, frame, event, argument) -> None:
        if event == "call":
            self.codes.add(frame.f_code)

    def result(self) -> dict:
        found = set()
        for code in self.codes:
            folder = next((each for each in self.folders if code.co_filename.startswith(each)), None)
            if folder and code.co_name != "<module>":
                found.add((code.co_filename.removeprefix(folder), code.co_firstlineno))
        return {"entered": sorted(found)}


def places(entered: list[tuple[str, int]]) -> set[Place]:
    """The definitions at top level that hold these lines."""
    found, names = set(), {path: name for name, path in modules().items()}
    for file, line in entered:
        if ROOT / file not in names:
            continue
        for node in ast.parse((ROOT / file).read_text("utf8")).body:
            if isinstance(node, DEFINITIONS):
                start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if start <= line <= node.end_lineno:
                    found.add((names[ROOT / file], node.name))
    return found


def unknown(tests: list[str], sources: Sources) -> dict[str, list[Place]]:
    """Test -> what it enters and cannot reach."""
    preload()
    found = {}
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve()
        copy_tests(base)
        copy_package(base / "whole")
        for test in tests:
            watch = Entered([f"{base}/whole/", f"{base}/", f"{ROOT}/"])
            result = in_a_fork(base / "whole", base, [test], watch)
            entered = places(result["entered"])
            known = {(u.module, u.node.name) for u in sources.reach(located(test)) if isinstance(u.node, DEFINITIONS)}
            if result["code"] or not entered:
                said = {key: result[key] for key in ("code", "outcomes", "reasons", "broken")}
                raise RuntimeError(f"{test} entered {len(entered)} functions and gave {said}")
            found[test] = sorted(entered - known)
    return found


def main() -> None:
    tests = sys.argv[1:] or sorted({test for mutant in (*MUTANTS, *mutants()) for test in mutant.tests})
    print(json.dumps({test: rest for test, rest in unknown(tests, Sources()).items() if rest}))


if __name__ == "__main__":
    main()
