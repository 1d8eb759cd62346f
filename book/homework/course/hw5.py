"""Homework 5: MPO's two steps and its critic (chapters 6, 6b and 6c)."""

from __future__ import annotations

import math
from random import Random

import torch
from torch import Generator, Tensor

from .question import Assignment, Case, Code, Experiment, Fault, Written


def make(draw: Random) -> Assignment:
    return Assignment(
        name="hw5_mpo",
        title="Homework 5: weigh, then fit",
        chapters="chapters 6, 6b and 6c",
        intro="Weights that may not move too far, a policy that is fitted to them at a price, and a critic that learns from old data.",
        questions=[budget(draw), dual(draw), targets(draw), objective(draw), where_to_clip(draw)],
    )


def randn(generator: Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def greedy_share(samples: int, nats: float) -> float:
    """The weight of one candidate among others of equal weight, at a KL of `nats` from uniform."""
    low, high = 1 / samples, 1.0
    for _ in range(100):
        w = 0.5 * (low + high)
        others = (1 - w) * math.log((1 - w) * samples / (samples - 1)) if w < 1 else 0.0
        low, high = (w, high) if w * math.log(w * samples) + others < nats else (low, w)
    return low


def budget(draw: Random) -> Written:
    samples, bound = draw.choice([(16, 0.5), (16, 1.0), (20, 0.5), (20, 1.0), (32, 1.0)])
    ess = samples / (1 + bound)
    capped = (1 + math.sqrt(bound * (samples - 1))) / samples
    w = greedy_share(samples, bound / 2)
    by_kl = 1 / (w**2 + (1 - w) ** 2 / (samples - 1))
    return Written(
        name="q1",
        title="A budget of samples in place of a budget of nats",
        points=5,
        minutes=40,
        goal="that the distance you bound decides what your weights look like, and what one wild value can do to them",
        text=rf"""
MPO bounds a KL. Let us bound another distance in its place, in a single state with a prior $p_i > 0$ over $N$ candidate actions
of values $Q_i$, which are not all equal:

$$\max_q \sum_i q_i Q_i \quad\text{{subject to}}\quad \chi^2(q \Vert p) = \sum_i \frac{{(q_i - p_i)^2}}{{p_i}} \le \varepsilon, \qquad \sum_i q_i = 1 .$$

$\bar Q$ and $\mathrm{{Var}}_p(Q)$ are mean and variance under $p$, and $\varepsilon > 0$.

1. Let $p_i = 1/N$. Show that the effective sample size $1 / \sum_i q_i^2$ is *equal* to $N / (1 + \chi^2)$. How does the chapter's
   $\mathrm{{ESS}} \le N e^{{-\mathrm{{KL}}}}$ follow from this?
2. Any $p$ again. Forget $q_i \ge 0$ for a moment and solve the problem, without derivatives: prove a bound on the gain
   $\sum_i q_i Q_i - \bar Q$ and find the only $q$ that reaches it. What plays the part of the temperature $\eta$, and how large is it?
3. For which $\varepsilon$ is your $q$ also the answer with $q_i \ge 0$? To which $\varepsilon_\eta$ of MPO does a small $\varepsilon$ correspond, if
   both are to gain the same to leading order?
4. Let $p_i = 1/N$ with $N = {samples}$, and let the critic be absurdly wrong about one candidate: $Q_1 \to \infty$, the others stay.
   What is the weight of this candidate in the limit, for $\varepsilon = {bound}$, and what is the effective sample size? Compare with MPO's
   weights at $\varepsilon_\eta = \varepsilon / 2$: show that in the limit the candidate gets the weight {w:.3f}, and give the effective sample size.
""",
        solution=rf"""
1. $\chi^2 = \sum_i N (q_i - \tfrac1N)^2 = N \sum_i q_i^2 - 2 \sum_i q_i + 1 = N \sum_i q_i^2 - 1$, so $1 / \sum_i q_i^2 = N / (1 + \chi^2)$. The mean of
   $q_i / p_i$ under $q$ is $\sum_i q_i^2 / p_i = 1 + \chi^2$; the logarithm is concave, so $\mathrm{{KL}} = \mathbb E_q \log (q / p) \le \log (1 + \chi^2)$, which is
   $N / (1 + \chi^2) \le N e^{{-\mathrm{{KL}}}}$.
2. Since $\sum_i (q_i - p_i) = 0$, the gain is $\sum_i (q_i - p_i)(Q_i - \bar Q) = \sum_i \frac{{q_i - p_i}}{{\sqrt{{p_i}}}} \cdot \sqrt{{p_i}}\, (Q_i - \bar Q)$. By Cauchy and
   Schwarz it is at most $\sqrt{{\chi^2\, \mathrm{{Var}}_p(Q)}} \le \sqrt{{\varepsilon\, \mathrm{{Var}}_p(Q)}}$. The first is an equality only if the two factors are
   proportional with a factor that is not negative, $q_i = p_i \big(1 + (Q_i - \bar Q) / \eta\big)$, and the second only if the budget is spent:
   $\chi^2 = \mathrm{{Var}}_p(Q) / \eta^2 = \varepsilon$, so $\eta = \sqrt{{\mathrm{{Var}}_p(Q) / \varepsilon}}$. These $q$ sum to 1. The weights are linear in $Q$, not exponential.
3. If and only if all $q_i \ge 0$, that is $\eta \ge \bar Q - \min_i Q_i$, or $\varepsilon \le \mathrm{{Var}}_p(Q) / (\bar Q - \min_i Q_i)^2$: then the only best point of the larger
   set lies in the smaller one; otherwise it does not. MPO gains about $\sqrt{{2 \varepsilon_\eta \mathrm{{Var}}_p(Q)}}$ to leading order for a small bound (chapter 6), the same at
   $\varepsilon = 2 \varepsilon_\eta$.
4. Let $Q_1 = M$. For $M \to \infty$, $\bar Q / M \to 1/N$ and $\mathrm{{Var}}(Q) / M^2 \to (N-1)/N^2$, so $(Q_1 - \bar Q) / \eta \to \frac{{N-1}}{{N}} \cdot \frac{{N}}{{\sqrt{{N-1}}}} \sqrt\varepsilon = \sqrt{{\varepsilon (N-1)}}$ and
   $q_1 \to \big(1 + \sqrt{{\varepsilon (N-1)}}\big) / N = {capped:.3f}$. For the others $(Q_i - \bar Q) / \eta \to -\sqrt{{\varepsilon / (N-1)}} > -1$: they stay positive. By 1 the effective
   sample size is $N / (1 + \varepsilon) = {ess:.2f}$, whatever the critic says. MPO: for $M \to \infty$ at the temperature that meets the bound, $\eta \to \infty$
   (else $q_1 \to 1$ and $\mathrm{{KL}} \to \log N = {math.log(samples):.2f} > {bound / 2:g}$), so the others become equal, $q_i = (1 - w) / (N-1)$, with
   $w \log (N w) + (1 - w) \log \frac{{N (1 - w)}}{{N - 1}} = {bound / 2:g}$ and $w > 1/N$, which $w = {w:.3f}$ solves. The effective sample size is
   $1 / \big(w^2 + (1-w)^2 / (N-1)\big) = {by_kl:.2f}$. The budget of nats was kept, and more of the samples are gone.
""",
        rubric=r"""1 point each for parts 1 to 3, 2 for part 4. 1: the identity, and Jensen. 2: the bound with both conditions of equality, and the temperature. 3: the
condition on $\varepsilon$, and the factor 2. 4: 1 for the limit under the new bound
with its sample size, 1 for MPO's, with the reason why the temperature grows without bound and the other weights become equal.""",
    )


def dual(draw: Random) -> Code:
    """The temperature's dual with two critics, another prior and states that are not alike: 27 forms, and their constants."""
    w, share, power, rate = draw.choice([0.6, 0.7, 0.8, 0.9]), draw.choice([0.2, 0.3, 0.4]), draw.choice([0.5, 0.6, 0.7]), draw.choice([0.4, 0.5, 0.8])  # fmt: skip
    rest = round(1 - w, 2)
    value_text, value_code, valued = draw.choice([
        (f"$U_{{ib}} = {w} \\min(Q_{{ib}}, \\hat Q_{{ib}}) + {rest} \\max(Q_{{ib}}, \\hat Q_{{ib}})$", f"{w} * torch.minimum(q_value, second) + {rest} * torch.maximum(q_value, second)", lambda q, s: w * min(q, s) + rest * max(q, s)),
        (f"$U_{{ib}} = \\tfrac12 (Q_{{ib}} + \\hat Q_{{ib}}) - {w}\\, |Q_{{ib}} - \\hat Q_{{ib}}|$", f"0.5 * (q_value + second) - {w} * (q_value - second).abs()", lambda q, s: (q + s) / 2 - w * abs(q - s)),
        (f"$U_{{ib}} = Q_{{ib}} - {w} \\max(0,\\ Q_{{ib}} - \\hat Q_{{ib}})$ (what the first critic promises beyond the second counts only in part)", f"q_value - {w} * (q_value - second).clamp(min=0.0)", lambda q, s: q - w * max(0.0, q - s)),
    ])  # fmt: skip
    prior_text, prior_code, based = draw.choice([
        (f"$\\tilde p_{{ib}} = {round(1 - share, 2)}\\, p_{{ib}} + {share} / N$", f"{round(1 - share, 2)} * prior + {share} / len(prior)", lambda p: [(1 - share) * x + share / len(p) for x in p]),
        (f"$\\tilde p_{{ib}} = p_{{ib}}^{{{power}}} \\big/ \\sum_j p_{{jb}}^{{{power}}}$", f"prior**{power} / (prior**{power}).sum(0)", lambda p: [x**power / sum(y**power for y in p) for x in p]),
        (f"$\\tilde p_{{ib}} = \\max(p_{{ib}}, {share} / N) \\big/ \\sum_j \\max(p_{{jb}}, {share} / N)$", f"prior.clamp(min={share} / len(prior)) / prior.clamp(min={share} / len(prior)).sum(0)", lambda p: [max(x, share / len(p)) / sum(max(y, share / len(p)) for y in p) for x in p]),
    ])  # fmt: skip
    state_text, own_code, mean_code, scale, count = draw.choice([
        ("the mean over states is a weighted one, $\\operatorname{mean}_b x_b = \\sum_b w_b x_b / \\sum_b w_b$", "eta", "(state_weight * each).sum() / state_weight.sum()", lambda w: 1.0, lambda w: w),
        ("the mean is taken over the states with $w_b > 0$ only, all of them alike", "eta", "each[state_weight > 0.0].mean()", lambda w: 1.0, lambda w: float(w > 0)),
        (f"a state has a temperature of its own, $\\eta_b = \\eta\\, (1 + {rate}\\, w_b)$, and the mean is the plain one over all states", f"eta * (1.0 + {rate} * state_weight)", "each.mean()", lambda w: 1.0 + rate * w, lambda w: 1.0),
    ])  # fmt: skip

    symbol = "\\eta" if own_code == "eta" else "\\eta_b"

    def oracle(q_value, second, prior, state_weight, eta, eps_eta):
        total = slope = counts = 0.0
        for b in range(q_value.shape[1]):
            p = based(prior[:, b].tolist())
            u = [valued(q, s) for q, s in zip(q_value[:, b].tolist(), second[:, b].tolist(), strict=True)]
            own = float(eta) * scale(float(state_weight[b]))
            top = max(x for x, y in zip(u, p, strict=True) if y > 0)
            mass = [y * math.exp((x - top) / own) if y > 0 else 0.0 for x, y in zip(u, p, strict=True)]
            q = [m / sum(mass) for m in mass]
            kl = sum(x * math.log(x / y) for x, y in zip(q, p, strict=True) if x > 0)
            reached = sum(x * y for x, y in zip(q, u, strict=True)) - own * kl  # Gibbs: own * log Z
            weight = count(float(state_weight[b]))
            total += weight * (own * float(eps_eta) + reached)
            slope += weight * scale(float(state_weight[b])) * (float(eps_eta) - kl)
            counts += weight
        zero = torch.zeros_like(q_value)
        return torch.tensor(total / counts).double(), torch.tensor(slope / counts).double(), zero, zero

    def given(
        generator: Generator, actions: int, states: int, spread: float, eta: float, eps_eta: float
    ) -> dict[str, Tensor]:
        q_value = spread * randn(generator, actions, states)
        prior = randn(generator, actions, states).softmax(0)
        state_weight = torch.tensor([1.0, 0.0, 2.0, 0.5]).double().repeat(states)[:states]
        return {"q_value": q_value, "second": q_value + 0.5 * spread * randn(generator, actions, states), "prior": prior, "state_weight": state_weight, "eta": torch.tensor(eta).double(), "eps_eta": eps_eta}  # fmt: skip

    def cases(generator: Generator) -> list[Case]:
        made = [
            Case("ordinary numbers", given(generator, 6, 4, 1.0, 0.7, 0.1)),
            Case("one state", given(generator, 5, 1, 2.0, 1.5, 0.5)),
            Case("one candidate", given(generator, 1, 4, 1.0, 0.6, 0.2)),
            Case("a high temperature", given(generator, 8, 6, 3.0, 40.0, 0.05)),
        ]
        large = given(generator, 5, 3, 1.0, 0.5, 0.1)
        order = torch.stack([torch.randperm(5, generator=generator) for _ in range(3)], 1).double()
        large["q_value"] = 1000.0 * order + torch.tensor([0.0, -6000.0, 2000.0]).double()
        large["second"] = large["q_value"] + 10.0 * randn(generator, 5, 3)
        tied = given(generator, 6, 3, 1.0, 0.3, 0.4)
        tied["q_value"][:2] = tied["second"][:2] = 3.0
        never = given(generator, 5, 4, 1.0, 0.8, 0.1)
        never["prior"][2] = 0.0
        never["prior"] /= never["prior"].sum(0)
        # A large bound makes a large slope, beside which what float32 loses next to a thousand is small.
        above = large | {"prior": large["prior"].masked_fill(order == 4.0, 0.0), "eps_eta": 30.0}
        above["prior"] = above["prior"] / above["prior"].sum(0)
        return [
            *made,
            Case("values in the thousands", large),
            Case("a tie at the top", tied),
            Case("a candidate that the prior never takes", never),
            Case("one that it never takes is a thousand above the others", above),
        ]

    return Code(
        name="q2",
        title="The temperature's dual, with a twist",
        points=5,
        minutes=35,
        goal="to keep values, prior and price of an E-step apart, and to leave the gradient to the price alone",
        text=rf"""
Write `twisted_dual`: the loss of the temperature $\eta$ of chapter 6, with three changes.

- There are two critics, $Q$ (`q_value`) and $\hat Q$ (`second`). What is tilted is {value_text}.
- The prior $p$ (`prior`, probabilities, each column sums to 1; some may be 0) is replaced by {prior_text}.
- States have weights $w_b \ge 0$ (`state_weight`): {state_text}.

With these the loss is

$$g(\eta) = \operatorname{{mean}}_b \Big[ {symbol}\, \varepsilon_\eta + {symbol} \log \sum_i \tilde p_{{ib}}\, e^{{U_{{ib}} / {symbol}}} \Big] .$$

It must be right for values in the thousands beside a temperature of one half. Its gradient by `eta`, a scalar tensor, is marked, too.
The values are data: **no gradient flows into either critic**, and the hidden cases look
at that as well. At least one $w_b$ is positive.
""",
        function="twisted_dual",
        header='''def twisted_dual(q_value, second, prior, state_weight, eta, eps_eta):
    """The loss, a scalar tensor. q_value, second, prior: [N, B]. state_weight: [B]. eta: scalar tensor. eps_eta: number."""''',
        body=f"""    value = ({value_code}).detach()
    base = {prior_code}
    own = {own_code}
    best = value.max(0).values
    log_normalizer = (base.log() + (value - best) / own).logsumexp(0)
    each = best + own * (eps_eta + log_normalizer)
    return {mean_code}""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            {
                "q_value": torch.tensor(
                    [[1.0, 0.0, 0.5], [0.5, 2.0, -0.5], [-1.0, 1.0, 1.5], [0.25, -0.5, 0.0]]
                ).double(),
                "second": torch.tensor(
                    [[0.5, 0.5, 1.0], [1.0, 1.0, -1.0], [-1.0, 2.0, 1.0], [0.75, -1.0, 0.5]]
                ).double(),
                "prior": torch.tensor(
                    [[0.25, 0.25, 0.25], [0.46875, 0.03125, 0.25], [0.03125, 0.46875, 0.375], [0.25, 0.25, 0.125]]
                ).double(),
                "state_weight": torch.tensor([1.0, 2.0, 0.0]).double(),
                "eta": torch.tensor(0.5).double(),
                "eps_eta": 0.1,
            },
        ),  # fmt: skip
        leaves=("eta", "q_value", "second"),
    )


def example_rows() -> dict[str, Tensor]:
    """Two environments: one is cut off after five rows, the other terminates after two and has no other end."""
    no = [False, False]
    columns = {
        "reward": [[1.0, 0.0], [-0.5, 2.0], [0.25, 1.0], [1.5, -1.0], [-2.0, 0.5], [0.5, 1.5], [1.0, -0.5]],
        "q_value": [[0.5, 1.0], [0.0, -1.0], [2.0, 0.5], [-0.5, 0.25], [1.0, 2.0], [0.75, -1.5], [-0.25, 1.0]],
        "next_value": [[0.0, -1.0], [1.5, 0.5], [1.0, -0.5], [-1.5, 1.0], [2.5, 0.5], [-1.0, 1.0], [0.5, 1.5]],
        "log_ratio": [
            [0.5, -0.5],
            [-0.25, 0.5],
            [1.0, -1.0],
            [-0.5, 0.25],
            [0.25, -0.75],
            [-0.125, 0.75],
            [0.5, -0.25],
        ],
    }
    return {name: torch.tensor(rows).double() for name, rows in columns.items()} | {
        "terminated": torch.tensor([no, [False, True], no, no, no, no, no]),
        "truncated": torch.tensor([no, no, no, no, [True, False], no, no]),
    }


def targets(draw: Random) -> Code:
    """Retrace with another trace, another time limit, another view of what is far away: 27 forms, and their constants."""
    power, half, share = draw.choice([0.4, 0.5, 0.7]), draw.choice([0.5, 2.0, 3.0]), draw.choice([0.2, 0.4, 0.7])
    horizon, limit, fade = draw.choice([2, 3]), draw.choice([0.5, 0.7, 0.8]), draw.choice([0.3, 0.5, 0.8])

    def shrunk(u: float) -> float:
        return 1.0 if u >= 0 else math.exp(power * u)

    def soft(u: float) -> float:
        return 1.0 / (1.0 + half * math.exp(-u)) if u >= 0 else math.exp(u) / (math.exp(u) + half)

    trace_text, trace_code, trace = draw.choice([
        (f"the trace is longer than Retrace's, $c_t = \\lambda \\min(1, \\rho_t)^{{{power}}}$", f"({power} * log_ratio).clamp(max=0.0).exp()", shrunk),
        ("the trace is cut on both sides, by what the policy does less often and by what it does more often: $c_t = \\lambda \\min(\\rho_t, 1 / \\rho_t)$", "(-log_ratio.abs()).exp()", lambda u: math.exp(-abs(u))),
        (f"the clip is a soft one, $c_t = \\lambda\\, \\rho_t / (\\rho_t + {half:g})$", f"torch.sigmoid(log_ratio - math.log({half}))", soft),
    ])  # fmt: skip
    limit_text, successor_code, cut_code, cut = draw.choice([
        ("a row that is cut off teaches nothing: the TD error of a truncated row is 0", "next_value", ".masked_fill(truncated, 0.0)", lambda r, q, v, gamma: 0.0),
        ("a time limit is feared: at a truncated row the smaller of $\\mathbb E_\\pi Q(s_{t+1}, \\cdot)$ and $Q(s_t, a_t)$ is the successor's value", "torch.where(truncated, torch.minimum(next_value, q_value), next_value)", "", lambda r, q, v, gamma: r + gamma * min(v, q) - q),
        (f"a time limit is bridged: at a truncated row the successor's value is taken as ${share}\\, \\mathbb E_\\pi Q(s_{{t+1}}, \\cdot) + {round(1 - share, 2)}\\, Q(s_t, a_t)$", f"torch.where(truncated, {share} * next_value + {round(1 - share, 2)} * q_value, next_value)", "", lambda r, q, v, gamma: r + gamma * (share * v + (1 - share) * q) - q),
    ])  # fmt: skip
    late_text, late_code, late = draw.choice([
        (f"$f_n(x) = x$ for $n \\le {horizon}$ and 0 for $n > {horizon}$: nobody looks further than {horizon} rows ahead", f"td_error[n:] * (n <= {horizon})", lambda n, x: x if n <= horizon else 0.0),
        (f"$f_n(x) = \\max(-{limit}, \\min({limit}, x))$ for every $n \\ge 1$: a later surprise counts at most ${limit}$", f"td_error[n:].clamp(-{limit}, {limit})", lambda n, x: max(-limit, min(limit, x))),
        (f"$f_n(x) = x / (1 + {fade}\\, n)$: the later a surprise comes, the less it counts", f"td_error[n:] / (1.0 + {fade} * n)", lambda n, x: x / (1 + fade * n)),
    ])  # fmt: skip

    td_code = "reward + gamma * successor.masked_fill(terminated, 0.0) - q_value"
    td_code = f"({td_code}){cut_code}" if cut_code else td_code

    def oracle(reward, q_value, next_value, log_ratio, terminated, truncated, gamma, lam):
        steps, envs = reward.shape
        wanted = q_value.clone()
        for b in range(envs):
            delta = []
            for t in range(steps):
                r, q, v = float(reward[t, b]), float(q_value[t, b]), float(next_value[t, b])
                delta.append(
                    r - q if terminated[t, b] else cut(r, q, v, gamma) if truncated[t, b] else r + gamma * v - q
                )
            for t in range(steps):
                reach = 1.0
                for u in range(t, steps):
                    wanted[t, b] += delta[u] if u == t else reach * late(u - t, delta[u])
                    if terminated[u, b] or truncated[u, b] or u + 1 == steps:
                        break
                    reach *= gamma * lam * trace(float(log_ratio[u + 1, b]))
        return wanted

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, steps, envs, ends, gamma, lam in (
            ("one row", 1, 4, 0.3, 0.9, 0.8),
            ("no episode ends", 9, 2, 0.0, 0.9, 0.95),
            ("many short episodes", 24, 4, 0.25, 0.97, 0.9),
            ("no discount", 12, 3, 0.15, 1.0, 1.0),
            ("no trace", 6, 2, 0.2, 0.9, 0.0),
            ("huge log-ratios, and a first one that is not a number", 8, 3, 0.1, 0.9, 1.0),
        ):
            reward, q_value, next_value, log_ratio = randn(generator, 4, steps, envs)
            terminated, truncated = (torch.rand(2, steps, envs, generator=generator) < ends).unbind(0)
            if name.startswith("huge"):
                log_ratio[2], log_ratio[5], log_ratio[0] = 1000.0, -1000.0, math.nan
            given = {"reward": reward, "q_value": q_value, "next_value": next_value, "log_ratio": log_ratio}
            ends_by = {"terminated": terminated, "truncated": truncated & ~terminated}
            made.append(Case(name, given | ends_by | {"gamma": gamma, "lam": lam}))
        return made

    return Code(
        name="q3",
        title="Targets from old data, with a twist",
        points=6,
        minutes=40,
        goal="which ratio belongs to which row, and what a trace may decide and what it may not",
        text=rf"""
Write `twisted_retrace`. Its targets are

$$y_t = Q(s_t, a_t) + \delta_t + \sum_{{n \ge 1}} \Big( \prod_{{j = t+1}}^{{t+n}} \gamma\, c_j \Big) f_n(\delta_{{t+n}}) ,$$

Retrace's sum of chapter 6c with three changes:

- {trace_text} (`log_ratio` is $\log \rho_t$);
- {limit_text} (a terminated row bootstraps from nothing, as always; nothing else changes in $\delta_t$);
- {late_text}. The row's own $\delta_t$ counts in full.

All three act together. As in the chapter, the sum of row $t$ includes the row in which its episode ends, in either way, and nothing
beyond it, and nothing beyond the last row. Log-ratios may be as large as 1000, of either sign, and nothing may depend on the first
row's, which is NaN in one of the hidden cases. (`terminated` and `truncated` are never both true.)
""",
        function="twisted_retrace",
        header='''def twisted_retrace(reward, q_value, next_value, log_ratio, terminated, truncated, gamma, lam):
    """Targets [T, B]. All tensors are [T, B]; next_value is the policy's mean of Q in the true successor; flags are bool."""''',
        body=f"""    trace = lam * {trace_code}
    successor = {successor_code}
    td_error = {td_code}
    ended = terminated | truncated
    onward = gamma * trace[1:].masked_fill(ended[:-1], 0.0)  # from row t to row t + 1
    correction, reach = td_error.clone(), torch.ones_like(td_error)
    for n in range(1, len(td_error)):
        reach = reach[:-1] * onward[n - 1 :]
        correction[:-n] += reach * ({late_code})
    return q_value + correction""",
        oracle=oracle,
        cases=cases,
        example=Case("example", example_rows() | {"gamma": 0.9, "lam": 0.8}),
    )


def objective(draw: Random) -> Code:
    """Find the bug: all of an M-step in one scalar, with its stop-gradients."""
    share = draw.choice([0.25, 0.5, 0.75])
    eps_mean, eps_std = draw.choice([0.01, 0.02, 0.05]), draw.choice([0.001, 0.002, 0.005])
    std_text, center_code, share_code, around, flat = draw.choice([
        (f"$m_b = \\mu_{{\\mathrm{{old}}, b}} + {share}\\, \\big( \\mathrm{{sg}}(\\mu_b) - \\mu_{{\\mathrm{{old}}, b}} \\big)$ and $v_{{ib}} = q_{{ib}}$: the std is fitted around a point between the two means", f"mean_old + {share} * (mean.detach() - mean_old)", "q", lambda old, new: old + share * (new - old), lambda w, column: w),
        (f"$m_b = \\mu_{{\\mathrm{{old}}, b}}$ and $v_{{ib}} = {1 - share}\\, q_{{ib}} + {share}\\, \\tfrac1N \\sum_j q_{{jb}}$: the std is fitted to weights that are nearer to equal ones", "mean_old", f"{1 - share} * q + {share} * q.mean(0)", lambda old, new: old, lambda w, column: (1 - share) * w + share * sum(column) / len(column)),
        (f"$m_b = \\mu_{{\\mathrm{{old}}, b}}$ and $v_{{ib}} = {share}\\, q_{{ib}}$: the std's fit counts only ${share}$ times", "mean_old", f"{share} * q", lambda old, new: old, lambda w, column: share * w),
    ])  # fmt: skip
    kl_text, kl_code, pick = draw.choice([
        ("$\\mathrm{KL}^j = \\operatorname{mean}_b \\sum_d k^j_{bd}$", "sum(-1).mean(-1)", "mean"),
        ("$\\mathrm{KL}^j = \\max_d \\operatorname{mean}_b k^j_{bd}$", "mean(1).amax(-1)", "dimension"),
        ("$\\mathrm{KL}^j = \\max_b \\sum_d k^j_{bd}$", "sum(-1).amax(-1)", "state"),
    ])  # fmt: skip

    def picked(part: list[list[float]]) -> tuple[float, list[list[float]]]:
        """The number that one part [B][D] of the divergence comes to, and its slope by each entry."""
        states, dims = len(part), len(part[0])
        if pick == "mean":
            return sum(map(sum, part)) / states, [[1 / states] * dims for _ in part]
        if pick == "dimension":
            means = [sum(row[d] for row in part) / states for d in range(dims)]
            top = means.index(max(means))
            return means[top], [[float(d == top) / states for d in range(dims)] for _ in part]
        sums = [sum(row) for row in part]
        top = sums.index(max(sums))
        return sums[top], [[float(b == top)] * dims for b in range(states)]

    def oracle(action, weights, mean_old, std_old, mean, std, alpha):
        a, w, (old, s_old, new, s_new) = (
            action.tolist(),
            weights.tolist(),
            (x.tolist() for x in (mean_old, std_old, mean, std)),
        )
        states, dims = len(old), len(old[0])
        grid = [(b, d) for b in range(states) for d in range(dims)]
        kl_mean = [[(new[b][d] - old[b][d]) ** 2 / (2 * s_old[b][d] ** 2) for d in range(dims)] for b in range(states)]
        kl_std = [[(s_old[b][d] ** 2 / s_new[b][d] ** 2 - 1) / 2 + math.log(s_new[b][d] / s_old[b][d]) for d in range(dims)] for b in range(states)]  # fmt: skip
        (by_mean, slope_mean), (by_std, slope_std) = picked(kl_mean), picked(kl_std)
        value = float(alpha[0]) * eps_mean + float(alpha[1]) * eps_std  # the divergences cancel in the value
        by = torch.zeros(2, states, dims, dtype=torch.float64)
        for b, d in grid:
            center, s, so = around(old[b][d], new[b][d]), s_new[b][d], s_old[b][d]
            for i in range(len(a)):
                flatter = flat(w[i][b], [row[b] for row in w])
                value += w[i][b] * (math.log(so) + (a[i][b][d] - new[b][d]) ** 2 / (2 * so**2)) / states
                value += flatter * (math.log(s) + (a[i][b][d] - center) ** 2 / (2 * s**2)) / states
                by[0, b, d] += w[i][b] * (new[b][d] - a[i][b][d]) / so**2 / states
                by[1, b, d] += flatter * (1 / s - (a[i][b][d] - center) ** 2 / s**3) / states
            by[0, b, d] += float(alpha[0]) * slope_mean[b][d] * (new[b][d] - old[b][d]) / so**2
            by[1, b, d] += float(alpha[1]) * slope_std[b][d] * (1 / s - so**2 / s**3)
        by_alpha = torch.tensor([eps_mean - by_mean, eps_std - by_std]).double()
        still = torch.zeros_like(mean_old)
        return torch.tensor(value).double(), torch.zeros_like(weights), still, still, by[0], by[1], by_alpha

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, samples, states, dims, far, total in (
            ("one state, one dimension", 5, 1, 1, 0.5, 1.0),
            ("ordinary numbers", 6, 4, 3, 0.3, 1.0),
            ("the policy has not moved", 6, 3, 2, 0.0, 1.0),
            ("the policy has moved far", 4, 5, 2, 1.0, 1.0),
            ("weights that sum to 2", 8, 3, 4, 0.2, 2.0),
            ("the mean has moved, and elsewhere the std", 5, 3, 2, 0.0, 1.0),
        ):
            mean_old, std_old = (
                randn(generator, states, dims),
                0.5 + torch.rand(states, dims, generator=generator).double(),
            )
            given = {
                "action": mean_old + std_old * randn(generator, samples, states, dims),
                "weights": total * randn(generator, samples, states).softmax(0),
                "mean_old": mean_old,
                "std_old": std_old,
                "mean": mean_old + far * std_old * randn(generator, states, dims),
                "std": std_old * (0.5 * far * randn(generator, states, dims)).clamp(-0.7, 0.7).exp(),
                "alpha": 0.5 + 2.0 * torch.rand(2, generator=generator).double(),
            }
            if "elsewhere" in name:
                given["mean"], given["std"] = mean_old.clone(), std_old.clone()
                given["mean"][0, 0] += 0.8 * std_old[0, 0]
                given["std"][1, 1] *= 1.5
            made.append(Case(name, given))
        return made

    fault = draw.choice([
        Fault("the new std under the mean's part", "mean_old).square() / var_old", "mean_old).square() / var", "MPO 2018a's exact split, bounded as if its parts were decoupled (fault 24)"),
        Fault("the std's part the other way round", "shrink = var_old / var", "shrink = var / var_old", "Spinning Up issue 264 and pull request 192, TensorForce issue 107: a KL with its two policies exchanged"),
        Fault("the multipliers' loss moves the policy and takes the price back", "alpha @ left.detach()", "alpha @ left", "a stop-gradient that is missing in one of two places (a cousin of fault 28); the policy's two slopes cancel, and no bound holds"),
        Fault("the price moves the multipliers, too", "alpha.detach() @ spent", "alpha @ spent", "fault 28, its third place: a price that is not detached where the policy pays it"),
    ])  # fmt: skip
    return Code(
        name="q4",
        title="Find the bug: an M-step that nobody paid for",
        points=4,
        minutes=25,
        goal="that a loss is judged by its gradients: which term moves whom, and in which direction",
        text=rf"""
`faulty_mstep_objective` is meant to hold a whole M-step in one scalar, so that a single `backward()` moves the policy *and* its
multipliers down:

$$\begin{{aligned}}
L = {{}} & \operatorname{{mean}}_b \sum_i \big[ q_{{ib}}\, \ell(a_{{ib}} \mid \mu_b, \sigma_{{\mathrm{{old}}, b}}) + v_{{ib}}\, \ell(a_{{ib}} \mid m_b, \sigma_b) \big] \\
& + \sum_{{j = \mu, \sigma}} \big[ \mathrm{{sg}}(\alpha_j)\, \mathrm{{KL}}^j + \alpha_j \big( \varepsilon_j - \mathrm{{sg}}(\mathrm{{KL}}^j) \big) \big] ,
\end{{aligned}}$$

with $\ell(a \mid m, s) = \sum_d \big[ \log s_d + (a_d - m_d)^2 / (2 s_d^2) \big]$, and

- {std_text};
- $k^\mu_{{bd}}$ and $k^\sigma_{{bd}}$ are the two parts of chapter 6b, what it costs to move the mean alone and the std alone, old first, in state $b$ and
  dimension $d$. They come to one number each: {kl_text} for $j = \mu, \sigma$;
- $\varepsilon_\mu = {eps_mean}$ and $\varepsilon_\sigma = {eps_std}$; `alpha` holds $\alpha_\mu$ and $\alpha_\sigma$ themselves, in this order;
- $\mathrm{{sg}}$ stops the gradient. Weights and old policy are data, and no gradient reaches them either.

One line holds a mistake that real code has had. Find it, and write the function as it should be, as `mstep_objective`. The
divergences cancel in the *value* of $L$, which says nothing about them: the hidden cases look at the gradients by all arguments but
`action`, too. The example below passes with the mistake in.
""",
        function="mstep_objective",
        header='''def mstep_objective(action, weights, mean_old, std_old, mean, std, alpha):
    """The loss, a scalar tensor. action: [N, B, D]. weights: [N, B]. mean_old, std_old, mean, std: [B, D]. alpha: [2]."""''',
        body=f"""    q, mean_old, std_old = weights.detach(), mean_old.detach(), std_old.detach()
    var_old, var = std_old.square(), std.square()

    def misfit(around, variance, shares):
        cost = 0.5 * (variance.log() + (action - around).square() / variance)
        return torch.einsum("nb,nbd->b", shares, cost).mean()

    fit = misfit(mean, var_old, q) + misfit({center_code}, var, {share_code})
    shrink = var_old / var
    parts = 0.5 * torch.stack([(mean - mean_old).square() / var_old, shrink - 1.0 - shrink.log()])
    spent = parts.{kl_code}
    left = alpha.new_tensor([{eps_mean}, {eps_std}]) - spent
    return fit + alpha.detach() @ spent + alpha @ left.detach()""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            {
                "action": torch.tensor([[[0.5, 1.0]], [[-1.0, 0.25]]]).double(),
                "weights": torch.tensor([[0.75], [0.25]]).double(),
                "mean_old": torch.tensor([[0.0, 0.5]]).double(),
                "std_old": torch.tensor([[1.0, 0.5]]).double(),
                "mean": torch.tensor([[0.0, 0.5]]).double(),  # the first step of an M-step: nothing has moved yet
                "std": torch.tensor([[1.0, 0.5]]).double(),
                "alpha": torch.tensor([1.0, 2.0]).double(),
            },
        ),  # fmt: skip
        leaves=("weights", "mean_old", "std_old", "mean", "std", "alpha"),
        fault=fault,
    )


MOMENTS = '''from minerva_lite.worlds.tabular import TabularMDP


def moments(world, target, behavior, trace, q):
    """Mean and variance of one target from each pair, [S, A] each; inf where the variance is infinite."""
    size, gamma = q.numel(), world.gamma

    def solved(factor, weight, right):  # x = right + factor * (mean of weight * x in the next pair)
        step = torch.einsum("san,nb->sanb", world.transition, behavior * weight).reshape(size, size)
        if torch.linalg.eigvals(factor * step).abs().max() >= 1:
            return torch.full_like(q, torch.inf)
        return torch.linalg.solve(torch.eye(size) - factor * step, right.flatten()).view_as(q)

    td_error = (world.reward - q).unsqueeze(-1) + gamma * (target * q).sum(-1)  # [S, A, S']
    mean = solved(gamma, trace, (world.transition * td_error).sum(-1))
    ahead = gamma * (behavior * trace * mean).sum(-1)
    squared = (world.transition * td_error * (td_error + 2 * ahead)).sum(-1)
    return q + mean, solved(gamma**2, trace**2, squared) - mean**2'''


def where_to_clip(draw: Random) -> Experiment:
    length, gamma, right = draw.choice([5, 6, 7]), draw.choice([0.85, 0.9]), draw.choice([0.8, 0.9])
    left = round(1 - right, 2)
    ratios = round(2 * left, 2), round(2 * right, 2)
    wall = math.sqrt(2 / gamma**2 - ratios[0] ** 2)
    wall_says = (
        rf"it grows without bound at $\kappa = {wall:.2f}$, before the largest ratio, ${ratios[1]}$, is reached (solve $\tfrac12\gamma^2({ratios[0]}^2 + \kappa^2) = 1$): from there on the lines are infinite, although their bias goes on falling"
        if wall < ratios[1]
        else rf"it stays finite up to the largest ratio, ${ratios[1]}$ (by $\tfrac12\gamma^2({ratios[0]}^2 + \kappa^2) = 1$ it would become infinite at ${wall:.2f}$), but is many times Retrace's there"
    )
    return Experiment(
        name="q5",
        title="Where should the clip be?",
        points=5,
        minutes=45,
        goal="what the 1 in Retrace's clip is worth, read from exact numbers",
        text=rf"""
In `TabularMDP.chain({length}, {gamma})` a coin collects the data (both actions with probability $\tfrac12$), and the policy to be judged goes right with
probability ${right}$. Take a critic that is the truth plus noise as large as the spread of its values, `truth + truth.std() * noise` with
`noise = torch.randn({length}, 2, generator=torch.Generator().manual_seed(0))`, and targets with the trace
$c_t = \min(\kappa, \rho_t)$, $\lambda = 1$: $\kappa = 0$ is one step, $\kappa = 1$ is Retrace, and $\kappa = {ratios[1]}$ is importance sampling. This function, chapter 6c's in a
form that stands alone, gives the exact mean and variance of one target from each pair; copy it:

```python
{MOMENTS}
```

Draw one figure with a logarithmic vertical axis: the mean squared error of the mean of $n$ targets (squared bias plus variance$/n$,
averaged over pairs) against $\kappa$ from 0 to ${ratios[1]}$, one line each for $n = 1$, 30 and 1000, the best $\kappa$ of each line marked. If the variance
is infinite from some $\kappa$ on, mark that $\kappa$ with a vertical line. Axes need names. Then answer in at most six sentences: where is the
best clip on each line and why, what becomes of the lines on the right, and what is $\kappa = 1$ worth, if the figure shows nothing there?
""",
        code=f"""{MOMENTS}


world = TabularMDP.chain({length}, {gamma})
target, behavior = torch.tensor([{left}, {right}]).repeat({length}, 1), torch.full(({length}, 2), 0.5)
ratio, truth = target / behavior, world.q_value(target)
critic = truth + truth.std() * torch.randn({length}, 2, generator=torch.Generator().manual_seed(0))

caps = torch.linspace(0, ratio.max(), 81)
bias, variance = torch.empty(2, 81)
for k, cap in enumerate(caps):
    mean, spread = moments(world, target, behavior, ratio.clamp(max=cap), critic)
    bias[k], variance[k] = (mean - truth).square().mean(), spread.mean()

figure, ax = plt.subplots()
for n in (1, 30, 1000):
    error = bias + variance / n
    best = error.argmin()
    ax.plot(caps, error, label=f"n = {{n}}, best at {{caps[best]:.2f}}")
    ax.plot(caps[best], error[best], "k.")
if variance.isinf().any():
    ax.axvline(caps[variance.isinf()][0], color="gray", linestyle=":", label="infinite variance from here on")
ax.axvline(1.0, color="gray", linewidth=0.5)
ax.set(xlabel="clip kappa", ylabel="mean squared error", yscale="log")
ax.legend()
plt.show()""",
        solution=rf"""
For $n = 1$ the best clip lies far below 1: one target is mostly noise, and a short trace is a quiet one. For $n = 30$ it lies a little above
1, for $n = 1000$ well above it: averaging divides the variance by $n$ and leaves the bias, so the more targets there are, the longer the
traces should be. On the right the variance takes over; {wall_says}. Here the bias falls all the way: a larger $\kappa$ looks further, and as
$\min(\kappa, \rho) \le \rho$ the operator contracts for every $\kappa$. Nothing happens to the lines at $\kappa = 1$: it is the largest clip at which no product of
traces can grow, in any world, and here its error at $n = 30$ is within a third of the best, but it is the best clip on no line.
""",
        rubric="""2 points: a figure with all three lines, named axes and an honest end on the right, right in its numbers. 1: the best clip of each line.
1: the reason, with bias, variance and n in it. 1: the infinite (or huge) variance, and that 1 is a guarantee and no optimum.""",
    )
