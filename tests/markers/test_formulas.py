"""Every marker of the package is evaluated and true, and the comparison notices when one is not."""

from __future__ import annotations

import ast

import pytest

from .check import Function, all_functions, check_function, compare, package_root
from .inputs import CASES
from .mutate import REQUIRED, Tally, listed_survivors, mutants_of, sampled, try_mutants
from .mutate_code import installed, same_value
from .symbols import TABLES

FUNCTIONS = all_functions()
ONE_IN = 4  # the quick tier tries a fixed quarter of the mutants


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.key)
def test_every_marker_is_evaluated_and_true(function: Function):
    report = check_function(function)
    assert report.problems == []
    assert len(report.evaluated) == len(function.markers)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.key)
def test_a_mutant_that_changes_nothing_is_not_caught(function: Function):
    """The control of the mutation tests: each marked value written `(value,)[0]`, installed as a mutant is."""
    for k, marker in enumerate(function.markers):
        with installed(function, marker, same_value(marker.statement)):
            assert compare(function, function.run(), only=k).get(k)


def test_every_marker_of_the_package_was_found():
    """By a second, cruder way: lines that look like markers, counted as text."""
    crude = sum(
        line.count("# LaTeX:") for path in package_root().rglob("*.py") for line in path.read_text("utf-8").splitlines()
    )
    assert sum(len(f.markers) for f in FUNCTIONS) == crude > 0


def test_every_function_in_the_room_of_formulas_has_a_formula():
    marked = {f.key for f in FUNCTIONS}
    missing, files = [], sorted((package_root() / "formulas").glob("[a-z]*.py"))
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        public = [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
        missing += [f"{path.stem}.{p}" for p in public if f"formulas.{path.stem}.{p}" not in marked]
    assert missing == [] and len(files) >= 7


def test_every_loss_line_of_an_agent_has_a_formula():
    """A method `..._loss` returns a loss: the returned value is marked, or is the name a marked line assigns."""
    bare = []
    for path in sorted((package_root() / "agents").glob("*.py")):
        marked = {id_ for f in FUNCTIONS if f.module.__file__ == str(path) for m in f.markers for id_ in _lines(m)}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.endswith("_loss"):
                names = {n for n, _ in marked if n}
                for line in ast.walk(node):
                    if not isinstance(line, ast.Return) or line.lineno in {k for _, k in marked}:
                        continue
                    if not (isinstance(line.value, ast.Name) and line.value.id in names):
                        bare.append(f"{path.name}:{line.lineno} {ast.unparse(line)}")
    assert bare == []


def _lines(marker):
    yield (ast.unparse(marker.target) if marker.target else None, marker.statement.lineno)


def test_tables_hold_nothing_that_is_not_used():
    """No table or case without its function; no symbol that is neither an input nor a left side."""
    by_key = {f.key: f for f in FUNCTIONS}
    assert set(TABLES) - set(by_key) == set(), "tables of functions that have no marker"
    assert set(CASES) - set(by_key) == set(), "cases of functions that have no marker"
    stray = []
    for function in FUNCTIONS:
        lefts = {equation.left for equation in function.equations}
        for symbol in function.table.declared.values():
            known = symbol.source or symbol.is_size or symbol.definition or symbol.latex in lefts
            if not known:
                stray.append(f"{function.key}: {symbol.latex}")
    assert stray == []


def tried(one_in: int) -> tuple[Tally, set[str]]:
    """All functions that hold, with this share of their mutants; the names of the mutants that were tried."""
    total, names = Tally(), set()
    for function in FUNCTIONS:
        if check_function(function).problems:
            continue  # its own test is red; what a mutant of it proves is nothing
        chosen = sampled(mutants_of(function), one_in)
        names |= {m.name for m in chosen}
        total += try_mutants(function, chosen)
    return total, names


def judge(total: Tally, names: set[str]) -> None:
    listed = listed_survivors()
    assert [name for name in total.survivors if name not in listed] == [], "survivors that are not in survivors.txt"
    assert [n for n in listed if n in names and n not in total.survivors] == [], "listed as survivors, but caught"
    assert all(listed.values()), "a survivor is listed without a reason"
    assert total.rate >= REQUIRED
    assert total.raised <= 0.1 * total.generated, "most must be caught by their numbers, not by an error"


def test_a_sample_of_mutations_is_caught():
    total, names = tried(ONE_IN)
    assert total.generated >= 200
    judge(total, names)


@pytest.mark.slow
def test_all_mutations_are_caught():
    total, names = tried(1)
    judge(total, names)
    assert set(listed_survivors()) - names == set(), "survivors.txt names mutants that no longer exist"
