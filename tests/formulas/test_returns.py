"""GAE, Retrace and bootstrapped returns against direct double sums, hand-worked numbers and their identities."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minerva_lite.formulas.returns import discounted_returns, gae, leave_one_out_baseline, retrace_targets

F64 = torch.float64
FLAGS = {"goes on": (False, False), "terminated": (True, False), "truncated": (False, True), "both": (True, True)}


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
    kinds = torch.randint(4, (steps, envs), generator=generator)
    terminated, truncated = torch.tensor(list(FLAGS.values()))[kinds].unbind(-1)
    unit = st.sampled_from([0.5, 0.9, 1.0, 0.0]) | st.floats(0.1, 1)
    return *grids, terminated, truncated, draw(unit), draw(unit)


def gae_by_double_sum(reward, value, next_value, terminated, truncated, gamma, lam):
    """A_t = sum_k (gamma lam)^k delta_{t+k}, up to and including the first step that ended, or the last row."""
    steps, envs = reward.shape
    advantage = torch.zeros_like(reward)
    for b in range(envs):
        for t in range(steps):
            for k in range(t, steps):
                bootstrap = 0.0 if terminated[k, b] else float(next_value[k, b])
                td_error = float(reward[k, b]) + gamma * bootstrap - float(value[k, b])
                advantage[t, b] += (gamma * lam) ** (k - t) * td_error
                if terminated[k, b] or truncated[k, b]:
                    break
    return advantage


def returns_by_sum(reward, next_value, terminated, truncated, gamma):
    """G_t = r_t + gamma r_{t+1} + …, closed by the successor's value where the data end but the episode does not."""
    steps, envs = reward.shape
    returns = torch.zeros_like(reward)
    for b in range(envs):
        for t in range(steps):
            for k in range(t, steps):
                returns[t, b] += gamma ** (k - t) * float(reward[k, b])
                if terminated[k, b]:
                    break
                if truncated[k, b] or k == steps - 1:
                    returns[t, b] += gamma ** (k - t + 1) * float(next_value[k, b])
                    break
    return returns


@given(episodes())
def test_gae_is_the_double_sum(data):
    *tensors, gamma, lam = data
    got = gae(*tensors, gamma=gamma, lam=lam)
    torch.testing.assert_close(got, gae_by_double_sum(*tensors, gamma, lam), rtol=1e-12, atol=1e-12)


@given(episodes())
def test_returns_are_the_sum(data):
    reward, _, next_value, terminated, truncated, gamma, _ = data
    got = discounted_returns(reward, next_value, terminated, truncated, gamma=gamma)
    wanted = returns_by_sum(reward, next_value, terminated, truncated, gamma)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)


@given(episodes())
def test_lambda_zero_is_the_td_error_and_lambda_one_the_return(data):
    reward, value, next_value, terminated, truncated, gamma, _ = data
    tensors = reward, value, next_value, terminated, truncated
    td_error = reward + gamma * torch.where(terminated, 0.0, next_value) - value
    torch.testing.assert_close(gae(*tensors, gamma=gamma, lam=0.0), td_error, rtol=1e-12, atol=1e-12)
    # At lambda 1 the values cancel only where next_value is the value of the next row.
    next_value = torch.where((terminated | truncated)[:-1], next_value[:-1], value[1:])
    next_value = torch.cat([next_value, data[2][-1:]])
    returns = discounted_returns(reward, next_value, terminated, truncated, gamma=gamma)
    monte_carlo = gae(reward, value, next_value, terminated, truncated, gamma=gamma, lam=1.0) + value
    torch.testing.assert_close(monte_carlo, returns, rtol=1e-12, atol=1e-11)


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


def test_returns_worked_by_hand():
    reward, next_value = column(1, 2, 4, 8), column(100, 100, 20, 40)
    got = discounted_returns(reward, next_value, flags(0, 1, 0, 0), flags(0, 0, 1, 0), gamma=0.5)
    assert got.flatten().tolist() == [1 + 0.5 * 2, 2.0, 4 + 0.5 * 20, 8 + 0.5 * 40]


@pytest.mark.parametrize(("terminated", "wanted"), [(0, 1 + 0.5 * 6 - 2), (1, 1 - 2)])
def test_one_single_step(terminated, wanted):
    tensors = column(1), column(2), column(6), flags(terminated), flags(0)
    assert gae(*tensors, gamma=0.5, lam=0.9).item() == wanted
    assert discounted_returns(column(1), *tensors[2:], gamma=0.5).item() == wanted + 2


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


def retrace_by_double_sum(reward, q_value, next_value, log_ratio, terminated, truncated, gamma, lam):
    """Q_t + sum_k gamma^(k-t) (prod of c over t+1 ... k) delta_k, up to the first step that ended, or the last row."""
    target = q_value.clone()
    steps, envs = reward.shape
    for b in range(envs):
        for t in range(steps):
            weight = 1.0
            for k in range(t, steps):
                if k > t:
                    weight *= gamma * lam * min(1.0, math.exp(log_ratio[k, b]))
                bootstrap = 0.0 if terminated[k, b] else float(next_value[k, b])
                target[t, b] += weight * (float(reward[k, b]) + gamma * bootstrap - float(q_value[k, b]))
                if terminated[k, b] or truncated[k, b]:
                    break
    return target


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
@given(data=episodes())
def test_retrace_is_the_double_sum(data, lam):
    reward, q_value, next_value, terminated, truncated, gamma, _ = data
    log_ratio = torch.randn(reward.shape, generator=torch.Generator().manual_seed(reward.numel()), dtype=F64)
    tensors = reward, q_value, next_value, log_ratio, terminated, truncated
    got = retrace_targets(*tensors, gamma=gamma, lam=lam)
    torch.testing.assert_close(got, retrace_by_double_sum(*tensors, gamma, lam), rtol=1e-12, atol=1e-11)


@given(episodes())
def test_retrace_at_lambda_zero_is_expected_sarsa(data):
    reward, q_value, next_value, terminated, truncated, gamma, _ = data
    got = retrace_targets(reward, q_value, next_value, q_value, terminated, truncated, gamma=gamma, lam=0.0)
    torch.testing.assert_close(got, reward + gamma * torch.where(terminated, 0.0, next_value), rtol=1e-12, atol=1e-11)


@given(episodes())
def test_retrace_on_policy_is_the_monte_carlo_return(data):
    """Ratio 1, lambda 1, a successor worth the action taken there: the critic cancels but for the last bootstrap."""
    reward, q_value, next_value, terminated, truncated, gamma, _ = data
    ended = terminated | truncated
    next_value = torch.cat([torch.where(ended[:-1], next_value[:-1], q_value[1:]), next_value[-1:]])
    got = retrace_targets(reward, q_value, next_value, 0 * reward, terminated, truncated, gamma=gamma)
    wanted = returns_by_sum(reward, next_value, terminated, truncated, gamma)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-11)


def test_traces_never_exceed_one_and_carry_no_gradient():
    """A ratio of e^1000 counts as 1, in float32 too; one of e^-1000 cuts the trace."""
    same = retrace(log_ratio=column(0, 0, 0))
    assert retrace(log_ratio=column(1000, 1000, 1000)) == same
    assert retrace(log_ratio=column(0, -1000, 0))[0] == 3.0
    q_value = column(2, 4, 6).float().requires_grad_()
    no = flags(0, 0, 0)
    got = retrace_targets(*(column(1, 2, 3).float(), q_value, q_value), q_value * 1000, no, no, gamma=0.5)
    assert got.isfinite().all() and not got.requires_grad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q_value": torch.zeros(3)}, r"q_value: wanted shape \(3, 1\).*got \(3,\)"),
        ({"log_ratio": torch.zeros(2, 1)}, r"log_ratio: wanted shape \(3, 1\).*got \(2, 1\)"),
        ({"terminated": torch.zeros(3, 1)}, r"terminated: wanted dtype torch.bool; got torch.float32"),
        ({"truncated": torch.zeros(3, 1)}, r"truncated: wanted dtype torch.bool; got torch.float32"),
        ({"gamma": 1.5}, r"gamma: wanted a number in \[0, 1\]; got 1.5"),
        ({"lam": -0.5}, r"lam: wanted a number in \[0, 1\]; got -0.5"),
    ],
)
def test_retrace_names_a_wrong_argument(change, message):
    good = RETRACE | {"log_ratio": HALF, "terminated": flags(0, 0, 0), "truncated": flags(0, 0, 0)}
    retrace_targets(**good)
    with pytest.raises(ValueError, match=message):
        retrace_targets(**good | change)


def test_leave_one_out_baseline_by_hand():
    """Row 0: all three run. Row 1: the last has ended, its 100 counts nowhere; it sees both. Row 2: one alone."""
    returns = torch.tensor([[3.0, 6.0, 12.0], [2.0, 8.0, 100.0], [5.0, 100.0, 100.0]], dtype=F64)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]], dtype=torch.bool)
    wanted = [[9.0, 7.5, 4.5], [8.0, 2.0, 5.0], [0.0, 5.0, 5.0]]
    assert leave_one_out_baseline(returns, mask).tolist() == wanted


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 5))
def test_a_leave_one_out_baseline_does_not_depend_on_its_own_return(seed, steps, envs):
    """Changing one return moves the baselines of the others, and never its own: that keeps the gradient unbiased."""
    generator = torch.Generator().manual_seed(seed)
    returns = torch.randn(steps, envs, generator=generator, dtype=F64)
    mask = torch.rand(steps, envs, generator=generator) < 0.7
    base = leave_one_out_baseline(returns, mask)
    for t in range(steps):
        for i in range(envs):
            changed = returns.clone()
            changed[t, i] += 1000.0
            moved = leave_one_out_baseline(changed, mask) - base
            assert moved[t, i].abs() < 1e-9
            others = [j for j in range(envs) if j != i]
            for j in others:
                running = int(mask[t].sum()) - int(mask[t, j])
                wanted = 1000.0 / running if mask[t, i] else 0.0
                assert moved[t, j].item() == pytest.approx(wanted, abs=1e-9)
            moved[t] = 0.0
            assert (moved == 0).all(), "other steps are other actions"


def test_leave_one_out_baseline_ignores_what_is_masked_even_if_it_is_not_finite():
    returns = torch.tensor([[3.0, float("nan"), 5.0]], dtype=F64)
    mask = torch.tensor([[True, False, True]])
    assert leave_one_out_baseline(returns, mask).tolist() == [[5.0, 4.0, 3.0]]
    assert not leave_one_out_baseline(returns.requires_grad_(), mask).requires_grad


def test_leave_one_out_baseline_names_a_wrong_argument():
    with pytest.raises(ValueError, match=r"^mask: wanted shape \(2, 1\), the shape of returns; got \(2,\)"):
        leave_one_out_baseline(torch.zeros(2, 1), torch.zeros(2, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^mask: wanted dtype torch.bool; got torch.float32"):
        leave_one_out_baseline(torch.zeros(2, 1), torch.zeros(2, 1))


def test_outputs_carry_no_gradient_and_inputs_stay_as_they_were():
    value = column(1, 2).requires_grad_()
    reward, next_value, no = column(1, 1), column(2, 3), flags(0, 0)
    assert not gae(reward, value, next_value, no, no, gamma=0.9, lam=0.9).requires_grad
    assert not discounted_returns(reward, value, no, no, gamma=0.9).requires_grad
    assert reward.flatten().tolist() == [1, 1] and next_value.flatten().tolist() == [2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": torch.zeros(2)}, r"value: wanted shape \(2, 1\), the shape of reward; got \(2,\)"),
        ({"next_value": torch.zeros(3, 1)}, r"next_value: wanted shape \(2, 1\).*got \(3, 1\)"),
        ({"terminated": torch.zeros(2, 1)}, r"terminated: wanted dtype torch.bool; got torch.float32"),
        ({"truncated": torch.zeros(2, 1)}, r"truncated: wanted dtype torch.bool; got torch.float32"),
        ({"gamma": 1.5}, r"gamma: wanted a number in \[0, 1\]; got 1.5"),
        ({"lam": -0.5}, r"lam: wanted a number in \[0, 1\]; got -0.5"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    no = torch.zeros(2, 1, dtype=torch.bool)
    x = torch.zeros(2, 1)
    good = {"reward": x, "value": x, "next_value": x, "terminated": no, "truncated": no, "gamma": 0.9, "lam": 0.9}
    gae(**good)
    with pytest.raises(ValueError, match=message):
        gae(**good | change)
    if next(iter(change)) not in ("value", "lam"):
        arguments = {k: v for k, v in (good | change).items() if k not in ("value", "lam")}
        with pytest.raises(ValueError, match=message):
            discounted_returns(**arguments)
