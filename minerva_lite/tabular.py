"""Small exact worlds: everything an estimator tries to guess, by linear algebra in float64 (floor 3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .checks import require_count, require_shape, require_unit_interval


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

    @classmethod
    def random(cls, states: int, actions: int, gamma: float, generator: Generator) -> TabularMDP:
        """Transitions and start uniform on the simplex, rewards standard normal, all float64."""
        require_count(states=states, actions=actions)

        def simplex(*shape: int) -> Tensor:
            exponential = -torch.rand(*shape, generator=generator, dtype=torch.float64).log()
            return exponential / exponential.sum(-1, keepdim=True)

        reward = torch.randn(states, actions, generator=generator, dtype=torch.float64)
        return cls(simplex(states, actions, states), reward, simplex(states), gamma)

    def value(self, policy: Tensor) -> Tensor:
        """V^pi(s), [S]: the solution of Bellman's equation. Differentiable in the policy."""
        chain, reward = self._chain(policy)
        return torch.linalg.solve(torch.eye(len(reward), dtype=reward.dtype) - self.gamma * chain, reward)

    def q_value(self, policy: Tensor) -> Tensor:
        """Q^pi(s, a), [S, A]."""
        return self.reward + self.gamma * self.transition @ self.value(policy)

    def advantage(self, policy: Tensor) -> Tensor:
        """A^pi(s, a) = Q^pi - V^pi, [S, A]."""
        return self.q_value(policy) - self.value(policy).unsqueeze(-1)

    def visitation(self, policy: Tensor) -> Tensor:
        """Discounted visitation sum_t gamma^t P(s_t = s), [S]: not normalized, it sums to 1 / (1 - gamma)."""
        chain, _ = self._chain(policy)
        return torch.linalg.solve(torch.eye(len(chain), dtype=chain.dtype) - self.gamma * chain.T, self.start)

    def expected_return(self, policy: Tensor) -> Tensor:
        """J(pi), scalar: the mean of V^pi over the start. Differentiable in the policy."""
        return self.start @ self.value(policy)

    def _chain(self, policy: Tensor) -> tuple[Tensor, Tensor]:
        """P^pi [S, S] and r^pi [S]: the process with the policy's actions averaged out."""
        require_shape(tuple(self.reward.shape), policy=policy)
        return torch.einsum("sa,san->sn", policy, self.transition), (policy * self.reward).sum(-1)
