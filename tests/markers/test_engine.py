r"""Can the checks fail? Small functions held against true and untrue formulas, and what the language refuses.

That each construct means what it says, the markers of the package show: their lines are computed without it.
"""

from __future__ import annotations

import importlib.util

import pytest
import torch

from .check import Function, Mismatch, check_function
from .evaluate import Scope
from .inputs import Product, normal
from .latex import FormulaError, tokens_of
from .markers import MarkerError, find_markers
from .mutate import mutants_of, try_mutants
from .mutate_code import installed
from .parse import parse
from .table import Symbol, Table, path_root

# By its name: a function, its table, and the arguments of its cases. The first has a recursion, a statement over
# several lines, changes in place of what was recorded, and a return inside a block.
SAMPLES = {
    "recursion": (
        r"""
import torch


def f(x, first):
    y, running = torch.empty_like(x), first
    for t in range(len(x)):
        # LaTeX: y_t = x_t + \tfrac12 y_{t-1}
        running = (
            x[t]
            + 0.5 * running
        )
        y[t] = running
        running = running.clone()
    sign = 0.0
    with torch.no_grad():
        # LaTeX: z = \mathrm{mean}_{t,b} y_t
        return y.mean(
            (0, 1)
        )
""",
        Table({"x_t": "x [t b]", "y_t": "[t b]", "z": "[]"}, beyond={"y_t": "first"}),
        lambda g: {"x": normal(g, 4, 3), "first": normal(g, 3)},
    ),
    # Left sides at a moved index (x_0, x_{k+1}) fill rows that the next pass reads; M is a matrix, not a factor.
    "iteration": (
        r"""
def f(product, start, count):
    # LaTeX: x_0 = b
    x = start.clone()
    for k in range(count):
        # LaTeX: n_k = x_k^\top M x_k
        size = x @ product(x)
        # LaTeX: x_{k+1} = M x_k - \frac{n_k}{2} b
        x = product(x) - size / 2 * start
    return x
""",
        Table({"M": "product.matrix @[i]", "b": "start [i]", "x_k": "[k i]", "n_k": "[k]"}, passes={"k": "count"}),
        lambda g: {"product": Product(normal(g, 4, 4)), "start": normal(g, 4), "count": 2},
    ),
    "stopped": (
        r"""
def f(x, y):
    # LaTeX: L = \mathrm{mean}_t \left[ \mathrm{sg}(x_t) y_t \right]
    return (x.detach() * y).mean()
""",
        Table({"x_t": "x [t]", "y_t": "y [t]", "L": "[]"}),
        lambda g: {"x": normal(g, 5), "y": normal(g, 5)},
    ),
}


@pytest.fixture
def sample(tmp_path):
    """A function of SAMPLES with one piece of its text replaced, and perhaps another table."""

    def made(name: str, old: str = "", new: str = "", table: Table | None = None) -> Function:
        source, own, arguments = SAMPLES[name]
        assert not old or source.count(old) == 1, f"the piece must stand there once: {old}"
        path = tmp_path / f"{name}.py"
        path.write_text(source.replace(old, new) if old else source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        key = f"{name}.f"
        cases = {key: lambda g: (arguments(g) for _ in range(2))}
        return Function(key, module, find_markers(path), {key: table or own}, cases)

    return made


@pytest.mark.parametrize(("name", "passes"), [("recursion", [2, 8]), ("iteration", [2, 4, 4]), ("stopped", [2])])
def test_what_is_true_holds_and_every_mutant_of_it_is_caught(sample, name, passes):
    function = sample(name)
    report = check_function(function)
    assert report.problems == [] and sorted(report.evaluated.values()) == passes
    tally = try_mutants(function, list(mutants_of(function)))
    assert tally.generated >= 5 and tally.survivors == []


NAN = "the formula gives nan"
UNREACHED = "    if first is None:\n        # LaTeX: z = 1\n        z = 1.0\n    sign ="
SHORT = "    x, first = x[:, :2], first[:2]\n    y, run"
PROBLEMS = [  # beyond what the mutants of the package's own lines show
    ("recursion", "= x_t +", "= 1.000000004 x_t +", "the formula gives"),
    ("recursion", "range(len(x))", "reversed(range(len(x)))", NAN),  # y_{t-1} is of no pass before
    ("recursion", "y_{t-1}", "y_{t+1}", NAN),  # a row that no pass has computed is not zero
    ("recursion", "y_{t-1}", "z", "z is neither an input nor the left side of an earlier marked line"),
    ("recursion", "= x_t +", "= u_t x_t +", "undeclared symbol u_{t}"),
    ("recursion", "    sign =", UNREACHED, "no case"),
    ("recursion", "return y.mean(\n            (0, 1)", "return y.mean(\n            1", "axes (none): the value has"),
    ("recursion", "    y, run", SHORT, "the left side has axes b of sizes"),
    ("iteration", "x_0 = b", "x_1 = b", NAN),  # then row 0 was never computed
    ("iteration", "range(count)", "range(count + 1)", "has no row 3 along k"),
    ("stopped", "* y)", "* y.detach())", "gradients"),
]


@pytest.mark.parametrize(("name", "old", "new", "message"), PROBLEMS)
def test_what_is_not_true_is_a_problem(sample, name, old, new, message):
    problems = check_function(sample(name, old, new)).problems
    assert len(problems) == 1 and message in problems[0]


def test_what_lies_within_rounding_is_none(sample):
    assert check_function(sample("recursion", "= x_t +", "= 1.000000000000004 x_t +")).problems == []


@pytest.mark.parametrize(("symbols", "told", "message"), [
    ({"w_t": "first [t]"}, {}, "entries here"),
    ({"u_t": "sign"}, {}, "u_t stands for sign, which is no input"),
    ({}, {"passes": {"t": "sign"}}, "the loop over t runs sign times, which is no input"),
])  # fmt: skip
def test_a_symbol_is_an_input_or_an_earlier_line(sample, symbols, told, message):
    table = Table({"x_t": "x [t b]", "y_t": "[t b]", "z": "[]"} | symbols, **{"beyond": {"y_t": "first"}} | told)
    assert message in check_function(sample("recursion", table=table)).problems[0]


def test_a_mutant_of_what_does_not_hold_is_refused_and_afterwards_the_original_is_back(sample):
    function = sample("stopped", "x_t", "2 x_t")
    with pytest.raises(Mismatch):
        try_mutants(function, list(mutants_of(function)))
    original, (marker,) = function.raw(), function.markers
    with installed(function, marker, marker.statement):
        assert function.raw() is not original
    assert function.raw() is original


# The language, where two readings are possible

TABLE = Table(
    {"x_t": "x [t b]", "p_i": "p [t b i]", "d_t": "d [t b]", "V(s_t)": "v [t b]", "V(s_{t+1})": "v_next [t b]",
     "c": "c", "k": "k"},
)  # fmt: skip
G = torch.Generator().manual_seed(0)
X, D, V, V1 = (torch.randn(4, 3, generator=G, dtype=torch.float64) for _ in range(4))
P = torch.randn(4, 3, 2, generator=G, dtype=torch.float64)
VALUES = {"x_t": X, "p_i": P, "d_t": D < 0, "V(s_t)": V, "V(s_{t+1})": V1, "c": 0.7, "k": 2}
LATER = torch.cat([X[1:], torch.zeros(1, 3).double()])
MEANING = [  # where print leaves a choice
    (r"-x_t + 2 x_t^2 \cdot c", 1.4 * X**2 - X),
    (r"\mathrm{mean}_t (x_t - c)^2", ((X - 0.7) ** 2).mean(0)),
    (r"2 \sum_i p_i \cdot p_i + 1", 2 * (P * P).sum(-1) + 1),
    (r"\mathbf{1}\{0 \le x_t < 1\}", ((X >= 0) & (X < 1)).double()),
    ("V(s_{t+1}) - V(s_t)", V1 - V),  # a symbol of its own, not V moved
    ("V(s_{t+2})", torch.cat([V[2:], torch.zeros(2, 3).double()])),
    (r"\sum_{l=t}^{t+1} x_l", X + LATER),
    (r"\sum_{l=0}^{1} x_{t+l}", X + LATER),
]


def value_of(latex: str):
    return Scope(TABLE, dict(VALUES)).value(parse(tokens_of(latex), TABLE))


@pytest.mark.parametrize(("latex", "meaning"), MEANING, ids=[latex for latex, _ in MEANING])
def test_a_construct_means_what_it_says(latex, meaning):
    result = value_of(latex)
    order = tuple(a for a in "tbi" if a in result.axes)
    assert torch.allclose(result.to(order, result.sizes()), meaning, rtol=0, atol=1e-12)


REFUSED = {
    r"\log x_t x_t": "two readings",
    r"\sum_{k=0}^{2} x_{t+k}": "an index here and a symbol too",
    r"x_t / c x_t": "two readings",
    r"\exp(x_t)^2": "outside the language",
    r"\mathrm{mean}_t[x_t]^2": "outside the language",
    "V(s_k)_t": "undeclared",
    r"x_t \vee d_t": "0 and 1",
    r"\mathbb{1}[x_t]": "condition",
    r"\mathrm{mean}_s x_t": "index s",
    r"x_t^\top x_t": "inner product",
}


@pytest.mark.parametrize("latex", REFUSED)
def test_what_is_ambiguous_or_unknown_is_refused(latex):
    with pytest.raises(FormulaError, match=REFUSED[latex]):
        value_of(latex)


def test_two_spellings_are_one_symbol_and_none_is_found_inside_another():
    assert tokens_of(r"g_t'") == tokens_of(r"g'_{t}")
    assert tokens_of(r"\ell^{\mathrm{old}}_j") == tokens_of(r"\ell_j^{\operatorname{old}}")
    assert tokens_of(r"\tfrac12 \left( x \right)") == tokens_of(r"\dfrac{1}{2}(x)")
    symbol = Symbol.declare("V", "value [t]")
    assert [bool(symbol.match(tokens_of(latex), 0)) for latex in ("V", "V_t", "V'")] == [True, False, False]


@pytest.mark.parametrize("path", ["reward.sum()", "a + b", "x[len(y)]"])
def test_only_paths_may_stand_behind_a_symbol(path):
    with pytest.raises(FormulaError, match="not a path"):
        path_root(path)
    assert (path_root("self.config.clip_eps"), path_root("next_value[-1]")) == ("self", "next_value")


@pytest.mark.parametrize(("source", "message"), [
    ("# LaTeX: y = 1\ny = 1\n", "x.py:1: .* outside any function"),
    ("def f(x):\n    def g(x):\n        # LaTeX: y = x\n        return x\n    return g(x)\n", "nested function"),
    ("def f(x):\n    # LaTeX: y = x\n\n    y = x\n", "x.py:2: a marker stands directly above"),
])  # fmt: skip
def test_a_marker_belongs_to_a_statement_of_a_function(source, message):
    with pytest.raises(MarkerError, match=message):
        find_markers("x.py", source)
