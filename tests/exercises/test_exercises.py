"""The checks of the exercises pass what is right, and name the entry that is wrong."""

import re

import pytest
import torch

from minerva_book import exercises
from minerva_book.exercises import check_example, check_runs
from minerva_book.exercises.answers import compare
from minerva_lite.formulas.objectives import ppo_clip_objective
from minerva_lite.formulas.returns import gae, retrace_targets


def dual_clip(log_ratio, advantage, clip_eps, c):
    clipped = ppo_clip_objective(log_ratio, advantage, clip_eps)
    return torch.where(advantage < 0, torch.maximum(clipped, c * advantage), clipped)


def coupling(p, q):
    both = torch.minimum(p, q)
    rest = 1.0 - both.sum()
    apart = (p - both)[:, None] * (q - both) / rest if rest > 0 else 0.0
    return both.diag() + apart


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


def my_vtrace(r, v, n, u, d, z, *, gamma, ratio_cap, trace_cap, shift=0, leak=False):
    """From the back; `shift` reads the trace of another row, `leak` lets it pass the end of an episode."""
    delta = u.exp().clamp(max=ratio_cap) * (r + gamma * n.masked_fill(d, 0.0) - v)
    trace = u.exp().clamp(max=trace_cap).roll(-shift, 0)
    weight = gamma * (trace if leak else trace.masked_fill(d | z, 0.0))
    out, running = torch.empty_like(v), torch.zeros_like(v[0])
    for t in reversed(range(len(r))):
        running = delta[t] + weight[t] * running
        out[t] = v[t] + running
    return out


def my_estep(q_value, log_prior, eta):
    return (log_prior + (q_value - q_value.amax(0)) / eta).softmax(0)


def my_temperature(q_value, log_prior, eps_eta, *, bits=200):
    low, high = 1e-12, 1e12
    for _ in range(bits):
        eta = (low * high) ** 0.5
        q = my_estep(q_value, log_prior, eta)
        kl = (q * ((q + 1e-300).log() - log_prior)).sum(0).mean()
        low, high = (eta, high) if kl > eps_eta else (low, eta)
    return torch.tensor(eta)


def my_curvature(q_value, log_prior, eta, *, power=3):
    q = my_estep(q_value, log_prior, eta)
    mean = (q * q_value).sum(0)
    return ((q * (q_value - mean) ** 2).sum(0)).mean() / eta**power


def my_bounded_mean(action, weights, mean_old, std_old, eps_mean, *, reach=lambda std, eps: std * (2 * eps) ** 0.5):
    shift = (weights[:, None] * action).sum(0) / weights.sum() - mean_old
    limit = reach(std_old, eps_mean)
    return mean_old + shift.clamp(-limit, limit)


def mirror_step(policy, advantage, eta):
    best = advantage.masked_fill(policy == 0, -torch.inf).max(-1, keepdim=True).values
    return (policy.log() + ((advantage - best) / eta).clamp(max=0.0)).softmax(-1)


def risk_worth(outcome, chance, eta):
    best = outcome[chance > 0].max()
    return best + eta * (chance * ((outcome - best).clamp(max=0.0) / eta).exp()).sum().log()


def my_top_k(advantage, eligible, kappa, slack=1e-9):
    k = int(kappa * int(eligible.sum()) + slack)
    rank = sorted(eligible.nonzero().flatten().tolist(), key=lambda i: (-advantage[i].item(), i))
    return torch.isin(torch.arange(len(advantage)), torch.tensor(rank[:k]))


# The one comparison behind them: its message lets a reader tell what came from what was due.


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (0.921721, 0.92172101),
        (torch.tensor(0.1).item(), 0.1),  # a float32 among float64
        (1.0 + 2.0**-52, 1.0),  # neighbors
        (-3e-12, 3e-12),
        (1e300, -1e300),
        (1234567.0, 1234568.0),
        (2.0, 3.0),
        (float("nan"), 0.5),
    ],
)
def test_the_two_numbers_differ_in_print(got, wanted):
    got_tensor, wanted_tensor = torch.tensor([got, wanted], dtype=torch.float64).expand(3, 2).T
    with pytest.raises(AssertionError) as caught:
        compare("x", got_tensor, wanted_tensor, atol=0.0)
    said = re.search(r"is (\S+) and should be (\S+)$", str(caught.value))
    assert said[1] != said[2], str(caught.value)
    assert [float(number) for number in said.groups()] == pytest.approx([got, wanted], rel=1e-5, nan_ok=True)


def test_no_more_digits_than_tell_them_apart():
    with pytest.raises(AssertionError, match=r"^x: 1 of 2 .* at \(1,\), is 0\.333333 and should be 0\.5$"):
        compare("x", torch.tensor([0.5, 1 / 3]), torch.tensor([0.5, 0.5]))
    with pytest.raises(AssertionError, match=r" is 0\.92172104 and should be 0\.92172101$"):
        compare("x", *torch.tensor([0.92172104, 0.92172101], dtype=torch.float64))


def test_an_example_names_the_array_and_the_entry():
    example = {"x": torch.tensor([1.0, 2.0]).double(), "scale": 3.0}
    check_example(lambda x, scale: scale * x, example, [[3.0, 6.0]])
    check_example(lambda a, b: (b * a.numpy()).tolist() and b * a.float(), example, [[3.0, 6.0]])
    check_example(lambda x, scale: (scale * x.square()).sum(), example, [15.0, [6.0, 12.0]], ("x",))
    with pytest.raises(AssertionError, match=r"the example: 1 of 2 entries are wrong; the first, at \(1,\)"):
        check_example(lambda x, scale: scale * x + torch.tensor([0.0, 1.0]), example, [[3.0, 6.0]])
    with pytest.raises(AssertionError, match="the example, the gradient by x: 2 of 2 entries are wrong"):
        check_example(lambda x, scale: (scale * x.square()).sum().detach(), example, [15.0, [6.0, 12.0]], ("x",))
    with pytest.raises(AssertionError, match="wanted 1 arrays; got 2"):
        check_example(lambda x, scale: (x, x), example, [[3.0, 6.0]])

    def changes_its_input(x, scale):
        x *= scale
        return x

    check_example(changes_its_input, example, [[3.0, 6.0]])
    assert example["x"].tolist() == [1.0, 2.0]


def test_a_stub_is_not_answered_yet_and_what_torch_lacks_is_an_error():
    def stub(x):
        raise NotImplementedError()

    with pytest.raises(AssertionError, match="^not answered yet$"):
        check_example(stub, {"x": 1.0}, [1.0])
    with pytest.raises(NotImplementedError):
        check_example(lambda x: torch.distributions.Distribution(validate_args=False).entropy(), {"x": 1.0}, [1.0])


def test_a_table_of_runs_must_carry_a_comparison():
    table = torch.tensor([[s, seed, 10.0 * s + seed] for s in range(2) for seed in range(5)]).double()
    check_runs(table)
    check_runs(table.tolist())
    changed = {
        "finite": lambda t: t.index_fill(1, torch.tensor([2]), float("nan")),
        "whole numbers": lambda t: t + torch.tensor([0.0, 0.5, 0.0]),
        "at least two settings": lambda t: t[:5],
        "setting 0: wanted at least five seeds; got 4": lambda t: t[1:],
        "stands there already": lambda t: torch.cat([t, t[:1]]),
        r"the same seeds for every setting; missing \[5\]": lambda t: torch.cat([t, torch.tensor([[1.0, 5.0, 2.0]])]),
        "all of them are 1.0": lambda t: torch.cat([t[:, :2], torch.ones(10, 1).double()], 1),
        r"wanted a table \[rows, 3\]": lambda t: t[:, :2],
    }
    for why, change in changed.items():
        with pytest.raises(AssertionError, match=why):
            check_runs(change(table))


# Of each check: a right solution, and wrong ones, what is wrong beside each; the message is one for all of them, or
# stands with the solution. All compare alike, so that a wrong shape (`coupling`) need not be tried with each.
CHECKS = [
    ("dual_clip", dual_clip, r"A = .*entries are wrong", [
        lambda u, a, e, c: ppo_clip_objective(u, a, e),  # no floor
        lambda u, a, e, c: torch.maximum(ppo_clip_objective(u, a, e), c * a),  # a floor for good actions too
        lambda u, a, e, c: torch.minimum(ppo_clip_objective(u, a, e), c * a),
        lambda u, a, e, c: dual_clip(u, a, e, c + 0.1),
    ]),
    ("policy_evaluation", lambda w, p: w.value(p), r"(world|chain|grid).*entries are wrong", [
        lambda w, p: w.value(p) * (1 - w.gamma),
        lambda w, p: w.q_value(p).max(-1).values,  # the greedy backup in place of the policy's
        lambda w, p: w.value(p.flip(-1)),
        lambda w, p: w.visitation(p),
    ]),
    ("visitation", lambda w, p: w.visitation(p) + 1e-12, r"(world|chain|grid).*entries are wrong", [
        lambda w, p: (1 - w.gamma) * w.visitation(p),  # the normalized one
        lambda w, p: w.visitation(p) - w.start,  # the first step forgotten
        lambda w, p: w.value(p),
    ]),
    ("coupling", coupling, None, [
        (lambda p, q: p[:, None] * q, "probabilities of a = b: 5 of 5 entries are wrong"),  # independent draws
        (lambda p, q: torch.minimum(p, q).diag(), "probabilities of a: . of 5 entries are wrong"),
        (lambda p, q: coupling(p, q).T, "probabilities of a: 5 of 5 entries are wrong; the first, at"),
        (lambda p, q: coupling(p, q) * torch.nan, "joint: 25 of 25 entries are wrong"),  # 0 / 0 where p = q
        (lambda p, q: p, r"joint: wanted a tensor of shape \(5, 5\)"),
        (lambda p, q: None, "wanted a tensor of shape"),
    ]),
    ("lambda_return", lambda_return, r"T = \d.* (entries are wrong|wanted a tensor)", [
        lambda *tensors, **numbers: gae(*tensors, **numbers),  # the advantage, V not added
        lambda r, v, *rest, **numbers: gae(r, v, *rest, **numbers) + v,  # right in number, but reads V(s_t)
        lambda r, v, n, d, z, **k: lambda_return(r, v, n, d, z & False, **k),  # leaks over a truncation
        lambda r, v, n, d, z, **k: lambda_return(r, v, n, d & False, z | d, **k),  # no terminal mask
        lambda r, v, n, d, z, gamma, lam: lambda_return(r, v, n, d, z, gamma=gamma, lam=1 - lam),
        lambda r, v, n, d, z, **k: lambda_return(r, v, torch.cat([v[1:], n[-1:]]), d, z, **k),  # the next row's value
    ]),
    ("compatible", compatible, r"S = \d.*entries are wrong", [
        lambda q, p, d, s: torch.einsum("s,sa,sa,san->n", d, p, q, s),  # the gradient, not divided by F
        lambda q, p, d, s: compatible(q, p, torch.ones_like(d), s),  # every state counts alike
        lambda q, p, d, s: compatible(q, torch.ones_like(p), d, s),  # every action counts alike
    ]),
    ("logsumexp", lambda x: x.logsumexp(-1), None, [
        (lambda x: x.exp().sum(-1).log(), "large numbers.*entries are wrong"),
        (lambda x: x.max(-1).values, "small numbers.*entries are wrong"),
        (lambda x: (x - (m := x.amax(-1, keepdim=True))).exp().sum(-1).log() + m[..., 0], "-inf everywhere"),
    ]),
    ("conjugate_gradient", my_cg, None, [
        (lambda m, b, k: my_cg(m, b, k, skew=0.0), "n = 6.*entries are wrong"),  # steepest descent
        (lambda m, b, k: my_cg(m, b, k + 1), "wanted at most"),
        (lambda m, b, k: my_cg(m, b, k - 1), "n = 1.*entries are wrong"),
        (lambda m, b, k: b / m(b) * b, "n = 6.*entries are wrong"),
        (lambda m, b, k: my_cg(m, b, k) / (b @ b > 0), "target 0.*entries are wrong"),
    ]),
    ("fisher_product", lambda score, v, damping: score.T @ (score @ v) / len(score) + damping * v, None, [
        (lambda score, v, damping: score.T @ (score @ v) + damping * v, "N = 50.*entries are wrong"),
        (lambda score, v, damping: score.T @ (score @ v) / len(score), "damping = 0.3.*entries are wrong"),
    ]),
    ("retrace", retrace_targets, r"T = \d.*entries are wrong", [
        lambda r, q, n, u, d, z, **k: retrace_targets(r, q, n, u.roll(1, 0), d, z, **k),  # trace one step late
        lambda r, q, n, u, d, z, **k: retrace_targets(r, q, n, u, d & False, z | d, **k),  # no terminal mask
        lambda r, q, n, u, d, z, **k: retrace_targets(r, q, n, u, d, z & False, **k),  # leaks over a truncation
        lambda r, q, n, u, d, z, **k: retrace_targets(r, q, n, u, d | z, z, **k),  # a time limit taken for an end
        lambda r, q, n, u, d, z, gamma, lam: retrace_targets(r, q, n, u, d, z, gamma=gamma, lam=0.0),  # never used
        lambda r, q, n, u, d, z, gamma, lam: retrace_targets(r, q, n, u, d, z, gamma=gamma, lam=gamma * lam),
        lambda r, q, n, u, d, z, **k: retrace_targets(r, q, n, u, d, z, **k) - q,
    ]),
    ("vtrace", my_vtrace, r"T = \d.*entries are wrong", [
        lambda *rows, **k: my_vtrace(*rows, **k, shift=1),  # the trace of the next row, as Retrace has it
        lambda *rows, **k: my_vtrace(*rows, **k, leak=True),
        lambda *rows, gamma, ratio_cap, trace_cap: my_vtrace(
            *rows, gamma=gamma, ratio_cap=trace_cap, trace_cap=ratio_cap
        ),
    ]),
    ("estep", my_estep, None, [
        (lambda q, p, eta: (p.exp() * (q / eta).exp()) / (p.exp() * (q / eta).exp()).sum(0), "large numbers.*wrong"),
        (lambda q, p, eta: ((q - q.amax(0)) / eta).softmax(0), "small numbers.*entries are wrong"),  # no prior
        (lambda q, p, eta: my_estep(q, p, 1 / eta), "small numbers.*entries are wrong"),
        (lambda q, p, eta: (p + (q - q.amax(0)) / eta).softmax(1), "small numbers.*entries are wrong"),
        (lambda q, p, eta: my_estep(q, p, eta.clamp(min=1e-3)) * (q == q.amax(0)), "small numbers.*wrong"),
        (lambda q, p, eta: torch.nn.functional.one_hot(q.argmax(0), 3).T * 1.0, "small numbers.*entries are wrong"),
    ]),
    ("binding_temperature", my_temperature, r"N = \d+, B = \d+.*(entries are wrong|wanted a tensor)", [
        lambda q, p, eps: my_temperature(q, p, 2 * eps),
        lambda q, p, eps: my_temperature(q, p, eps, bits=10),  # stopped early
        lambda q, p, eps: my_temperature(q, torch.full_like(p, 1 / len(p)).log(), eps),  # a uniform prior
        lambda q, p, eps: my_temperature(q[:, :1], p[:, :1], eps),  # the first state alone
        lambda q, p, eps: -my_temperature(q, p, eps),
        lambda q, p, eps: torch.full((q.shape[1],), 1.0, dtype=q.dtype),
    ]),
    ("dual_curvature", my_curvature, None, [
        (lambda q, p, eta: my_curvature(q, p, eta, power=2), "N = 4, B = 6, eta = 0.5.*entries are wrong"),
        (lambda q, p, eta: my_curvature(q, p, torch.full_like(eta, 1e9)) * 1e27 / eta**3, "entries are wrong"),
        (lambda q, p, eta: my_curvature(q, p, eta) * q.shape[1], "N = 4, B = 6.*entries are wrong"),  # a sum, no mean
    ]),
    ("bounded_mean", my_bounded_mean, None, [
        (lambda a, w, m, s, e: (w[:, None] * a).sum(0) / w.sum(), "everything beyond.*entries are wrong"),
        (lambda *x: my_bounded_mean(*x, reach=lambda std, eps: std * eps**0.5), "everything beyond.*entries are wrong"),
        (lambda *x: my_bounded_mean(*x, reach=lambda std, eps: 0 * std + (2 * eps) ** 0.5), "everything beyond"),
        (lambda a, w, m, s, e: my_bounded_mean(2 * a - m, w, m, s, e), "everything within.*entries are wrong"),
        (lambda a, w, m, s, e: my_bounded_mean(w.sum() * a, w, m, s, e), "weights that sum to 2.*entries are wrong"),
    ]),
    ("mirror_step", mirror_step, r"(plain|policy|eta).*entries are wrong", [
        lambda p, a, eta: mirror_step(p, -a, eta),
        lambda p, a, eta: mirror_step(p, a * eta, 1.0),
        lambda p, a, eta: (a / eta).softmax(-1),  # forgets the old policy
        lambda p, a, eta: mirror_step(p.clamp(min=1e-3), a, eta),  # gives what is impossible a chance
        lambda p, a, eta: p * (a / eta).exp() / (p * (a / eta).exp()).sum(-1, keepdim=True),  # overflows
    ]),
    ("risk_worth", risk_worth, r"(entries are wrong|wanted a tensor)", [
        lambda x, p, eta: (p * x).sum(),  # the mean
        lambda x, p, eta: x.max(),
        lambda x, p, eta: risk_worth(x, torch.full_like(p, 0.5), eta),
        lambda x, p, eta: risk_worth(x, p, eta) / eta,
        lambda x, p, eta: eta * (p * (x / eta).exp()).sum().log(),  # overflows
        lambda x, p, eta: x.max() + eta * (p * ((x - x.max()) / eta).exp()).sum().log(),  # chance 0 counts
    ]),
    ("top_k", my_top_k, None, [
        (lambda a, e, k: e & (a >= a[my_top_k(a, e, k)].min()), "ties.*wanted 50 kept"),  # the threshold's ties too
        (lambda a, e, k: my_top_k(a, torch.ones_like(e), k), "not eligible"),
        (lambda a, e, k: my_top_k(a, e, k - 0.005), "wanted 50 kept; got 49"),
        (lambda a, e, k: my_top_k(a, e, k, slack=0.0), "29 kept; got 28"),
        (lambda a, e, k: my_top_k(a.flip(0), e.flip(0), k).flip(0), "many ties.*entries are wrong"),  # ties: the last
        (lambda a, e, k: my_top_k(-a, e, k), "entries are wrong"),
        (lambda a, e, k: my_top_k(a, e, k).double(), "wanted a bool tensor"),
    ]),
]  # fmt: skip


def check(name, solution):
    getattr(exercises, f"check_{name}")(solution)


@pytest.mark.parametrize(("name", "solution"), [pytest.param(*each[:2], id=each[0]) for each in CHECKS])
def test_a_right_solution_passes_however_it_is_written(name, solution):
    check(name, solution)


@pytest.mark.parametrize(("name", "message", "solution"), [
    (name, *(item[::-1] if isinstance(item, tuple) else (message, item)))
    for name, _, message, items in CHECKS for item in items
])  # fmt: skip
def test_a_wrong_solution_is_named(name, message, solution):
    with pytest.raises(AssertionError, match=message):
        check(name, solution)
