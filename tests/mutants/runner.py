"""Run chosen tests on patched copies of the package, each in a forked process of one that has torch loaded already.

Importing torch, Gymnasium and SciPy costs seconds, a fork nothing. The parent never imports `minerva_lite`, so each
child imports the copy that it is given.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from .faults import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
ASSERTIONS = ("AssertionError", "assert ", "Failed: DID NOT RAISE")


def preload() -> None:
    """Load what every test file needs, and nothing of the package."""
    import gymnasium.envs.classic_control.cartpole
    import gymnasium.envs.classic_control.pendulum
    import hypothesis.strategies
    import pytest
    import scipy.stats
    import torch
    import torch._dynamo
    import tqdm.auto

    del gymnasium, hypothesis, pytest, scipy, tqdm
    torch.set_num_threads(1)


def copy_package(to: Path) -> None:
    shutil.copytree(ROOT / "minerva_lite", to / "minerva_lite", ignore=shutil.ignore_patterns("__pycache__"))


def copy_tests(to: Path) -> None:
    """The test files that mirror the package, with settings of their own: no path to the unpatched package."""
    for file in [*TESTS.glob("*.py"), *TESTS.glob("*/test_*.py")]:
        place = to / "tests" / file.relative_to(TESTS)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    (to / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib\nmarkers =\n    slow\n    page\n    gpu\n"
    )


def located(test: str) -> str:
    """`test_returns.py::test_x` with the folder that the file lies in; file names are unique."""
    name, _, rest = test.partition("::")
    [place] = TESTS.glob(f"*/{name}")
    return f"tests/{place.relative_to(TESTS).as_posix()}::{rest}"


def patch(package: Path, mutant: Mutant) -> None:
    """Apply the edits; raises ValueError unless each old text stands in the file exactly once."""
    path = package / "minerva_lite" / mutant.file
    text = path.read_text()
    for old, new in mutant.edits:
        if text.count(old) != 1:
            raise ValueError(
                f"fault {mutant.fault}, {mutant.file}: wanted the text once, found {text.count(old)}: {old!r}"
            )
        text = text.replace(old, new)
    compile(text, str(path), "exec")
    path.write_text(text)


class Reports:
    """A pytest plugin that keeps what happened: test -> passed, failed, or error and why."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.broken: list[str] = []

    def pytest_collectreport(self, report) -> None:
        if report.failed:
            self.broken.append(str(report.longrepr)[-2000:])

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call":
            self.outcomes[report.nodeid] = report.outcome
            if report.failed:
                crash = getattr(report.longrepr, "reprcrash", None)
                self.reasons[report.nodeid] = crash.message if crash else str(report.longrepr)[-500:]
        elif report.failed:
            self.broken.append(f"{report.nodeid} ({report.when}): {str(report.longrepr)[-2000:]}")


def in_a_fork(package: Path, tests: Path, names: Iterable[str]) -> dict:
    """What pytest says of `names` with `package` first on the path: code, outcomes, reasons, broken, seconds."""
    read, write = os.pipe()
    sys.stdout.flush(), sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(read)
            import pytest

            os.chdir(tests)
            sys.path[:] = [str(package), *(p for p in sys.path if p and Path(p).resolve() != ROOT)]
            # Child processes that a test starts must find the copy as well.
            os.environ["PYTHONPATH"] = str(package)
            os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "BOOK_HYPOTHESIS": "no shrinking"}
            reports, start = Reports(), time.process_time()
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                options = [
                    "-q",
                    "--tb=short",
                    "-p",
                    "no:cacheprovider",
                    "--rootdir",
                    str(tests),
                    "-c",
                    str(tests / "pytest.ini"),
                ]
                exit_code = int(pytest.main([*options, *(located(name) for name in names)], plugins=[reports]))
            loaded = sys.modules.get("minerva_lite")
            result = {
                "code": exit_code,
                "outcomes": reports.outcomes,
                "reasons": reports.reasons,
                "broken": reports.broken,
                "seconds": time.process_time() - start,
                "package": str(Path(loaded.__file__).parent) if loaded else "",
                "said": said.getvalue()[-3000:] if exit_code > 1 else "",
            }
            with os.fdopen(write, "w") as pipe:
                json.dump(result, pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status or not text:
        raise RuntimeError(f"the test process in {package.name} ended with status {status} and said nothing")
    return json.loads(text)


def run_mutants(mutants: tuple[Mutant, ...] = MUTANTS) -> list[dict]:
    """A row per mutant: fault, story, the named tests with their verdicts, seconds. Also a first row, unpatched.

    A test counts as red only if it ran and failed; an import or collection error, or any exit code but 1, is `broken`.
    """
    preload()
    if "minerva_lite" in sys.modules:
        raise RuntimeError("minerva_lite is loaded already, so a fork would not see the patched copy")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve()
        copy_tests(base)
        copy_package(base / "whole")
        everything = sorted({test for mutant in mutants for test in mutant.tests})
        result = in_a_fork(base / "whole", base, everything)
        green = result["code"] == 0 and not result["broken"] and set(result["outcomes"].values()) == {"passed"}
        rows.append({"fault": 0, "story": "no fault", "tests": {t: verdict(result, t) for t in everything}, "green": green, "said": result["said"] or str(result["broken"])[:2000], "seconds": result["seconds"]})  # fmt: skip
        for i, mutant in enumerate(mutants):
            package = base / f"mutant{i}"
            copy_package(package)
            patch(package, mutant)
            result = in_a_fork(package, base, mutant.tests)
            if result["package"] and Path(result["package"]).parent != package:
                raise RuntimeError(f"the tests ran on {result['package']}, not on the patched copy")
            verdicts = {t: verdict(result, t) for t in mutant.tests}
            caught = result["code"] == 1 and not result["broken"] and set(verdicts.values()) == {"red"}
            rows.append({"fault": mutant.fault, "story": mutant.story, "tests": verdicts, "caught": caught, "said": result["said"] or str(result["broken"])[:2000], "reasons": result["reasons"], "seconds": result["seconds"]})  # fmt: skip
    return rows


def verdict(result: dict, test: str) -> str:
    """`red` if a case of the test failed by an assertion, `green` if all passed, else what happened instead.

    A test that falls over a NameError or the like has found a broken mutant, not the fault.
    """
    cases = {k: v for k, v in result["outcomes"].items() if k.split("[")[0] == located(test)}
    if not cases:
        return "did not run"
    failures = [result["reasons"][k] for k, v in cases.items() if v == "failed"]
    if failures:
        return "red" if any(why.startswith(ASSERTIONS) for why in failures) else f"fell over: {failures[0][:200]}"
    return "green" if set(cases.values()) == {"passed"} else "skipped"


def table(rows: list[dict]) -> str:
    lines = []
    for row in rows:
        lines.append(f"{row['fault'] or '':>5}  {row['story']}  ({row['seconds']:.1f} s)")
        lines += [f"       {v:<6} {t}" for t, v in row["tests"].items()]
    caught = sum(row.get("caught", False) for row in rows)
    lines.append(f"{caught} of {len(rows) - 1} mutants caught by every test named for them; "
                 f"unpatched: {'green' if rows[0]['green'] else 'RED'}; {sum(r['seconds'] for r in rows):.0f} s")  # fmt: skip
    return "\n".join(lines)
