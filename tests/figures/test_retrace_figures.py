"""The pictures of off-policy targets: the leaves of a backup have the weights with which Q enters the target."""

import math

import pytest
import torch
from matplotlib.figure import Figure

from minerva_book.figures.retrace import draw_off_policy_backup, leaf_weights
from minerva_lite.formulas import retrace_targets

POLICY = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64).repeat(3, 1)
ACTION = torch.tensor([0, 1, 0])
GAMMA = 0.9


def target_of(q: torch.Tensor, trace_lam: float) -> torch.Tensor:
    """Retrace's target of a path of three rows whose later pairs have the values `q` [3, A]; uniform behavior."""
    value = (POLICY * q).sum(-1)
    taken = q[torch.arange(3), ACTION]
    q_value = torch.cat([torch.zeros(1, dtype=q.dtype), taken[:2]])
    log_ratio = torch.cat([torch.full((1,), math.nan, dtype=q.dtype), (3 * POLICY[torch.arange(3), ACTION])[:2].log()])
    no = torch.zeros(3, 1, dtype=torch.bool)
    rows = (torch.zeros(3, dtype=q.dtype), q_value, value, log_ratio)
    return retrace_targets(*(row[:, None] for row in rows), no, no, gamma=GAMMA, lam=trace_lam)[0, 0]


def test_the_leaves_are_the_slopes_of_the_target():
    trace = 0.9 * (3 * POLICY[torch.arange(3), ACTION]).clamp(max=1.0)
    leaves = leaf_weights(POLICY, ACTION, trace, GAMMA)
    for k in range(3):
        for a in range(3):
            q = torch.zeros(3, 3, dtype=torch.float64)
            q[k, a] = 1.0
            assert target_of(q, 0.9) == pytest.approx(float(leaves[k, a]), abs=1e-12)


def test_an_uncorrected_return_has_one_fan():
    raw = leaf_weights(POLICY, ACTION, torch.ones(3, dtype=torch.float64), GAMMA, 1.0)
    assert torch.allclose(raw[:2], torch.zeros(2, 3, dtype=torch.float64))
    assert torch.allclose(raw[2], GAMMA**3 * POLICY[2])


def test_a_backup_draws_a_dot_for_every_leaf_with_a_weight():
    axes = Figure().subplots(1, 2)
    one, all_of_it = torch.zeros(3, dtype=torch.float64), torch.full((3,), 0.3, dtype=torch.float64)
    for ax, trace in zip(axes, (one, all_of_it), strict=True):
        spine = torch.cat([torch.ones(1, dtype=torch.float64), trace[:-1]]).cumprod(0)
        draw_off_policy_backup(ax, "", leaf_weights(POLICY, ACTION, trace, GAMMA), ACTION, spine)
    assert len(axes[0].collections) == 3  # one step: one fan
    weights = leaf_weights(POLICY, ACTION, all_of_it, GAMMA)
    assert len(axes[1].collections) == int((weights.abs() > 1e-9).sum()) >= 7  # no dot where there is no weight
    assert len(axes[1].patches) == 3
