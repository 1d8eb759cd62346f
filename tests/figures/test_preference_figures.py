"""The pictures of preferences show the numbers that they are given, each on its own axes."""

from __future__ import annotations

import torch
from matplotlib.figure import Figure

from minerva_lite.figures.preferences import plot_overoptimization, plot_preferences


def test_log_probabilities_and_shares_stand_on_axes_of_their_own():
    told = torch.tensor([[0.0, -0.8, -4.0, 0.46, 0.0], [0.9, -5.0, -31.0, 0.28, 6.5]])
    axes = Figure().subplots(1, 2)
    plot_preferences(axes, torch.tensor([0, 25]), told)
    drawn = [{line.get_label(): line.get_ydata().tolist() for line in ax.lines} for ax in axes]
    assert drawn[0] == {"preferred": told[:, 1].tolist(), "other": told[:, 2].tolist()}
    assert drawn[1] == {"pairs in order": told[:, 0].tolist(), "right answers": told[:, 3].tolist()}
    assert [line.get_xdata().tolist() for line in axes[0].lines] == [[0, 25]] * 2


def test_a_learned_reward_is_drawn_over_its_divergence():
    ax = Figure().add_subplot()
    nats, true = torch.tensor([0.0, 4.0]), torch.tensor([0.4, 0.1])
    plot_overoptimization(ax, {"counts of letters": (nats, true)})
    assert ax.lines[0].get_xdata().tolist() == nats.tolist() and ax.lines[0].get_ydata().tolist() == true.tolist()
