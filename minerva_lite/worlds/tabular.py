"""Small worlds in which everything that an estimator estimates is computed exactly, by linear algebra in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from ..checks import require_count, require_shape, require_unit_interval


class Paths(NamedTuple):
    """B paths of T steps through a tabular world, time-major."""

    state: Tensor  # [T, B] int64
    action: Tensor  # [T, B] int64
    reward: Tensor  # [T, B]
    next_state: Tensor  # [T, B] int64


@dataclass(frozen=True)
class TabularMDP:
    """A finite Markov decision process that never terminates; a policy is a tensor [S, A] of probabilities.

    Raises ValueError: shapes do not fit, a row is not a distribution, or gamma is not in [0, 1).
    """

    transition: Tensor  # [S, A, S]  P(s' | s, a)
    reward: Tensor  # [S, A]  expected reward of a in s, reward units
    start: Tensor  # [S]  distribution of s_0
    gamma: float  # discount, below 1

    def __post_init__(self) -> None:
        states, actions = self.reward.shape
        require_shape((states, actions, states), transition=self.transition)
        require_shape((states,), start=self.start)
        require_unit_interval(gamma=self.gamma)
        if self.gamma == 1.0:
            raise ValueError("gamma: wanted a number below 1, since no episode ends; got 1.0")
        for name, rows in (("transition", self.transition), ("start", self.start)):
            if (rows < 0).any() or not torch.allclose(rows.sum(-1), torch.ones_like(rows[..., 0])):
                raise ValueError(f"{name}: wanted probabilities that sum to 1 over the last axis; got others")

    # Worlds.

    @classmethod
    def random(cls, states: int, actions: int, gamma: float, generator: Generator) -> TabularMDP:
        """Transitions and start uniform on the simplex, rewards standard normal, all float64."""
        require_count(states=states, actions=actions)
        reward = torch.randn(states, actions, generator=generator, dtype=torch.float64)
        return cls(_simplex(generator, states, actions, states), reward, _simplex(generator, states), gamma)

    @classmethod
    def chain(cls, states: int, gamma: float, *, slip: float = 0.1) -> TabularMDP:
        """A corridor: action 0 goes left, 1 right, and with chance `slip` the other way; the start is the left end.

        The right end pays 1 for every step to the right, the left end 0.1 for every step to the left: a small reward
        nearby, a large one far away. A step against a wall stays where it is.
        """
        require_count(states=states)
        require_unit_interval(slip=slip)
        transition = torch.zeros(states, 2, states, dtype=torch.float64)
        for s in range(states):
            for a, chance in ((0, slip), (1, 1.0 - slip)):
                transition[s, a, min(s + 1, states - 1)] += chance
                transition[s, a, max(s - 1, 0)] += 1.0 - chance
        reward = torch.zeros(states, 2, dtype=torch.float64)
        reward[0, 0], reward[-1, 1] = 0.1, 1.0
        return cls(transition, reward, torch.eye(states, dtype=torch.float64)[0], gamma)

    @classmethod
    def grid(cls, height: int, width: int, gamma: float, *, slip: float = 0.1) -> TabularMDP:
        """A room of height * width cells; actions up, right, down, left. State = row * width + column.

        A step against a wall stays where it is. With chance `slip` the move is one of the four at random. Every step
        costs 0.04 except in the goal, the cell at the lower right, which pays 1 and sends back to the start at the
        upper left.
        """
        require_count(height=height, width=width)
        require_unit_interval(slip=slip)
        states, goal = height * width, height * width - 1
        move = torch.zeros(states, 4, states, dtype=torch.float64)
        for s in range(states):
            for a, (down, right) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
                row = min(max(s // width + down, 0), height - 1)
                column = min(max(s % width + right, 0), width - 1)
                move[s, a, row * width + column] = 1.0
        transition = (1.0 - slip) * move + slip * move.mean(1, keepdim=True)
        start = torch.eye(states, dtype=torch.float64)[0]
        transition[goal] = start
        reward = torch.full((states, 4), -0.04, dtype=torch.float64)
        reward[goal] = 1.0
        return cls(transition, reward, start, gamma)

    @classmethod
    def two_state(cls, gamma: float) -> TabularMDP:
        """Two states, two actions: 0 stays, 1 switches. Staying in state 1 pays 1, nothing else pays; start in 0.

        It is small enough to compute everything by hand: with probabilities p_0 and p_1 of staying, visitation, values
        and gradients are fractions.
        """
        transition = torch.zeros(2, 2, 2, dtype=torch.float64)
        for s in range(2):
            transition[s, 0, s] = transition[s, 1, 1 - s] = 1.0
        reward = torch.tensor([[0.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
        return cls(transition, reward, torch.tensor([1.0, 0.0], dtype=torch.float64), gamma)

    # Properties of a policy.

    def averaged(self, policy: Tensor) -> tuple[Tensor, Tensor]:
        """P^pi [S, S] and r^pi [S]: the process with the policy's actions averaged out."""
        require_shape(tuple(self.reward.shape), policy=policy)
        return torch.einsum("sa,san->sn", policy, self.transition), (policy * self.reward).sum(-1)

    def value(self, policy: Tensor) -> Tensor:
        """V^pi(s), [S]: the solution of Bellman's equation. Differentiable in the policy."""
        chain, reward = self.averaged(policy)
        return endless_sum(self.gamma * chain, reward)

    def q_value(self, policy: Tensor) -> Tensor:
        """Q^pi(s, a), [S, A]."""
        return self.reward + self.gamma * self.transition @ self.value(policy)

    def advantage(self, policy: Tensor) -> Tensor:
        """A^pi(s, a) = Q^pi - V^pi, [S, A]."""
        return self.q_value(policy) - self.value(policy).unsqueeze(-1)

    def visitation(self, policy: Tensor) -> Tensor:
        """Discounted visitation sum_t gamma^t P(s_t = s), [S]: not normalized, it sums to 1 / (1 - gamma)."""
        chain, _ = self.averaged(policy)
        return endless_sum(self.gamma * chain.T, self.start)

    def expected_return(self, policy: Tensor) -> Tensor:
        """J(pi), scalar: the mean of V^pi over the start. Differentiable in the policy."""
        return self.start @ self.value(policy)

    def policy_gradient(self, policy: Tensor, score: Tensor) -> Tensor:
        """Gradient of J [n] for a policy whose score d log pi(a | s) / d theta is `score` [S, A, n].

        Sum over s of d^pi(s), not normalized, over a of pi(a | s) Q^pi(s, a) score(s, a).

        Source: Sutton et al. 2000, the policy-gradient theorem.
        """
        weight = self.visitation(policy).unsqueeze(-1) * policy * self.q_value(policy)
        return torch.einsum("sa,san->n", weight, score)

    def fisher(self, policy: Tensor, score: Tensor) -> Tensor:
        """Fisher information [n, n]: the mean of score score^T, states from the normalized visitation."""
        weight = (1.0 - self.gamma) * self.visitation(policy).unsqueeze(-1) * policy
        return torch.einsum("sa,sam,san->mn", weight, score, score)

    # Properties of an estimator.

    def gae_moments(
        self, policy: Tensor, value: Tensor, lam: float, *, rows: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Mean and variance, each [S, A], of GAE(lam) on endless paths from (s, a), with any critic `value` [S].

        With `rows`, each [rows, S, A]: entry k - 1 is for a path of k rows, after which the critic stands for the rest.
        The estimate is delta_t + gamma lam (the next one); its mean and its second moment obey linear equations.

        Source: Sobel 1982, the variance of a discounted return; here of discounted TD errors.
        Raises ValueError: a shape does not fit, lam lies outside [0, 1], or rows is below 1.
        """
        require_shape(tuple(self.reward.shape), policy=policy)
        require_shape((len(self.start),), value=value)
        require_unit_interval(lam=lam)
        decay, shape = self.gamma * lam, self.reward.shape
        # Transitions from each pair (s, a) to the next pair.
        pairs = torch.einsum("san,nb->sanb", self.transition, policy).reshape(policy.numel(), -1)
        td_error = self.reward.unsqueeze(-1) + self.gamma * value - value.reshape(-1, 1, 1)  # [S, A, S]
        first = (self.transition * td_error).sum(-1)

        def squared(mean: Tensor) -> Tensor:
            """The second moment of one row: its TD error, and twice that times the expected rest seen from s'."""
            ahead = decay * (policy * mean).sum(-1)
            return (self.transition * td_error * (td_error + 2.0 * ahead)).sum(-1)

        if rows is None:
            mean = endless_sum(decay * pairs, first.flatten()).reshape(shape)
            second = endless_sum(decay**2 * pairs, squared(mean).flatten()).reshape(shape)
            return mean, second - mean.square()
        require_count(rows=rows)
        means, seconds = [torch.zeros_like(first)], [torch.zeros_like(first)]
        for _ in range(rows):
            seconds.append(squared(means[-1]) + decay**2 * (pairs @ seconds[-1].flatten()).reshape(shape))
            means.append(first + decay * (pairs @ means[-1].flatten()).reshape(shape))
        mean = torch.stack(means[1:])
        return mean, torch.stack(seconds[1:]) - mean.square()

    def gae_error(self, policy: Tensor, value: Tensor, lam: float, *, rows: int | None = None) -> tuple[Tensor, Tensor]:
        """Squared bias and variance of GAE(lam), two scalars, averaged over the normalized visitation.

        A bias that is the same for all actions of a state acts as a baseline and is left out. With `rows` the
        mean over the rows of a rollout of so many; without, for endless paths.
        """
        weight = (1.0 - self.gamma) * self.visitation(policy).unsqueeze(-1) * policy
        mean, variance = self.gae_moments(policy, value, lam, rows=rows)
        bias = mean - self.advantage(policy)
        bias = bias - (policy * bias).sum(-1, keepdim=True)
        return (weight * bias.square()).sum() / (rows or 1), (weight * variance).sum() / (rows or 1)

    def best_policy(self) -> Tensor:
        """The optimal policy [S, A], by policy iteration: one action per state, any of those that are equally good."""
        choice = torch.zeros(len(self.reward), dtype=torch.int64)
        while True:
            policy = torch.eye(self.reward.shape[1], dtype=self.reward.dtype)[choice]
            gain, best = self.advantage(policy).max(-1)
            # A tie is no improvement, but rounding makes it look like a tiny gain.
            better = gain > 1e-10 * (1.0 + self.reward.abs().max()) / (1.0 - self.gamma)
            if not better.any():
                return policy
            choice = torch.where(better, best, choice)

    # Samples, to compare with the truth.

    def paths(
        self,
        policy: Tensor,
        episodes: int,
        steps: int,
        generator: Generator,
        *,
        state: Tensor | None = None,
        action: Tensor | None = None,
    ) -> Paths:
        """`episodes` paths of `steps` steps side by side, [T, B]; `state` and `action` [B] set the first ones.

        Each step draws 2 * episodes uniform numbers, whatever they are used for: two calls with equal generators
        and other first actions see common random numbers.
        Raises ValueError: fewer than one episode or step, or a first state or action of another shape.
        """
        require_count(episodes=episodes, steps=steps)
        uniform = torch.rand(2 * steps + 1, episodes, generator=generator, dtype=torch.float64)
        if state is None:
            state = inverse_cdf(self.start.expand(episodes, -1), uniform[-1])
        require_shape((episodes,), state=state)
        columns = []
        for t in range(steps):
            if t > 0 or action is None:
                action = inverse_cdf(policy[state], uniform[2 * t])
            require_shape((episodes,), action=action)
            successor = inverse_cdf(self.transition[state, action], uniform[2 * t + 1])
            columns.append((state, action, self.reward[state, action], successor))
            state = successor
        return Paths(*(torch.stack(column) for column in zip(*columns, strict=True)))

    def visits(self, policy: Tensor, count: int, generator: Generator) -> Tensor:
        """`count` independent states [N] from the normalized discounted visitation, by walking.

        After every state a walk goes on with chance gamma; the state in which it stops is returned.
        """
        require_count(count=count)
        state = inverse_cdf(self.start.expand(count, -1), torch.rand(count, generator=generator, dtype=torch.float64))
        walking = torch.arange(count)
        while len(walking):
            uniform = torch.rand(3, len(walking), generator=generator, dtype=torch.float64)
            on = uniform[0] < self.gamma
            walking, here = walking[on], state[walking[on]]
            action = inverse_cdf(policy[here], uniform[1, on])
            state[walking] = inverse_cdf(self.transition[here, action], uniform[2, on])
        return state


def softmax_score(policy: Tensor) -> Tensor:
    """Score d log pi(a | s) / d theta of a softmax with one logit for each (s, a): [S, A, S * A], policy [S, A].

    Its entry for the logit of `(s', a')` is `1[s = s'] (1[a = a'] - pi(a' | s))`.
    """
    states, actions = policy.shape
    within = torch.eye(actions, dtype=policy.dtype) - policy.unsqueeze(1)  # [S, A, A']
    return torch.einsum("st,sab->satb", torch.eye(states, dtype=policy.dtype), within).reshape(states, actions, -1)


def random_policy(states: int, actions: int, generator: Generator) -> Tensor:
    """A policy [S, A] with every state's probabilities uniform on the simplex, float64."""
    require_count(states=states, actions=actions)
    return _simplex(generator, states, actions)


def drifting_critic(error: float) -> tuple[TabularMDP, Tensor, Tensor]:
    """A corridor of eight states, a policy that drifts right, its values with noise of `error` times their spread."""
    world = TabularMDP.chain(8, 0.95)
    policy = torch.tensor([[0.4, 0.6]], dtype=torch.float64).repeat(8, 1)
    value = world.value(policy)
    noise = torch.randn(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return world, policy, value + error * value.std() * noise


def endless_sum(step: Tensor, term: Tensor) -> Tensor:
    """The sum over k = 0, 1, ... of step^k term, [n, ...], for step [n, n]: the solution of x = term + step x."""
    solution: Tensor = torch.linalg.solve(torch.eye(len(step), dtype=step.dtype) - step, term)
    return solution


def inverse_cdf(probability: Tensor, uniform: Tensor) -> Tensor:
    """Index [...] drawn from each row of `probability` [..., K] by a uniform number in [0, 1), `uniform` [...]."""
    total = probability.cumsum(-1)
    # Rounding can leave the last sum below the uniform number; the last index that adds to the sum takes it.
    return ((total <= uniform.unsqueeze(-1)) & (total < total[..., -1:])).sum(-1)


def _simplex(generator: Generator, *shape: int) -> Tensor:
    """Rows uniform on the simplex: exponentials over their sum."""
    exponential = -torch.rand(*shape, generator=generator, dtype=torch.float64).log()
    return exponential / exponential.sum(-1, keepdim=True)
