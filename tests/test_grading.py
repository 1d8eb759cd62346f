"""The checks of the exercises pass what is right, and name the entry that is wrong."""

import pytest
import torch

from minerva_lite.grading import check_dual_clip, check_gae
from minerva_lite.objectives import ppo_clip_objective
from minerva_lite.returns import gae


def dual_clip(log_ratio, advantage, clip_eps, c):
    clipped = ppo_clip_objective(log_ratio, advantage, clip_eps)
    return torch.where(advantage < 0, torch.maximum(clipped, c * advantage), clipped)


def test_right_solutions_pass_however_they_are_written():
    check_gae(gae)
    check_gae(lambda *tensors, **numbers: gae(*tensors, **numbers).clone() + 1e-12)
    check_dual_clip(dual_clip)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda r, v, n, d, z, **k: -gae(r, v, n, d, z, **k),
        lambda r, v, n, d, z, **k: gae(r, v, n, d & False, z | d, **k),  # no terminal mask
        lambda r, v, n, d, z, **k: gae(r, v, n, d, z & False, **k),  # leaks over a truncation
        lambda r, v, n, d, z, **k: gae(r, v, n, d | z, z, **k),  # a time limit taken for the end of the world
        lambda r, v, n, d, z, gamma, lam: gae(r, v, n, d, z, gamma=gamma, lam=gamma * lam),
        lambda r, v, n, d, z, **k: gae(r, v, n, d, z, **k) * torch.nan,
        lambda r, v, n, d, z, **k: gae(r, v, n, d, z, **k).T,
        lambda r, v, n, d, z, **k: None,
    ],
)
def test_wrong_gae_is_named(wrong):
    with pytest.raises(AssertionError, match=r"T = \d.* (entries are wrong|wanted a tensor)"):
        check_gae(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda u, a, e, c: ppo_clip_objective(u, a, e),  # no floor
        lambda u, a, e, c: torch.maximum(ppo_clip_objective(u, a, e), c * a),  # a floor for good actions too
        lambda u, a, e, c: torch.minimum(ppo_clip_objective(u, a, e), c * a),
        lambda u, a, e, c: dual_clip(u, a, e, c + 0.1),
    ],
)
def test_wrong_dual_clip_is_named(wrong):
    with pytest.raises(AssertionError, match=r"A = .*entries are wrong"):
        check_dual_clip(wrong)
