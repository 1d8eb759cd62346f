"""Homework 4: clipping and its cousins (chapter 5)."""

from __future__ import annotations

import math
from random import Random

import torch
from torch import Generator, Tensor

from .question import Assignment, Case, Code, Experiment, Fault, Written


def make(draw: Random) -> Assignment:
    share, eps = draw.choice([0.1, 0.125, 0.16, 0.2]), draw.choice([0.2, 0.25, 0.3])
    return Assignment(
        name="hw4_ppo",
        title="Homework 4: clipping and its cousins",
        chapters="chapter 5",
        intro="Where does the clipped objective want to go, what else can be done beyond the clip, and who notices that it went too far?",
        questions=[maximum(share, eps), surrogate(draw), drift(draw), epoch(draw), climb(draw, share, eps)],
    )


def least_kl(share: float, moved: float) -> float:
    """KL(old || new) when the probability `moved` goes from the bad actions to the good ones, evenly within each group."""
    return -share * math.log(1 + moved / share) - (1 - share) * math.log(1 - moved / (1 - share))


def maximum(share: float, eps: float) -> Written:
    ratio, kl = 1 + eps * (1 - share) / share, least_kl(share, eps * (1 - share))
    return Written(
        name="q1",
        title="Where the clipped objective is largest",
        points=6,
        minutes=55,
        goal="what a clip asks for when it is followed to the end, and what a slope beyond the clip changes",
        text=rf"""
One state, finitely many actions. The behavior policy gives action $a$ the probability $p_a > 0$; its true advantages $A_a$
are known, none of them is 0, and $\sum_a p_a A_a = 0$. Any new policy may be chosen. It is written by its ratios
$\rho_a \ge 0$, with $\sum_a p_a \rho_a = 1$. Let $P_+$ and $P_- = 1 - P_+$ be the probabilities under $p$ of the good ($A_a > 0$)
and of the bad actions, write $\varepsilon$ for $\varepsilon_{{\mathrm{{clip}}}}$ ($0 < \varepsilon < 1$), and let
$L^{{\mathrm{{clip}}}}(\rho) = \sum_a p_a \min\big(\rho_a A_a,\ \mathrm{{clip}}(\rho_a, 1 - \varepsilon, 1 + \varepsilon)\, A_a\big)$.

1. Prove $L^{{\mathrm{{clip}}}}(\rho) \le \varepsilon \sum_a p_a \lvert A_a \rvert$, and say exactly which ratios reach equality.
2. For which $P_+$ is there a policy that reaches it? Show that, whenever there is one, there is one at an infinite
   $\mathrm{{KL}}(\pi_b \Vert \pi)$, however small $\varepsilon$ is.
3. Among the policies that reach it, find the smallest $\mathrm{{KL}}(\pi_b \Vert \pi)$ and the policy that has it. (Assume
   $\varepsilon P_+ < P_-$; otherwise no policy that reaches it has a finite KL.) What are this KL and the ratio of the good actions for $P_+ = {share}$ and $\varepsilon = {eps}$?
4. Now two actions, one good and one bad, with $P_+ < P_-$. Beyond the clip the objective is rolled back: where
   $L^{{\mathrm{{clip}}}}$ is flat, the term of an action gets the slope $-\alpha A_a$ in $\rho_a$ instead of 0, with $\alpha \ge 0$ (and the term stays
   continuous). Find all maximizers for every $\alpha \ge 0$. How large is the ratio of the good action in each case?
""",
        solution=rf"""
1. For $A_a > 0$ the term is $A_a \min(\rho_a, 1 + \varepsilon) \le (1 + \varepsilon) A_a$, with equality exactly if $\rho_a \ge 1 + \varepsilon$. For $A_a < 0$ it is
   $A_a \max(\rho_a, 1 - \varepsilon) \le (1 - \varepsilon) A_a$, with equality exactly if $\rho_a \le 1 - \varepsilon$. Both bounds read $A_a + \varepsilon \lvert A_a \rvert$. Weighted
   with $p_a$ and added up, the first part vanishes because $\sum_a p_a A_a = 0$. Equality needs it in every term: every good
   action at or above $1 + \varepsilon$, every bad one at or below $1 - \varepsilon$.
2. If it is reached, the good actions have at least the probability $(1 + \varepsilon) P_+$, so $P_+ \le 1 / (1 + \varepsilon)$. If that holds, the policy with
   $\rho_a = 1 / P_+ \ge 1 + \varepsilon$ on the good and $\rho_a = 0$ on the bad actions reaches it. It never plays the bad actions, so
   $-\sum_a p_a \log \rho_a = \infty$. The clip has not bounded anything.
3. Let $m$ be the probability that has moved from bad to good actions: $\sum_{{A_a > 0}} p_a \rho_a = P_+ + m$. The conditions of 1,
   added up in each group, give $m \ge \varepsilon P_+$ and $m \ge \varepsilon P_-$. With $m$ fixed, Jensen's inequality ($-\log$ is convex) says that
   $-\sum_a p_a \log \rho_a$ is smallest when the ratios within a group are equal, $1 + m / P_+$ and $1 - m / P_-$; these satisfy the
   conditions. What is left is $h(m) = -P_+ \log(1 + m / P_+) - P_- \log(1 - m / P_-)$, with
   $h'(m) = -\frac{{P_+}}{{P_+ + m}} + \frac{{P_-}}{{P_- - m}} > 0$ for $0 < m < P_-$. So the smallest allowed $m$ is best: $m = \varepsilon \max(P_+, P_-)$,
   which is below $P_-$ by assumption (or by $\varepsilon < 1$).
   The good actions end at $1 + \varepsilon \max(1, P_- / P_+)$ and the bad ones at $1 - \varepsilon \max(1, P_+ / P_-)$. Here
   $m = {eps * (1 - share):.4g}$, the ratio is ${ratio:.4g}$ (although pay stops at ${1 + eps:.4g}$), and the KL is ${kl:.4f}$ nats.
4. With two actions $m \in [-P_+, P_-]$ is the only freedom: $\rho_+ = 1 + m / P_+$, $\rho_- = 1 - m / P_-$. Let $g = P_+ A_+ = P_- \lvert A_- \rvert$. The slope of the
   good action's share of the objective with respect to $m$ is $A_+$ up to $m_1 = \varepsilon P_+$ and $-\alpha A_+$ beyond; that of the bad one's is
   $\lvert A_- \rvert$ up to $m_2 = \varepsilon P_-$ and $-\alpha \lvert A_- \rvert$ beyond. Since $P_+ < P_-$, $m_1 < m_2$. The total slope is positive below $m_1$ and
   $\lvert A_- \rvert - \alpha A_+ = g\,(1 / P_- - \alpha / P_+)$ between $m_1$ and $m_2$. Beyond $m_2$ it is $-\alpha (A_+ + \lvert A_- \rvert)$.
   - $\alpha > P_+ / P_-$: the middle slope is negative, so the maximum is at $m_1$ alone, and $\rho_+ = 1 + \varepsilon$.
   - $0 < \alpha < P_+ / P_-$: the maximum is at $m_2$ alone, with $\rho_- = 1 - \varepsilon$ and $\rho_+ = 1 + \varepsilon P_- / P_+$.
   - $\alpha = 0$: all $m \in [m_2, P_-]$ are maximizers, so $\rho_+$ is anything from $1 + \varepsilon P_- / P_+$ to $1 / P_+$.
   - $\alpha = P_+ / P_-$: the middle slope is 0, so all $m \in [m_1, m_2]$ are maximizers, and $\rho_+$ is anything between its values at the two.

   A roll-back keeps a ratio inside only if it is steep enough to hold against what the other actions are still paid.
""",
        rubric=r"""1 point: part 1, bound and equality. 1 point: part 2, condition in both directions and a policy with infinite KL. 2 points:
part 3, one for the reduction to equal ratios within a group (Jensen), one for the smallest $m$ and both numbers. 2 points: part 4,
one for the slopes between the kinks, one for the four cases (a missing tie at $\alpha = P_+ / P_-$ costs nothing).""",
    )


def nudged(log_ratio: Tensor, ends: Tensor) -> Tensor:
    """Log-ratios none of which lies near one of its ends ([..., any number] for each), where the answer may jump."""
    for _ in range(9):
        near = ((log_ratio.exp()[..., None] - ends).abs() < 2e-3).any(-1)
        log_ratio = torch.where(near, log_ratio + 0.013, log_ratio)
    return log_ratio


def surrogate(draw: Random) -> Code:
    """A clipped surrogate with other ends, another slope beyond them and another mean: 27 forms, and their constants."""
    size, slope, rate = draw.choice([0.4, 0.5, 1.5, 2.0]), draw.choice([0.1, 0.2, 0.3]), draw.choice([0.7, 0.8, 0.9])
    end_text, end_code, end = draw.choice([
        (f"$e_t = 1 + {size:g}\\,\\varepsilon$ if $A_t \\ge 0$, and $e_t = 1 - \\varepsilon$ if $A_t < 0$", f"torch.where(good, 1.0 + {size} * clip_eps, 1.0 - clip_eps)", lambda a, eps: 1 + size * eps if a >= 0 else 1 - eps),
        (f"$e_t = (1 + \\varepsilon)^{{{size:g}}}$ if $A_t \\ge 0$, and $e_t = 1 / (1 + \\varepsilon)$ if $A_t < 0$", f"torch.where(good, (1.0 + clip_eps) ** {size}, 1.0 / (1.0 + clip_eps))", lambda a, eps: math.exp((size if a >= 0 else -1.0) * math.log(1 + eps))),
        (f"$e_t = 1 + \\varepsilon_t$ if $A_t \\ge 0$, and $e_t = 1 - \\varepsilon_t$ if $A_t < 0$, with $\\varepsilon_t = \\varepsilon / (1 + {size:g}\\,|A_t|)$: where more is at stake, less is allowed", f"1.0 + torch.where(good, 1.0, -1.0) * clip_eps / (1.0 + {size} * advantage.abs())", lambda a, eps: 1 + (1 if a >= 0 else -1) * eps / (1 + size * abs(a))),
    ])  # fmt: skip
    beyond_text, beyond_code, beyond, steep = draw.choice([
        (f"$g(x) = -{slope}\\,x$ (a roll-back: going further costs)", f"-{slope} * (ratio - end)", lambda x: -slope * x, lambda x: -slope),
        (f"$g(x) = {slope}\\,x$ (a leak: going further still pays a little)", f"{slope} * (ratio - end)", lambda x: slope * x, lambda x: slope),
        (f"$g(x) = {slope}\\tanh(x / {slope})$ (a soft clip: the pay fades out)", f"{slope} * torch.tanh((ratio - end) / {slope})", lambda x: slope * math.tanh(x / slope), lambda x: 1 - math.tanh(x / slope) ** 2),
    ])  # fmt: skip
    mean_text, mean_code, weigh = draw.choice([
        (f"$L$ is the weighted mean of the $f_t$ of all eligible steps, where a step in row $t$ ($t = 0, 1, \\dots$) has the weight ${rate}^t$: late steps are visited less under discounting. A weighted mean divides by the sum of the weights", f"    weight = eligible * {rate} ** torch.arange(len(term))[:, None]\n    return (weight * term).sum() / weight.sum()", lambda t, ratio, count, columns: rate**t),
        ("Every environment counts alike: $L$ is the mean over environments (columns) of the mean of $f_t$ over that environment's eligible steps. Environments without an eligible step are left out of the outer mean", "    count = eligible.sum(0)\n    column = (eligible * term).sum(0)[count > 0] / count[count > 0]\n    return column.mean()", lambda t, ratio, count, columns: 1 / count / columns),
        ("$L$ is the weighted mean of the $f_t$ of all eligible steps, where a step has the weight $\\min(1, \\rho_t)$: what the new policy hardly does counts little. A weighted mean divides by the sum of the weights, and **the weights are numbers: no gradient flows through them**", "    weight = eligible * ratio.detach().clamp(max=1.0)\n    return (weight * term).sum() / weight.sum()", lambda t, ratio, count, columns: min(1.0, ratio)),
    ])  # fmt: skip

    def oracle(log_prob, behavior_log_prob, advantage, eligible, clip_eps):
        steps, envs = log_prob.shape
        counts = [sum(bool(eligible[t, b]) for t in range(steps)) for b in range(envs)]
        total = weights = 0.0
        slopes = torch.zeros_like(log_prob)
        for b in range(envs):
            for t in range(steps):
                if not eligible[t, b]:
                    continue
                a, ratio = float(advantage[t, b]), math.exp(float(log_prob[t, b] - behavior_log_prob[t, b]))
                x = ratio - end(a, clip_eps)
                past = x > 0 if a >= 0 else x < 0
                w = weigh(t, ratio, counts[b], sum(n > 0 for n in counts))
                total, weights = total + w * a * (ratio - x + beyond(x) if past else ratio), weights + w
                slopes[t, b] = w * a * (steep(x) if past else 1.0) * ratio
        return (
            torch.tensor(total / weights).double(),
            slopes / weights,
            torch.zeros_like(log_prob),
            torch.zeros_like(log_prob),
        )

    def given(
        log_ratio: Tensor, advantage: Tensor, eligible: Tensor, clip_eps: float, behavior_log_prob: Tensor
    ) -> dict:
        ends = torch.tensor([[end(a, clip_eps) for a in row] for row in advantage.tolist()]).double()
        log_prob = behavior_log_prob + nudged(log_ratio, ends[..., None])
        return {"log_prob": log_prob, "behavior_log_prob": behavior_log_prob, "advantage": advantage, "eligible": eligible, "clip_eps": clip_eps}  # fmt: skip

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, steps, envs, moved, kept, clip_eps in (
            ("one row", 1, 5, 0.4, 0.7, 0.2),
            ("one environment", 9, 1, 0.4, 0.7, 0.2),
            ("a small step", 8, 3, 0.05, 0.8, 0.3),
            ("a large step", 10, 4, 1.0, 0.6, 0.1),
            ("everything is eligible", 6, 3, 0.5, 1.1, 0.2),
            ("wild numbers where nothing is eligible", 7, 4, 0.4, 0.5, 0.25),
        ):
            log_ratio, advantage = torch.randn(2, steps, envs, generator=generator, dtype=torch.float64)
            eligible = torch.rand(steps, envs, generator=generator) < kept
            behavior_log_prob = -3.0 * torch.rand(steps, envs, generator=generator, dtype=torch.float64)
            log_ratio = moved * log_ratio.clamp(-2.5, 2.5)
            eligible[0, 0] = True  # somebody counts
            eligible[-1, -1] = True
            if name.startswith("wild"):
                eligible[:, 1] = False  # an environment without any eligible step
                log_ratio = torch.where(eligible, log_ratio, 25.0 * log_ratio)
            if name == "one row":
                advantage[0, 0] = 0.0
            made.append(Case(name, given(log_ratio, advantage, eligible, clip_eps, behavior_log_prob)))
        return made

    log_ratio = torch.tensor([[0.5, -0.625, 0.75], [0.0625, 0.75, -0.5], [-0.75, 0.0, 0.25]]).double()
    advantage = torch.tensor([[1.0, -2.0, 1.5], [0.5, -1.0, -1.0], [1.5, 2.0, 0.5]]).double()
    eligible = torch.tensor([[True, True, False], [True, True, False], [False, True, False]])  # an empty column
    behavior = torch.tensor([[-1.0, -2.0, -1.25], [-0.5, -1.5, -0.75], [-1.0, -0.25, -2.0]]).double()
    return Code(
        name="q2",
        title="A surrogate with a twist",
        points=5,
        minutes=35,
        goal="to keep apart where pay ends, what comes after, who counts, and what carries a gradient",
        text=rf"""
Write `twisted_surrogate`, an objective $L$ (to be maximized) made of terms $f_t$, one for each step and environment. With
$\rho_t$ the ratio of the two policies, $\varepsilon$ the argument `clip_eps`, and $e_t$ the ratio at which pay ends,

$$
f_t = \begin{{cases}}
A_t\, \big(e_t + g(\rho_t - e_t)\big) & \text{{if }} A_t \ge 0 \text{{ and }} \rho_t > e_t, \text{{ or }} A_t < 0 \text{{ and }} \rho_t < e_t, \\
A_t\, \rho_t & \text{{otherwise.}}
\end{{cases}}
$$

- The end: {end_text}.
- Beyond the end: {beyond_text}.
- The mean: {mean_text}.
- `behavior_log_prob` and `advantage` are data. **No gradient flows through them**, whatever they were computed from. The hidden
  cases also look at the gradients by `log_prob`, `behavior_log_prob` and `advantage`.

Steps that are not eligible count nowhere, whatever stands in them (finite numbers, and their ratios are finite in float32,
too); at least one step is eligible. A column may have none.
""",
        function="twisted_surrogate",
        header='''def twisted_surrogate(log_prob, behavior_log_prob, advantage, eligible, clip_eps):
    """The objective, a scalar tensor. All tensors are [T, B]; eligible is bool; clip_eps is a number in (0, 1)."""''',
        body=f"""    advantage = advantage.detach()
    ratio = (log_prob - behavior_log_prob.detach()).exp()
    good = advantage >= 0.0
    end = {end_code}
    past = torch.where(good, ratio > end, ratio < end)
    term = advantage * torch.where(past, end + {beyond_code}, ratio)
{mean_code}""".replace("+ -", "- "),
        oracle=oracle,
        cases=cases,
        example=Case("example", given(log_ratio, advantage, eligible, 0.2, behavior)),
        leaves=("log_prob", "behavior_log_prob", "advantage"),
    )


def padded(generator: Generator, sizes: tuple[int, ...], moved: float) -> dict[str, Tensor]:
    """Minibatches of several sizes as rows of one rectangle; `valid` says which entries are real."""
    log_ratio, advantage = torch.randn(2, len(sizes), max(sizes), generator=generator, dtype=torch.float64)
    room = torch.rand(len(sizes), max(sizes), generator=generator).argsort(1)  # padding need not stand at the end
    return {
        "log_ratio": moved * log_ratio.clamp(-2.5, 2.5),
        "advantage": advantage,
        "valid": room < torch.tensor(sizes)[:, None],
    }


def drift(draw: Random) -> Code:
    """What a run reports of every minibatch: an estimate, a share and a summary in time, 27 forms and their constants."""
    part, keep = draw.choice([0.4, 0.5, 0.6]), draw.choice([0.6, 0.75, 0.8, 0.9])
    kl_text, kl_code, kl = draw.choice([
        (f"the mean over the valid entries of $-\\log\\rho + {part}\\,(\\rho - 1)$: also unbiased for $\\mathrm{{KL}}(\\pi_b \\Vert \\pi_\\theta)$, ${part}$ of the way from $k_1$ to $k_3$", f"        estimate = ({part} * (ratio - 1.0) - u).mean()", lambda us: sum(part * (math.exp(u) - 1) - u for u in us) / len(us)),
        ("the mean over the valid entries of $\\rho \\log \\rho - \\rho + 1$: never negative, and unbiased for the **other** direction, $\\mathrm{KL}(\\pi_\\theta \\Vert \\pi_b)$, from the same samples of $\\pi_b$", "        estimate = (ratio * u - ratio + 1.0).mean()", lambda us: sum(math.exp(u) * u - math.exp(u) + 1 for u in us) / len(us)),
        ("$\\bar k_1 + c\\,(\\bar\\rho - 1)$, where bars are means over the valid entries and the coefficient $c$ is the one that takes most of the noise away: $c = -\\sum_i (k_{1,i} - \\bar k_1)(\\rho_i - \\bar\\rho) \\big/ \\sum_i (\\rho_i - \\bar\\rho)^2$, with sums over the minibatch's valid entries, and $c = 0$ where that denominator is 0", "        spread = (ratio - ratio.mean()).square().sum()\n        common = ((ratio - ratio.mean()) * -u).sum()\n        c = -common / spread if spread > 0.0 else 0.0\n        estimate = -u.mean() + c * (ratio.mean() - 1.0)", None),
    ])  # fmt: skip
    if kl is None:

        def kl(us):
            n, ratios = len(us), [math.exp(u) for u in us]
            pairs = [(i, j) for i in range(n) for j in range(i)]  # covariances from pairs of rows, no means
            spread = sum((ratios[i] - ratios[j]) ** 2 for i, j in pairs)
            common = sum((ratios[i] - ratios[j]) * (us[j] - us[i]) for i, j in pairs)
            return -sum(us) / n - (common / spread if spread else 0.0) * (sum(ratios) / n - 1)

    share_text, share_code, share = draw.choice([
        ("of the valid entries with $A \\ne 0$, the fraction that is silent: PPO's clipped objective, with $\\varepsilon$ = `clip_eps`, has slope 0 there", "        fraction = silent.sum() / max(int((a != 0.0).sum()), 1)", lambda rows: (sum(s for s, w, o, a in rows), sum(a != 0 for s, w, o, a in rows))),
        ("the fraction of the teaching that is silenced: $\\sum |A|$ over the valid entries at which PPO's clipped objective, with $\\varepsilon$ = `clip_eps`, has slope 0 although $A \\ne 0$, divided by $\\sum |A|$ over all valid entries", "        fraction = (silent * a.abs()).sum() / a.abs().sum() if (a != 0.0).any() else 0.0", lambda rows: (sum(s * abs(a) for s, w, o, a in rows), sum(abs(a) for s, w, o, a in rows))),
        ("of the valid entries whose ratio lies outside $[1 - \\varepsilon, 1 + \\varepsilon]$ ($\\varepsilon$ = `clip_eps`), the fraction that was dragged there the wrong way: out above with $A < 0$, or out below with $A > 0$ (with $A = 0$ no way is wrong, but the entry is one of those outside)", "        outside = (ratio > 1.0 + clip_eps) | (ratio < 1.0 - clip_eps)\n        wrong = outside & ~silent & (a != 0.0)\n        fraction = wrong.sum() / max(int(outside.sum()), 1)", lambda rows: (sum(w for s, w, o, a in rows), sum(o for s, w, o, a in rows))),
    ])  # fmt: skip
    past_text, past_code, past = draw.choice([
        (f"an exponential average of the first number: $m_0$ is the estimate of minibatch 0 itself, and $m_k = {keep}\\,m_{{k-1}} + (1 - {keep})$ times the estimate of minibatch $k$", f"estimate if not rows else {keep} * rows[-1][2] + (1 - {keep}) * estimate", lambda ks, ns: sum((1.0 if j == 0 else 1 - keep) * keep ** (len(ks) - 1 - j) * k for j, k in enumerate(ks))),
        ("the mean of the first number over the minibatches $0, \\dots, k$, each weighted with its number of valid entries", "(estimate * len(u) + sum(row[0] * n for row, n in zip(rows, sizes))) / (len(u) + sum(sizes))", lambda ks, ns: sum(k * n for k, n in zip(ks, ns, strict=True)) / sum(ns)),
        ("the largest of the first numbers of the minibatches $0, \\dots, k$", "max([estimate] + [row[0] for row in rows])", lambda ks, ns: sorted(ks)[-1]),
    ])  # fmt: skip

    def oracle(log_ratio, advantage, valid, clip_eps):
        estimates, counts, wanted = [], [], torch.zeros(3, len(log_ratio)).double()
        for k in range(len(log_ratio)):
            us, rows = [], []
            for i in range(log_ratio.shape[1]):
                if valid[k, i]:
                    u, a = float(log_ratio[k, i]), float(advantage[k, i])
                    high, low = math.exp(u) > 1 + clip_eps, math.exp(u) < 1 - clip_eps
                    us.append(u)
                    rows.append(
                        ((high and a > 0) or (low and a < 0), (high and a < 0) or (low and a > 0), high or low, a)
                    )
            estimates.append(kl(us))
            counts.append(len(us))
            top, bottom = share(rows)
            wanted[0, k], wanted[1, k] = estimates[-1], top / bottom if bottom else 0.0
            wanted[2, k] = past(estimates, counts)
        return wanted

    def given(made: dict[str, Tensor], clip_eps: float) -> dict:
        ends = torch.tensor([1 - clip_eps, 1 + clip_eps]).double()
        return {**made, "log_ratio": nudged(made["log_ratio"], ends), "clip_eps": clip_eps}

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, sizes, moved, clip_eps in (
            ("one minibatch", (7,), 0.3, 0.2),
            ("a last minibatch that is shorter", (6, 6, 6, 3), 0.3, 0.2),
            ("minibatches of one row", (1, 4, 1, 3, 1), 0.4, 0.2),
            ("far away", (8, 5, 8, 6), 0.9, 0.1),
            ("hardly moved", (5, 5, 4), 0.05, 0.3),
            ("advantages that are 0", (6, 3, 5), 0.5, 0.2),
            ("between one end and another", (4, 4, 4, 4), 0.05, 0.2),
        ):
            drawn = padded(generator, sizes, moved)
            if "are 0" in name:
                drawn["advantage"][:, ::2] = 0.0
                drawn["advantage"][:, 1] = torch.tensor([-1.0, 0.0, 1.0])
                drawn["advantage"][1] = 0.0
                drawn["log_ratio"][:, :2], drawn["log_ratio"][:, 2], drawn["valid"][:, :3] = 0.6, -0.7, True
            if "between" in name:  # 0.2 outside in logarithms is not 0.2 outside in ratios, and 1 / 1.2 is not 0.8
                drawn["log_ratio"] = drawn["log_ratio"].abs()
                drawn["log_ratio"][:, 0] = torch.tensor([0.19, 0.19, -0.21, -0.21]).double()
                drawn["advantage"][:, 0] = torch.tensor([1.0, -1.5, -0.5, 2.0]).double()
            if name == "far away":
                drawn["log_ratio"][1] = 0.0  # nothing has moved
                drawn["log_ratio"][2:] *= 0.3  # and the largest number lies far behind
            made.append(Case(name, given(drawn, clip_eps)))
        return made

    example = {
        "log_ratio": torch.tensor(
            [
                [0.75, -0.75, 0.125, 0.5],
                [-0.5, 0.875, 0.0, -0.125],
                [0.1875, -0.25, 0.9375, -0.375],
                [0.375, 0.5, 0.0, -1.0],
            ]
        ).double(),
        "advantage": torch.tensor(
            [[1.0, -2.0, 0.5, -1.0], [2.0, 1.0, -1.0, 0.5], [-0.5, 1.0, 2.0, -1.5], [0.0, 1.0, -0.5, 1.0]]
        ).double(),
        "valid": torch.tensor(
            [[True, True, True, True], [True, False, True, True], [True, True, False, True], [True, True, True, False]]
        ),
    }
    return Code(
        name="q3",
        title="A report that does not flatter",
        points=5,
        minutes=35,
        goal="what a sampled KL and a clip fraction do and do not say",
        text=rf"""
Write `drift_report`. Row $k$ of its tensors is minibatch $k$, in the order of the update ($k = 0, 1, \dots$); where `valid` is
false there is padding, which counts nowhere (it need not stand at the end). Every minibatch has at least one valid entry. The
actions came from $\pi_b$, $\log\rho$ is `log_ratio`, and $k_1 = -\log\rho$. For each minibatch report three numbers:

1. {kl_text};
2. {share_text}; it is 0 where it would be 0 divided by 0;
3. {past_text}.

The answer is a tensor `[3, K]`: these three numbers, in this order, of each of the $K$ minibatches. (No ratio lies exactly at an
end of the interval.)
""",
        function="drift_report",
        header='''def drift_report(log_ratio, advantage, valid, clip_eps):
    """A report [3, K]. All tensors are [K, N]; valid is bool; clip_eps is a number in (0, 1)."""''',
        body=f"""    rows, sizes = [], []
    for k in range(len(log_ratio)):
        u, a = log_ratio[k][valid[k]], advantage[k][valid[k]]
        ratio = u.exp()
        silent = ((ratio > 1.0 + clip_eps) & (a > 0.0)) | ((ratio < 1.0 - clip_eps) & (a < 0.0))
{kl_code}
{share_code}
        summary = {past_code}
        rows.append([float(estimate), float(fraction), float(summary)])
        sizes.append(len(u))
    return torch.tensor(rows).T""",
        oracle=oracle,
        cases=cases,
        example=Case("example", given(example, 0.2)),
    )


def epoch(draw: Random) -> Code:
    """Find the bug: an epoch of minibatches with normalized advantages, an uneven clip and an early stop."""
    high, slack = draw.choice([1.4, 1.5, 2.0]), draw.choice([1.5, 2.0, 2.5])

    def oracle(log_ratio, advantage, valid, clip_eps, target_kl):
        wanted = torch.zeros(len(log_ratio)).double()
        for k in range(len(log_ratio)):
            here = [i for i in range(log_ratio.shape[1]) if valid[k, i]]
            us, advs, n = [float(log_ratio[k, i]) for i in here], [float(advantage[k, i]) for i in here], len(here)
            if sum(math.exp(u) - 1 - u for u in us) > n * slack * target_kl:
                return wanted
            if n == 1:
                continue
            variance = sum((x - y) ** 2 for x in advs for y in advs) / (2 * n * (n - 1))
            for u, x in zip(us, advs, strict=True):
                a, ratio = (x - sum(advs) / n) / (math.sqrt(variance) + 1e-8), math.exp(u)
                wanted[k] += a * (min(ratio, 1 + high * clip_eps) if a > 0 else max(ratio, 1 - clip_eps)) / n
        return wanted

    def stops(given: dict) -> list[float]:
        """How far the mean k3 of each minibatch lies above the stop."""
        return [
            float((torch.expm1(u[v]) - u[v]).mean()) - slack * given["target_kl"]
            for u, v in zip(given["log_ratio"], given["valid"], strict=True)
        ]

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, sizes, moves, target_kl, stop in (
            ("nothing stops", (6, 6, 5), (0.3, 0.4, 0.5), 2.0, None),
            ("the third minibatch is too far", (7, 7, 7, 7, 4), (0.1, 0.15, 0.5, 0.1, 0.1), 0.05, 2),
            ("all sampled actions are likelier", (6, 6, 6), (0.05, 0.8, 0.1), 0.05, 1),
            ("a minibatch of one row", (5, 1, 5, 1), (0.4, 0.2, 0.4, 0.1), 1.0, None),
            ("the first one is too far", (5, 5), (1.2, 0.1), 0.03, 0),
            ("the last one is too far", (4, 8, 3), (0.2, 0.2, 1.5), 0.1, 2),
            ("all are less likely, and just not too far", (6, 6, 4), (0.6, 0.7, 0.6), None, None),
            ("hardly any spread", (5, 4), (0.4, 0.3), 2.0, None),
        ):
            # Of the third one alone: it is too far, the mean of the first three is not.
            above, most = [0.0], 0.8 * slack * 0.05 if name.startswith("the third") else math.inf
            while (
                min(map(abs, above)) < 1e-3
                or next((k for k, x in enumerate(above) if x > 0), None) != stop
                or max(above) > most
            ):
                given = padded(generator, sizes, 1.0)
                given["advantage"] *= 1e-8 if "spread" in name else 1.0
                given["log_ratio"] *= torch.tensor(moves).double()[:, None]
                if name.startswith("all"):
                    given["log_ratio"] = given["log_ratio"].abs() + 0.02
                if target_kl is None:  # k2 lies above the stop, k3 does not
                    given["log_ratio"] = -given["log_ratio"].abs() - 0.4
                given["log_ratio"] = nudged(given["log_ratio"], torch.tensor([0.8, 1 + 0.2 * high]).double())
                largest = max(stops(given | {"target_kl": 0.0}))
                given |= {"clip_eps": 0.2, "target_kl": largest / (0.95 * slack) if target_kl is None else target_kl}
                above = stops(given)
            made.append(Case(name, given))
        return made

    clip = f"ratio.clamp(1.0 - clip_eps, 1.0 + {high} * clip_eps)"
    fault = draw.choice([
        Fault("the stop looks at k1", "torch.expm1(log_ratio) - log_ratio)", "-log_ratio)", "fault 10; Spinning Up issue 137"),
        Fault("the spread of one row is NaN", "(size - 1).clamp(min=1)", "(size - 1)", "fault 11; Stable-Baselines3 pull request 1028"),
        Fault("the stop is tested on the last minibatch only", "(drift > ", "(drift[-1:] > ", "fault 12; CleanRL issue 520: one test an epoch, of its last minibatch"),
        Fault("the clip range is one of log-ratios", clip, f"log_ratio.clamp(-clip_eps, {high} * clip_eps).exp()", "fault 13"),
        Fault("a masked mean that divides by the padded length", "(valid * x).sum(1) / size", "(valid * x).mean(1)", "Stable-Baselines3 contrib issue 75, mended in its pull request 78: th.mean(values * mask) in RecurrentPPO"),
    ])  # fmt: skip
    example = {
        "log_ratio": torch.tensor([[0.125, -0.125, 0.0625, 0.0], [-0.125, 0.125, 0.0625, 0.03125]]).double(),
        "advantage": torch.tensor([[1.0, -2.0, 0.5, 1.0], [2.0, 1.0, -1.0, 0.5]]).double(),
        "valid": torch.ones(2, 4, dtype=torch.bool),
        "clip_eps": 0.2,
        "target_kl": 0.05,
    }
    return Code(
        name="q4",
        title="Find the bug: an epoch that ends wrong",
        points=4,
        minutes=20,
        goal="to read an update as the sum of its small habits, each of which can fail alone",
        text=rf"""
`faulty_epoch_objectives` gets the log of one epoch: row $k$ of `log_ratio` is what minibatch $k$ saw when its turn came. Entries
that are not `valid` are padding; every minibatch has at least one valid entry. For each minibatch in turn it is meant to do this,
over the valid entries of that minibatch only:

- If the mean of $k_3$ exceeds ${slack:g}$ times `target_kl`, the epoch ends: the objective of this minibatch and of all later ones is 0.
- Else normalize the advantages: subtract their mean, and divide by their standard deviation plus $10^{{-8}}$. It is the one with $n - 1$
  in the denominator, for $n$ valid entries; a single entry, which has no spread, gets the advantage 0.
- The objective is the mean of $\min(\rho A, \bar\rho A)$, with these advantages and with $\bar\rho$ the ratio clipped to
  $[1 - \varepsilon,\ 1 + {high:g}\,\varepsilon]$, where $\varepsilon$ is `clip_eps`.

One line holds a mistake that real code has had. Find it, and write the function as it should be, as `epoch_objectives`. The
example below passes with the mistake in.
""",
        function="epoch_objectives",
        header='''def epoch_objectives(log_ratio, advantage, valid, clip_eps, target_kl):
    """Objectives [K]. All tensors are [K, N]; valid is bool; clip_eps and target_kl are numbers."""''',
        body=f"""    size, ratio = valid.sum(1), log_ratio.exp()

    def average(x):  # of each minibatch: [K, N] to [K]
        return (valid * x).sum(1) / size

    drift = average(torch.expm1(log_ratio) - log_ratio)
    ended = (drift > {slack} * target_kl).cumsum(0) > 0
    centered = advantage - average(advantage)[:, None]
    variance = size * average(centered.square()) / (size - 1).clamp(min=1)
    scaled = centered / (variance.sqrt() + 1e-8)[:, None]
    bounded = {clip}
    gain = average(torch.minimum(ratio * scaled, bounded * scaled))
    return gain.masked_fill(ended, 0.0)""",
        oracle=oracle,
        cases=cases,
        example=Case("example", example),
        fault=fault,
    )


def climb(draw: Random, share: float, eps: float) -> Experiment:
    alpha, big = draw.choice([0.4, 0.5, 0.6]), draw.choice([10.0, 20.0])
    near, far = least_kl(share, eps * share), least_kl(share, eps * (1 - share))
    return Experiment(
        name="q5",
        title="How far does it really go?",
        points=5,
        minutes=45,
        goal="to predict where an objective ends, and to see what the size of a step changes",
        text=rf"""
Question 1 on a computer. A softmax policy over four actions has its logits as parameters. $\pi_b$ gives the only good action the
probability {share}, and the three bad ones share the rest as 0.5 : 0.3 : 0.2. The good action's advantage is 1, the bad ones
have the same advantage, and $\sum_a p_a A_a = 0$. Start at $\pi_b$ and take 1500 steps of gradient ascent with the **exact** gradient
(sums over actions, no samples), four times:

- on the surrogate $\sum_a p_a \rho_a A_a$, step size 0.1;
- on $L^{{\mathrm{{clip}}}}$ with $\varepsilon_{{\mathrm{{clip}}}} = {eps}$, step size 0.1;
- on the same $L^{{\mathrm{{clip}}}}$, step size {big:g};
- on $L^{{\mathrm{{clip}}}}$ with the roll-back of question 1, part 4, with $\alpha = {alpha}$, step size 0.1.

Draw one figure: $\mathrm{{KL}}(\pi_b \Vert \pi_\theta)$ in nats on a logarithmic axis against the step, from step 1 on (at step 0 it is 0), one line
for each run, and as horizontal lines what question 1 predicts: the smallest KL of a maximizer, without the roll-back (part 3), and with
it (part 4, with the bad actions moved evenly). Axes need names. Print the final KL and the final ratios of every run. Then answer in
at most six sentences:

- Which runs have come to rest after 1500 steps, which is still moving to and fro, and which keeps growing?
- Compare the final KL of the last three with the horizontal lines. Which are at the predicted smallest KL, up to the size of their
  steps? Is one that is not there a maximizer all the same?
- Why does the third run not come back?
""",
        code=f"""behavior = torch.cat([torch.tensor([{share}]), (1 - {share}) * torch.tensor([0.5, 0.3, 0.2])])
advantage = torch.tensor([1.0] + 3 * [-{share} / (1 - {share})])
sign = advantage.sign()
end = 1 + {eps} * sign


def climb(slope, size):
    logits, kl = behavior.log(), []
    for _ in range(1500):
        logits.requires_grad_()
        ratio = logits.softmax(-1) / behavior
        term = torch.where(sign * (ratio - end) > 0, end + slope * (ratio - end), ratio) * advantage
        grad = torch.autograd.grad((behavior * term).sum(), logits)[0]
        kl.append(-(behavior * ratio.detach().log()).sum().item())
        logits = logits.detach() + size * grad
    return kl, logits.softmax(-1) / behavior


def least_kl(moved):
    return -{share} * math.log(1 + moved / {share}) - (1 - {share}) * math.log(1 - moved / (1 - {share}))


figure, ax = plt.subplots()
for name, slope, size in (("surrogate", 1, 0.1), ("clip", 0, 0.1), ("clip, large steps", 0, {big}), ("roll-back", -{alpha}, 0.1)):
    kl, ratio = climb(slope, size)
    ax.plot(range(1, 1500), kl[1:], label=name)
    print(f"{{name}}: KL {{kl[-1]:.4f}}, ratios", [round(r, 3) for r in ratio.tolist()])
ax.axhline(least_kl({eps} * (1 - {share})), color="k", linestyle=":", label="least, clip")
ax.axhline(least_kl({eps} * {share}), color="k", linestyle="--", label="least, roll-back")
ax.set(xlabel="gradient step", ylabel="KL(old || new), nats", yscale="log")
ax.legend()
plt.show()""",
        solution=rf"""
The surrogate has no end: its KL still grows after 1500 steps, toward a policy that never plays a bad action. The clip with small
steps comes to rest just above the ${far:.4f}$ nats of part 3, with a ratio of the good action near ${1 + eps * (1 - share) / share:.4g}$ (pay stops at ${1 + eps:.4g}$): the good action is
dragged on by the bad ones, which are still paid for shrinking, until all are past their ends and the gradient is exactly 0. With
large steps it lands further out in the first few of them, and stays there: every policy in the flat region is a maximizer, and nothing
pulls back. The roll-back is steeper than $P_+ / P_- = {share / (1 - share):.3g}$ and holds the good action at its end: the KL stays within some tens of
percent of ${near:.4f}$ nats, where it moves to and fro across the kink by the length of a step. So how far
clipping lets a policy go depends on how rare the good actions are and on the size of the steps, not on $\varepsilon_{{\mathrm{{clip}}}}$ alone.
""",
        rubric="""2 points: a figure with all four runs, both predictions and named axes, right in its numbers. 1: the surrogate
keeps growing, both clips rest, the roll-back moves to and fro. 1: the clip's and the roll-back's final KL are the predicted ones up to the
size of a step; the run with large steps is at a maximizer, too, but at a larger KL. 1: it stays there
because the gradient is exactly 0 once every action is past its end.""",
    )
