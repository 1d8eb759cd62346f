"""What the pictures of chapter 6b claim: medians, bounds, and where a run leaves the action box."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from minerva_book.figures import plot_chase, plot_collapse, plot_mpo_dip, plot_multiplier, plot_quartiles


class Record:
    """A run of four logs: what `plot_mpo_dip` reads of a history."""

    columns = {
        "eval/mean": [-1074.0, -1600.0, -300.0, -150.0],
        "value/q_max": [-1.0, 12.0, 3.0, -0.5],
        "value/q_mean": [-5.0, -3.0, -9.0, -9.0],
        "value/q_min": [-9.0, -9.0, -30.0, -30.0],
        "train/abs_action": [0.8, 3.0, 2.0, 1.0],
    }

    def steps(self, name):
        return np.arange(4) * 1000.0

    def column(self, name):
        return np.array(self.columns[name])


def test_the_collapse_is_drawn_by_its_median_and_beside_the_exact_fit():
    mean = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 9.0]])
    std = torch.tensor([[1.0, 1.0, 1.0], [0.5, 0.1, 0.0]])
    axes = Figure().subplots(1, 2)
    plot_collapse(axes, {"N = 4": (mean, std)}, exact=0.5)
    assert list(axes[0].lines[0].get_ydata()) == [0.0, 2.0] and list(axes[1].lines[0].get_ydata()) == [
        1.0,
        pytest.approx(0.1),
    ]
    assert axes[0].lines[1].get_slope() == 0.5 and axes[1].get_yscale() == "log"
    assert axes[1].lines[1].get_ydata()[0] == 1.0  # the first std
    assert all(np.isfinite(band.get_paths()[0].vertices).all() for ax in axes for band in ax.collections)


def test_four_policies_chase_the_best_action():
    paths = {name: torch.tensor([[0.0, 1.0], [i, 0.1]]) for i, name in enumerate("abcd")}
    axes = Figure().subplots(1, 2)
    plot_chase(axes, paths, torch.tensor([0.0, 3.0]))
    assert [line.get_ydata()[1] for line in axes[0].lines] == [3.0, 0.0, 1.0, 2.0, 3.0]
    assert len({line.get_linestyle() for line in axes[1].lines}) == 4


def test_the_kl_is_drawn_over_its_bound_and_a_price_of_zero_keeps_a_place():
    axes = Figure().subplots(1, 2)
    plot_multiplier(axes, {"right": (torch.tensor([0.02, 0.01]), torch.tensor([0.0, 13.0]))}, bound=0.01, optimum=13.0)
    assert list(axes[0].lines[0].get_ydata()) == pytest.approx([2.0, 1.0])
    assert list(axes[1].lines[0].get_ydata()) == pytest.approx([1e-4, 13.0])
    assert [ax.lines[1].get_ydata()[0] for ax in axes] == [1.0, 13.0]


def test_the_dip_is_drawn_with_its_warm_up_and_the_lines_that_no_true_value_passes():
    axes = Figure().subplots(1, 3)
    plot_mpo_dip(axes, Record(), warmup=1000, solved=-200.0)
    assert [min(ax.lines[0].get_ydata()) for ax in axes] == [-1600.0, -1.0, 0.8]
    assert max(axes[1].lines[0].get_ydata()) == 12.0 and axes[1].lines[3].get_ydata()[0] == 0.0
    assert axes[2].lines[1].get_ydata()[0] == 1.0
    for ax in axes:
        shade = ax.patches[0]
        assert (shade.get_x(), shade.get_width()) == (0.0, 1000.0)


def test_a_curve_is_the_median_and_its_band_the_quartiles():
    returns = torch.tensor([[0.0], [1.0], [2.0], [3.0], [40.0]]).repeat(1, 2)
    ax = Figure().add_subplot()
    plot_quartiles(ax, {"five": ([1.0, 2.0], returns)}, "a run", solved=5.0, ylim=(0.0, 50.0))
    assert list(ax.lines[0].get_ydata()) == [2.0, 2.0]
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (1.0, 3.0) and ax.lines[1].get_ydata()[0] == 5.0
