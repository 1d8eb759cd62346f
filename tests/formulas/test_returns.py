"""GAE, Retrace and bootstrapped returns against direct double sums, hand-worked numbers and their identities."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minerva_lite.formulas.returns import discounted_returns, gae, leave_one_out_baseline, retrace_targets

F64 = torch.float64


def column(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=F64).unsqueeze(-1)


def flags(*ones: int) -> torch.Tensor:
    return torch.tensor(ones, dtype=torch.bool).unsqueeze(-1)


@st.composite
def episodes(draw):
    """Random data [T, B] in float64, flags in every combination, also in the last row; gamma and lambda.

    Numbers and flags come from a seed: what Hypothesis draws one by one is zero or repeated too often to tell a wrong
    sum from a right one.
    """
    steps, envs = draw(st.integers(1, 7)), draw(st.integers(1, 3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    grids = [5.0 * torch.randn(steps, envs, generator=generator, dtype=F64) for _ in "rvn"]
    terminated, truncated = torch.randint(2, (2, steps, envs), generator=generator).bool()
    unit = st.sampled_from([0.5, 0.9, 1.0, 0.0]) | st.floats(0.1, 1)
    return *grids, terminated, truncated, draw(unit), draw(unit)


def double_sum(reward, value, next_value, trace, terminated, truncated, gamma):
    """sum_k gamma^(k-t) (product of the traces of t+1 ... k) delta_k, to the first step that ended, or the last row."""
    total = torch.zeros_like(reward)
    steps, envs = reward.shape
    for b in range(envs):
        for t in range(steps):
            weight = 1.0
            for k in range(t, steps):
                weight *= gamma * float(trace[k, b]) if k > t else 1.0
                bootstrap = 0.0 if terminated[k, b] else float(next_value[k, b])
                total[t, b] += weight * (float(reward[k, b]) + gamma * bootstrap - float(value[k, b]))
                if terminated[k, b] or truncated[k, b]:
                    break
    return total


@given(episodes())
def test_gae_is_the_double_sum(data):
    *tensors, gamma, lam = data
    reward, value, next_value, *ends = tensors
    wanted = double_sum(reward, value, next_value, torch.full_like(reward, lam), *ends, gamma)
    torch.testing.assert_close(gae(*tensors, gamma=gamma, lam=lam), wanted, rtol=1e-12, atol=1e-12)


@given(episodes())
def test_returns_are_the_sum(data):
    """Closed by the successor's value where the data end but the episode does not."""
    reward, value, next_value, terminated, truncated, gamma, _ = data
    got = discounted_returns(reward, next_value, terminated, truncated, gamma=gamma)
    cut = truncated.clone()
    cut[-1] = True
    closed = next_value.where(cut, 0.0)
    wanted = double_sum(reward, 0 * value, closed, torch.ones_like(reward), terminated, truncated, gamma)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


def test_gae_worked_by_hand_to_the_end_of_the_rollout():
    """gamma = lam = 1/2. delta = (1 + .5*4 - 2, 2 + .5*6 - 4, 3 + .5*8 - 6) = (1, 1, 1); weights 1, 1/4, 1/16."""
    got = gae(column(1, 2, 3), column(2, 4, 6), column(4, 6, 8), flags(0, 0, 0), flags(0, 0, 0), gamma=0.5, lam=0.5)
    assert got.flatten().tolist() == [1 + 1 / 4 + 1 / 16, 1 + 1 / 4, 1.0]


def test_gae_worked_by_hand_where_the_middle_step_terminates():
    """The terminal step has no successor: delta_1 = 2 - 4 = -2, and nothing of step 2 reaches steps 0 and 1."""
    got = gae(column(1, 2, 3), column(2, 4, 6), column(4, 9, 8), flags(0, 1, 0), flags(0, 0, 0), gamma=0.5, lam=0.5)
    assert got.flatten().tolist() == [1 - 2 / 4, -2.0, 1.0]


def test_gae_worked_by_hand_where_the_middle_step_is_truncated():
    """The successor's value 9 counts: delta_1 = 2 + .5*9 - 4 = 2.5; still nothing of step 2 reaches it."""
    got = gae(column(1, 2, 3), column(2, 4, 6), column(4, 9, 8), flags(0, 0, 0), flags(0, 1, 0), gamma=0.5, lam=0.5)
    assert got.flatten().tolist() == [1 + 2.5 / 4, 2.5, 1.0]


def test_gae_worked_by_hand_where_the_rollout_ends_on_a_terminal_step():
    got = gae(column(1, 2), column(2, 4), column(4, 100), flags(0, 1), flags(0, 0), gamma=0.5, lam=0.5)
    assert got.flatten().tolist() == [1 - 2 / 4, -2.0]


RETRACE = {"reward": column(1, 2, 3), "q_value": column(2, 4, 6), "next_value": column(4, 6, 8), "gamma": 0.5}
HALF = column(2.0, 0.5, 4.0).log()  # ratios: the first is never used, the second is 1/2, the third counts as 1


def retrace(lam=1.0, terminated=(0, 0, 0), truncated=(0, 0, 0), log_ratio=HALF, **changes):
    ends = {"terminated": flags(*terminated), "truncated": flags(*truncated)}
    return retrace_targets(**RETRACE | ends | {"log_ratio": log_ratio, "lam": lam} | changes).flatten().tolist()


def test_retrace_by_hand():
    """delta = (1 + .5*4 - 2, 2 + .5*6 - 4, 3 + .5*8 - 6) = 1, 1, 1; weights gamma c of the step after: 1/4, 1/2."""
    assert retrace() == pytest.approx([2 + 1 + (1 + 1 / 2) / 4, 4 + 1 + 1 / 2, 6 + 1.0], abs=1e-14)
    assert retrace(lam=0.5) == pytest.approx([2 + 1 + (1 + 1 / 4) / 8, 4 + 1 + 1 / 4, 6 + 1.0], abs=1e-14)
    # Terminal: no successor's value, no trace. Truncated: the true successor's value, no trace.
    assert retrace(terminated=(0, 1, 0)) == pytest.approx([2 + 1 - 2 / 4, 2.0, 7.0], abs=1e-14)
    assert retrace(truncated=(0, 1, 0)) == pytest.approx([2 + 1 + 1 / 4, 5.0, 7.0], abs=1e-14)
    assert retrace(terminated=(0, 1, 0), truncated=(0, 1, 0)) == retrace(terminated=(0, 1, 0))


def test_the_first_ratio_of_a_sequence_is_never_used():
    assert retrace(log_ratio=column(-50.0, HALF[1].item(), 0.0)) == retrace()


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
@given(data=episodes())
def test_retrace_is_the_double_sum(data, lam):
    reward, q_value, next_value, terminated, truncated, gamma, _ = data
    log_ratio = torch.randn(reward.shape, generator=torch.Generator().manual_seed(reward.numel()), dtype=F64)
    got = retrace_targets(reward, q_value, next_value, log_ratio, terminated, truncated, gamma=gamma, lam=lam)
    trace = log_ratio.apply_(lambda x: lam * min(1.0, math.exp(x)))
    wanted = q_value + double_sum(reward, q_value, next_value, trace, terminated, truncated, gamma)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-11)


def test_leave_one_out_baseline_by_hand():
    """Row 0: all three run. Row 1: the last has ended, sees both, and counts nowhere. Row 2: one alone."""
    returns = torch.tensor([[3.0, 6.0, 12.0], [2.0, 8.0, math.nan], [5.0, 100.0, math.inf]], dtype=F64)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]], dtype=torch.bool)
    wanted = [[9.0, 7.5, 4.5], [8.0, 2.0, 5.0], [0.0, 5.0, 5.0]]
    assert leave_one_out_baseline(returns, mask).tolist() == wanted
