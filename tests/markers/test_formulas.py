"""Every marker of the package is evaluated and true, and the comparison notices when one is not."""

from __future__ import annotations

import ast

import pytest

from .check import Function, all_functions, check_function, compare
from .inputs import CASES
from .markers import PACKAGE
from .mutate import REQUIRED, Tally, listed_survivors, mutants_of, sampled, try_mutants
from .mutate_code import installed, same_value
from .parse import split_equation
from .symbols import NOTATION, OWN, TABLES

FUNCTIONS = all_functions()
ONE_IN = 4  # the quick tier tries a fixed quarter of the mutants


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.key)
def test_every_marker_is_evaluated_and_true(function: Function):
    assert check_function(function).problems == []


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.key)
def test_a_mutant_that_changes_nothing_is_not_caught(function: Function):
    """The control of the mutation tests: each marked value written `(value,)[0]`, installed as a mutant is."""
    for k, marker in enumerate(function.markers):
        with installed(function, marker, same_value(marker.statement)):
            assert compare(function, function.run(), only=k).get(k)


def test_every_marker_of_the_package_was_found():
    """By a second, cruder way: what looks like a marker, counted as text."""
    crude = sum(path.read_text("utf8").count("# LaTeX:") for path in PACKAGE.rglob("*.py"))
    assert sum(len(f.markers) for f in FUNCTIONS) == crude > 0


def test_every_function_in_the_room_of_formulas_has_a_formula():
    marked = {f.key for f in FUNCTIONS}
    trees = {path.stem: ast.parse(path.read_text("utf8")) for path in (PACKAGE / "formulas").glob("[a-z]*.py")}
    functions = [(room, n.name) for room, tree in trees.items() for n in tree.body if isinstance(n, ast.FunctionDef)]
    public = {f"formulas.{room}.{name}" for room, name in functions if not name.startswith("_")}
    assert public - marked == set() and len(trees) >= 7


# Methods of a tensor that compute: `policy.log_prob` and `x.detach` are none.
MATH = {"abs", "clamp", "exp", "expm1", "log", "log_softmax", "mean", "pow", "softmax", "sqrt", "square", "std", "sum"}


def computes(value: ast.AST | None) -> bool:
    """Whether a line does arithmetic of its own, beyond what the functions do that it calls."""
    for node in ast.walk(value) if value is not None else ():
        match node:
            case ast.BinOp(op=op) if not isinstance(op, ast.BitOr):
                return True
            case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
                return True
            case ast.Call(func=ast.Attribute(attr=name)) if name in MATH:
                return True
    return False


def bare_losses(tree: ast.AST, marked: set[int]) -> list[str]:
    """Lines of a method `loss` that compute something and have no formula above."""
    classes = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    methods = [n for c in classes for n in c.body if isinstance(n, ast.FunctionDef) and n.name == "loss"]
    lines = [
        n for method in methods for n in ast.walk(method) if isinstance(n, (ast.Assign, ast.AugAssign, ast.Return))
    ]
    return [ast.unparse(line) for line in lines if line.lineno not in marked and computes(line.value)]


def test_every_loss_line_of_an_agent_has_a_formula():
    for path in sorted((PACKAGE / "agents").glob("*.py")):
        marked = {m.statement.lineno for f in FUNCTIONS if f.module.__file__ == str(path) for m in f.markers}
        assert bare_losses(ast.parse(path.read_text(encoding="utf-8")), marked) == [], path.name
    calls = "fit = value_loss(x)", "x = y[0].expand(2, -1).detach()", "y: dict = {'a': x} | {'b': x}"
    bare = ["loss = fit + x", "weight = x.exp()", "loss += x.mean()", "return -x"]
    method = ast.parse("\n        ".join(["class A:\n    def loss(x):", *calls, *bare]))
    assert bare_losses(method, set()) == bare and bare_losses(method, {6, 7}) == bare[2:]


def test_a_formula_above_a_call_adds_something_to_the_formula_of_the_function_called():
    """More than another name for what the function called computes by the same formula."""
    said = {f.qualname: f.markers[-1].latex for f in FUNCTIONS if f.module.__name__.startswith("minerva_lite.formulas")}
    for marker in (m for f in FUNCTIONS for m in f.markers):
        called = getattr(getattr(marker.statement.value, "func", None), "id", "")
        if called in said:
            assert split_equation(marker.latex)[-1] != split_equation(said[called])[-1], marker.where


def test_tables_hold_nothing_that_is_not_used():
    """No symbol and no case without its function."""
    marked = {f.key for f in FUNCTIONS}
    assert set(CASES) - marked == set() == set(OWN) - marked, "of functions that have no marker"
    told = {latex for notation in NOTATION.values() for latex in notation}
    assert told - {latex for table in TABLES.values() for latex in table.symbols} == set()


def judged(one_in: int) -> Tally:
    """This share of the mutants of all functions that hold: those survive that are listed, and no others."""
    total, listed = Tally(), listed_survivors()
    for function in FUNCTIONS:
        if not check_function(function).problems:  # else its own test is red; what a mutant of it proves is nothing
            total |= try_mutants(function, sampled(mutants_of(function), one_in))
    assert set(total.survivors) == set(listed) & set(total), "the survivors and what survivors.txt lists of these"
    assert all(listed.values()), "a survivor is listed without a reason"
    assert len(total.survivors) <= (1 - REQUIRED) * len(total)
    assert total.raised <= 0.1 * len(total), "most must be caught by their numbers, not by an error"
    return total


def test_a_sample_of_mutations_is_caught():
    assert len(judged(ONE_IN)) >= 200


@pytest.mark.slow
def test_all_mutations_are_caught():
    assert set(listed_survivors()) <= set(judged(1)), "survivors.txt names mutants that no longer exist"
