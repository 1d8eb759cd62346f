"""The checks of the exercises pass what is right, and name the entry that is wrong."""

import pytest
import torch

from minerva_lite.grading import (
    check_compatible,
    check_conjugate_gradient,
    check_coupling,
    check_dual_clip,
    check_fisher_product,
    check_gae,
    check_lambda_return,
    check_logsumexp,
    check_optimal_baseline,
    check_policy_evaluation,
    check_reward_to_go,
    check_visitation,
)
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


def reward_to_go(reward, ended, gamma):
    """Row by row, forward: every reward is handed to the rows of its episode before it."""
    returns = torch.zeros_like(reward)
    for b in range(reward.shape[1]):
        for t in range(len(reward)):
            weight = 1.0
            for k in range(t, len(reward)):
                returns[t, b] += weight * reward[k, b]
                weight *= gamma
                if ended[k, b]:
                    break
    return returns


def optimal_baseline(policy, q_value, score):
    weight = policy * score.norm(dim=-1) ** 2
    return torch.stack([w @ q / w.sum() for w, q in zip(weight, q_value, strict=True)])


def test_right_returns_and_baselines_pass():
    check_reward_to_go(reward_to_go)
    check_optimal_baseline(optimal_baseline)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda r, e, g: reward_to_go(r, torch.zeros_like(e), g),  # leaks into the next episode
        lambda r, e, g: reward_to_go(r, e, 1.0),  # no discount
        lambda r, e, g: reward_to_go(r, e, g) * g ** torch.arange(len(r)).unsqueeze(-1),  # counted from step 0
        lambda r, e, g: reward_to_go(r, e, g).sum(-1),
    ],
)
def test_wrong_reward_to_go_is_named(wrong):
    with pytest.raises(AssertionError, match=r"T = \d.* (entries are wrong|wanted a tensor)"):
        check_reward_to_go(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p, q, s: (p * q).sum(-1),  # the value
        lambda p, q, s: (p * s.norm(dim=-1) * q).sum(-1) / (p * s.norm(dim=-1)).sum(-1),  # the length, not its square
        lambda p, q, s: q.mean(-1),
        lambda p, q, s: optimal_baseline(p, q, s).unsqueeze(-1),
    ],
)
def test_wrong_optimal_baseline_is_named(wrong):
    with pytest.raises(AssertionError, match=r"S = \d.* (entries are wrong|wanted a tensor)"):
        check_optimal_baseline(wrong)


def test_values_and_visits_that_are_right_pass():
    check_policy_evaluation(lambda world, policy: world.value(policy))
    check_visitation(lambda world, policy: world.visitation(policy) + 1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda w, p: w.value(p) * (1 - w.gamma),
        lambda w, p: w.q_value(p).max(-1).values,  # the greedy backup in place of the policy's
        lambda w, p: w.value(p.flip(-1)),
        lambda w, p: w.visitation(p),
        lambda w, p: w.q_value(p),
    ],
)
def test_wrong_values_are_named(wrong):
    with pytest.raises(AssertionError, match=r"(world|chain|grid).*(entries are wrong|wanted a tensor)"):
        check_policy_evaluation(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda w, p: (1 - w.gamma) * w.visitation(p),  # the normalized one
        lambda w, p: w.visitation(p) - w.start,  # the first step forgotten
        lambda w, p: w.value(p),
        lambda w, p: w.visitation(p).unsqueeze(-1) * p,
    ],
)
def test_wrong_visits_are_named(wrong):
    with pytest.raises(AssertionError, match=r"(world|chain|grid).*(entries are wrong|wanted a tensor)"):
        check_visitation(wrong)


def coupling(p, q):
    both = torch.minimum(p, q)
    rest = 1.0 - both.sum()
    apart = (p - both)[:, None] * (q - both) / rest if rest > 0 else 0.0
    return both.diag() + apart


def test_a_maximal_coupling_passes():
    check_coupling(coupling)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda p, q: p[:, None] * q, "probabilities of a = b: 5 of 5 entries are wrong"),  # independent draws
        (lambda p, q: torch.minimum(p, q).diag(), "probabilities of a: . of 5 entries are wrong"),
        (lambda p, q: coupling(p, q).T, "probabilities of a: 5 of 5 entries are wrong; the first, at"),
        (lambda p, q: coupling(p, q) * torch.nan, "joint: 25 of 25 entries are wrong"),  # 0 / 0 where p = q
        (lambda p, q: p, r"joint: wanted a tensor of shape \(5, 5\)"),
        (lambda p, q: None, "wanted a tensor of shape"),
    ],
)
def test_a_wrong_coupling_is_named(wrong, said):
    with pytest.raises(AssertionError, match=said):
        check_coupling(wrong)


def lambda_return(reward, value, next_value, terminated, truncated, *, gamma, lam):
    """Backward, the three cases of a row one by one."""
    after, returns = next_value[-1], torch.empty_like(reward)
    for t in reversed(range(len(reward))):
        mixed = (1 - lam) * next_value[t] + lam * after
        after = reward[t] + gamma * torch.where(truncated[t], next_value[t], mixed).masked_fill(terminated[t], 0.0)
        returns[t] = after
    return returns


def compatible(q_value, policy, visits, score):
    """Weighted least squares with a free constant in every state."""
    root = (visits.unsqueeze(-1) * policy).sqrt().flatten()
    states = torch.eye(len(visits), dtype=score.dtype).repeat_interleave(policy.shape[1], 0)
    design = torch.cat([score.flatten(0, 1), states], 1)
    fit = torch.linalg.lstsq(root.unsqueeze(-1) * design, (root * q_value.flatten()).unsqueeze(-1))
    return fit.solution[: score.shape[-1], 0]


def test_right_lambda_returns_and_compatible_critics_pass():
    check_lambda_return(lambda_return)
    check_compatible(compatible)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda *tensors, **numbers: gae(*tensors, **numbers),  # the advantage, V not added
        lambda r, v, *rest, **numbers: gae(r, v, *rest, **numbers) + v,  # right in number, but reads V(s_t)
        lambda r, v, n, d, z, **k: lambda_return(r, v, n, d, z & False, **k),  # leaks over a truncation
        lambda r, v, n, d, z, **k: lambda_return(r, v, n, d & False, z | d, **k),  # no terminal mask
        lambda r, v, n, d, z, gamma, lam: lambda_return(r, v, n, d, z, gamma=gamma, lam=1 - lam),
        lambda r, v, n, d, z, **k: lambda_return(r, v, torch.cat([v[1:], n[-1:]]), d, z, **k),  # the next row's value
    ],
)
def test_wrong_lambda_returns_are_named(wrong):
    with pytest.raises(AssertionError, match=r"T = \d.* (entries are wrong|wanted a tensor)"):
        check_lambda_return(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda q, p, d, s: torch.einsum("s,sa,sa,san->n", d, p, q, s),  # the gradient, not divided by F
        lambda q, p, d, s: compatible(q, p, torch.ones_like(d), s),  # every state counts alike
        lambda q, p, d, s: compatible(q, torch.ones_like(p), d, s),  # every action counts alike
        lambda q, p, d, s: compatible(q, p, d, s).unsqueeze(-1),
    ],
)
def test_wrong_compatible_critics_are_named(wrong):
    with pytest.raises(AssertionError, match=r"S = \d.* (entries are wrong|wanted a tensor)"):
        check_compatible(wrong)


def test_a_right_logsumexp_passes():
    check_logsumexp(lambda x: x.logsumexp(-1))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x.exp().sum(-1).log(), "large numbers.*entries are wrong"),
        (lambda x: x.max(-1).values, "small numbers.*entries are wrong"),
        (lambda x: x.logsumexp(0), "small numbers.*wanted a tensor of shape"),
        (lambda x: (x - (m := x.amax(-1, keepdim=True))).exp().sum(-1).log() + m[..., 0], "-inf everywhere"),
    ],
)
def test_a_wrong_logsumexp_is_named(wrong, message):
    with pytest.raises(AssertionError, match=message):
        check_logsumexp(wrong)


def my_cg(product, target, iterations, *, start=None, skew=1.0):
    x, r = torch.zeros_like(target), target.clone()
    p = r
    for _ in range(iterations):
        if r @ r == 0:
            break
        image = product(p)
        alpha = (r @ r) / (p @ image)
        x, r_new = x + alpha * p, r - alpha * image
        p, r = r_new + skew * (r_new @ r_new) / (r @ r) * p, r_new
    return x


def test_a_right_conjugate_gradient_and_fisher_product_pass():
    check_conjugate_gradient(my_cg)
    check_fisher_product(lambda score, v, damping: score.T @ (score @ v) / len(score) + damping * v)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda m, b, k: my_cg(m, b, k, skew=0.0), "n = 6.*entries are wrong"),  # steepest descent
        (lambda m, b, k: my_cg(m, b, k + 1), "wanted at most"),
        (lambda m, b, k: my_cg(m, b, k - 1), "n = 1.*entries are wrong"),
        (lambda m, b, k: b / m(b) * b, "n = 6.*entries are wrong"),
        (lambda m, b, k: my_cg(m, b, k) / (b @ b > 0), "target 0.*entries are wrong"),
    ],
)
def test_a_wrong_conjugate_gradient_is_named(wrong, message):
    with pytest.raises(AssertionError, match=message):
        check_conjugate_gradient(wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda score, v, damping: score.T @ (score @ v) + damping * v, "N = 50.*entries are wrong"),
        (lambda score, v, damping: score.T @ (score @ v) / len(score), "damping = 0.3.*entries are wrong"),
        (lambda score, v, damping: score @ v, "N = 1.*wanted a tensor"),
    ],
)
def test_a_wrong_fisher_product_is_named(wrong, message):
    with pytest.raises(AssertionError, match=message):
        check_fisher_product(wrong)
