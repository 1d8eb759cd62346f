"""An assignment of our own: returns from old data, and a floor under the entropy. Worked through in book/packs.md."""

from __future__ import annotations

import math
from random import Random

import torch
from course.question import Assignment, Case, Code, Experiment, Fault, Written
from torch import Generator, Tensor


def make(draw: Random) -> Assignment:
    return Assignment(
        name="hw9_off_policy",
        title="Homework 9: old data, and policies that are too sure",
        chapters="chapters 2b and 6c",
        intro="What may be clipped, what that costs, and what keeps a policy from being too sure too early.",
        questions=[gradient(draw), corrected_return(draw), entropy_floor(draw), clipped_weights(draw)],
    )


def gradient(draw: Random) -> Written:
    temperature = draw.choice([2, 3, 4])
    return Written(
        name="q1",
        title="Where the entropy bonus pulls",
        points=4,
        minutes=30,
        goal="which logits an entropy bonus moves, and when it moves none",
        text=rf"""
Let $\pi = \mathrm{{softmax}}(z / {temperature})$ over $A$ actions, and $H = -\sum_a \pi_a \log \pi_a$.

1. Derive $\partial H / \partial z_k$, and write it with $\pi_k$, $\log \pi_k$ and $H$ alone.
2. What do these derivatives sum to over $k$? Say why that has to be so, without using 1.
3. At which policies with $\pi_a > 0$ for all $a$ are all of them 0?
4. Let $\pi_k$ go to 0 with everything else fixed in proportion. What becomes of $\partial H / \partial z_k$, and what does that
   mean for an action that the policy has nearly given up?
""",
        solution=rf"""
1. $\partial \pi_a / \partial z_k = \pi_a ([a = k] - \pi_k) / {temperature}$, so
   $\partial H / \partial z_k = -\sum_a (\log \pi_a + 1)\, \partial \pi_a / \partial z_k
   = -\pi_k (\log \pi_k + H) / {temperature}$; the $1$ drops out, as the probabilities sum to 1.
2. To 0: adding the same number to all logits changes neither $\pi$ nor $H$.
3. $\log \pi_k = -H$ for all $k$, so all are equal: the uniform policy alone.
4. $\pi_k \log \pi_k \to 0$, so it vanishes: the bonus brings back slowly, or not at all, what is nearly lost.
""",
        rubric="1 point each. 1: the softmax's derivative and the sum. 2: a reason that needs no formula. 3: uniform, and "
        "why no other. 4: the limit (half) and what it means (half).",
    )


def rows(generator: Generator, steps: int, envs: int, ends: float, spread: float) -> dict[str, Tensor]:
    """Random rows of old data: rewards, values, flags that exclude each other, ratios of probabilities."""
    reward, value, next_value, log_ratio = torch.randn(4, steps, envs, generator=generator, dtype=torch.float64)
    chance = torch.rand(steps, envs, generator=generator, dtype=torch.float64)
    flags = {"terminated": chance < ends / 2, "truncated": (chance >= ends / 2) & (chance < ends)}
    values = {"reward": reward, "value": value, "next_value": next_value}
    return values | flags | {"ratio": torch.exp(spread * log_ratio)}


def corrected_return(draw: Random) -> Code:
    """Targets from old data with two caps; drawn are the caps, the form of the trace and what is paid for doubt."""
    here, there = draw.choice([1.2, 1.5, 2.0]), draw.choice([0.7, 0.8, 0.9])
    # Text, code and a function for each form. The oracle uses the function, so the two are written apart.
    trace_text, trace_code, trace = draw.choice(
        [
            (rf"\min(w_t, {there})", f"ratio.clamp(max={there})", lambda w: min(w, there)),
            (rf"{there}\min(w_t, 1)", f"{there} * ratio.clamp(max=1.0)", lambda w: there * min(w, 1.0)),
            (rf"w_t / (w_t + {there})", f"ratio / (ratio + {there})", lambda w: w / (w + there)),
        ]
    )
    doubt_text, doubt_code, doubt = draw.choice(
        [
            ("nothing else is changed", "", lambda w: 0.0),
            (
                r"a row with $w_t > 2$ pays a fee of $0.1$ from its reward",
                " - 0.1 * (ratio > 2.0)",
                lambda w: 0.1 * (w > 2),
            ),
        ]
    )

    def oracle(reward, value, next_value, terminated, truncated, ratio, gamma):
        """The sum, row by row, without a recursion."""
        steps, envs = reward.shape
        wanted = torch.zeros_like(value)
        for b in range(envs):
            for t in range(steps):
                total, reach = float(value[t, b]), 1.0
                for u in range(t, steps):
                    w = float(ratio[u, b])
                    after = 0.0 if terminated[u, b] else gamma * float(next_value[u, b])
                    error = float(reward[u, b]) - doubt(w) + after - float(value[u, b])
                    total += reach * min(w, here) * error
                    if terminated[u, b] or truncated[u, b]:
                        break
                    reach *= gamma * trace(w)
                wanted[t, b] = total
        return wanted

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, steps, envs, ends, spread, gamma in (
            ("one step", 1, 4, 0.3, 1.0, 0.9),
            ("no episode ends", 8, 2, 0.0, 1.0, 0.95),
            ("many short episodes", 20, 3, 0.4, 0.7, 0.9),
            ("far from the old policy", 10, 3, 0.2, 3.0, 0.9),
            ("no discount", 9, 2, 0.2, 0.8, 1.0),
        ):
            made.append(Case(name, rows(generator, steps, envs, ends, spread) | {"gamma": gamma}))
        return made

    example = {
        "reward": torch.tensor([[1.0, 0.0], [-0.5, 2.0], [0.25, 1.0]]).double(),
        "value": torch.tensor([[0.5, 1.0], [0.0, -1.0], [2.0, 0.5]]).double(),
        "next_value": torch.tensor([[0.0, -1.0], [1.5, 0.5], [1.0, -0.5]]).double(),
        "terminated": torch.tensor([[False, False], [False, True], [False, False]]),
        "truncated": torch.tensor([[False, False], [True, False], [False, False]]),
        "ratio": torch.tensor([[0.5, 2.5], [1.0, 0.25], [3.0, 1.0]]).double(),
        "gamma": 0.9,
    }
    return Code(
        name="q2",
        title="A return with two caps",
        points=6,
        minutes=60,
        goal="to keep apart what a target aims at and how far it looks",
        text=rf"""
Data come from an old policy; $w_t$ is the new policy's probability of the action over the old one's (`ratio`). Write
`corrected_return`:

$$G_t = V(s_t) + \sum_{{u \ge t}} \gamma^{{u - t}} \Big(\prod_{{t \le i < u}} c_i\Big)\, \min(w_u, {here})\, \delta_u,
\qquad c_t = {trace_text},$$

with $\delta_u = r_u + \gamma (1 - d_u) V(s_{{u+1}}) - V(s_u)$. The sum ends with the episode, by termination or by truncation,
or with the batch, and the row where it ends counts. Besides the two caps, {doubt_text}.
""",
        function="corrected_return",
        header='''def corrected_return(reward, value, next_value, terminated, truncated, ratio, gamma):
    """Targets [T, B]. All tensors are [T, B]; terminated and truncated are bool; gamma is a number."""''',
        body=f"""    successor = next_value.masked_fill(terminated, 0.0)
    error = reward{doubt_code} + gamma * successor - value
    correction = ratio.clamp(max={here}) * error
    trace = gamma * {trace_code}
    trace = trace.masked_fill(terminated | truncated, 0.0)
    for t in reversed(range(len(reward) - 1)):
        correction[t] += trace[t] * correction[t + 1]
    return value + correction""",
        oracle=oracle,
        cases=cases,
        example=Case("example", example),
    )


def entropy_floor(draw: Random) -> Code:
    """Find the bug: a price on entropies below a floor; drawn are the constants and the fault."""
    temperature, floor = draw.choice([0.5, 0.8, 1.5, 2.0]), draw.choice([0.5, 0.6, 0.7, 0.8])

    def oracle(logits, valid):
        total, count = 0.0, 0.0
        slope = torch.zeros_like(logits)
        for row in range(len(logits)):
            if not valid[row]:
                continue
            count += 1.0
            powers = [math.exp(float(z) / temperature) for z in logits[row]]
            chances = [power / sum(powers) for power in powers]
            entropy = -sum(p * math.log(p) for p in chances)
            if entropy / math.log(len(chances)) < floor:
                total += floor - entropy / math.log(len(chances))
                for k, p in enumerate(chances):
                    slope[row, k] = p * (math.log(p) + entropy) / temperature / math.log(len(chances))
        return torch.tensor(total / count).double(), slope / count

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, count, actions, size in (("two actions", 6, 2, 3.0), ("a few", 9, 4, 3.0), ("many", 5, 12, 4.0)):
            logits = size * torch.randn(count, actions, generator=generator, dtype=torch.float64)
            logits[0] *= 0.1
            logits[1] *= 3.0
            valid = torch.rand(count, generator=generator) < 0.7
            valid[:3] = torch.tensor([True, False, True])
            logits[2, 0] += 10.0  # a row that is sure, and counts
            made.append(Case(name, {"logits": logits, "valid": valid}))
        return made

    fault = draw.choice(
        [
            Fault(
                "rows that do not count are in the mean",
                "(shortfall * valid).sum() / valid.sum()",
                "(shortfall * valid).mean()",
                "padding in many public implementations",
            ),
            Fault(
                "a ceiling for the floor",
                f"clamp({floor} - share, min=0.0)",
                f"clamp(share - {floor}, min=0.0)",
                "a sign, as in an A2C that paid for being sure",
            ),
            Fault(
                "nats in place of a share",
                "entropy / math.log(logits.shape[-1])",
                "entropy",
                "a target for two actions, kept for twelve",
            ),
            Fault(
                "the temperature on the wrong side",
                f"logits / {temperature}",
                f"logits * {temperature}",
                "an inverse temperature that was called a temperature",
            ),
        ]
    )
    return Code(
        name="q3",
        title="Find the bug: a floor that does not hold",
        points=4,
        minutes=35,
        goal="over which rows a mean is taken, and in which unit a target is given",
        text=rf"""
`faulty_entropy_floor` is meant to be the price on policies that are too sure. Row $i$ has the policy
$\pi_i = \mathrm{{softmax}}(z_i / {temperature})$ over $A$ actions, with the entropy $H_i$ as a share of the largest possible one,
$h_i = H_i / \log A$. The price is the mean of $\max(0, {floor} - h_i)$ over the rows that are valid, and over no others. One line
holds a mistake that real code has had. Find it, and write the function as it should be, as `entropy_floor`. The hidden cases
also look at the gradient by `logits`. (Does the example pass with the mistake in? What would it have to hold to show it?)
""",
        function="entropy_floor",
        header='''def entropy_floor(logits, valid):
    """The price, a scalar tensor. logits [N, A]; valid [N], bool, true somewhere."""''',
        body=f"""    log_prob = torch.log_softmax(logits / {temperature}, -1)
    entropy = -(log_prob.exp() * log_prob).sum(-1)
    share = entropy / math.log(logits.shape[-1])
    shortfall = torch.clamp({floor} - share, min=0.0)
    return (shortfall * valid).sum() / valid.sum()""",
        oracle=oracle,
        cases=cases,
        example=Case("example", {"logits": torch.zeros(2, 3).double(), "valid": torch.tensor([True, True])}),
        leaves=("logits",),
        fault=fault,
    )


def clipped_weights(draw: Random) -> Experiment:
    actions, few, many = draw.choice([5, 6, 8]), draw.choice([4, 5, 8]), draw.choice([100, 200])
    return Experiment(
        name="q4",
        title="What does a cap cost?",
        points=5,
        minutes=40,
        goal="bias against variance once more, now in a weight",
        text=rf"""
Let `generator = torch.Generator().manual_seed(0)`, and draw with it, in this order, the logits of an old policy, of a new policy
and the rewards of {actions} actions, each by `torch.randn({actions}, generator=generator)`; multiply both logits by 1.5. The
new policy's mean reward is estimated from $n$ actions of the old policy as the mean of $\min(w, c)\, r$.

The bias and the variance of this estimate are sums over {actions} actions: no sampling is needed. Draw one figure with the mean
squared error (squared bias plus variance) against the cap $c$ from 0.1 to 10, both axes logarithmic, one line for $n = {few}$ and one
for $n = {many}$, the best cap of each line marked. Axes need names. Then answer in at most four sentences: why do the two best
caps differ, and what does that say about a cap that is kept while the batch grows?
""",
        code=f"""generator = torch.Generator().manual_seed(0)
old, new, reward = (torch.randn({actions}, generator=generator) for _ in range(3))
old, new = torch.softmax(1.5 * old, 0), torch.softmax(1.5 * new, 0)
caps = torch.logspace(-1, 1, 61)
figure, ax = plt.subplots()
for count in ({few}, {many}):
    weighted = torch.minimum(new / old, caps[:, None]) * reward
    mean = (old * weighted).sum(1)
    variance = (old * weighted.square()).sum(1) - mean.square()
    error = (mean - (new * reward).sum()).square() + variance / count
    best = int(error.argmin())
    ax.plot(caps, error, label=f"n = {{count}}")
    ax.plot(caps[best], error[best], "k.")
ax.set(xlabel="cap", ylabel="mean squared error", xscale="log", yscale="log")
ax.legend()
plt.show()""",
        solution=r"""
A larger batch divides the variance by $n$ and leaves the bias of the cap as it is. So with few samples a low cap pays, whose
bias is small beside the variance that it saves; with many the bias is what remains, and the best cap is higher. A cap that is
kept while the batch grows ends as pure bias.
""",
        rubric="2 points: a figure with both lines and named axes, right in its numbers. 1: both best caps. 2: the variance "
        "falls with n and the bias does not (one point), so the cap has to rise (one point).",
    )
