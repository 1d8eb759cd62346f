"""Can the checks fail? A known function, held against true and untrue formulas, and against changes of its code."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from .check import Function, Mismatch, check_function, compare
from .inputs import log_ratio, normal, trajectory
from .latex import FormulaError
from .markers import find_markers
from .mutate import mutants_of, try_mutants
from .mutate_code import installed, same_value
from .table import Table
from .trace import trace

EXAMPLE = Path(__file__).parent / "fixtures" / "retrace.py"
SYMBOLS = {
    "r_t": "reward [t b]",
    "Q(s_t, a_t)": "q_value [t b]",
    "V(s_{t+1})": "next_value [t b]",
    r"\log \rho_t": "log_ratio [t b]",
    "d_t": "terminated [t b]",
    "z_t": "truncated [t b]",
    r"\gamma": "gamma",
    r"\lambda": "lam",
    "c_t": "[t b]",
    r"\delta_t": "[t b]",
    "w_t": "[t b]",
    r"\Delta_t": "[t b]",
    r"Q^{\mathrm{ret}}_t": "[t b]",
}


def example_cases(g: torch.Generator) -> Iterator[dict]:
    for lam in (1.0, 0.6):
        yield trajectory(g) | {"q_value": normal(g, 5, 3), "log_ratio": log_ratio(g), "gamma": 0.9, "lam": lam}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def function_at(path: Path, table: Table | None = None, cases=example_cases) -> Function:
    markers = find_markers(path)
    key = f"{path.stem}.{markers[0].owner}"
    return Function(key, load(path), markers, {key: table or Table(SYMBOLS)}, {key: cases})


def changed(tmp_path: Path, old: str, new: str) -> Function:
    """The example with one piece of its text replaced."""
    source = EXAMPLE.read_text(encoding="utf-8")
    assert source.count(old) == 1, f"the piece must stand in the example once: {old}"
    path = tmp_path / "retrace.py"
    path.write_text(source.replace(old, new), encoding="utf-8")
    return function_at(path)


def with_return(tmp_path: Path, value: str) -> Function:
    return changed(tmp_path, "return q_value + correction", f"return {value}")


def test_the_example_holds():
    report = check_function(function_at(EXAMPLE))
    assert report.problems == []
    assert len(report.evaluated) == 5
    recursion = next(n for name, n in report.evaluated.items() if r"\Delta_{t+1}" in name)
    assert recursion == 10, "every pass of the loop is evaluated: five rows, two cases"


UNTRUE = {
    r"\lambda \min": r"\lambda \max",
    r"V(s_{t+1}) - Q(s_t, a_t)": r"V(s_{t+1}) + Q(s_t, a_t)",
    r"r_t + \gamma (1 - d_t) V(s_{t+1})": r"r_t + \gamma V(s_{t+1})",
    r"w_t = \gamma (1 - e_t) c_{t+1}": r"w_t = \gamma (1 - d_t) c_{t+1}",
    r"(1 - e_t) c_{t+1}": r"(1 - e_t) c_t",
    r"w_t \Delta_{t+1}": r"w_t \Delta_t",
    r"\delta_t + w_t": r"\delta_{t+1} + w_t",
    r"Q(s_t, a_t) + \Delta_t": r"Q(s_t, a_t) + \delta_t",
}


@pytest.mark.parametrize("truth", UNTRUE)
def test_an_untrue_formula_is_a_problem(tmp_path, truth):
    assert check_function(changed(tmp_path, truth, UNTRUE[truth])).problems


WRONG = {
    "log_ratio.clamp(max=0.0).exp()": "log_ratio.exp()",
    "next_value.masked_fill(terminated, 0.0)": "next_value",
    "terminated | truncated": "terminated",
    "reversed(range(len(td_error)))": "range(len(td_error))",
    "return q_value + correction": "return q_value - correction",
    "weight[t] * running": "weight[t - 1] * running",
    "correction[t] = running": "correction[t] = running.clone() * 1.001",
}


@pytest.mark.parametrize("right", WRONG)
def test_wrong_code_is_a_problem(tmp_path, right):
    assert check_function(changed(tmp_path, right, WRONG[right])).problems


def test_a_difference_of_a_billionth_shows(tmp_path):
    assert check_function(
        changed(tmp_path, "return q_value + correction", "return q_value + (1 + 4e-9) * correction")
    ).problems
    assert not check_function(
        changed(tmp_path, "return q_value + correction", "return q_value + (1 + 4e-15) * correction")
    ).problems


def test_a_marker_on_a_dead_line_is_a_problem(tmp_path):
    dead = "if gamma > 2:\n            # LaTeX: c_t = \\lambda\n            trace = lam\n        # LaTeX: c_t ="
    (problem,) = check_function(changed(tmp_path, "# LaTeX: c_t =", dead)).problems
    assert "no case reaches" in problem


def test_a_wrong_shape_is_a_problem(tmp_path):
    (problem,) = check_function(
        changed(tmp_path, "return q_value + correction", "return (q_value + correction).T")
    ).problems
    assert "left side has axes" in problem
    (problem,) = check_function(
        changed(tmp_path, "return q_value + correction", "return (q_value + correction).sum()")
    ).problems
    assert "axes t b" in problem


def test_a_right_side_symbol_is_an_input_or_an_earlier_line(tmp_path):
    (problem,) = check_function(
        changed(tmp_path, r"\delta_t + w_t \Delta_{t+1}", r"\delta_t + w_t Q^{\mathrm{ret}}_t")
    ).problems
    assert "Q^{" in problem or "the formula gives nan" in problem
    (problem,) = check_function(changed(tmp_path, r"w_t = \gamma", r"w_t = u_t \gamma")).problems
    assert "undeclared symbol u_{t}" in problem
    local = Table(SYMBOLS | {"u_t": "next_trace [t b]"})
    (problem,) = check_function(function_at(EXAMPLE, local)).problems
    assert "next_trace, which is no input" in problem


def test_a_function_without_table_or_cases_is_a_problem():
    function = function_at(EXAMPLE)
    function.cases = {}
    assert "no cases" in check_function(function).problems[0]
    function = function_at(EXAMPLE)
    function.tables = {}
    assert "no table" in check_function(function).problems[0]


def test_the_axes_of_inputs_must_agree():
    crossed = Table(SYMBOLS | {"r_t": "reward [b t]"})
    assert "entries here" in check_function(function_at(EXAMPLE, crossed)).problems[0]


def test_every_mutant_of_the_example_is_caught():
    function = function_at(EXAMPLE)
    tally = try_mutants(function, list(mutants_of(function)))
    assert tally.generated >= 90
    assert tally.survivors == []
    assert tally.raised <= 0.1 * tally.generated, "most must be caught by their numbers, not by an error"


def test_being_caught_is_no_accident():
    """The control: statements that compute the same, put in the way a mutant is, are not caught."""
    function = function_at(EXAMPLE)
    original = function.raw()
    for marker in function.markers:
        with installed(function, marker, same_value(marker.statement)):
            assert len(compare(function, function.run())) == 5
        assert function.raw() is original, "the original is back in place"


def test_a_mutant_of_a_function_that_does_not_hold_is_refused(tmp_path):
    function = changed(tmp_path, r"\lambda \min", r"\lambda \max")
    with pytest.raises(Mismatch):
        try_mutants(function, list(mutants_of(function)))


SEVERAL_LINES = """
def f(x):
    # LaTeX: y_i = 2 x_i + 1
    y = (
        2.0
        * x
        + 1.0
    )
    y += 0.0
    with open(__file__):
        # LaTeX: z = \\sum_i y_i
        return sum(
            y.tolist()
        )
"""


def test_a_statement_over_several_lines_is_one_pass(tmp_path):
    path = tmp_path / "several.py"
    path.write_text(SEVERAL_LINES, encoding="utf-8")
    table = Table({"x_i": "x [i]", "y_i": "[i]", "z": "[]"})
    function = function_at(path, table, lambda g: iter([{"x": torch.arange(3.0, dtype=torch.float64)}]))
    assert check_function(function).problems == []
    (call,) = function.run()
    assert [p.marker for p in call.passes] == [0, 1]


def test_later_changes_in_place_do_not_reach_what_was_recorded(tmp_path):
    path = tmp_path / "inplace.py"
    path.write_text(
        "def f(x):\n    # LaTeX: y_i = 2 x_i\n    y = 2.0 * x\n    y.zero_()\n    x.zero_()\n"
        "    # LaTeX: z_i = x_i\n    z = x\n    return z\n"
    )
    table = Table({"x_i": "x [i]", "y_i": "[i]", "z_i": "[i]"})
    function = function_at(path, table, lambda g: iter([{"x": normal(g, 3)}]))
    (problem,) = check_function(function).problems
    assert "z_i" in problem, "y was recorded before it was emptied; z is not the x that came in"


def test_tracing_leaves_no_trace_behind():
    import sys

    before = sys.gettrace()
    function = function_at(EXAMPLE)

    def fail():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        trace(fail, function.raw().__code__, function.markers, function.table, {})
    assert sys.gettrace() is before


def test_a_table_that_cannot_be_read_says_so():
    with pytest.raises(FormulaError, match="cannot read its declaration"):
        Table({"x": "x [t b"}).declared  # noqa: B018


RECURSION = """
import torch


def f(x):
    y, running = torch.empty_like(x), torch.zeros_like(x[0])
    for t in range(len(x)):
        # LaTeX: y_t = x_t + \\tfrac12 y_{t-1}
        running = x[t] + 0.5 * running
        y[t] = running
    return y
"""


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ("", "", True),
        ("zeros_like", "ones_like", False),  # something else than zero stands before the first row
        ("range(len(x))", "reversed(range(len(x)))", False),  # y_{t-1} is not what was computed in the pass before
        ("y_{t-1}", "y_{t+1}", False),
        ("y_{t-1}", "y_t", False),
    ],
)
def test_a_recursion_is_held_to_its_rows(tmp_path, old, new, holds):
    path = tmp_path / "recursion.py"
    path.write_text(RECURSION.replace(old, new) if old else RECURSION, encoding="utf-8")
    table = Table({"x_t": "x [t b]", "y_t": "[t b]"})
    function = function_at(path, table, lambda g: iter([{"x": normal(g, 4, 3)}]))
    assert (check_function(function).problems == []) is holds


def test_a_row_that_no_pass_has_computed_is_not_zero(tmp_path):
    path = tmp_path / "recursion.py"
    path.write_text(RECURSION.replace("y_{t-1}", "y_{t+1}").replace("0.5", "0.0"), encoding="utf-8")
    function = function_at(path, Table({"x_t": "x [t b]", "y_t": "[t b]"}), lambda g: iter([{"x": normal(g, 4, 3)}]))
    (problem,) = check_function(function).problems
    assert "the formula gives nan" in problem


def test_what_stands_beyond_the_edge_may_be_an_input(tmp_path):
    path = tmp_path / "recursion.py"
    path.write_text(
        RECURSION.replace("f(x)", "f(x, first)").replace("torch.zeros_like(x[0])", "first"), encoding="utf-8"
    )
    cases = lambda g: iter([{"x": normal(g, 4, 3), "first": normal(g, 3)}])  # noqa: E731
    symbols = {"x_t": "x [t b]", "y_t": "[t b]"}
    assert check_function(function_at(path, Table(symbols), cases)).problems
    assert check_function(function_at(path, Table(symbols, beyond={"y_t": "first"}), cases)).problems == []


POWERS = """
import torch


def f(product, start, count):
    # LaTeX: x_0 = b
    x = start.clone()
    for k in range(count):
        # LaTeX: n_k = x_k^\\top M x_k
        size = x @ product(x)
        # LaTeX: x_{k+1} = M x_k - \\frac{n_k}{2} b
        x = product(x) - size / 2 * start
    return x
"""


class Product:
    def __init__(self, matrix):
        self.matrix = matrix

    def __call__(self, v):
        return self.matrix @ v


def powers(tmp_path: Path, old: str = "", new: str = "") -> Function:
    assert not old or POWERS.count(old) == 1
    path = tmp_path / "powers.py"
    path.write_text(POWERS.replace(old, new) if old else POWERS, encoding="utf-8")
    symbols = {"M": "product.matrix @[i]", "b": "start [i]", "x_k": "[k i]", "n_k": "[k]"}
    table = Table(symbols, passes={"k": "count"})
    return function_at(
        path, table, lambda g: iter([{"product": Product(normal(g, 4, 4)), "start": normal(g, 4), "count": 2}])
    )


def test_an_iteration_is_held_to_its_rows_and_a_matrix_acts(tmp_path):
    """Left sides at a moved index (x_0, x_{k+1}) fill rows that the next pass reads; M is a matrix, not a factor."""
    function = powers(tmp_path)
    report = check_function(function)
    assert report.problems == [] and sorted(report.evaluated.values()) == [1, 2, 2]
    tally = try_mutants(function, list(mutants_of(function)))
    assert tally.generated >= 20 and tally.survivors == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x_0 = b", "x_1 = b"),  # then row 0 was never computed
        ("x_{k+1} = M", "x_k = M"),
        ("= M x_k -", "= M x_{k+1} -"),
        ("= M x_k -", "= x_k -"),
        ("product(x) - size", "product.matrix.T @ x - size"),  # the matrix acts from the left
        ("x @ product(x)", "x @ x"),
        ("x_{k+1} = M", "x_{k+3} = M"),  # there is no such row
        (r"x_k^\top M x_k", r"x_k^\top M n_k"),  # a matrix needs something along its axis
        ("range(count)", "range(count + 1)"),
    ],
)
def test_an_untrue_iteration_is_a_problem(tmp_path, old, new):
    assert check_function(powers(tmp_path, old, new)).problems


def test_a_matrix_acts_along_one_axis_and_a_loop_has_a_count():
    with pytest.raises(FormulaError, match="acts along one axis"):
        Table({"M": "m @[i j]"}).declared  # noqa: B018
    with pytest.raises(FormulaError, match="the loop over k runs n times, which is no input"):
        function_at(EXAMPLE, Table(SYMBOLS, passes={"k": "n"})).local_sources  # noqa: B018


STOPPED = """
def f(x, y):
    # LaTeX: L = \\mathrm{mean}_t \\left[ \\mathrm{sg}(x_t) y_t \\right]
    return (x.detach() * y).mean()
"""


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ("", "", True),
        ("x.detach()", "x", False),
        ("* y)", "* y.detach())", False),
        ("\\mathrm{sg}(x_t) y_t", "x_t \\mathrm{sg}(y_t)", False),
    ],
)
def test_a_stop_gradient_is_held_to_the_gradients(tmp_path, old, new, holds):
    path = tmp_path / "stopped.py"
    path.write_text(STOPPED.replace(old, new) if old else STOPPED, encoding="utf-8")
    table = Table({"x_t": "x [t]", "y_t": "y [t]", "L": "[]"})
    function = function_at(path, table, lambda g: iter([{"x": normal(g, 5), "y": normal(g, 5)}]))
    problems = check_function(function).problems
    assert (problems == []) is holds
    assert holds or "gradients" in problems[0]
    if holds:
        tally = try_mutants(function, list(mutants_of(function)))
        assert tally.survivors == []
