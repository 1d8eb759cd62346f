"""PPO's pictures of one batch: what is drawn is what was measured."""

from __future__ import annotations

import pytest
import torch
from matplotlib.figure import Figure

from minerva_book.figures import plot_along_batch, plot_kl_estimators, plot_promise


def test_a_line_is_the_mean_of_the_seeds_and_the_band_their_range():
    ax = Figure().add_subplot()
    runs = torch.tensor([[0.0, 1.0, 2.0], [0.0, 3.0, 8.0]])
    plot_along_batch(ax, [0, 4, 160], {"a batch": (runs, "#0072B2", "-")}, ylabel="gain")
    assert ax.lines[0].get_ydata().tolist() == [0.0, 2.0, 5.0] and ax.lines[0].get_label() == "a batch"
    (band,) = ax.collections
    assert band.get_paths()[0].vertices[:, 1].min() == 0.0 and band.get_paths()[0].vertices[:, 1].max() == 8.0


def test_the_promise_is_a_median_by_bins_and_too_few_walks_draw_nothing():
    ax = Figure().add_subplot()
    kl = torch.cat([torch.full((50,), 0.002), torch.full((3,), 1.5)]).double()
    kept = torch.cat([torch.linspace(0.0, 1.0, 50), torch.zeros(3)]).double()
    plot_promise(ax, {"a class": (kl, kept)})
    drawn = [y for y in ax.lines[0].get_ydata() if y == y]
    assert drawn == [pytest.approx(0.5)]


def test_the_mean_of_k2_alone_leaves_the_kl():
    axes = Figure().subplots(1, 2)
    plot_kl_estimators(axes, torch.tensor([0.1, 2.0], dtype=torch.float64))
    last = {line.get_label(): line.get_ydata()[-1] for line in axes[1].lines}
    assert last == {"$k_1$": 1.0, "$k_2$": pytest.approx(2.0), "$k_3$": 1.0}
