"""Run chosen tests on patched copies of the package, each in a forked process of one that has torch loaded already.

Importing torch, Gymnasium and SciPy costs seconds, a fork nothing. The parent never imports `minerva_lite`, so each
child imports the copy that it is given.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import compileall
import contextlib
import gc
import io
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

FORK = multiprocessing.get_context("fork")
ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
ASSERTIONS = ("AssertionError", "assert ", "Failed: DID NOT RAISE")


@dataclass(frozen=True)
class Mutant:
    """A fault of the package, and the tests that must turn red where it stands."""

    fault: int  # its number in `book/errata.md`, or 0
    story: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]


def preload() -> None:
    """Load what every test file needs, and nothing of the package."""
    import gymnasium.envs.classic_control.cartpole
    import gymnasium.envs.classic_control.pendulum
    import hypothesis.strategies
    import joblib
    import pytest
    import scipy.stats
    import torch
    import torch._dynamo
    import tqdm.auto

    del gymnasium, hypothesis, joblib, pytest, scipy, tqdm
    torch.set_num_threads(1)
    # A child that collects garbage would copy every page that torch's objects lie on: two thirds of its time.
    gc.collect()
    gc.freeze()


def copy_package(to: Path) -> None:
    """The package, compiled, so that a mutant compiles nothing but the file that it changes."""
    shutil.copytree(ROOT / "minerva_lite", to / "minerva_lite", ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(to, quiet=2)


def copy_tests(to: Path) -> None:
    """The test files that mirror the package, with settings of their own: no path to the unpatched package."""
    for file in (*TESTS.glob("*.py"), *TESTS.glob("*/test_*.py")):
        place = to / file.relative_to(ROOT)
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


def patched(mutant: Mutant) -> str:
    """The file with the edits applied; raises ValueError unless each old text stands in it exactly once."""
    path = ROOT / "minerva_lite" / mutant.file
    text = path.read_text("utf8")
    for old, new in mutant.edits:
        if text.count(old) != 1:
            where = f"fault {mutant.fault}, {mutant.file}"
            raise ValueError(f"{where}: wanted the text once, found {text.count(old)}: {old!r}")
        text = text.replace(old, new)
    compile(text, str(path), "exec")
    return text


class Reports:
    """A pytest plugin that keeps what happened: test -> passed, failed, or error and why."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.broken: list[str] = []
        self.red: set[str] = set()

    def pytest_collectreport(self, report) -> None:
        if report.failed:
            self.broken.append(str(report.longrepr)[-2000:])

    def pytest_runtest_setup(self, item) -> None:
        if item.nodeid.split("[")[0] in self.red:
            import pytest

            pytest.skip("another case of the test is red already")

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call":
            self.outcomes[report.nodeid] = report.outcome
            if report.failed:
                crash = getattr(report.longrepr, "reprcrash", None)
                self.reasons[report.nodeid] = why = crash.message if crash else str(report.longrepr)[-500:]
                if why.startswith(ASSERTIONS):
                    self.red.add(report.nodeid.split("[")[0])
        elif report.failed:
            self.broken.append(f"{report.nodeid} ({report.when}): {str(report.longrepr)[-2000:]}")


def tested(answer: Connection, package: Path, tests: Path, names: Iterable[str]) -> None:
    """Send what pytest says of `names` with `package` first on the path: code, outcomes, reasons, broken, seconds."""
    import pytest

    import book.results.studies  # noqa: F401 - known by now, it is found though the tree leaves the path

    os.chdir(tests)
    sys.path[:] = [str(package), *(p for p in sys.path if p and Path(p).resolve() != ROOT)]
    # Child processes that a test starts must find the copy as well.
    os.environ["PYTHONPATH"] = str(package)
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "BOOK_HYPOTHESIS": "no shrinking"}
    reports, start = Reports(), time.process_time()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        options = ["-q", "--tb=short", "-p", "no:cacheprovider", "--rootdir", str(tests)]
        options += ["-c", str(tests / "pytest.ini"), *(located(name) for name in names)]
        code = int(pytest.main(options, plugins=[reports]))
    loaded = sys.modules.get("minerva_lite")
    answer.send(
        vars(reports)
        | {
            "code": code, "seconds": time.process_time() - start, "said": said.getvalue()[-3000:] if code > 1 else "",
            "package": str(Path(loaded.__file__).parent) if loaded else "",
        }
    )  # fmt: skip


def in_a_fork(package: Path, tests: Path, names: Iterable[str]) -> dict:
    """What `tested` sends, from a process of its own."""
    receive, send = FORK.Pipe(duplex=False)
    child = FORK.Process(target=tested, args=(send, package, tests, names))
    child.start()
    send.close()
    try:
        return receive.recv()
    except EOFError as error:
        raise RuntimeError(f"the test process in {package.name} said nothing") from error
    finally:
        child.join()


def unpatched(base: Path, tests: list[str]) -> dict:
    """A row of tests on the package as it is."""
    result = in_a_fork(base / "whole", base, tests)
    green = result["code"] == 0 and not result["broken"] and set(result["outcomes"].values()) == {"passed"}
    return {"fault": 0, "story": "no fault", "tests": {t: verdict(result, t) for t in tests}, "green": green, "said": result["said"] or str(result["broken"])[:2000], "seconds": result["seconds"]}  # fmt: skip


def prove(base: Path, mutant: Mutant) -> dict:
    """The row of a mutant.

    A test counts as red only if it ran and failed; an import or collection error, or any exit code but 1, is `broken`.
    """
    with tempfile.TemporaryDirectory(dir=base) as name:
        package = Path(name)
        shutil.copytree(base / "whole" / "minerva_lite", package / "minerva_lite")
        file = package / "minerva_lite" / mutant.file
        file.write_text(patched(mutant), "utf8")
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):
            compiled.unlink()
        result = in_a_fork(package, base, mutant.tests)
        if result["package"] and Path(result["package"]).parent != package:
            raise RuntimeError(f"the tests ran on {result['package']}, not on the patched copy")
    verdicts = {t: verdict(result, t) for t in mutant.tests}
    caught = result["code"] == 1 and not result["broken"] and set(verdicts.values()) == {"red"}
    return {"fault": mutant.fault, "story": mutant.story, "tests": verdicts, "caught": caught, "said": result["said"] or str(result["broken"])[:2000], "seconds": result["seconds"]}  # fmt: skip


def run_mutants(mutants: Iterable[Mutant], processes: int = 1) -> list[dict]:
    """A row per mutant: fault, story, the named tests with their verdicts, seconds. Before them one, unpatched."""
    mutants = list(mutants)
    preload()
    if "minerva_lite" in sys.modules:
        raise RuntimeError("minerva_lite is loaded already, so a fork would not see the patched copy")
    tests: dict[str, list[str]] = {}
    for test in sorted({test for mutant in mutants for test in mutant.tests}):
        tests.setdefault(test.partition("::")[0], []).append(test)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name).resolve()
        copy_tests(base)
        copy_package(base / "whole")
        with ProcessPoolExecutor(processes, FORK) as pool:
            whole = list(pool.map(partial(unpatched, base), tests.values()))
            rows = list(pool.map(partial(prove, base), mutants))
    first = {
        "fault": 0,
        "story": "no fault",
        "tests": {test: seen for row in whole for test, seen in row["tests"].items()},
        "green": all(row["green"] for row in whole),
        "said": "".join(row["said"] for row in whole if not row["green"]),
        "seconds": sum(row["seconds"] for row in whole),
    }
    return [first, *rows]


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
