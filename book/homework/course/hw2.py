"""Homework 2: advantages along a trajectory (chapter 3)."""

from __future__ import annotations

from random import Random

import torch
from torch import Generator, Tensor

from .question import Assignment, Case, Code, Experiment, Fault, Written


def make(draw: Random) -> Assignment:
    return Assignment(
        name="hw2_gae",
        title="Homework 2: advantages along a trajectory",
        chapters="chapter 3",
        intro="A critic that is wrong, rewards that are not the whole story, episodes that end in two ways: what becomes of GAE?",
        questions=[bias(draw), advantages(draw), critic_loss(draw), lambda_return(draw), trade_off(draw)],
    )


def bias(draw: Random) -> Written:
    return Written(
        name="q1",
        title="A critic that is off by a constant",
        points=4,
        minutes=30,
        goal="what lambda buys when the critic is wrong",
        text=r"""
Let the critic be $V(s) = V^\pi(s) + k$ in every state, with a constant $k$, in a world whose episodes never end. Let
$\hat A_t = \sum_{l \ge 0} (\gamma\lambda)^l \delta_{t+l}$ with $\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)$.

1. Derive the bias $\mathbb E[\hat A_t] - A^\pi(s_t, a_t)$ as a function of $k$, $\gamma$ and $\lambda$. Say at each step what you use (linearity, the tower rule, …).
2. Say what it is at $\lambda = 0$ and at $\lambda = 1$, and which of the two you would rather have here.
3. Does this bias change the expected policy gradient? Prove your answer.
4. Now episodes end: the last step is $T$, where $d_T = 1$ and nothing is bootstrapped, and $T$ may depend on the actions.
   By how much does the bias of $\hat A_t$ differ from your answer to 1, for a given $T$? Does your answer to 3 still hold?
""",
        solution=r"""
1. $\delta_t = \delta^\pi_t + \gamma k - k$, where $\delta^\pi$ uses $V^\pi$. Given $s_t, a_t$, $\mathbb E[\delta^\pi_t] = A^\pi(s_t, a_t)$ and
   $\mathbb E[\delta^\pi_{t+l}] = 0$ for $l \ge 1$ (tower rule; an action drawn from $\pi$ has mean advantage 0). The rest is a geometric
   series: the bias is $-(1-\gamma)k \sum_l (\gamma\lambda)^l = -k\,\frac{1-\gamma}{1-\gamma\lambda}$.
2. $-(1-\gamma)k$ at $\lambda = 0$, and $-k$ at $\lambda = 1$: here the short trace is the less biased one, for an error that is the same
   everywhere cancels within one TD error.
3. No. The bias is the same number for every state and action, and $\mathbb E_{a\sim\pi}[b\,\nabla\log\pi(a \mid s)] = b\,\nabla\sum_a \pi(a \mid s) = 0$.
4. $\delta_T = r_T - V(s_T)$ lacks $+\gamma k$, so it is off by $-k$ in place of $-(1-\gamma)k$, and there are no terms after it: the bias is
   $-(1-\gamma)k\sum_{l<T-t}(\gamma\lambda)^l - (\gamma\lambda)^{T-t}k$. The series that is cut off was worth $-(1-\gamma)k\,(\gamma\lambda)^{T-t} / (1-\gamma\lambda)$, so the
   difference from 1 is $-k\,(\gamma\lambda)^{T-t}\big(1 - \tfrac{1-\gamma}{1-\gamma\lambda}\big) = -k\,(\gamma\lambda)^{T-t}\,\tfrac{\gamma(1-\lambda)}{1-\gamma\lambda}$. It depends on how long the episode still lasts after
   $s_t, a_t$: where the action changes that, the bias is no baseline any more, and the gradient is biased. At $\lambda = 1$ the
   difference is 0, since the sum of the rewards up to a true end needs no critic but $V(s_t)$, and 3 holds again.
""",
        rubric=r"""1 point each. 1: the series with its sum, and why later terms vanish. 2: both limits and a choice with its reason. 3: the
score has mean zero. 4: the missing $\gamma k$ at the end, and that its weight depends on the action (half a point each; the case
$\lambda = 1$ is a bonus to be praised).""",
    )


def example_rows() -> dict[str, Tensor]:
    return {
        "reward": torch.tensor([[1.0, 0.0], [-0.5, 2.0], [0.25, 1.0]]).double(),
        "value": torch.tensor([[0.5, 1.0], [0.0, -1.0], [2.0, 0.5]]).double(),
        "next_value": torch.tensor([[0.0, -1.0], [1.5, 0.5], [1.0, -0.5]]).double(),
        "terminated": torch.tensor([[False, False], [False, True], [False, False]]),
        "truncated": torch.tensor([[False, False], [True, False], [False, False]]),
    }


def rows(generator: Generator, steps: int, envs: int, ends: float) -> dict[str, Tensor]:
    reward, value, next_value = torch.randn(3, steps, envs, generator=generator, dtype=torch.float64)
    terminated, truncated = (torch.rand(2, steps, envs, generator=generator) < ends).unbind(0)
    return {
        "reward": reward,
        "value": value,
        "next_value": next_value,
        "terminated": terminated,
        "truncated": truncated & ~terminated,
    }


def advantages(draw: Random) -> Code:
    """GAE with a changed reward, a changed time limit and a changed trace: 27 forms, and their constants."""
    weight, share = draw.choice([0.3, 0.4, 0.6, 0.7]), draw.choice([0.25, 0.5, 0.75])
    extra_text, extra_code, extra = draw.choice([
        (f"a cost is charged: the reward of a step is $r_t - {weight}\\,c_t$ (`cost`, `[T, B]`)", f"reward - {weight} * cost", lambda r, c, d: r - weight * c),
        (f"surviving is paid: a step that does not terminate is worth ${weight}\\,c_t$ more (`cost`, `[T, B]`, is the pay)", f"reward + {weight} * cost * (~terminated)", lambda r, c, d: r + (0.0 if d else weight * c)),
        (f"rewards are shrunk where a cost is high: $r_t / (1 + {weight}\\,|c_t|)$ (`cost`, `[T, B]`)", f"reward / (1.0 + {weight} * cost.abs())", lambda r, c, d: r / (1.0 + weight * abs(c))),
    ])  # fmt: skip
    limit_text, limit_code, limit = draw.choice([
        (f"a time limit is trusted only in part: at a truncated step the successor's value counts ${share}$ times", f"torch.where(truncated, {share} * next_value, next_value)", lambda v, n: share * n),
        (f"a time limit is bridged: at a truncated step the successor's value is taken as ${share}\\,V(s_{{t+1}}) + {1 - share}\\,V(s_t)$", f"torch.where(truncated, {share} * next_value + {1 - share} * value, next_value)", lambda v, n: share * n + (1 - share) * v),
        (f"a time limit is feared: at a truncated step the successor's value is at most ${share}$", f"torch.where(truncated, next_value.clamp(max={share}), next_value)", lambda v, n: min(n, share)),
    ])  # fmt: skip
    trace_text, trace_code, trace = draw.choice([
        ("the trace decays by $\\lambda$ where the next TD error is not negative, and by $\\lambda^2$ where it is", "torch.where(ahead >= 0.0, lam, lam**2)", lambda lam, here, ahead: lam if ahead >= 0 else lam**2),
        ("the trace decays by $\\lambda$ where this step's TD error and the next one have the same sign (or one is 0), else by $\\lambda / 2$", "torch.where(td_error[t] * ahead >= 0.0, lam, lam / 2)", lambda lam, here, ahead: lam if here * ahead >= 0 else lam / 2),
        ("the trace decays by $\\lambda / (1 + |\\delta_{t+1}|)$ from step $t+1$ to step $t$", "lam / (1.0 + ahead.abs())", lambda lam, here, ahead: lam / (1.0 + abs(ahead))),
    ])  # fmt: skip

    def oracle(reward, value, next_value, terminated, truncated, cost, gamma, lam):
        steps, envs = reward.shape
        wanted = torch.zeros_like(reward)
        for b in range(envs):
            delta = []
            for t in range(steps):
                after = (
                    limit(float(value[t, b]), float(next_value[t, b])) if truncated[t, b] else float(next_value[t, b])
                )
                after = 0.0 if terminated[t, b] else after
                delta.append(
                    extra(float(reward[t, b]), float(cost[t, b]), bool(terminated[t, b]))
                    + gamma * after
                    - float(value[t, b])
                )
            for t in range(steps):
                reach = 1.0
                for u in range(t, steps):
                    wanted[t, b] += reach * delta[u]
                    if terminated[u, b] or truncated[u, b] or u + 1 == steps:
                        break
                    reach *= gamma * trace(lam, delta[u], delta[u + 1])
        return wanted

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, steps, envs, ends, gamma, lam in (
            ("one step", 1, 3, 0.3, 0.9, 0.8),
            ("no episode ends", 8, 2, 0.0, 0.9, 0.95),
            ("many short episodes", 24, 4, 0.3, 0.97, 0.7),
            ("no discount", 12, 3, 0.15, 1.0, 0.9),
            ("no trace", 6, 2, 0.2, 0.9, 0.0),
            ("everything terminates or is cut", 6, 3, 0.9, 0.8, 1.0),
            ("rows in which nothing happens", 9, 2, 0.0, 0.9, 0.7),
        ):
            given = rows(generator, steps, envs, ends)
            given["cost"] = torch.randn(steps, envs, generator=generator, dtype=torch.float64)
            if "nothing" in name:  # TD errors of exactly 0
                for each in ("reward", "value", "next_value", "cost"):
                    given[each][2::3] = 0.0
            made.append(Case(name, given | {"gamma": gamma, "lam": lam}))
        return made

    return Code(
        name="q2",
        title="Advantages with a twist",
        points=6,
        minutes=60,
        goal="to keep rewards, bootstraps and traces apart, and each at its own step",
        text=rf"""
Write `twisted_gae`. It is the generalized advantage estimate of chapter 3, with three changes:

- {extra_text};
- {limit_text} (a terminated step bootstraps from nothing, as always);
- {trace_text}. No trace crosses the end of an episode, of either kind, and none comes in after the last row.

All three act together. What is not mentioned is as in the chapter. (`terminated` and `truncated` are never both true.)
""",
        function="twisted_gae",
        header='''def twisted_gae(reward, value, next_value, terminated, truncated, cost, gamma, lam):
    """Advantages [T, B]. All tensors are [T, B]; terminated and truncated are bool; gamma and lam are numbers."""''',
        body=f"""    earned = {extra_code}
    successor = {limit_code}
    td_error = earned + gamma * successor.masked_fill(terminated, 0.0) - value
    ended = terminated | truncated
    advantage = td_error.clone()
    for t in reversed(range(len(td_error) - 1)):
        ahead = td_error[t + 1]
        decay = gamma * {trace_code}
        advantage[t] = td_error[t] + (decay * advantage[t + 1]).masked_fill(ended[t], 0.0)
    return advantage""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            example_rows()
            | {"cost": torch.tensor([[1.0, 0.5], [0.0, -1.0], [2.0, 1.0]]).double(), "gamma": 0.9, "lam": 0.8},
        ),
    )


def critic_loss(draw: Random) -> Code:
    """A critic's loss whose target must not carry a gradient: three losses, three ways to weigh the rows."""
    width, rate = draw.choice([0.4, 0.7, 1.2]), draw.choice([0.5, 0.8, 1.5])
    loss_text, loss_code, loss, slope = draw.choice([
        (f"Huber's loss of width ${width}$: $x^2/2$ for $|x| \\le {width}$, else ${width}\\,(|x| - {width}/2)$", f"torch.where(error.abs() <= {width}, 0.5 * error.square(), {width} * (error.abs() - {width} / 2))", lambda x: x * x / 2 if abs(x) <= width else width * (abs(x) - width / 2), lambda x: max(-width, min(width, x))),
        (f"the expectile loss: $x^2/2$ for $x \\ge 0$, else ${width}\\,x^2/2$", f"0.5 * error.square() * torch.where(error >= 0.0, 1.0, {width})", lambda x: x * x / 2 * (1.0 if x >= 0 else width), lambda x: x * (1.0 if x >= 0 else width)),
        (f"the log-cosh loss: ${width}^2 \\log\\cosh(x / {width})$", f"{width}**2 * torch.log(torch.cosh(error / {width}))", None, None),
    ])  # fmt: skip
    if loss is None:
        import math

        loss, slope = (lambda x: width**2 * math.log(math.cosh(x / width))), (lambda x: width * math.tanh(x / width))
    weight_text, weight_code, weigh = draw.choice([
        ("rows that were truncated do not count at all", "(~truncated).double()", lambda t, c, a: 0.0 if c else 1.0),
        (f"rows that terminated count ${1 + rate}$ times, all others once", f"1.0 + {rate} * terminated", lambda t, c, a: 1.0 + rate * t),
        (f"a row of age $n$ (`age`, `[T, B]`) counts $e^{{-{rate} n}}$ times", f"torch.exp(-{rate} * age)", lambda t, c, a: 2.718281828459045 ** (-rate * a)),
    ])  # fmt: skip

    def oracle(reward, value, next_value, terminated, truncated, age, gamma):
        total = weights = 0.0
        slopes = torch.zeros_like(value)
        for t in range(len(reward)):
            for b in range(reward.shape[1]):
                target = float(reward[t, b]) + (0.0 if terminated[t, b] else gamma * float(next_value[t, b]))
                w, x = (
                    weigh(bool(terminated[t, b]), bool(truncated[t, b]), float(age[t, b])),
                    float(value[t, b]) - target,
                )
                total, weights = total + w * loss(x), weights + w
                slopes[t, b] = w * slope(x)
        return torch.tensor(total / weights).double(), slopes / weights, torch.zeros_like(value)

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, steps, envs, ends, scale in (("small errors", 5, 3, 0.1, 0.2), ("large errors", 5, 3, 0.1, 3.0), ("many ends", 16, 2, 0.4, 1.0), ("one environment", 9, 1, 0.2, 1.0)):  # fmt: skip
            given = rows(generator, steps, envs, ends)
            given |= {
                "reward": scale * given["reward"],
                "age": torch.randint(0, 4, (steps, envs), generator=generator).double(),
                "gamma": 0.9,
            }
            given["truncated"][0] = False  # somebody counts
            made.append(Case(name, given))
        return made

    return Code(
        name="q3",
        title="A critic's loss, and what it must not move",
        points=4,
        minutes=40,
        goal="which part of a TD error is a target, and what a weighted mean divides by",
        text=rf"""
Write `critic_loss`: the weighted mean, over all rows, of a loss of $x = V(s_t) - y_t$ with the one-step target
$y_t = r_t + \gamma (1 - d_t) V(s_{{t+1}})$.

- The loss of a row is {loss_text}.
- The mean is weighted: {weight_text}. A weighted mean divides by the sum of the weights.
- The target is a target: **no gradient flows through it**, although `next_value` comes from the same network. The hidden
  cases also look at the gradients by `value` and by `next_value`.

Not everything that the function is given is needed.
""",
        function="critic_loss",
        header='''def critic_loss(reward, value, next_value, terminated, truncated, age, gamma):
    """The loss, a scalar tensor. All tensors are [T, B]; terminated and truncated are bool; age counts updates, float."""''',
        body=f"""    target = (reward + gamma * next_value.masked_fill(terminated, 0.0)).detach()
    error = value - target
    loss = {loss_code}
    weight = {weight_code}
    return (weight * loss).sum() / weight.sum()""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            example_rows() | {"age": torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 3.0]]).double(), "gamma": 0.9},
        ),
        leaves=("value", "next_value"),
    )


def lambda_return(draw: Random) -> Code:
    """Find the bug: lambda-returns that mix the successor's value and the return, with a floor under both."""
    floor, mix = draw.choice([-0.5, -0.8, -1.2]), draw.choice([0.6, 0.7, 0.8])

    def oracle(reward, next_value, terminated, truncated, gamma):
        steps, envs = reward.shape
        wanted = torch.zeros_like(reward)
        for b in range(envs):
            for t in range(steps):
                total, factor = 0.0, 1.0
                for u in range(t, steps):
                    total += factor * float(reward[u, b])
                    if terminated[u, b]:
                        break
                    after = max(float(next_value[u, b]), floor)
                    if truncated[u, b] or u + 1 == steps:
                        total += factor * gamma * after
                        break
                    total += factor * gamma * (1 - mix) * after
                    factor *= gamma * mix
                wanted[t, b] = total
        return wanted

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, steps, envs, ends, gamma in (("one step", 1, 4, 0.3, 0.9), ("no episode ends", 7, 2, 0.0, 0.9), ("many short episodes", 20, 3, 0.3, 0.95), ("no discount", 9, 3, 0.2, 1.0)):  # fmt: skip
            given = rows(generator, steps, envs, ends)
            del given["value"]
            if "no episode" in name:  # the batch ends below the floor
                given["next_value"][-1, 0] = floor - 1.0
            if "short" in name:  # somebody is cut off below the floor
                given["terminated"][3, 0], given["truncated"][3, 0] = False, True
                given["next_value"][3, 0] = floor - 1.0
            made.append(Case(name, given | {"gamma": gamma}))
        return made

    fault = draw.choice([
        Fault("a time limit treated as a terminal state", "bracket.masked_fill(terminated[t], 0.0)", "bracket.masked_fill((terminated | truncated)[t], 0.0)", "CleanRL issues 198 and 457"),
        Fault("the return of the next episode leaks over a truncation", "torch.where(truncated[t], 0.0, {mix})".replace("{mix}", str(mix)), str(mix), "skrl issue 449"),
        Fault("a bootstrap where the episode terminated", "bracket.masked_fill(terminated[t], 0.0)", "bracket", "Spinning Up issue 257, a public MPO"),
        Fault("the flag of the next step where this step's belongs", "torch.where(truncated[t], 0.0", "torch.where(truncated[t + 1], 0.0", "an off-by-one of several GAE implementations"),
    ])  # fmt: skip
    return Code(
        name="q4",
        title="Find the bug: a return that is too good or too bad",
        points=4,
        minutes=40,
        goal="to read a recursion for what it does at the ends of episodes",
        text=rf"""
`faulty_mixed_return` is meant to compute
$G_t = r_t + \gamma (1 - d_t)\,\big[(1 - {mix})\,U_{{t+1}} + {mix}\,G_{{t+1}}\big]$ with $U_{{t+1}} = \max(V(s_{{t+1}}), {floor})$. At a
truncated step, and at the last row of the batch, what is ahead is not known, and the whole bracket is $U_{{t+1}}$. One line
holds a mistake that real code has had. Find it, and write the function as it should be, as `mixed_return`. (One more thing
to think about: the example below passes with the mistake in. Why do small tests of such code so often pass?)
""",
        function="mixed_return",
        header='''def mixed_return(reward, next_value, terminated, truncated, gamma):
    """Returns [T, B]. All tensors are [T, B]; terminated and truncated are bool; gamma is a number."""''',
        body=f"""    after = next_value.clamp(min={floor})
    returns = torch.zeros_like(reward)
    ahead = torch.zeros_like(reward[0])
    for t in reversed(range(len(reward))):
        share = torch.where(truncated[t], 0.0, {mix}) if t + 1 < len(reward) else 0.0
        bracket = (1.0 - share) * after[t] + share * ahead
        ahead = reward[t] + gamma * bracket.masked_fill(terminated[t], 0.0)
        returns[t] = ahead
    return returns""",
        oracle=oracle,
        cases=cases,
        example=Case(
            "example",
            {
                k: (v[:2] if k != "truncated" else torch.zeros(2, 2, dtype=torch.bool))
                for k, v in example_rows().items()
                if k != "value"
            }
            | {"terminated": torch.zeros(2, 2, dtype=torch.bool), "gamma": 0.9},
        ),
        fault=fault,
    )


def trade_off(draw: Random) -> Experiment:
    length, gamma, wrong = draw.choice([6, 7, 8]), draw.choice([0.9, 0.95]), draw.choice([0.5, 1.0, 2.0])
    return Experiment(
        name="q5",
        title="How wrong may a critic be?",
        points=5,
        minutes=45,
        goal="bias against variance, read from exact numbers",
        text=rf"""
`TabularMDP.chain({length}, {gamma})` has exact answers. Take its uniform policy, and a critic that is the true value plus
$\sigma$ times `torch.randn({length}, generator=torch.Generator().manual_seed(0))`: the same draw for every $\sigma$. `world.gae_moments(policy, value, lam)` gives the mean and the variance of the
GAE estimate, `[S, A]` each, exactly; `world.advantage(policy)` is the truth.

Draw one figure, with a logarithmic vertical axis: the mean squared error (squared bias plus variance, with equal weight for all
states and actions; the bias that a state's actions share counts as well) against
$\lambda$ from 0 to 1, one line each for $\sigma = 0$, $\sigma = {wrong}$ and $\sigma = {4 * wrong}$, the best $\lambda$ of each line marked. Axes need names. Then answer
in at most five sentences: where is the best $\lambda$ on each line, and why does it move as it does?
""",
        code=f"""from minerva_lite.worlds.tabular import TabularMDP

world = TabularMDP.chain({length}, {gamma})
policy = torch.full_like(world.reward, 0.5)
lams = torch.linspace(0, 1, 21)
figure, ax = plt.subplots()
for sigma in (0.0, {wrong}, {4 * wrong}):
    value = world.value(policy) + sigma * torch.randn({length}, generator=torch.Generator().manual_seed(0))
    errors = []
    for lam in lams.tolist():
        mean, variance = world.gae_moments(policy, value, lam)
        errors.append(((mean - world.advantage(policy)) ** 2 + variance).mean().item())
    best = min(range(21), key=errors.__getitem__)
    ax.plot(lams, errors, label=f"sigma = {{sigma}}")
    ax.plot(lams[best], errors[best], "k.")
ax.set(xlabel="lambda", ylabel="mean squared error", yscale="log")
ax.legend()
plt.show()""",
        solution=r"""
With the true value the bias is 0 for every $\lambda$, and only variance counts, so the shortest trace is best. The larger the
critic's error, the more a long trace pays: it replaces the critic's opinion by rewards that really came. The bias falls with
$\lambda$ while the variance rises, and the best $\lambda$ lies where the two slopes cancel. It moves to the right as the error grows.
""",
        rubric="""2 points: a figure with all three lines and named axes, right in its numbers. 1: the best lambda of each line. 2: the reason, with
both bias and variance in it.""",
    )
