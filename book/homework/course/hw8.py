"""Homework 8: answers as actions (chapters 9 and 9b)."""

from __future__ import annotations

import math
from collections import defaultdict
from random import Random

import torch
from torch import Generator, Tensor

from .hw4 import nudged
from .question import Assignment, Case, Code, Experiment, Fault, Written


def make(draw: Random) -> Assignment:
    return Assignment(
        name="hw8_language_models",
        title="Homework 8: the answer is the action",
        chapters="chapters 9 and 9b",
        intro="A whole answer is judged at its end, compared with the others to its prompt, and priced for every step away from a reference.",
        questions=[
            pairs(draw),
            tokens(draw),
            heard(draw),
            preferences(draw),
            kept(draw),
            objective(draw),
            myopic(draw),
        ],
    )


def eighths(generator: Generator, largest: int, *shape: int) -> Tensor:
    """Multiples of 1/8 from 0 up to `largest` / 8, exact in float32, of which many are equal."""
    return torch.randint(0, largest + 1, shape, generator=generator).double() / 8


def coarse(generator: Generator, *shape: int, scale: float = 1.0) -> Tensor:
    """Normal numbers, rounded to multiples of 1/64: sums and differences of them are exact in float32."""
    return (64 * scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).round() / 64


def lengths(generator: Generator, rows: int, answers: int) -> Tensor:
    """Numbers of tokens of the answers, from 1 to `rows`; both occur, and `rows` - 1, where there are answers enough."""
    drawn = torch.randint(1, rows + 1, (answers,), generator=generator)
    if answers > 1:
        drawn[0], drawn[-1] = rows, 1
    if answers > 2:
        drawn[1] = max(1, rows - 1)
    return drawn


def pairs(draw: Random) -> Written:
    low, high, many = draw.choice([(0.2, 0.79, 100), (0.25, 0.74, 100), (0.2, 0.795, 200), (0.25, 0.745, 200)])
    rare = round(1 - low - high, 3)
    chance, reward = (low, high, rare), (0, 1, many)
    mean = sum(p * r for p, r in zip(chance, reward, strict=True))
    wins = (-(high + rare), low - rare, low + high)
    slope = [p * w / math.sqrt(2) for p, w in zip(chance, wins, strict=True)]
    true = [p * (r - mean) for p, r in zip(chance, reward, strict=True)]
    change = sum(a * b for a, b in zip(slope, true, strict=True))
    assert change < 0.0, "part 4 says that the reward falls"
    return Written(
        name="q1",
        title="What a pair hears",
        points=5,
        minutes=45,
        goal="what may be subtracted from a reward, and what a division by the group's spread makes of the objective",
        text=rf"""
$G$ answers $y_1, \dots, y_G$ to one prompt are drawn independently from $\pi_\theta$, with rewards $r_i = r(y_i)$, and the estimate is
$\hat g = \frac1G \sum_i A_i \nabla_\theta \log \pi_\theta(y_i)$, where the $A_i$ are numbers. There are finitely many answers, all of positive probability.

1. Let $A_i = r_i - b(r_{{-i}})$, where $b$ is any function of the *other* rewards: their mean, their median, the best of them. Show
   that $\mathbb E\, \hat g = \nabla J$. Where does your argument fail for the mean of all $G$ rewards, and what is $\mathbb E\, \hat g$ then?
2. Now $G = 2$, with GRPO's advantages: the mean of both is subtracted, and the difference is divided by the sample standard
   deviation of the two. (Equal rewards give 0; no $\varepsilon$.) Show that $A_1 = \operatorname{{sign}}(r_1 - r_2) / \sqrt 2$, and that

$$\mathbb E\, \hat g = \tfrac{{1}}{{\sqrt 2}} \nabla_\theta\, W(\theta), \qquad W(\theta) = \mathbb P\big(r(Y) > r(Y')\big) - \mathbb P\big(r(Y) < r(Y')\big), \quad Y \sim \pi_\theta,\ Y' \sim \pi_{{\bar\theta}},$$

   where $\bar\theta$ is held at the value of $\theta$. What is $W$ for rewards that are only 0 or 1?
3. Which changes of the reward function leave $\mathbb E\, \hat g$ of part 2 as it is, whatever the policy? Which of them leave $\nabla J$ as it is?
4. One prompt has three answers with the rewards $0, 1, {many}$ and the probabilities ${low}, {high}, {rare}$, and the three logits are
   the parameters. Compute $\nabla J$ and the $\mathbb E\, \hat g$ of part 2. A small step goes along $\mathbb E\, \hat g$: does $J$ rise or fall? What
   would $A_i = r_i - r_j$ ($j$ is the other one) have done?
""",
        solution=rf"""
1. Given the others, $b$ is a number and $y_i$ still has the law $\pi_\theta$, so $\mathbb E[b\, \nabla \log \pi_\theta(y_i)] = \mathbb E[b]\, \mathbb E[\nabla \log \pi_\theta(y_i)] = 0$, and
   $\mathbb E[r_i \nabla \log \pi_\theta(y_i)] = \nabla J$. The mean of all contains $r_i / G$, which depends on $y_i$. The other $G - 1$ terms of it vanish as before, so
   $\mathbb E\, \hat g = (1 - \frac1G) \nabla J$.
2. With $d = r_1 - r_2$ the centered rewards are $\pm d / 2$, and the sample variance is $2 \cdot d^2 / 4 = d^2 / 2$: $A_1 = \frac{{d / 2}}{{|d| / \sqrt 2}} = \operatorname{{sign}}(d) / \sqrt 2$. By
   symmetry both terms of $\hat g$ have the same mean, so $\mathbb E\, \hat g = \frac{{1}}{{\sqrt 2}} \mathbb E[\operatorname{{sign}}(r_1 - r_2) \nabla \log \pi_\theta(y_1)]$. Given $y_2 = y'$ this is the score-function
   gradient of $\mathbb E_{{Y \sim \pi_\theta}} \operatorname{{sign}}(r(Y) - r(y'))$; the mean over $y' \sim \pi_{{\bar\theta}}$ gives $\nabla W$. For rewards 0 and 1 let $p$ be the chance of a 1:
   $W = p_\theta (1 - p_{{\bar\theta}}) - (1 - p_\theta)\, p_{{\bar\theta}} = p_\theta - p_{{\bar\theta}}$, whose gradient is $\nabla p = \nabla J$.
3. Every strictly increasing function of the reward, since only signs of differences count. $\nabla J$ stays only if a constant is added
   (multiplying by $c$ multiplies it by $c$, and a bent function changes its direction as well).
4. $J = {mean:g}$. In the logits $\partial J / \partial z_k = \pi_k (r_k - J) = ({true[0]:.4f}, {true[1]:.4f}, {true[2]:.4f})$. The win rates less the loss rates are
   $({wins[0]:g}, {wins[1]:g}, {wins[2]:g})$, with mean 0 under $\pi$, so $\mathbb E\, \hat g = \pi_k w_k / \sqrt 2 = ({slope[0]:.4f}, {slope[1]:.4f}, {slope[2]:.4f})$. The change of $J$ for a step of
   size $\epsilon$ is $\epsilon$ times their product, ${change:.4f} < 0$: **$J$ falls**. The middle answer beats the worst one often and loses to the best one
   hardly ever, so it is raised, although it is worse than the mean, and what matters is too rare to be heard. Without the
   division part 1 holds, and $J$ rises by $\epsilon \lVert \nabla J \rVert^2 = {sum(x * x for x in true):.3f}\, \epsilon$ to first order.
""",
        rubric=r"""1 point for part 1: independence, and the factor $1 - 1/G$. 2 for part 2: one for the advantage, one for the gradient of $W$ with
the opponent held, and $W$ for right or wrong. 1 for part 3: increasing functions, and constants alone. 1 for part 4: both gradients and the sign;
a slip of arithmetic costs nothing if the sign is argued from it.""",
    )


def tokens(draw: Random) -> Code:
    """Rewards of tokens, returns, and a loss: 27 forms, and their constants."""
    floor, fee, share = draw.choice([0.3, 0.4, 0.6]), draw.choice([0.1, 0.2, 0.3]), draw.choice([0.6, 0.7, 0.8])
    price_text, price_code, priced = draw.choice([
        (f"$c_t = \\max(u_t, -{floor})$: what the reference likes better is paid back, but not without a limit", f"away.clamp(min=-{floor})", lambda u: max(u, -floor)),
        ("$c_t = \\tfrac12 u_t^2$", "0.5 * away.square()", lambda u: u * u / 2),
        ("$c_t = e^{-u_t} - 1 + u_t$", "torch.expm1(-away) + away", lambda u: math.exp(-u) - 1 + u),
    ])  # fmt: skip
    pay_text, pay_code, paid = draw.choice([
        (f"its last token earns $r(y) - {fee}\\, n$, where $n$ is its number of tokens", f"last * (reward - {fee} * length)", lambda t, n, rows, r: r - fee * n if t == n - 1 else 0.0),
        (f"its last token earns $r(y)$, but an answer that fills all $L$ rows counts as cut off: its last token earns $-{fee}$ instead", f"last * torch.where(mask[-1], -{fee}, reward)", lambda t, n, rows, r: (-fee if n == rows else r) if t == n - 1 else 0.0),
        (f"its last token earns ${share}\\, r(y)$, and the other ${round(1 - share, 2)}\\, r(y)$ is shared in equal parts by all its tokens, the last one included", f"({share} * last + {round(1 - share, 2)} / length) * reward", lambda t, n, rows, r: (share * (t == n - 1) + (1 - share) / n) * r),
    ])  # fmt: skip
    mean_text, mean_code, weigh = draw.choice([
        ("the mean over all tokens of the batch", "term.sum() / mask.sum()", lambda n, ns, rows: 1 / sum(ns)),
        ("for each answer the mean over its own tokens, and then the mean over answers", "(term.sum(0) / length).mean()", lambda n, ns, rows: 1 / n / len(ns)),
        ("the sum over all tokens, divided by $L B$, whatever the answers' lengths", "term.sum() / mask.numel()", lambda n, ns, rows: 1 / rows / len(ns)),
    ])  # fmt: skip

    def oracle(log_prob, reference_log_prob, mask, reward, beta):
        rows, answers = log_prob.shape
        ns = [sum(column) for column in mask.T.tolist()]
        total, slope = 0.0, torch.zeros_like(log_prob)
        for b, n in enumerate(ns):
            for t in range(n):
                credit = 0.0
                for later in range(t, n):
                    u = float(log_prob[later, b]) - float(reference_log_prob[later, b])
                    credit += paid(later, n, rows, float(reward[b])) - beta * priced(u)
                weight = -weigh(n, ns, rows) * credit
                total += weight * float(log_prob[t, b])
                slope[t, b] = weight
        return torch.tensor(total).double(), slope, torch.zeros_like(log_prob)

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, rows, answers, spread, beta in (
            ("ordinary answers", 6, 5, 0.5, 0.3),
            ("answers of one token", 4, 4, 0.7, 0.5),
            ("one answer", 5, 1, 0.6, 0.2),
            ("every answer fills all rows", 4, 3, 0.6, 0.4),
            ("no price", 5, 6, 0.8, 0.0),
            ("a high price, far from the reference", 5, 4, 1.4, 3.0),
            ("wild numbers behind the ends", 7, 6, 0.5, 0.25),
        ):
            length = lengths(generator, rows, answers)
            if name == "answers of one token":
                length[:] = 1
            elif name.startswith("every"):
                length[:] = rows
            elif name == "one answer":
                length[:] = rows - 2
            mask = torch.arange(rows)[:, None] < length
            reference = -3.0 * torch.rand(rows, answers, generator=generator, dtype=torch.float64)
            moved = spread * torch.randn(rows, answers, generator=generator, dtype=torch.float64).clamp(-2.5, 2.5)
            log_prob = reference + moved
            if name.startswith("wild"):
                reference = torch.where(mask, reference, 500.0)
                log_prob = torch.where(mask, log_prob, -400.0)
            reward = torch.rand(answers, generator=generator, dtype=torch.float64)
            given = {"log_prob": log_prob, "reference_log_prob": reference, "mask": mask, "reward": reward, "beta": beta}
            made.append(Case(name, given))
        return made

    return Code(
        name="q2",
        title="Paid at the end, priced on the way",
        points=5,
        minutes=40,
        goal="which token is paid, which tokens are priced, what is data, and what an average over tokens divides by",
        text=rf"""
Column $b$ of the tensors $[L, B]$ is an answer, and `mask` is true on its first $n$ rows ($n \ge 1$), up to and including its last
token. Behind it any finite numbers stand, such as 500, and they count nowhere. Write `token_loss`, a policy gradient's loss:

- A token's log-ratio is $u_t = \log \pi_\theta - \log \pi_{{\mathrm{{ref}}}}$, and its price is $\beta\, c_t$, where {price_text}.
- What an answer earns, with the task's reward $r(y)$ (`reward`): {pay_text}.
- A token's return $G_t$ is what its answer earns from this token on, this token's earnings included, less the prices of the same tokens.
- The loss is $-\operatorname{{mean}}[G_t \log \pi_\theta]$, where the mean is {mean_text}.

The returns are numbers: **a gradient flows through the $\log \pi_\theta$ that stands beside $G_t$, and nowhere else**. The hidden cases also look
at the gradients by `log_prob` and `reference_log_prob`.
""",
        function="token_loss",
        header='''def token_loss(log_prob, reference_log_prob, mask, reward, beta):
    """The loss, a scalar tensor. log_prob, reference_log_prob: [L, B]; mask: [L, B] bool; reward: [B]; beta: a number."""''',
        body=f"""    length = mask.sum(0)
    last = torch.arange(len(mask))[:, None] == length - 1
    away = (log_prob - reference_log_prob).detach().masked_fill(~mask, 0.0)
    earned = {pay_code}
    paid = (earned - beta * ({price_code})).masked_fill(~mask, 0.0)
    returns = paid.flip(0).cumsum(0).flip(0)
    term = returns * log_prob.masked_fill(~mask, 0.0)
    return -{mean_code}""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            {
                "log_prob": torch.tensor([[-1.0, -0.5, -2.0], [-0.5, -1.5, -1.0], [-2.0, -0.25, -0.75]]).double(),
                "reference_log_prob": torch.tensor([[-1.5, -0.75, -1.0], [-1.0, -0.5, -1.25], [-0.5, -1.0, -2.0]]).double(),
                "mask": torch.tensor([[True, True, True], [True, False, True], [True, False, False]]),
                "reward": torch.tensor([1.0, 0.25, 0.5]).double(),
                "beta": 0.5,
            },
        ),
        leaves=("log_prob", "reference_log_prob"),
    )  # fmt: skip


def heard(draw: Random) -> Code:
    """Advantages inside groups: two layouts, three baselines, three scales, and their constants."""
    shrink, floor = draw.choice([0.6, 0.7, 0.8]), draw.choice([0.05, 0.1, 0.2])
    place_text, rows_code, back_code, member = draw.choice([
        ("column $i$ answers prompt $\\lfloor i / G \\rfloor$: the answers to a prompt stand side by side", "reward.view(-1, group)", ".flatten()", lambda i, group, count: i // group),
        ("column $i$ answers prompt $i \\bmod P$ with $P = B / G$: all prompts once, then all prompts again", "reward.view(group, -1).T", ".T.flatten()", lambda i, group, count: i % (count // group)),
    ])  # fmt: skip
    base_text, base_code, based = draw.choice([
        ("the mean of the other answers' rewards", "others.mean(2)", lambda others, away: sum(others) / len(others)),
        ("the middle between the largest and the smallest of the other answers' rewards", "(others.amax(2) + others.amin(2)) / 2.0", lambda others, away: (max(others) + min(others)) / 2),
        (f"${shrink}$ times the mean of the other answers' rewards, plus ${round(1 - shrink, 2)}$ times the mean of all rewards of the other prompts", f"{shrink} * others.mean(2) + {round(1 - shrink, 2)} * (rows.sum() - rows.sum(1, keepdim=True)) / (rows.numel() - group)", lambda others, away: shrink * sum(others) / len(others) + (1 - shrink) * sum(away) / len(away)),
    ])  # fmt: skip
    scale_text, scale_code, scaled = draw.choice([
        (f"$D_i$ is divided by $s_i + {floor}$, where $s_i$ is the standard deviation of the *other* answers' rewards (the mean square of their distances from their own mean, under a root)", f"difference / (others.std(2, correction=0) + {floor})", lambda d, group, others, share: d / (math.sqrt(sum((a - b) ** 2 for a in others for b in others) / 2) / len(others) + floor)),
        (f"$D_i$ is divided by $s + {floor}$, where $s$ is the root of the mean of $D_j^2$ over the $G$ answers of its group", f"difference / (difference.square().mean(1, keepdim=True).sqrt() + {floor})", lambda d, group, others, share: d / (math.sqrt(sum(x * x for x in group) / len(group)) + floor)),
        ("$D_i$ is multiplied by $P / P_{\\mathrm{heard}}$, the number of prompts over the number of those that are heard, so that silent prompts do not make the step shorter", "difference * len(rows) / told.sum()", lambda d, group, others, share: d / share),
    ])  # fmt: skip

    def oracle(reward, group):
        values, count = reward.tolist(), len(reward)
        where = [member(i, group, count) for i in range(count)]
        pools = defaultdict(list)
        for i, prompt in enumerate(where):
            pools[prompt].append(i)
        told = {prompt: len({values[i] for i in pool}) > 1 for prompt, pool in pools.items()}
        gap = []
        rest = []
        for i, prompt in enumerate(where):
            rest.append([values[j] for j in pools[prompt] if j != i])
            gap.append(
                values[i] - based(rest[i], [x for x, other in zip(values, where, strict=True) if other != prompt])
            )
        share = sum(told.values()) / len(pools)
        wanted = [
            scaled(gap[i], [gap[j] for j in pools[prompt]], rest[i], share) if told[prompt] else 0.0
            for i, prompt in enumerate(where)
        ]
        return torch.tensor(wanted).double()

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, prompts, group, largest in (
            ("right or wrong", 5, 4, 1),
            ("graded rewards", 3, 5, 8),
            ("two prompts, groups of two", 2, 2, 8),
            ("groups of two", 7, 2, 8),
            ("groups of three", 4, 3, 3),
            ("some groups are of one mind", 6, 3, 8),
            ("nobody differs", 3, 4, 0),
            ("rewards below 0", 4, 4, 8),
            ("a square batch", 4, 4, 6),
        ):
            columns = eighths(generator, largest, prompts, group)
            columns[0, 0], columns[0, 1] = (0.0, 0.0) if name == "nobody differs" else (0.0, max(1, largest) / 8)
            if name == "right or wrong":
                columns = 8 * columns
            if name.startswith("some"):
                columns[1::2] = columns[1::2, :1]
            if name == "nobody differs":
                columns = eighths(generator, 8, prompts, 1).expand(prompts, group)
            if "below" in name:
                columns = columns - 2.0
            reward = torch.zeros(prompts * group).double()
            seen = [0] * prompts
            for i in range(len(reward)):
                prompt = member(i, group, len(reward))
                reward[i] = columns[prompt, seen[prompt]]
                seen[prompt] += 1
            made.append(Case(name, {"reward": reward, "group": group}))
        return made

    return Code(
        name="q3",
        title="Who is compared with whom",
        points=4,
        minutes=30,
        goal="what a baseline may know, what a scale does to a prompt, and which prompts are not heard at all",
        text=rf"""
There are $P \ge 2$ prompts with $G \ge 2$ answers each, $B = P G$. Write `heard_advantage`:

- {place_text};
- from each reward a baseline is subtracted, $D_i = r_i - b_i$, where $b_i$ is {base_text};
- {scale_text};
- a prompt whose $G$ rewards are all equal is not heard: its advantages are 0, whatever the rest says. (If none is heard, all are 0.)
""",
        function="heard_advantage",
        header='''def heard_advantage(reward, group):
    """The advantages [B]. reward: [B], float; group: G, the number of answers to each prompt."""''',
        body=f"""    rows = {rows_code}
    others = torch.stack([torch.cat([rows[:, :i], rows[:, i + 1 :]], 1) for i in range(group)], 1)
    difference = rows - ({base_code})
    told = rows.amax(1, keepdim=True) > rows.amin(1, keepdim=True)
    scaled = {scale_code}
    return torch.where(told, scaled, 0.0){back_code}""",
        oracle=oracle,
        cases=cases,
        example=Case("example", {"reward": torch.tensor([0.0, 1.0, 0.5, 0.25, 1.0, 1.0, 0.75, 0.5, 0.5]).double(), "group": 3}),
    )  # fmt: skip


def preferences(draw: Random) -> Code:
    """DPO's relatives: three margins, three losses, three means, and their constants."""
    rate, noise, offset = draw.choice([0.1, 0.2, 0.3]), draw.choice([0.1, 0.15, 0.2]), draw.choice([0.4, 0.5, 0.8])
    fit = draw.choice([0.2, 0.3, 0.5])
    margin_text, margin_code, margin = draw.choice([
        ("$h_i = u^+_i - u^-_i$", "up - down", lambda u, v, n, m: (u - v, 1.0, -1.0)),
        ("$h_i = u^+_i / n^+_i - u^-_i / n^-_i$, log-ratios per token", "up / length_chosen - down / length_rejected", lambda u, v, n, m: (u / n - v / m, 1 / n, -1 / m)),
        (f"$h_i = u^+_i - u^-_i - {rate}\\,(n^+_i - n^-_i)$, so that nothing is won by length alone", f"up - down - {rate} * (length_chosen - length_rejected)", lambda u, v, n, m: (u - v - rate * (n - m), 1.0, -1.0)),
    ])  # fmt: skip
    loss_text, loss_code, loss = draw.choice([
        (f"$f_i = -{round(1 - noise, 2)} \\log \\sigma(\\beta h_i) - {noise} \\log \\sigma(-\\beta h_i)$: a share of the labels is taken to be wrong", f"{round(1 - noise, 2)} * softplus(-beta * margin) + {noise} * softplus(beta * margin)", lambda h, beta: (_softplus(beta * h) - (1 - noise) * beta * h, beta * (_sigmoid(beta * h) - (1 - noise)))),
        ("$f_i = \\big(\\beta h_i - \\tfrac12\\big)^2$: the margin has a target, and beyond it is too far", "(beta * margin - 0.5).square()", lambda h, beta: ((beta * h - 0.5) ** 2, 2 * beta * (beta * h - 0.5))),
        (f"$f_i = -\\log \\sigma(\\beta h_i - {offset})$: winning has to be clear", f"softplus({offset} - beta * margin)", lambda h, beta: (_softplus(offset - beta * h), -beta * _sigmoid(offset - beta * h))),
    ])  # fmt: skip
    mean_text, mean_code, counts, extra = draw.choice([
        ("the weighted mean $\\sum_i w_i f_i / \\sum_i w_i$", "(weight * each).sum() / weight.sum()", lambda w: w, 0.0),
        ("the mean of the $f_i$ over the pairs with $w_i > 0$, all of them alike", "each[weight > 0.0].mean()", lambda w: float(w > 0), 0.0),
        (f"the weighted mean $\\sum_i w_i\\, (f_i + {fit}\\, g_i) / \\sum_i w_i$, where $g_i = -\\log \\pi_\\theta(y^+_i) / n^+_i$ keeps the chosen answers likely", f"(weight * (each - {fit} * chosen / length_chosen)).sum() / weight.sum()", lambda w: w, fit),
    ])  # fmt: skip

    def oracle(chosen, rejected, reference_chosen, reference_rejected, length_chosen, length_rejected, weight, beta):
        total = 0.0
        slopes = torch.zeros(2, len(chosen)).double()
        whole = sum(counts(w) for w in weight.tolist())
        for i in range(len(chosen)):
            n, m, w = int(length_chosen[i]), int(length_rejected[i]), counts(float(weight[i])) / whole
            u, v = float(chosen[i] - reference_chosen[i]), float(rejected[i] - reference_rejected[i])
            h, by_chosen, by_rejected = margin(u, v, n, m)
            value, slope = loss(h, beta)
            total += w * (value - extra * float(chosen[i]) / n)
            slopes[0, i] = w * (slope * by_chosen - extra / n)
            slopes[1, i] = w * slope * by_rejected
        zero = torch.zeros_like(chosen)
        return torch.tensor(total).double(), slopes[0], slopes[1], zero, zero

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, count, moved, beta in (
            ("ordinary pairs", 6, 1.0, 0.5),
            ("one pair", 1, 1.5, 0.3),
            ("at the reference", 5, 0.0, 0.5),
            ("a low price", 6, 2.0, 0.05),
            ("a high price", 5, 1.0, 4.0),
            ("log-ratios in the thousands", 6, 300.0, 2.0),
            ("many pairs of weight 0", 9, 1.0, 0.4),
        ):
            log_prob = -(coarse(generator, 2, count, scale=4.0).abs() + 5.0)
            reference = log_prob - coarse(generator, 2, count, scale=moved)
            length = torch.randint(1, 9, (2, count), generator=generator)
            weight = torch.tensor([1.0, 0.0, 0.5, 2.0]).double().repeat(count)[:count]
            if "weight 0" in name:
                weight[::2] = 0.0
            if "thousands" in name:  # far on both sides
                reference[0, :2] = log_prob[0, :2] + torch.tensor([6000.0, -6000.0]).double()
                weight[:2] = 1.0
            made.append(Case(name, {"chosen": log_prob[0], "rejected": log_prob[1], "reference_chosen": reference[0], "reference_rejected": reference[1], "length_chosen": length[0], "length_rejected": length[1], "weight": weight, "beta": beta}))  # fmt: skip
        return made

    return Code(
        name="q4",
        title="A preference, with a twist",
        points=4,
        minutes=30,
        goal="that a loss of preferences is a weighted likelihood: how much each pair counts, and for which of its two answers",
        text=rf"""
In pair $i$ the answer $y^+_i$ was preferred to $y^-_i$. `chosen` and `rejected` are their log-probabilities under the policy,
`reference_chosen` and `reference_rejected` those under the reference, all of whole answers; $n^+_i$ and $n^-_i$ are their numbers of tokens, and
$w_i \ge 0$ is a weight (`weight`). With the log-ratios $u^\pm_i = \log \pi_\theta(y^\pm_i) - \log \pi_{{\mathrm{{ref}}}}(y^\pm_i)$ write `preference_loss`:

- the margin is {margin_text};
- a pair's loss is {loss_text};
- the result is {mean_text}.

At least one weight is positive. It must be right for log-ratios in the thousands. **No gradient flows into the reference.** The hidden cases also look at the gradients by
`chosen`, `rejected`, `reference_chosen` and `reference_rejected`: in them you can read how much each pair counts.
""",
        function="preference_loss",
        header='''def preference_loss(chosen, rejected, reference_chosen, reference_rejected, length_chosen, length_rejected, weight, beta):
    """The loss, a scalar tensor. All tensors are [B], the lengths whole numbers; beta is a number."""''',
        body=f"""    softplus = torch.nn.functional.softplus
    up = chosen - reference_chosen.detach()
    down = rejected - reference_rejected.detach()
    margin = {margin_code}
    each = {loss_code}
    return {mean_code}""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            {
                "chosen": torch.tensor([-3.0, -4.5, -2.0]).double(),
                "rejected": torch.tensor([-3.5, -4.0, -5.0]).double(),
                "reference_chosen": torch.tensor([-4.0, -4.0, -2.5]).double(),
                "reference_rejected": torch.tensor([-3.0, -4.5, -4.0]).double(),
                "length_chosen": torch.tensor([3, 4, 2]),
                "length_rejected": torch.tensor([2, 5, 4]),
                "weight": torch.tensor([1.0, 2.0, 0.0]).double(),
                "beta": 0.5,
            },
        ),
        leaves=("chosen", "rejected", "reference_chosen", "reference_rejected"),
    )


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def kept(draw: Random) -> Code:
    """What is kept of n draws, exactly: three orders, three rules for ties, three that are kept."""
    fee, chance = draw.choice([0.125, 0.25]), draw.choice([0.1, 0.2, 0.3])
    order_text, order_code, key = draw.choice([
        ("the reward", "    lower, equal = reward < reward[:, None], reward == reward[:, None]", lambda r, n: (r,)),
        (f"$r - {fee}\\, n$, the reward less a fee for every token ($n$ is `length`)", f"    score = reward - {fee} * length\n    lower, equal = score < score[:, None], score == score[:, None]", lambda r, n: (r - fee * n,)),
        ("the reward, and at equal reward the shorter answer is better (`length`)", "    equal = reward == reward[:, None]\n    lower = (reward < reward[:, None]) | equal & (length > length[:, None])\n    equal = equal & (length == length[:, None])", lambda r, n: (r, -n)),
    ])  # fmt: skip
    tie_text, tie_code, broken = draw.choice([
        ("a draw at random decides among those that are still equal", "", lambda i: ()),
        ("of those that are still equal the lower index is better", "    lower = lower | equal & (index > index[:, None])\n    equal = index == index[:, None]\n", lambda i: (-i,)),
        ("of those that are still equal the higher index is better", "    lower = lower | equal & (index < index[:, None])\n    equal = index == index[:, None]\n", lambda i: (i,)),
    ])  # fmt: skip
    kept_text, kept_code, second, mixed = draw.choice([
        ("the best of them is kept", "mass**n", False, 0.0),
        ("the second best of them is kept (the same answer may be drawn twice, and then be both)", "mass**n + n * mass ** (n - 1) * (1.0 - mass)", True, 0.0),
        (f"the best of them is kept, but with chance ${chance}$ any one of the $n$, drawn at random", f"{chance} * mass + {round(1 - chance, 2)} * mass**n", False, chance),
    ])  # fmt: skip

    def oracle(probability, reward, length, n):
        """Draw after draw: the law of the two best so far, of which the one drawn first stays first if they are equal."""
        p = probability.tolist()
        keys = [key(r, m) + broken(i) for i, (r, m) in enumerate(zip(reward.tolist(), length.tolist(), strict=True))]
        states = {(None, None): 1.0}
        for _ in range(n):
            after: dict[tuple, float] = defaultdict(float)
            for (first, runner), mass in states.items():
                for j, chance_of_j in enumerate(p):
                    if chance_of_j == 0.0:
                        continue
                    if first is None or keys[j] > keys[first]:
                        state = (j, first)
                    elif second and (runner is None or keys[j] > keys[runner]):
                        state = (first, j)
                    else:
                        state = (first, runner)
                    after[state if second else (state[0], None)] += mass * chance_of_j
            states = after
        law = [mixed * x for x in p]
        for state, mass in states.items():
            law[state[second]] += (1 - mixed) * mass
        kl = sum(q * math.log(q / x) for q, x in zip(law, p, strict=True) if q > 0)
        return torch.tensor(law).double(), torch.tensor(kl).double()

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, answers, n, largest in (
            ("two draws", 5, 2, 3),
            ("no two rewards are equal", 6, 4, 8),
            ("right or wrong", 6, 5, 1),
            ("all rewards are equal", 5, 4, 0),
            ("32 draws", 6, 32, 4),
            ("an answer that never comes, and is the best", 6, 4, 4),
            ("equal rewards and equal lengths", 7, 3, 2),
        ):
            probability = torch.randn(answers, generator=generator, dtype=torch.float64).softmax(0)
            reward = eighths(generator, largest, answers)
            length = torch.randint(1, 5, (answers,), generator=generator)
            if name == "right or wrong":
                reward = 8 * reward
                reward[0], reward[1] = 0.0, 1.0
            if name.startswith("no two"):
                reward = torch.randperm(answers, generator=generator).double() / 8
            if name.startswith("equal"):
                length[:] = torch.tensor([2, 2, 2, 1, 1, 1, 3])
                reward[:] = torch.tensor([1, 0, 1, 2, 2, 1, 2]).double() / 8
            if "never" in name:
                probability[2], reward[2], length[2] = 0.0, 4.0, 1
                probability /= probability.sum()
            made.append(Case(name, {"probability": probability, "reward": reward, "length": length, "n": n}))
        return made

    return Code(
        name="q5",
        title="The law of what is kept",
        points=4,
        minutes=30,
        goal="that selection is a policy with a law of its own, how far it lies from the reference, and what ties do to both",
        text=rf"""
There are $N$ answers to a prompt, with probabilities $p_i$ under the reference, rewards $r_i$ and lengths. Of $n \ge 2$ independent draws one
is kept:

- what is compared is {order_text};
- {tie_text};
- {kept_text}.

Write `kept_law`: the law $q$ of the answer that is kept, exact, and $\mathrm{{KL}}(q \Vert p)$ in nats, in this order. Some $p_i$ may be 0 (such an answer is never
drawn, so $q_i = 0$). With $n = 32$ there are too many outcomes to list: think of the chance that all $n$ draws lie at or below an answer.
(If no two were equal and no answer likely, the KL of the best would be near $\log n - (n - 1) / n$. Is yours below it?)
""",
        function="kept_law",
        header='''def kept_law(probability, reward, length, n):
    """q [N] and the KL, a scalar, in this order. probability, reward: [N] float; length: [N] int; n: a number."""''',
        body=f"""    index = torch.arange(len(reward))
{order_code}
{tie_code}    level = (probability * equal).sum(1)
    below = (probability * lower).sum(1)

    def at_most(mass):  # the chance that what is kept lies in a lower part of this mass
        return {kept_code}

    q = probability / level.clamp(min=1e-30) * (at_most(below + level) - at_most(below))
    some = q > 0.0
    return q, (q[some] * (q[some] / probability[some]).log()).sum()""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            {
                "probability": torch.tensor([0.25, 0.125, 0.25, 0.25, 0.125]).double(),
                "reward": torch.tensor([0.5, 1.0, 0.5, 0.0, 1.0]).double(),
                "length": torch.tensor([1, 2, 2, 1, 4]),
                "n": 3,
            },
        ),
    )


def objective(draw: Random) -> Code:
    """Find the bug: a whole update of GRPO's kind, from tokens to a number."""
    end, (low, high) = draw.choice([0, 1, 3]), draw.choice([(0.2, 0.28), (0.1, 0.3), (0.25, 0.4), (0.2, 0.5)])
    price_text, price_code, priced = draw.choice([
        ("k_t = \\tfrac12 (\\log \\pi_\\theta - \\log \\pi_{\\mathrm{ref}})^2", "0.5 * away.square()", lambda u: (u * u / 2, u)),
        ("k_t = \\pi_{\\mathrm{ref}} / \\pi_\\theta - 1 - \\log (\\pi_{\\mathrm{ref}} / \\pi_\\theta)", "torch.expm1(-away) + away", lambda u: (math.exp(-u) - 1 + u, 1 - math.exp(-u))),
    ])  # fmt: skip
    mean_text, mean_code, weigh = draw.choice([
        ("the mean over all tokens of the batch", "term.sum() / mask.sum()", lambda n, ns, rows: 1 / sum(ns)),
        ("for each answer the mean over its tokens, and then the mean over answers", "(term.sum(0) / mask.sum(0)).mean()", lambda n, ns, rows: 1 / n / len(ns)),
        ("the sum over all tokens, divided by $L B$", "term.sum() / mask.numel()", lambda n, ns, rows: 1 / rows / len(ns)),
    ])  # fmt: skip

    def oracle(log_prob, behavior_log_prob, reference_log_prob, token, reward, group, beta):
        rows, answers = token.shape
        ns = [next((t + 1 for t, x in enumerate(column) if x == end), rows) for column in token.T.tolist()]
        total, slope = 0.0, torch.zeros_like(log_prob)
        for i, n in enumerate(ns):
            first = i - i % group
            others = [float(reward[j]) for j in range(first, first + group) if j != i]
            advantage = float(reward[i]) - sum(others) / len(others)
            for t in range(n):
                ratio = math.exp(float(log_prob[t, i] - behavior_log_prob[t, i]))
                flat = ratio > 1 + high if advantage > 0 else ratio < 1 - low
                edge = 1 + high if advantage > 0 else 1 - low
                price, pull = priced(float(log_prob[t, i] - reference_log_prob[t, i]))
                w = weigh(n, ns, rows)
                total += w * (advantage * (edge if flat else ratio) - beta * price)
                slope[t, i] = w * ((0.0 if flat else advantage * ratio) - beta * pull)
        zero = torch.zeros_like(log_prob)
        return torch.tensor(total).double(), slope, zero, zero

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, rows, prompts, group, moved, beta in (
            ("ordinary answers", 6, 2, 3, 0.3, 0.2),
            ("groups of two", 5, 3, 2, 0.3, 0.1),
            ("one prompt", 5, 1, 4, 0.3, 0.3),
            ("far from the behavior policy", 6, 2, 4, 0.8, 0.1),
            ("a high price", 4, 2, 3, 0.2, 2.0),
            ("answers of one token", 3, 2, 3, 0.3, 0.2),
            ("tokens after the end", 7, 3, 2, 0.3, 0.2),
        ):
            answers = prompts * group
            length = lengths(generator, rows, answers)
            if "one token" in name:
                length[:] = 1
            token = torch.randint(4, 9, (rows, answers), generator=generator)
            token[(length - 1)[1:], torch.arange(1, answers)] = end  # the first answer never ends
            if "after" in name:
                length[:] = torch.tensor([7, 3, 2, 4, 1, 3])
                token[:] = 5
                token[length[1:] - 1, torch.arange(1, 6)] = end
                token[6, 1:3] = end  # once more, behind
            behavior, drift = torch.randn(2, rows, answers, generator=generator, dtype=torch.float64)
            behavior = -behavior.abs() - 0.1
            ends = torch.tensor([1 - low, 1 + high]).double()
            log_prob = behavior + nudged(moved * drift.clamp(-2.5, 2.5), ends)
            # Not rounded: a slope at a kink is nobody's.
            reference = behavior + 0.4 * torch.randn(rows, answers, generator=generator, dtype=torch.float64).clamp(
                -2.5, 2.5
            )
            reward = torch.rand(answers, generator=generator, dtype=torch.float64)
            made.append(Case(name, {"log_prob": log_prob, "behavior_log_prob": behavior, "reference_log_prob": reference, "token": token, "reward": reward, "group": group, "beta": beta}))  # fmt: skip
        return made

    fault = draw.choice([
        Fault("the end token is neither paid nor priced", "ends.cumsum(0) - ends.long() == 0", "ends.cumsum(0) == 0", "a mask that stops before the end token: the model is never taught to stop, and writes on to the last row"),
        Fault("the ratio to the reference", "log_ratio = log_prob - behavior", "log_ratio = log_prob - reference", "a clip around the reference in place of the policy that drew the answers; the two agree in the first update, so nothing shows there"),
        Fault("a price that pulls nowhere", f"price = {price_code}", "price = away", "k1 as a term of the loss: its value estimates the KL, and the mean of its gradient is 0 (chapter 9)"),
        Fault("a group's mean at other answers", ".repeat_interleave(group)", ".repeat(group)", "repeat for repeat_interleave: answers are compared with the mean of other prompts"),
    ])  # fmt: skip
    behavior = torch.tensor([[-1.0, -0.5, -2.0], [-0.75, -1.5, -1.0]]).double()
    return Code(
        name="q6",
        title="Find the bug: an update that looks like GRPO",
        points=4,
        minutes=25,
        goal="to ask of every token whether it counts, against which policy it is measured, and with whom its answer is compared",
        text=rf"""
`faulty_update` is meant to compute an objective, to be maximized, from what was sampled: the mean of
$\min(\rho_t A_i, \bar\rho_t A_i) - \beta\, k_t$ over the tokens of the answers, with $\rho_t = \pi_\theta / \pi_b$ of a token, $\bar\rho_t$ its clip to $[{round(1 - low, 2)}, {round(1 + high, 2)}]$,
$A_i$ the answer's reward less the mean of the *others* in its group (column $i$ answers prompt $\lfloor i / G \rfloor$), and ${price_text}$.

- An answer's tokens reach up to and including the first token {end}; if there is none, they are all $L$ rows. What stands behind counts nowhere.
- The mean is {mean_text}.
- A gradient flows through $\log \pi_\theta$ alone; the hidden cases look at those by `log_prob`, `behavior_log_prob` and `reference_log_prob`.

One line holds a mistake that is easily made in real code. Find it, and write the function as it should be, as `update`. The
example below passes with the mistake in. (Which of its numbers would you have to change to see it?)
""",
        function="update",
        header='''def update(log_prob, behavior_log_prob, reference_log_prob, token, reward, group, beta):
    """The objective, a scalar tensor. The first four are [L, B], token of whole numbers; reward: [B]; group, beta: numbers."""''',
        body=f"""    ends = token == {end}
    mask = ends.cumsum(0) - ends.long() == 0
    log_ratio = log_prob - behavior_log_prob.detach()
    ratio = log_ratio.exp()
    away = log_prob - reference_log_prob.detach()
    mean = reward.view(-1, group).mean(1).repeat_interleave(group)
    advantage = (reward - mean) * group / (group - 1)
    gain = torch.minimum(ratio * advantage, ratio.clamp({round(1 - low, 2)}, {round(1 + high, 2)}) * advantage)
    price = {price_code}
    term = (gain - beta * price).masked_fill(~mask, 0.0)
    return {mean_code}""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            {
                "log_prob": behavior + torch.tensor([[0.125, -0.0625, 0.5], [-0.5, 0.0, 0.25]]).double(),
                "behavior_log_prob": behavior,
                "reference_log_prob": behavior,
                "token": torch.tensor([[5, 4, 7], [6, 8, 4]]),
                "reward": torch.tensor([1.0, 0.25, 0.5]).double(),
                "group": 3,
                "beta": 0.0,
            },
        ),
        leaves=("log_prob", "behavior_log_prob", "reference_log_prob"),
        fault=fault,
    )  # fmt: skip


def myopic(draw: Random) -> Experiment:
    seed, beta = draw.choice([0, 1, 2, 3]), draw.choice([0.1, 0.15, 0.2])
    return Experiment(
        name="q7",
        title="Who pays for the next token?",
        points=5,
        minutes=45,
        goal="what a price on tokens in the loss leaves out, seen in a language whose every answer is known",
        text=rf"""
`AnswerTree` of `minerva_book.worlds.answer_tree` is a language whose every answer can be listed. Here it has a full stop, two letters and room for three
tokens, so 15 answers, and random rewards:

```python
generator = torch.Generator().manual_seed({seed})
tree = AnswerTree.random(3, 3, generator)
reference = tree.random_logits(generator)
```

`tree.token_log_prob(logits)` gives $\log \pi_\theta(a_t \mid s_t)$ of every token of every answer, `[3, 15]`, 0 behind the ends. With $u_t = \log \pi_\theta - \log \pi_{{\mathrm{{ref}}}}$ of a token
and $\beta = {beta}$, ascend four times from the reference by the **exact** mean gradient (a sum over all answers $y$, whose weights $\pi_\theta(y)$ are numbers), 600 steps of
`torch.optim.Adam` with a rate of 0.05. One answer's term is $r(y) \log \pi_\theta(y)$, $r(y)$ a number, less $\beta$ times

- "reward": $\big(\sum_t u_t\big) \log \pi_\theta(y)$, the bracket a number: the price is in the reward;
- "k1": $\sum_t u_t$;
- "k2": $\sum_t \tfrac12 u_t^2$;
- "k3": $\sum_t (e^{{-u_t}} - 1 + u_t)$.

Draw one figure of two panels. Left: expected reward against $\mathrm{{KL}}(\pi \Vert \pi_{{\mathrm{{ref}}}})$ along each run, its end marked, and the frontier, which is what `tree.optimum(reference, beta)` reaches for
prices from 0.03 to 3 (`tree.expected_reward`, `tree.kl` and `tree.logits_of` help). Right, with a logarithmic axis: how far $J - \beta\, \mathrm{{KL}}$ lies below its maximum, against the step. Axes need names. Print the final reward, KL and shortfall of every run. Then answer in at most eight sentences:

- Which runs end on the frontier, and which at the point of it that belongs to $\beta$?
- What does the price of "k1" do to the mean gradient? Argue at one prefix.
- At which policy is the mean gradient of "k2" 0? Write it at a prefix $s$ with $Q^\pi(s, a)$, the mean reward of what follows. What is missing, compared with the optimum?
- Which other divergence does "k3" charge at every prefix, and how does its policy treat tokens of low $Q^\pi$?
""",
        code=f"""from minerva_book.worlds.answer_tree import AnswerTree

generator = torch.Generator().manual_seed({seed})
tree = AnswerTree.random(3, 3, generator)
reference = tree.random_logits(generator)
log_reference, beta = tree.token_log_prob(reference), {beta}
prices = {{
    "reward": lambda u, log_prob: u.sum(0).detach() * log_prob.sum(0),
    "k1": lambda u, log_prob: u.sum(0),
    "k2": lambda u, log_prob: 0.5 * u.square().sum(0),
    "k3": lambda u, log_prob: (torch.expm1(-u) + u).sum(0),
}}


def climb(price):
    logits = reference.clone().requires_grad_()
    optimizer, path = torch.optim.Adam([logits], lr=0.05), []
    for _ in range(600):
        log_prob = tree.token_log_prob(logits)
        whole, away = log_prob.sum(0), log_prob - log_reference
        weight = whole.detach().exp()
        path.append((weight @ away.sum(0).detach(), weight @ tree.reward))
        loss = -weight @ (tree.reward * whole - beta * price(away, log_prob))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return torch.tensor(path).T


def reached(price_of_kl):
    best = tree.logits_of(tree.optimum(reference, price_of_kl))
    return tree.kl(best, reference).item(), tree.expected_reward(best).item()


kl, reward = reached(beta)
best = reward - beta * kl
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.5))
left.plot(*zip(*[reached(each) for each in torch.logspace(math.log10(0.03), math.log10(3.0), 40).tolist()]), "k:", label="frontier")
left.plot(kl, reward, "k*", label=f"optimum at {{beta}}")
for name, price in prices.items():
    kl, reward = climb(price)
    shortfall = best - (reward - beta * kl)
    line = left.plot(kl, reward, label=name)[0]
    left.plot(kl[-1], reward[-1], "o", color=line.get_color())
    right.plot(shortfall.clamp(min=1e-6), label=name)
    print(f"{{name}}: reward {{reward[-1]:.3f}}, KL {{kl[-1]:.3f}} nats, {{shortfall[-1].clamp(min=0.0):.4f}} below the maximum")
left.set(xlabel="KL(policy || reference), nats", ylabel="expected reward")
right.set(xlabel="step", ylabel="J - beta KL, below its maximum", yscale="log")
left.legend()
right.legend()
figure.tight_layout()
plt.show()""",
        solution=r"""
Only "reward" ends at the optimum, the point of the frontier that belongs to $\beta$. "k1" runs along as if there were no price, toward the best answer and its large KL: at each prefix its mean
gradient is $\sum_a \pi(a \mid s) \nabla \log \pi(a \mid s) = 0$, so the price is felt by the noise alone. "k2" and "k3" come to rest elsewhere, with a
shortfall that no number of steps removes. On the left it looks small, since part of the way is a way along the frontier to the point of another price.

The mean gradient of $\tfrac12 u_t^2$ is $\sum_a \pi(a \mid s)\, u\, \nabla \log \pi(a \mid s)$ at every prefix, weighted with how often the prefix occurs: the gradient of that prefix's KL, with the
prefixes taken as given. It balances the reward's where $\pi(a \mid s) \propto \pi_{\mathrm{ref}}(a \mid s)\, e^{Q^\pi(s, a) / \beta}$. The optimum has the same form with a $Q$ from which the price of *later* tokens is
already taken off, that is $\beta \log \sum \pi_{\mathrm{ref}}\, e^{\,\cdot\, / \beta}$ of what follows. With the price in the loss nobody pays for the prefixes into which a token leads, so a first token that needs a costly
continuation is chosen too often.

For "k3" the mean gradient at a prefix is that of $\mathrm{KL}(\pi_{\mathrm{ref}}(\cdot \mid s) \Vert \pi(\cdot \mid s))$, the other side, and the balance is $\pi(a \mid s) = \beta\, \pi_{\mathrm{ref}}(a \mid s) / (\nu_s - Q^\pi(s, a))$ with a $\nu_s$ that makes them sum to 1: a
reciprocal in place of an exponential, so tokens of low $Q^\pi$ keep more of their chance.
""",
        rubric=r"""2 points: a figure of two panels with all runs, the frontier and named axes, right in its numbers. 1: only the reward's run reaches the optimum, and k1's price has mean gradient 0 (the
mean score of a token at a prefix). 1: k2's policy at a prefix, and that the price of later tokens is missing. 1: k3 charges the divergence with the reference first,
and is milder to what is badly paid (the formula with $\nu$ is not needed).""",
    )
