"""Homework 1: values and policy gradients (chapters 1 and 2)."""

from __future__ import annotations

import math
from random import Random

import torch
from torch import Generator, Tensor

from .question import Assignment, Case, Code, Experiment, Fault, Written


def make(draw: Random) -> Assignment:
    return Assignment(
        name="hw1_mdp_policy_gradients",
        title="Homework 1: values and policy gradients",
        chapters="chapters 1 and 2",
        intro="Rewards that somebody has touched up, a world with three quirks, and the loss that is not one: what changes, and what must not?",
        questions=[shaping(draw), action_values(draw), episode_loss(draw), padded_loss(draw), last_mile(draw)],
    )


def shaping(draw: Random) -> Written:
    return Written(
        name="q1",
        title="Paid for progress",
        points=5,
        minutes=40,
        goal="that shaping a reward by a potential is a baseline in disguise, and where the disguise slips",
        text=r"""
To help a learner, somebody pays extra for progress. With a function $\Phi$ of the state, the *potential*, the reward becomes
$r'_t = r_t + \gamma\,\Phi(s_{t+1}) - \Phi(s_t)$. States and actions are finite in number, $0 < \gamma < 1$, and in parts 1, 2 and 4 no episode
ends. Primes mark what is computed from $r'$; $p_0$ is the distribution of the start state.

1. Show that $G'_t = G_t - \Phi(s_t)$ on every path. What are $V'$, $Q'$, $A'$ and $J'$, and does $\nabla J$ change?
2. Compare two estimates of $\nabla J$ from one path: $\sum_{t<n} \gamma^t G'_t\, \nabla \log \pi_\theta(a_t \mid s_t)$ (reward-to-go) and
   $\big(\sum_k \gamma^k r'_k\big) \sum_{t<n} \nabla \log \pi_\theta(a_t \mid s_t)$ (whole return). In the second, nothing discounts the sum over $t$, and on an
   endless path it would not converge; so both take the first $n$ steps only, and your answer must hold for every $n$. Each is the same estimate
   from the *old* rewards with a baseline: with which one? Now let $\Phi = V^\pi$. In each estimate, by which sum of TD errors
   $\delta_k = r_k + \gamma V^\pi(s_{k+1}) - V^\pi(s_k)$ is $\nabla \log \pi_\theta(a_t \mid s_t)$ multiplied? Which part of it is noise that $a_t$ had no hand in?
3. Now every episode terminates: its last step is $T - 1$, which leads to the terminal state $s_T$, and $T$ may depend on the actions. The code
   uses some $\Phi(s_T) \ne 0$ there, too. What are $G'_t$ and $J'$? Give a world with a single decision whose best action changes. What is the cure, and
   does it apply to an episode that a time limit cut off?
4. Back to the endless world; somebody forgets the discount: $r''_t = r_t + \Phi(s_{t+1}) - \Phi(s_t)$. Show that
   $J'' - J = \frac1\gamma \big( \mathbb E_{s \sim \bar d^\pi}[\Phi(s)] - \mathbb E_{s \sim p_0}[\Phi(s)] \big)$ with the normalized visitation
   $\bar d^\pi = (1 - \gamma)\, d^\pi$. What is a policy paid for now? Given $\Phi$ and $p_0$, what is the largest value that $J'' - J$ can have in any world?
   ($\mathbb E_{\bar d^\pi}[\Phi] \le \max \Phi$ alone allows too much, since $\bar d^\pi$ contains the start.)
""",
        solution=r"""
1. $G'_t = \sum_k \gamma^k r_{t+k} + \sum_k \big[ \gamma^{k+1} \Phi(s_{t+k+1}) - \gamma^k \Phi(s_{t+k}) \big]$. The second sum telescopes: its first $n$ terms are
   $\gamma^n \Phi(s_{t+n}) - \Phi(s_t)$, and $\gamma^n \Phi(s_{t+n}) \to 0$, since $\Phi$ has finitely many values. Take means given $s_t$, and given $s_t, a_t$:
   $V' = V - \Phi$ and $Q' = Q - \Phi$, so $A' = A$. The mean over the start is $J' = J - \mathbb E_{p_0}[\Phi]$; the second term does not contain $\theta$, so $\nabla J' = \nabla J$.
2. Reward-to-go: $\gamma^t G'_t = \gamma^t (G_t - \Phi(s_t))$, path by path the estimate from the old rewards with the baseline $b(s) = \Phi(s)$. Whole return: part 1 at
   $t = 0$ gives $\sum_k \gamma^k r'_k = G_0 - \Phi(s_0)$, the same number taken off at every step, a baseline that knows the start state and nothing else. (Neither knows
   $a_t$, so neither adds a bias.) With $\Phi = V^\pi$ the shaped reward *is* the TD error, $r'_k = \delta_k$. So the first multiplies by
   $\gamma^t G'_t = \sum_{k \ge t} \gamma^k \delta_k$, and the second, at every step, by all of $\sum_{k \ge 0} \gamma^k \delta_k$. The first compares $a_t$ with what the state in which it was taken is worth; given $s_t, a_t$
   its mean is $\gamma^t A^\pi(s_t, a_t)$. The second compares it with what the *start* is worth and still carries $\sum_{k < t} \gamma^k \delta_k$, the luck of the steps before $t$. These
   $\delta_k$ are settled before $a_t$ is drawn: their products with $\nabla \log \pi_\theta(a_t \mid s_t)$ have mean 0, and are noise. (The terms $k > t$ are noise as well, in
   both: their mean given $s_t, a_t$ is 0.)
3. The telescoped sum stops at $n = T - t$ and its last term stays: $G'_t = G_t - \Phi(s_t) + \gamma^{T-t} \Phi(s_T)$ and $J' = J - \mathbb E_{p_0}[\Phi] + \mathbb E[\gamma^T \Phi(s_T)]$. The last term
   depends on where and when the episode ends, which actions decide. One decision ($T = 1$): action 0 pays 1 and ends in $x$, action 1 pays 0 and ends in $y$, with
   $\Phi(x) = 0$ and $\Phi(y) = 2 / \gamma$. The returns were 1 and 0; shaped they are $1 - \Phi(s_0)$ and $2 - \Phi(s_0)$. Cure: $\Phi = 0$ in terminal states. Not at a time limit: there the
   return goes on in the bootstrap, $V'(s_T) = V(s_T) - \Phi(s_T)$, and $+\Phi(s_T)$ from the last reward cancels against it.
4. $\mathbb E \sum_t \gamma^t \Phi(s_t) = \sum_s d^\pi(s) \Phi(s)$. One step later, $\mathbb E \sum_t \gamma^t \Phi(s_{t+1}) = \frac1\gamma \big( \sum_s d^\pi(s) \Phi(s) - \mathbb E_{p_0}[\Phi] \big)$: shift the index; the
   term of $t = 0$ is missing. The difference of the two is $J'' - J = \frac1\gamma \big( (1 - \gamma) \sum_s d^\pi(s) \Phi(s) - \mathbb E_{p_0}[\Phi] \big)$, as claimed. A policy is now paid
   for spending its time where $\Phi$ is high, and $\nabla J'' = \nabla J + \frac1\gamma \nabla\, \mathbb E_{\bar d^\pi}[\Phi]$. The start has weight $1 - \gamma$ in $\bar d^\pi = (1 - \gamma)\, p_0 + \gamma\, \bar d^+$, where $\bar d^+$ is the
   distribution of the state one step later, $\mathbb E_{\bar d^+}[\Phi] = (1 - \gamma)\, \mathbb E \sum_t \gamma^t \Phi(s_{t+1})$. Put in, $J'' - J = \mathbb E_{\bar d^+}[\Phi] - \mathbb E_{p_0}[\Phi] \le \max \Phi - \mathbb E_{p_0}[\Phi]$, with equality where every
   step leads to a state with the largest $\Phi$. (The bound $\frac1\gamma (\max \Phi - \mathbb E_{p_0}[\Phi])$ is true as well, but no world reaches it unless both are 0.)
""",
        rubric=r"""1 point for part 1: the telescoping with its vanishing rest, all four quantities, and the gradient. 2 for part 2: one for both baselines, one for
both sums of TD errors, with the steps before $t$ as the noise (half a point if only the sums are right). 1 for part 3: the extra term, a world that works, and the
cure with its limit (half a point without the time limit). 1 for part 4: half a point for the shifted sum, half a point for what is paid for, with the bound that is
reached (a bound that still has the factor $1 / \gamma$ is true but not the largest value: a quarter).""",
    )


def simplex(generator: Generator, *shape: int) -> Tensor:
    """Rows of probabilities, none of them tiny."""
    rows = 0.05 + torch.rand(*shape, generator=generator, dtype=torch.float64)
    return rows / rows.sum(-1, keepdim=True)


def example_world() -> dict[str, Tensor | float]:
    return {
        "transition": torch.tensor([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], [[0.0, 0.25, 0.75], [1.0, 0.0, 0.0]], [[0.0, 0.5, 0.5], [0.25, 0.25, 0.5]]]).double(),
        "reward": torch.tensor([[1.0, 0.0], [-0.5, 2.0], [0.0, 1.0]]).double(),
        "height": torch.tensor([0.5, -1.0, 1.5]).double(),
        "policy": torch.tensor([[0.5, 0.5], [0.75, 0.25], [0.0, 1.0]]).double(),
        "gamma": 0.8,
    }  # fmt: skip


def action_values(draw: Random) -> Code:
    """Policy evaluation with a changed step, a changed payment and a changed discount: 27 forms, and their constants."""
    chance, weight, share = (
        draw.choice([0.1, 0.2, 0.3, 0.4]),
        draw.choice([0.35, 0.45, 0.55, 0.65]),
        draw.choice([0.25, 0.5, 0.75]),
    )
    rest = round(1 - chance, 2)
    move_text, move_code, moved = draw.choice([
        (f"*A sticky floor.* With chance ${chance}$ a step does not move at all, whatever the action: one stays in $s$. Otherwise `transition` says where one goes", f"{rest} * transition + {chance} * torch.eye(states, dtype=reward.dtype).unsqueeze(1)", lambda p, s, a, n: rest * p[s][a][n] + chance * (n == s)),
        (f"*A trapdoor.* With chance ${chance}$ a step leads to state 0, whatever the state and the action. Otherwise `transition` says where one goes", f"{rest} * transition + {chance} * torch.eye(states, dtype=reward.dtype)[0]", lambda p, s, a, n: rest * p[s][a][n] + chance * (n == 0)),
        (f"*A loose wheel.* With chance ${chance}$ the world moves as if the next action had been chosen, that is $a + 1$, and action 0 after the last one; otherwise as `transition` says for $a$", f"{rest} * transition + {chance} * transition.roll(-1, dims=1)", lambda p, s, a, n: rest * p[s][a][n] + chance * p[s][(a + 1) % len(p[s])][n]),
    ])  # fmt: skip
    pay_text, pay_code, pay = draw.choice([
        (f"*A view.* A step that ends in $s'$ pays ${weight}\\,h(s')$ on top", f"{weight} * height.expand(states, states)", lambda here, there: weight * there),
        (f"*Change is not free.* A step from $s$ to $s'$ costs ${weight}\\,|h(s') - h(s)|$", f"-{weight} * (height - height.unsqueeze(1)).abs()", lambda here, there: -weight * abs(there - here)),
        (f"*Climbing pays.* A step from $s$ to $s'$ pays ${weight}\\,\\max(0, h(s') - h(s))$ on top", f"{weight} * (height - height.unsqueeze(1)).clamp(min=0.0)", lambda here, there: weight * max(0.0, there - here)),
    ])  # fmt: skip
    keep_text, keep_code, keep = draw.choice([
        ("*Waiting takes two ticks.* What comes after a step counts $\\gamma$ times if the step led to another state, and $\\gamma^2$ times if it ended where it began.", "torch.full_like(pay, gamma).fill_diagonal_(gamma**2)", lambda gamma, s, n, heights: gamma**2 if s == n else gamma),
        (f"*Low ground is dangerous.* What comes after a step from $s$ counts $\\gamma$ times if $h(s) \\ge 0$, and ${share}\\,\\gamma$ times if $h(s) < 0$.", f"torch.where(height < 0.0, {share} * gamma, gamma).unsqueeze(1).expand(states, states)", lambda gamma, s, n, heights: share * gamma if heights[s] < 0 else gamma),
        ("*The last state ends it.* After a step that ends in state $S - 1$ nothing is collected any more; after any other step what comes counts $\\gamma$ times. (One may still be asked what it is worth to *begin* in state $S - 1$: it pays and moves like every other state.)", "torch.full_like(pay, gamma).index_fill_(1, torch.tensor([states - 1]), 0.0)", lambda gamma, s, n, heights: 0.0 if n == len(heights) - 1 else gamma),
    ])  # fmt: skip

    def oracle(transition, reward, height, policy, gamma):
        p, r, h, pi = (x.tolist() for x in (transition, reward, height, policy))
        states, actions = reward.shape
        q = [[0.0] * actions for _ in range(states)]
        change = 1.0
        while change > 1e-13:
            value = [sum(pi[n][b] * q[n][b] for b in range(actions)) for n in range(states)]
            change = 0.0
            for s in range(states):
                for a in range(actions):
                    total = r[s][a]
                    for n in range(states):
                        total += moved(p, s, a, n) * (pay(h[s], h[n]) + keep(gamma, s, n, h) * value[n])
                    change = max(change, abs(total - q[s][a]))
                    q[s][a] = total
        return torch.tensor(q, dtype=torch.float64)

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, states, actions, gamma in (
            ("a small world", 3, 2, 0.9),
            ("a larger world", 6, 3, 0.9),
            ("a long horizon", 4, 3, 0.95),
            ("only this step counts", 4, 2, 0.0),
            ("one action", 5, 1, 0.8),
            ("one state", 1, 3, 0.7),
            ("a policy without doubt", 5, 3, 0.85),
        ):
            height = torch.randn(states, generator=generator, dtype=torch.float64)
            height += 0.1 * torch.where(height < 0.0, -1.0, 1.0)  # none near 0,
            if name == "a larger world":
                height[1] = 0.0  # and one there
            if name == "a long horizon":
                height = height.abs()  # nothing is lost on low ground, so that thirty sweeps do not get there
            policy = simplex(generator, states, actions)
            if name == "a policy without doubt":
                policy = torch.eye(actions, dtype=torch.float64)[policy.argmax(-1)]
            reward = torch.randn(states, actions, generator=generator, dtype=torch.float64)
            transition = simplex(generator, states, actions, states)
            made.append(Case(name, {"transition": transition, "reward": reward, "height": height, "policy": policy, "gamma": gamma}))  # fmt: skip
        return made

    return Code(
        name="q2",
        title="A world with three quirks",
        points=5,
        minutes=30,
        goal="to write Bellman's equation for the world at hand, not for the one in the book",
        text=rf"""
Write `quirky_q_value`: the action values $Q^\pi(s, a)$, `[S, A]`, of a policy in a finite world. It is given by tables, as in chapter 1, and
by a height $h(s)$ of each state. Three things are different:

1. {move_text}. The reward $r(s, a)$ is always that of the state and the action chosen.
2. {pay_text}.
3. {keep_text}

All three act together: in 2 and 3, $s'$ is the state in which a step really ends, after 1. $Q^\pi(s, a)$ is the expected sum of all that is
paid from now on, this step's pay in full. Solve a linear system, or iterate until ten digits stand still.
""",
        function="quirky_q_value",
        header='''def quirky_q_value(transition, reward, height, policy, gamma):
    """Q [S, A]. transition [S, A, S]: P(s' | s, a); reward, policy [S, A]; height [S]; gamma: a number in [0, 1)."""''',
        body=f"""    states = len(reward)
    move = {move_code}
    pay = {pay_code}  # [S, S'], of a step from s to s'
    discount = {keep_code}  # [S, S']
    earned = reward + torch.einsum("sax,sx->sa", move, pay)
    chain = torch.einsum("sa,sax,sx->sx", policy, move, discount)
    value = torch.linalg.solve(torch.eye(states, dtype=reward.dtype) - chain, (policy * earned).sum(-1))
    return earned + torch.einsum("sax,sx,x->sa", move, discount, value)""",
        oracle=oracle,
        cases=cases,
        example=Case("example", example_world()),
    )


def episodes_of(ended: list[bool]) -> list[tuple[int, int, bool]]:
    """First row, row after the last, and whether it was finished, of every episode in a column."""
    found, first = [], 0
    for t, end in enumerate(ended):
        if end or t + 1 == len(ended):
            found.append((first, t + 1, end))
            first = t + 1
    return found


def episode_loss(draw: Random) -> Code:
    """A policy-gradient loss with another credit, another baseline and other weights: 27 forms, and their constants."""
    reach, rate, mix = draw.choice([2, 3, 4]), draw.choice([0.2, 0.3, 0.5]), draw.choice([0.3, 0.4, 0.6, 0.7])
    count_text, count_code, count = draw.choice([
        (f"*A short memory.* The credit of row $t$ is the discounted sum of the rewards of rows $t, \\dots, t + {reach - 1}$, at most ${reach}$ of them: $G_t = \\sum_{{k < {reach}}} \\gamma^k r_{{t+k}}$", f"gamma**k if k < {reach} else 0.0", lambda gamma, k: gamma**k if k < reach else 0.0),
        (f"*A hyperbolic discount.* The reward $k$ rows ahead counts $\\gamma^k / (1 + {rate}\\,k)$ times: $G_t = \\sum_k \\gamma^k r_{{t+k}} / (1 + {rate}\\,k)$", f"gamma**k / (1.0 + {rate} * k)", lambda gamma, k: gamma**k / (1 + rate * k)),
        (f"*Two horizons.* The credit is the mean of two returns, one with discount $\\gamma$ and one with ${mix}\\,\\gamma$: $G_t = \\frac12 \\sum_k \\big[ \\gamma^k + ({mix}\\,\\gamma)^k \\big]\\, r_{{t+k}}$", f"(gamma**k + ({mix} * gamma) ** k) / 2", lambda gamma, k: (gamma**k + (mix * gamma) ** k) / 2),
    ])  # fmt: skip
    blend, ridge = draw.choice([0.25, 0.5, 0.75]), draw.choice([0.5, 1.5, 2.0])
    base_text, base_code, base = draw.choice([
        (f"*A blend.* $b_{{ti}} = {blend}\\,V_{{ti}} + {1 - blend}\\,\\bar G_{{ti}}$, where $\\bar G_{{ti}}$ is the mean of $G_{{tj}}$ over the other environments $j \\ne i$ (0 if there are none)", f"{blend} * guess + {1 - blend} * others(credit) / max(envs - 1, 1)", lambda v, vs, gs: blend * v + (1 - blend) * sum(gs) / max(1, len(gs))),
        (f"*A corrected critic.* $b_{{ti}} = V_{{ti}} + {blend}\\,\\bar E_{{ti}}$, where $\\bar E_{{ti}}$ is the mean of $G_{{tj}} - V_{{tj}}$ over the other environments $j \\ne i$ (0 if there are none)", f"guess + {blend} * others(credit - guess) / max(envs - 1, 1)", lambda v, vs, gs: v + blend * sum(g - w for g, w in zip(gs, vs, strict=True)) / max(1, len(gs))),
        (f"*A critic scaled by the others.* $b_{{ti}} = c_{{ti}} V_{{ti}}$ with $c_{{ti}} = \\sum_{{j \\ne i}} V_{{tj}} G_{{tj}} \\big/ \\big( {ridge} + \\sum_{{j \\ne i}} V_{{tj}}^2 \\big)$, sums over the other environments (0 if there are none)", f"guess * others(guess * credit) / ({ridge} + others(guess.square()))", lambda v, vs, gs: v * sum(w * g for w, g in zip(vs, gs, strict=True)) / (ridge + sum(w * w for w in vs))),
    ])  # fmt: skip
    mean_text, mean_code, weigh = draw.choice([
        (
            "*States are discounted*, as the theorem has it: $w_{ti} = \\gamma^n / (T B)$, where the age $n$ is the number of rows of the same episode before row $t$",
            """    weight = torch.ones_like(reward)
    for t in range(1, steps):
        weight[t] = torch.where(ended[t - 1], 1.0, gamma * weight[t - 1])
    weight = weight / weight.numel()""",
            lambda gamma, age, length, finished, rows, episodes, whole: gamma**age / rows,
        ),
        (
            "*Every episode counts the same*, that is, rows are averaged over their episode, and episodes over the batch: $w_{ti} = 1 / (\\ell E)$, where $\\ell$ is the number of rows of the episode that row $t$ belongs to, and $E$ the number of episodes of all environments together. What the last row leaves unfinished is an episode, too, as long as its recorded part",
            """    length = torch.ones_like(reward)
    for t in range(1, steps):  # rows of the episode so far
        length[t] += length[t - 1].masked_fill(ended[t - 1], 0.0)
    for t in reversed(range(steps - 1)):  # all of its rows
        length[t] = torch.where(ended[t], length[t], length[t + 1])
    weight = 1.0 / (length * (envs + ended[:-1].sum()))""",
            lambda gamma, age, length, finished, rows, episodes, whole: 1.0 / (length * episodes),
        ),
        (
            "*Only whole episodes count*: $w_{ti} = 0$ in the rows of an episode that the last row leaves unfinished (in credits and baselines these rows do count), and $w_{ti} = 1 / E$ in all others, where $E$ is the number of finished episodes of all environments together, at least one",
            """    finished = ended.clone()
    for t in reversed(range(steps - 1)):
        finished[t] = ended[t] | finished[t + 1]
    weight = finished / ended.sum()""",
            lambda gamma, age, length, finished, rows, episodes, whole: float(finished) / whole,
        ),
    ])  # fmt: skip

    def oracle(logits, action, reward, value, ended, gamma):
        steps, envs = reward.shape
        columns = [episodes_of(ended[:, i].tolist()) for i in range(envs)]
        episodes, whole = sum(map(len, columns)), int(ended.sum())
        credit, weight = [[0.0] * envs for _ in range(steps)], [[0.0] * envs for _ in range(steps)]
        for i, column in enumerate(columns):
            for first, after, finished in column:
                for t in range(first, after):
                    credit[t][i] = sum(count(gamma, u - t) * float(reward[u, i]) for u in range(t, after))
                    weight[t][i] = weigh(gamma, t - first, after - first, finished, steps * envs, episodes, whole)
        total, slope = 0.0, torch.zeros_like(logits)
        for t in range(steps):
            for i in range(envs):
                rest = [j for j in range(envs) if j != i]
                b = base(float(value[t, i]), [float(value[t, j]) for j in rest], [credit[t][j] for j in rest])
                push = weight[t][i] * (credit[t][i] - b)
                row, a = logits[t, i].tolist(), int(action[t, i])
                top = max(row)
                log_sum = top + math.log(sum(math.exp(x - top) for x in row))
                total -= push * (row[a] - log_sum)
                for c, x in enumerate(row):
                    slope[t, i, c] = push * (math.exp(x - log_sum) - (c == a))
        return torch.tensor(total, dtype=torch.float64), slope, torch.zeros_like(value)

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, steps, envs, actions, ends, gamma, scale in (
            ("one row", 1, 3, 3, 0.4, 0.9, 1.0),
            ("one environment", 7, 1, 2, 0.3, 0.9, 1.0),
            ("many short episodes", 14, 3, 3, 0.4, 0.9, 1.0),
            ("no end before the last row", 6, 4, 2, 0.0, 0.8, 1.0),
            ("no discount", 9, 2, 4, 0.2, 1.0, 1.0),
            ("only the next reward", 6, 3, 2, 0.25, 0.0, 1.0),
            ("a policy almost without doubt", 6, 3, 3, 0.25, 0.95, 6.0),
        ):
            logits = scale * torch.randn(steps, envs, actions, generator=generator, dtype=torch.float64)
            action = torch.randint(0, actions, (steps, envs), generator=generator)
            reward, value = torch.randn(2, steps, envs, generator=generator, dtype=torch.float64)
            ended = torch.rand(steps, envs, generator=generator) < ends
            ended[-1] = torch.arange(envs) % 2 == 0  # some episodes are finished, some are not
            made.append(Case(name, {"logits": logits, "action": action, "reward": reward, "value": value + 0.5, "ended": ended, "gamma": gamma}))  # fmt: skip
        return made

    return Code(
        name="q3",
        title="REINFORCE with a twist",
        points=6,
        minutes=60,
        goal="who is credited with what, compared with whom, and what a mean divides by",
        text=rf"""
Write `episode_loss`, a scalar to descend:
$L = -\sum_{{t,i}} w_{{ti}}\, \mathrm{{sg}}(G_{{ti}} - b_{{ti}})\, \log \pi_\theta(a_{{ti}} \mid s_{{ti}})$. In a tensor `[T, B]`, row $t$ of column $i$ is
step $t$ of environment $i$. Several episodes lie one below the other in a column: `ended` marks the last row of an episode, and the row after it begins
another one (so does row 0). The policy is the softmax of the logits. The credit $G$, the baseline $b$ and the weight $w$ are these:

- {count_text}. Only rewards of the same episode are counted, and nothing is put in the place of what was not recorded.
- {base_text}. Here $V$ is `value`, a critic's guess. It does not matter how old the others' episodes are.
- {mean_text}.

As $\mathrm{{sg}}$ says, **no gradient flows through credit or baseline**. The hidden cases also look at the gradients by `logits` and by `value`.
""",
        function="episode_loss",
        header='''def episode_loss(logits, action, reward, value, ended, gamma):
    """The loss, a scalar tensor. logits [T, B, A]; action [T, B] int64; reward, value [T, B]; ended [T, B] bool; gamma: a number."""''',
        body=f"""    steps, envs = reward.shape
    guess = value.detach()
    credit = torch.zeros_like(reward)
    for t in range(steps):
        running = torch.ones_like(reward[0])  # 1 as long as the episode of row t lasts
        for k in range(steps - t):
            credit[t] += ({count_code}) * running * reward[t + k]
            running = running.masked_fill(ended[t + k], 0.0)

    def others(x):  # sum over the other environments
        return x.sum(1, keepdim=True) - x

    baseline = {base_code}
{mean_code}
    log_prob = logits.log_softmax(-1).gather(-1, action.unsqueeze(-1)).squeeze(-1)
    return -(weight * (credit - baseline) * log_prob).sum()""",
        oracle=oracle,
        cases=cases,
        example=Case("example", {
            "logits": torch.tensor([[[0.0, 1.0], [0.5, 0.0]], [[1.0, -1.0], [0.0, 0.0]], [[0.25, 0.5], [2.0, 0.0]], [[0.0, 0.0], [1.0, 0.5]], [[-0.5, 1.0], [0.0, 1.5]], [[1.0, 0.0], [0.0, 0.25]]]).double(),
            "action": torch.tensor([[0, 1], [1, 1], [0, 0], [1, 0], [1, 1], [0, 0]]),
            "reward": torch.tensor([[1.0, 0.0], [-0.5, 2.0], [2.0, 1.0], [0.5, -1.0], [4.0, 1.5], [1.0, -2.0]]).double(),
            "value": torch.tensor([[0.5, 1.0], [0.25, -1.0], [2.0, 0.5], [1.0, -0.5], [3.0, 1.0], [-1.0, 0.5]]).double(),
            "ended": torch.tensor([[False, False], [False, True], [False, False], [False, False], [True, False], [False, False]]),
            "gamma": 0.5,
        }),
        leaves=("logits", "value"),
    )  # fmt: skip


def padded_loss(draw: Random) -> Code:
    """Find the bug: a loss over padded rows, with standardized and limited advantages and an entropy bonus."""
    floor, most, bonus = draw.choice([0.05, 0.1, 0.2]), draw.choice([1.2, 1.4, 1.6]), draw.choice([0.03, 0.05, 0.08])

    def oracle(logits, action, returns, value, real):
        rows = [i for i, lived in enumerate(real.tolist()) if lived]
        excess = {i: float(returns[i]) - float(value[i, 0]) for i in rows}
        mean = sum(excess.values()) / len(rows)
        spread = math.sqrt(sum((x - mean) ** 2 for x in excess.values()) / len(rows))
        total, slope = 0.0, torch.zeros_like(logits)
        for i in rows:
            credit = min(most, max(-most, (excess[i] - mean) / max(spread, floor)))
            top = max(logits[i].tolist())
            size = sum(math.exp(x - top) for x in logits[i].tolist())
            log_pi = [x - top - math.log(size) for x in logits[i].tolist()]
            entropy = -sum(math.exp(x) * x for x in log_pi)
            total -= (credit * log_pi[int(action[i])] + bonus * entropy) / len(rows)
            for c, x in enumerate(log_pi):
                by_credit = credit * ((c == int(action[i])) - math.exp(x))
                by_entropy = -bonus * math.exp(x) * (x + entropy)
                slope[i, c] = -(by_credit + by_entropy) / len(rows)
        return torch.tensor(total, dtype=torch.float64), slope, torch.zeros_like(value)

    def cases(generator: Generator) -> list[Case]:
        made = []
        for name, number, actions, padding, scale in (
            ("some padding", 8, 3, 3, 1.0),
            ("no padding", 7, 2, 0, 1.0),
            ("mostly padding", 9, 3, 6, 1.0),
            ("one real row", 4, 3, 3, 1.0),
            ("large returns", 10, 4, 2, 40.0),
            ("hardly any spread", 6, 2, 1, 0.01),
        ):
            logits = torch.randn(number, actions, generator=generator, dtype=torch.float64)
            action = torch.randint(0, actions, (number,), generator=generator)
            value = torch.randn(number, 1, generator=generator, dtype=torch.float64)
            returns = value[:, 0] + scale * (1.0 + torch.randn(number, generator=generator, dtype=torch.float64))
            real = torch.ones(number, dtype=torch.bool)
            real[torch.randperm(number, generator=generator)[:padding]] = False
            if name == "large returns":  # one row beyond each limit
                low, high = real.nonzero().flatten()[:2]
                returns[low], returns[high] = value[low, 0] - 9.0 * scale, value[high, 0] + 9.0 * scale
            returns = torch.where(real, returns, -7.0)  # whatever lay there before
            made.append(
                Case(name, {"logits": logits, "action": action, "returns": returns, "value": value, "real": real})
            )
        return made

    fault = draw.choice([
        Fault("[N, 1] against [N]", "value.squeeze(-1).detach()", "value.detach()", "fault 15 of the errata: a public TRPO notebook; Spinning Up hands it out as exercise 2.2"),
        Fault("the policy's loss trains the critic", "value.squeeze(-1).detach()", "value.squeeze(-1)", "keras-io issue 194 (the actor-critic example); astariul/encode-attend-navigate-pytorch issue 2"),
        Fault("padding enters the mean", "mean = mean_of(advantage)", "mean = advantage.mean()", "SkyRL issue 1305: mean over all rows, variance over the real ones; a relative of fault 25"),
        Fault("the loss divides by padding, too", "return -mean_of(objective)", "return -objective.masked_fill(~real, 0.0).mean()", "LeRobot issue 3353: padded actions zeroed, and then a plain mean"),
        Fault("a price on doubt, not on certainty", f"log_prob + {bonus} * entropy", f"log_prob - {bonus} * entropy", "OpenSpiel issue 962: the sign of the entropy term in its A2C loss; a relative of fault 28"),
    ])  # fmt: skip
    return Code(
        name="q4",
        title="Find the bug: a loss that looks like any other",
        points=4,
        minutes=20,
        goal="to read a loss for shapes, masks, signs and gradients, since its value tells nothing",
        text=rf"""
Episodes of different lengths were padded to one length, and flattened into $N$ rows; `real` marks the $n$ rows that were lived. `faulty_padded_loss`
is meant to do this, with all means over the real rows only: take $A_i = \mathrm{{sg}}(G_i - V(s_i))$, its mean $m$ and its population standard deviation
$\sigma_A$ (divided by $n$, not by $n - 1$), and the credit

$$
C_i = \min\Big( {most}, \max\Big( {-most}, \frac{{A_i - m}}{{\max(\sigma_A, {floor})}} \Big) \Big), \qquad
L = -\frac1n \sum_{{i\ \mathrm{{real}}}} \Big[ C_i \log \pi_\theta(a_i \mid s_i) + {bonus}\, H(\pi_\theta(\cdot \mid s_i)) \Big] .
$$

One line holds a mistake that published code has had. Find it, and write the function as it should be, as `padded_loss`. The example below passes
with the mistake in. As always, the hidden cases also look at the gradients, here by `logits` and by `value`.
""",
        function="padded_loss",
        header='''def padded_loss(logits, action, returns, value, real):
    """The loss, a scalar tensor. logits [N, A]; action [N] int64; returns [N]; value [N, 1], as a network gives it; real [N] bool."""''',
        body=f"""    def mean_of(x):  # over the real rows
        return x.masked_fill(~real, 0.0).sum() / real.sum()

    baseline = value.squeeze(-1).detach()
    advantage = returns - baseline
    mean = mean_of(advantage)
    spread = mean_of((advantage - mean).square()).sqrt()
    credit = ((advantage - mean) / spread.clamp(min={floor})).clamp({-most}, {most})
    log_policy = logits.log_softmax(-1)
    log_prob = log_policy[torch.arange(len(action)), action]
    entropy = -(log_policy.exp() * log_policy).sum(-1)
    objective = credit * log_prob + {bonus} * entropy
    return -mean_of(objective)""",
        oracle=oracle,
        cases=cases,
        example=Case("example", {
            # Passes with every fault: two real rows (credits 1 and -1), no padding, a policy without doubt, and values for
            # which [N, 1] against [N] gives these credits on the diagonal and 0 beside it.
            "logits": torch.tensor([[20.0, 0.0], [0.0, 20.0]]).double(),
            "action": torch.tensor([1, 1]),
            "returns": torch.tensor([3.0, 1.0]).double(),
            "value": torch.tensor([[1.0], [3.0]]).double(),
            "real": torch.tensor([True, True]),
        }),
        leaves=("logits", "value"),
        fault=fault,
    )  # fmt: skip


def last_mile(draw: Random) -> Experiment:
    length, gamma, extra = draw.choice([5, 6, 7]), draw.choice([0.9, 0.95]), draw.choice([0.25, 0.5, 1.0])
    return Experiment(
        name="q5",
        title="Is the last mile the noisiest?",
        points=5,
        minutes=45,
        goal="what a baseline is worth as a policy makes up its mind, from exact numbers",
        text=rf"""
Take `TabularMDP.chain({length}, {gamma})`, and pay ${extra}$ more for every step (`TabularMDP(transition, reward + {extra}, start, gamma)`). Start with a
softmax policy whose logits, one for each state and action, are all 0, and climb with exact gradients and step size 1 for 300 steps.

Before each step, compute how many samples would be needed: draw one state from $(1 - \gamma) d^\pi$ and one action, and let $\hat g$ be the one-sample
estimate of $\nabla J$ from chapter 2, with a baseline. The mean of $\operatorname{{tr}} \operatorname{{Var}}[\hat g] \,/\, \lVert \nabla J \rVert^2$ such samples has an error as large as the
gradient itself. Nothing needs to be sampled: `q_value`, `visitation`, `policy_gradient` and `best_policy` of the world are exact, and so is
`softmax_score` (like `TabularMDP` from `minerva_lite.worlds.tabular`).

Draw one figure: this number (on a log axis) against the share of the possible return that is still missing, $1 - J / J^\star$ (on a log axis, too, and running
from large to small), one line each for no baseline, for $V^\pi$ and for $b^\star$. Axes need names. Then answer in at most a dozen sentences: what happens to each
line as the policy comes close to the best one? Why do two of the lines begin in one point? Explain the slopes by a state whose wrong action has a
small probability $p$. What separates the two lines that become parallel? Which noise keeps the line of $b^\star$ from falling to 0? And would
$b^\star$ help as much with sampled returns in place of $Q^\pi$?
""",
        code=f"""from minerva_lite.worlds.tabular import TabularMDP, softmax_score

world = TabularMDP.chain({length}, {gamma})
world = TabularMDP(world.transition, world.reward + {extra}, world.start, world.gamma)
top = world.expected_return(world.best_policy())
logits = torch.zeros({length}, 2)
missing, needed = [], {{"no baseline": [], "V": [], "b*": []}}
for _ in range(300):
    policy = logits.softmax(-1)
    score = softmax_score(policy)
    gradient, q_value = world.policy_gradient(policy, score), world.q_value(policy)
    push = policy * score.square().sum(-1)
    best = (push * q_value).sum(-1, keepdim=True) / push.sum(-1, keepdim=True)
    missing.append(1 - world.expected_return(policy) / top)
    for name, baseline in zip(needed, (0.0, world.value(policy).unsqueeze(-1), best)):
        second = world.visitation(policy) @ (push * (q_value - baseline) ** 2).sum(-1) / (1 - world.gamma)
        needed[name].append(second / gradient.square().sum() - 1)
    logits = logits + gradient.view_as(logits)
figure, ax = plt.subplots()
for name, numbers in needed.items():
    ax.plot(missing, numbers, label=name)
ax.set(xlabel="missing share of the return", ylabel="samples for an error of 100 %", xscale="log", yscale="log")
ax.invert_xaxis()
ax.legend()
plt.show()""",
        solution=r"""
Without a baseline the number is above a thousand at the start, and in the end it grows in inverse proportion to what is missing: a tenth of the gap
needs ten times the samples. With $V$ it is smaller by a factor of fifty or much more, but after the first steps it grows just as fast. With $b^\star$ it stays about ten
(between 3 and 20) all the way. The lines of $V$ and $b^\star$ begin in one point because at the uniform policy both actions push equally hard, and then $b^\star = V$.

Let the wrong action have probability $p$ and let its $Q$ be lower by $\Delta$. What is missing is of order $p$, and the gradient's length of order $p \Delta$. With $V$, the second moment is of order
$p \Delta^2$: nearly always a sample says nothing, and once in $1/p$ times it shouts. Divided by $p^2 \Delta^2$ that is $1/p$, a slope of $-1$. Without a baseline it is the same with the wrong
action's $Q^2$ in the place of $\Delta^2$: the same slope, and the two lines are apart by the factor $Q^2 / \Delta^2$ (as a mean over the states), which does not depend on $p$. It is the larger, the more is paid
whatever one does. With $b^\star$, which lies close to the *wrong* action's $Q$, each of the two actions tells the state's whole gradient, of size $p (1 - p) \Delta$: the action drawn makes no noise at
all, the ratio does not depend on $p$, and the slope is 0. The line does not fall to 0 because the state is still drawn, and each state tells only about its own logits. With sampled
returns, $\mathbb E[w \operatorname{Var}(G \mid s, a)]$ is added to every line, with $w$ the squared length of the score. It is of order $p$ as well, so the line of $b^\star$ would climb like the others, and the advantage
over $V$ would shrink to a factor.
""",
        rubric="""2 points: a figure with all three lines and named log axes, right in its numbers. 1: how each line goes on, and why two begin in one
point. 1: the orders in p with their slopes, and the factor between the parallel lines (half a point for either). 1: the drawn state keeps b* up, and noisy
returns take the flat line away (half a point for either).""",
    )
