"""What a picture draws is what it was given: a mean, a median, a band, a line at its place."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from minerva_book import figures
from minerva_book.figures import answers, preferences, retrace


def draw(plot, *values, panels=1, **named):
    """The axes that a function draws into: one, or several side by side."""
    axes = Figure().subplots(1, panels)
    plot(axes, *values, **named)
    return axes


def y(axes) -> list[list[float]]:
    """The heights of every line."""
    return [np.asarray(line.get_ydata()).tolist() for line in axes.lines]


def x(axes) -> list[list[float]]:
    return [np.asarray(line.get_xdata()).tolist() for line in axes.lines]


def band(axes) -> list[float]:
    """The lowest and the highest point of the first band."""
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    return [heights.min(), heights.max()]


def bars(axes) -> list[tuple[float, float]]:
    return [(bar.get_x(), bar.get_width()) for bar in axes.patches]


def words(axes) -> list[str]:
    return [text.get_text().strip() for text in axes.texts if text.get_text()]


def arrows(axes) -> list:
    """The annotations that are arrows: `xyann` is the tail, `xy` the head."""
    return [text for text in axes.texts if getattr(text, "arrow_patch", None)]


def legend(axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def a_dip() -> SimpleNamespace:
    """A run of four logs: what `plot_mpo_dip` reads of a history."""
    columns = {
        "eval/mean": [-1074.0, -1600.0, -300.0, -150.0], "value/q_max": [-1.0, 12.0, 3.0, -0.5],
        "value/q_mean": [-5.0, -3.0, -9.0, -9.0], "value/q_min": [-9.0, -9.0, -30.0, -30.0],
        "train/abs_action": [0.8, 3.0, 2.0, 1.0],
    }  # fmt: skip
    return SimpleNamespace(steps=lambda name: np.arange(4) * 1000.0, column=lambda name: np.array(columns[name]))


T = torch.tensor
FIVE = T([[0.0], [1.0], [2.0], [3.0], [40.0]]).repeat(1, 2)
PATHS = {name: T([[0.0, 1.0], [i, 0.1]]) for i, name in enumerate("abcd")}
PRIOR, VALUES = T([0.5, 0.35, 0.15]).double(), T([0.0, 1.0, 2.0]).double()
PATH = torch.stack([(PRIOR.log() + VALUES / eta).softmax(0) for eta in (10.0, 1.0, 0.1)])
RIGHT = T([[0.2, 0.4], [0.6, 0.5]])
CURVES = [-torch.arange(3.0), -2 * torch.arange(3.0), T([0.5, 0.3, 0.1])]
ONE, TWO = T([[0.0, 1.0], [0.2, 0.4], [0.0, 3.0]]), T([[0.0, 2.0], [0.2, 0.1], [0.0, 9.0]])
RATIO = T([[1.0, 0.5], [1.0, 1.5], [1.0, 0.0]])
WALKS = T([0.002] * 50 + [1.5] * 3).double(), torch.cat([torch.linspace(0.0, 1.0, 50), torch.zeros(3)]).double()
GAMMA, SHARE = T([0.1, 0.6, 0.7, 0.95]), T([1e-3, 0.5, 1e-9, 0.9])
PRESET = T([1.0, 2.0, 3.0, 4.0, 50.0])
CHANCE = torch.linspace(0.0, 1.0, 11, dtype=torch.float64)
DRAWN = [  # the axes; what is read off them; what it should be
    # Means of so many updates; a line for each seed, named once; a small rise fills its panel.
    (lambda: draw(answers.plot_sorting, {"RLOO": torch.arange(20.0)}, {"level": 0.5}),
     lambda a: [x(a)[0], y(a)[0]], [[5.0, 15.0], [4.5, 14.5]]),
    (lambda: draw(answers.plot_rates, T([50.0, 100.0]), {"0.001": RIGHT}), y, RIGHT.tolist()),
    (lambda: draw(answers.plot_rates, T([50.0, 100.0]), {"0.001": RIGHT}), legend, ["0.001"]),
    (lambda: draw(answers.plot_hacking, T([0.98, 1.0]), T([0.5, 0.0]), panels=2),
     lambda a: [a[0].get_ylim()[0] > 0.97, a[0].get_ylim()[1] < 1.01, y(a[1])[0]], [True, True, [0.5, 0.0]]),
    # Side by side, in units of the first.
    (lambda: draw(answers.plot_update_time,
                  {"fast": {"write": 1.0, "learn": 4.0}, "slow": {"write": 3.0, "learn": 4.0}}),
     bars, [(0.0, 0.2), (0.0, 0.6), (0.2, 0.8), (0.6, 0.8)]),
    (lambda: draw(answers.plot_network_frontier, {"DPO": (T([0.2, 12.0]), T([0.7, 0.3]))},
                  (T([0.1, 1.0]), T([0.5, 1.0]))),
     lambda a: [a.get_xlim()[0] <= 0.2, a.get_xlim()[1] >= 12.0, y(a)[1], a.lines[1].get_linestyle() == "None"],
     [True, True, [0.7, 0.3], True]),
    (lambda: draw(figures.plot_simplex, PRIOR, VALUES, PATH, PATH[1:2], (0.3,)),
     lambda a: "path of q, from hot to cold" in words(a), True),
    # By the median, beside the exact fit; the first std as a level.
    (lambda: draw(figures.plot_collapse, {"N = 4": (T([[0.0] * 3, [1.0, 2.0, 9.0]]), T([[1.0] * 3, [0.5, 0.1, 0]]))},
                  exact=0.5, panels=2),
     lambda a: [y(a[0])[0], y(a[1])[0], a[0].lines[1].get_slope(), y(a[1])[1][0], a[1].get_yscale() == "log",
                all(np.isfinite(band(ax)).all() for ax in a)], [[0.0, 2.0], [1.0, 0.1], 0.5, 1.0, True, True]),
    (lambda: draw(figures.plot_chase, PATHS, T([0.0, 3.0]), panels=2),
     lambda a: [[line[1] for line in y(a[0])], len({line.get_linestyle() for line in a[1].lines})],
     [[3.0, 0.0, 1.0, 2.0, 3.0], 4]),
    # The KL over its bound; a price of zero keeps a place.
    (lambda: draw(figures.plot_multiplier, {"right": (T([0.02, 0.01]), T([0.0, 13.0]))}, bound=0.01, optimum=13.0,
                  panels=2),
     lambda a: [y(a[0])[0], y(a[1])[0], [ax.lines[1].get_ydata()[0] for ax in a]],
     [[2.0, 1.0], [1e-4, 13.0], [1.0, 13.0]]),
    # With its warm-up, and the lines that no true value passes.
    (lambda: draw(figures.plot_mpo_dip, a_dip(), warmup=1000, solved=-200.0, panels=3),
     lambda a: [[min(y(ax)[0]) for ax in a], max(y(a[1])[0]), y(a[1])[3][0], y(a[2])[1][0],
                [bars(ax)[0] for ax in a]], [[-1600.0, -1.0, 0.8], 12.0, 0.0, 1.0, [(0.0, 1000.0)] * 3]),
    (lambda: draw(figures.plot_quartiles, {"five": ([1.0, 2.0], FIVE)}, "a run", solved=5.0, ylim=(0.0, 50.0)),
     lambda a: [y(a)[0], band(a), y(a)[1][0]], [[2.0, 2.0], [1.0, 3.0], 5.0]),
    # The mean of the seeds and their range.
    (lambda: draw(figures.plot_along_batch, [0, 4, 160],
                  {"a batch": (T([[0.0, 1.0, 2.0], [0.0, 3.0, 8.0]]), "#0072B2", "-")}, ylabel="gain"),
     lambda a: [y(a)[0], band(a), a.lines[0].get_label() == "a batch"], [[0.0, 2.0, 5.0], [0.0, 8.0], True]),
    # A median by bins; too few walks draw nothing.
    (lambda: draw(figures.plot_promise, {"a class": WALKS}), lambda a: [h for h in y(a)[0] if h == h], [0.5]),
    # The mean of k2 alone leaves the KL.
    (lambda: draw(figures.plot_kl_estimators, T([0.1, 2.0]).double(), panels=2),
     lambda a: {line.get_label(): line.get_ydata()[-1] for line in a[1].lines},
     {"$k_1$": 1.0, "$k_2$": 2.0, "$k_3$": 1.0}),
    # Log-ratios on the left, the share right on the right; other seeds are thin.
    (lambda: draw(preferences.plot_pair_fit, *CURVES, [torch.stack([c + 1, c + 2]) for c in CURVES], panels=2),
     lambda a: [[line.get_ydata().tolist() for line in ax.lines if len(line.get_xdata()) == 3
                 and (line.get_linewidth() > 1) == thick] for thick in (True, False) for ax in a],
     [[c.tolist() for c in CURVES[:2]], [CURVES[2].tolist()],
      [(c + i).tolist() for c in CURVES[:2] for i in (1, 2)], [(CURVES[2] + i).tolist() for i in (1, 2)]]),
    (lambda: draw(preferences.plot_departure, T([0.0, 1e-4, 2e-4]), *CURVES),
     lambda a: {line.get_label(): [*line.get_xdata(), *line.get_ydata()] for line in a.lines
                if len(line.get_xdata()) == 3},
     {name: [0.0, 1.0, 2.0, *curve.tolist()] for name, curve in
      zip(("its right answers", "its wrong answers", "all"), CURVES, strict=True)}),
    # The truth of all curves, and the gain of those that share a reward.
    (lambda: draw(preferences.plot_over_optimization, {"one": ONE, "two": TWO}, T([[0.5], [0.3], [1.0]]),
                  gains=["one"], panels=2),
     lambda a: [y(ax) for ax in a] + [[line.get_label() for line in a[1].lines]],
     [[[0.0, 3.0], [1.0]], [[0.2, 0.4], [0.2, 0.1], [0.3]], ["one", "two", "best of 2, 4, 8, …, learned reward"]]),
    # The median of the seeds over temperatures, hot on the left.
    (lambda: draw(figures.plot_offline, [2.0, 0.5], {"fit": T([[1.0, 5.0], [2.0, 4.0], [9.0, 0.0]])}, "return",
                  {"cloning": -1.0}),
     lambda a: [y(a), x(a)[0], band(a), a.xaxis_inverted() and a.get_xscale() == "log"],
     [[[2.0, 4.0], [-1.0, -1.0]], [2.0, 0.5], [0.0, 9.0], True]),
    # A dot at each minimum; a panel for each number of actions.
    (lambda: draw(retrace.plot_total_error, T([0.0, 0.5, 1.0]),
                  {"Retrace": T([[3.0, 1.0, 0.0], [0.0, 30.0, 300.0]]).double()}, 30),
     lambda a: [(*line.get_xdata(), *line.get_ydata()) for line in a.lines if line.get_marker() == "o"], [(0.5, 2.0)]),
    (lambda: draw(retrace.plot_error_grid, (0.1, 1.0),
                  {"Retrace": T([[[0.1, 0], [0.2, 0]], [[0.3, 0], [0.4, 0]]]).double()}, panels=2),
     lambda a: [y(ax)[0] for ax in a], [[0.1, 0.2], [0.3, 0.4]]),
    # From the agent to the promise and down to the truth.
    (lambda: draw(figures.plot_jumps, CHANCE, CHANCE * (1 - CHANCE), [(0.2, 0.16, 1.0, 0.64)]),
     lambda a: [next(line.get_xydata().tolist() for line in a.lines if line.get_linestyle() == "--"),
                *((text.xy, text.xyann) for text in a.texts if text.arrowprops)],
     [[[0.2, 0.16], [1.0, 0.64]], ((1.0, 0.0), (1.0, 0.64))]),
    # Every world in the histogram of its discount; what is too small stands at the left edge.
    (lambda: draw(lambda ax: figures.plot_bounds([ax], {"bound": SHARE}, GAMMA)),
     lambda a: [[float(p.get_data().values.sum()) for p in a.patches], a.patches[1].get_data().values[0]],
     [[1.0] * 3, 0.5]),
    (lambda: draw(figures.plot_kept, T([0.01, 0.1]), [dict.fromkeys("abc", RATIO), dict.fromkeys("abc", -RATIO)],
                  ("one", "two"), panels=2),
     lambda a: [next(line.get_ydata().tolist() for line in ax.lines if line.get_label() == "a") for ax in a],
     [[1.0, 0.5], [-1.0, -0.5]]),
    # The better one is dark.
    (lambda: draw(figures.plot_start_values, {"left": 0.54, "right": 0.31}, "learned"),
     lambda a: [[(b.get_width(), b.get_alpha()) for b in a.patches], words(a),
                [label.get_text() for label in a.get_yticklabels()]],
     [[(0.54, 1.0), (0.31, 0.35)], ["0.54", "0.31"], ["left", "right"]]),
    # The shade ends where the order turns.
    *((lambda crossing=crossing: draw(figures.plot_time_limit, range(2, 9), {
        "left": [1.0] * 7, "right": [0.5 if limit < crossing else 2.0 for limit in range(2, 9)]}, [1.8, 11.6]),
       lambda a: [bars(a)[0], [h[0] for line, h in zip(a.lines, y(a), strict=True) if line.get_linestyle() == "--"]],
       [(2.0, crossing - 2.0), [1.8, 11.6]]) for crossing in (3, 6)),
    # Of each knob the middle over its values, in order; a dot for each run, those of the preset once.
    (lambda: draw(figures.plot_sensitivity, {"rate": {10.0: PRESET - 9, 1.0: PRESET},
                                             "bound": {1.0: PRESET, 0.1: PRESET + 1}}, "agent"),
     lambda a: [{line.get_label(): line.get_xydata().tolist() for line in a.lines if line.get_label()[0] != "_"},
                sorted(line.get_ydata().tolist() for line in a.lines if line.get_marker() == "."),
                a.get_xscale(), a.get_title()],
     [{"rate": [[1.0, 3.0], [10.0, -6.0]], "bound": [[0.1, 4.0], [1.0, 3.0]]},
      [(PRESET + i).tolist() for i in (-9, 0, 1)], "log", "agent"]),
    # A state's factor against its variance; a dual is marked at its minimum.
    (lambda: draw(figures.plot_state_factors, T([1.0, 2.0, 3.0]),
                  {2.0: 1.0 + T([1.0, 2.0, 3.0]) / 8.0, 0.5: 1.0 + 4.0 * T([1.0, 2.0, 3.0])}),
     lambda a: y(a)[1:3], [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]),
    (lambda: draw(figures.plot_duals, torch.linspace(0.0, 2.0, 5),
                  {"minimum": (torch.linspace(0.0, 2.0, 5) - 1.0) ** 2, "rises": torch.linspace(0.0, 2.0, 5)}),
     lambda a: [(*line.get_xdata(), *line.get_ydata()) for line in a.lines if len(line.get_xdata()) == 1],
     [(1.0, 0.0)]),
]  # fmt: skip


def flat(found) -> list:
    if isinstance(found, dict):
        found = sorted(found.items())
    if isinstance(found, list | tuple):
        return [part for item in found for part in flat(item)]
    return [float(found) if not isinstance(found, str | bool) else found]


@pytest.mark.parametrize(("axes", "read", "wanted"), DRAWN)
def test_a_picture_shows_what_it_was_given(axes, read, wanted):
    found = read(axes())
    assert flat(found) == [pytest.approx(part, rel=1e-6) if isinstance(part, float) else part for part in flat(wanted)]


@pytest.mark.parametrize("slope", [-1.0, 2.0])
def test_dots_stand_on_the_curve_the_arrow_climbs_and_the_fitted_gaussian_has_its_moments(slope):
    grid = torch.linspace(-2, 2, 401, dtype=torch.float64)
    prior = torch.exp(-0.5 * grid**2) / (2 * torch.pi) ** 0.5
    action, weights = torch.tensor([[-1.0, 0.0, 1.0], [0.7, 0.2, 0.1]], dtype=torch.float64)
    fit = torch.tensor([0.5, 0.25], dtype=torch.float64)
    axes = Figure().subplots(2, 1, squeeze=False)
    figures.plot_estep(axes, grid, 1.0 - grid, prior, action, slope, {"η = 1": (prior, weights, fit)})
    above, below = axes[:, 0]
    (dots,) = above.collections
    assert dots.get_offsets().tolist() == [[-1.0, 2.0], [0.0, 1.0], [1.0, 0.0]]
    assert (dots.get_sizes() - 6).tolist() == pytest.approx([350.0, 100.0, 50.0]), "an area follows its weight"
    (arrow,) = above.texts
    (x, y), (x0, y0) = arrow.xy, arrow.xyann
    assert (y - y0) / (x - x0) == pytest.approx(slope) and y > y0
    fitted = torch.tensor(next(x for x in below.lines if x.get_linestyle() == "--").get_ydata())
    mass = fitted / fitted.sum()
    mean = (mass * grid).sum()
    assert abs(mean - 0.5) < 1e-3 and abs((mass * (grid - mean) ** 2).sum().sqrt() - 0.25) < 1e-3
    assert abs(fitted.sum() * 0.01 - 1) < 1e-3
