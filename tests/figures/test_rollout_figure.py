"""The drawing of a rollout: its arrows are those of the recursion, and each fault has a red one."""

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Circle

from minerva_book.figures.rollout import (
    APART,
    FAULTS,
    draw_rollout,
    draw_rollout_key,
    draw_truncated_backups,
    example_flags,
)
from minerva_book.figures.style import BLUE, GREEN, RED
from minerva_lite.formulas import gae
from tests.figures.test_drawn import arrows, draw


def arrows_of(axes, color):
    """(tail, head) of every arrow of this color."""
    return [(each.xyann, each.xy) for each in arrows(axes) if to_hex(each.arrow_patch.get_edgecolor()).upper() == color]


def test_blue_arrows_stand_where_the_recursion_carries_an_advantage_upward():
    terminated, truncated = example_flags()
    axes = draw(draw_rollout, terminated, truncated)
    steps, envs = terminated.shape
    blue = {(round(-head[1] - 0.68), int(head[0] // APART)) for _, head in arrows_of(axes, BLUE)}
    # A reward of 1 in one row alone: with gamma = lambda = 1 it reaches the row above unless a seam lies between.
    zero = torch.zeros(steps, envs)
    for t in range(steps - 1):
        reward = zero.clone()
        reward[t + 1] = 1.0
        reaches = gae(reward, zero, zero, terminated, truncated, gamma=1.0, lam=1.0)[t] > 0
        assert {b for row, b in blue if row == t} == set(reaches.nonzero().flatten().tolist())


def test_green_arrows_stand_where_the_true_successor_is_valued_outside_the_rollout():
    terminated, truncated = example_flags()
    axes = draw(draw_rollout, terminated, truncated)
    outside = truncated.clone()
    outside[-1] |= ~terminated[-1]
    assert len(arrows_of(axes, GREEN)) == int(outside.sum())
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    assert len(circles) == int(outside.sum() + terminated.sum())
    assert arrows_of(axes, RED) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_has_one_red_arrow_at_the_time_limit(fault):
    terminated, truncated = torch.zeros(2, 4, 1, dtype=torch.bool)
    truncated[1] = True
    axes = draw(draw_rollout, terminated, truncated, fault=fault, names=False)
    ((tail, head),) = arrows_of(axes, RED)
    assert -2.0 < head[1] < -1.0, "it ends in the row that the limit cut"
    crosses = tail[1] < -2.0
    assert crosses == (fault != "limit taken for an end"), "the other three bring something across the seam"
    assert len(arrows_of(axes, BLUE)) == (1 if fault == "flag one row off" else 2)


def test_a_fault_that_is_none_is_refused_and_the_key_has_both_arrows():
    with pytest.raises(ValueError, match="^fault: "):
        draw(draw_rollout, *example_flags(), fault="typo")
    axes = draw(draw_rollout_key)
    assert len(arrows_of(axes, BLUE)) == len(arrows_of(axes, GREEN)) == 1


def test_the_backups_have_the_weights_of_gae_and_only_the_longest_reaches_the_end():
    axes = draw(draw_truncated_backups, 4)
    weights = [text.get_text() for text in axes.texts if "lambda" in text.get_text()]
    assert weights == [r"$(1-\lambda)$", r"$(1-\lambda)\lambda$", r"$(1-\lambda)\lambda^{2}$", r"$\lambda^{3}$"]
    deepest = [-min(line.get_ydata()) for line in axes.lines if len(line.get_xdata()) == 2]
    assert sorted(deepest) == [1, 2, 3, 4, 4], "four paths, and the line where the rollout ends"
