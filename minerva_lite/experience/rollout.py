"""On-policy data, time-major [T, B], and how they are collected from an agent in an environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self

import torch
from torch import Generator, Tensor

from ..checks import require_bool, require_count, require_dtype, require_shape
from ..worlds.spec import EnvSpec, Step, VectorEnv


class Actor(Protocol):
    """Whatever acts: an agent, as far as collecting goes."""

    @property
    def policy(self) -> Any:
        """A policy: `log_prob(params, action)`, `to_env(action)` and what else `agents.networks` says."""

    def act(self, obs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Actions for obs [B, O], and the parameters of the distributions that they were drawn from."""


Move = Callable[[Any, Any, Tensor], tuple[Tensor, tuple[Tensor, ...], Step]]  # (agent, env, obs): as `_move`


@dataclass(frozen=True)
class Rollout:
    """T steps of B environments, as the behavior policy acted in them.

    next_obs is the true successor, also where the episode ended and `obs[t + 1]` belongs to the next one.
    """

    obs: Tensor  # [T, B, O]  s_t, raw
    action: Tensor  # [T, B, D] float, or [T, B] or [T, B, D] int64: as sampled, before clipping or squashing
    behavior_log_prob: Tensor  # [T, B]  log pi_b(a_t | s_t), nats
    behavior_params: tuple[Tensor, ...]  # each [T, B, ...]: the parameters of pi_b(. | s_t)
    reward: Tensor  # [T, B]  r_t, raw
    next_obs: Tensor  # [T, B, O]  s_{t+1}, raw
    terminated: Tensor  # [T, B] bool
    truncated: Tensor  # [T, B] bool
    # [T, B] 1, or 0 for a phantom row: no transition but the reset that next-step autoreset puts after an end. Its
    # action was ignored, its reward is 0, its next_obs the first of the new episode. None: all rows are real.
    restart_weight: Tensor | None = None

    @property
    def ended(self) -> Tensor:
        return self.terminated | self.truncated

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor under the name an error message should use."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "behavior_params"}
        if self.restart_weight is None:
            named.pop("restart_weight")
        return named | {f"behavior_params[{i}]": p for i, p in enumerate(self.behavior_params)}

    def require(self, spec: EnvSpec, dtype: torch.dtype, steps: int | None, num_envs: int) -> None:
        """Raise ValueError unless every tensor has the shape and dtype of such an environment's; steps None: any."""
        features = self.tensors()
        flags = {name: features.pop(name) for name in ("terminated", "truncated")}
        action = features.pop("action")
        require_bool(**flags)
        require_dtype(torch.int64 if spec.discrete else dtype, action=action)
        require_dtype(dtype, **features)
        require_shape((steps, num_envs), reward=self.reward)
        rows = tuple(self.reward.shape)
        require_shape(rows, behavior_log_prob=self.behavior_log_prob, **flags)
        require_shape((*rows, spec.obs_dim), obs=self.obs, next_obs=self.next_obs)
        require_shape((*rows, *spec.action_shape), action=action)
        params = {name: tensor for name, tensor in features.items() if name.startswith("behavior_params")}
        require_shape((*rows, spec.params_dim), **params)
        weight = self.restart_weight
        if weight is not None:
            require_shape(rows, restart_weight=weight)
            if not bool(((weight == 0) | (weight == 1)).all()) or not bool(weight.any()):
                raise ValueError("restart_weight: wanted only 0 and 1, and not only 0; got other numbers, or no 1")

    @property
    def num_steps(self) -> int:
        """Environment steps that were taken for these data, phantom rows among them."""
        return self.reward.numel()

    @property
    def real(self) -> Tensor:
        """[T, B] bool: the rows that are transitions of the environment."""
        return torch.ones_like(self.terminated) if self.restart_weight is None else self.restart_weight == 1

    @property
    def visited(self) -> Tensor:
        """The observations that were acted on, [..., O]."""
        return self.obs if self.restart_weight is None else self.obs[self.real]

    @property
    def first_episode(self) -> Tensor:
        """[T, B] bool: the rows of each environment's first episode, its last step included."""
        return self.ended.cumsum(0) - self.ended.long() == 0


@dataclass(frozen=True)
class Batch:
    """N rows of a rollout as a loss reads them; `batch[index]` takes some of them, by a mask, a slice or numbers."""

    obs: Tensor  # [N, O]  s_t as the networks see it
    action: Tensor  # [N, D] float, or [N] or [N, D] int64
    behavior_log_prob: Tensor  # [N]  log pi_b(a_t | s_t), nats
    behavior_params: tuple[Tensor, ...]  # each [N, ...]: the parameters of pi_b(. | s_t)
    advantage: Tensor  # [N]  A_t
    value_old: Tensor  # [N]  V(s_t) before the update
    value_target: Tensor  # [N]  R_t

    def __len__(self) -> int:
        return len(self.obs)

    def __getitem__(self, index: Any) -> Self:
        taken: dict[str, Any] = {
            name: tuple(t[index] for t in column) if isinstance(column, tuple) else column[index]
            for name, column in vars(self).items()
        }
        return type(self)(**taken)

    def minibatches(self, size: int, generator: Generator) -> Iterator[Self]:
        """One pass over all rows in a fresh random order, `size` at a time; the last minibatch may be shorter.

        The rows are shuffled once and then cut, so that a minibatch is a view, not a gather.
        """
        rows = len(self.obs)
        shuffled = self[torch.randperm(rows, generator=generator, device=generator.device)]
        for start in range(0, rows, size):
            yield shuffled[start : start + size]


def collect(agent: Actor, env: VectorEnv, obs: Tensor, steps: int, move: Move | None = None) -> tuple[Rollout, Tensor]:
    """Let `agent` act `steps` times in every environment, from `obs` [B, O]; the rollout, and the next obs.

    One batched policy call per step; log-probabilities are computed once, for the whole rollout, from the
    parameters that were acted on. move: another function for one step than `act` followed by `env.step`, with the same
    results. Raises ValueError: fewer than one step.
    """
    require_count(steps=steps)
    return _walk(agent, env, obs, steps, lambda alive: False, move or _move)


def collect_episodes(agent: Actor, env: VectorEnv, max_steps: int) -> tuple[Rollout, Tensor]:
    """Reset every environment and act until each has finished an episode, `max_steps` times at most.

    The rows of second episodes are in the rollout too; `Rollout.first_episode` tells them apart. An agent should learn
    from first episodes only: of the later ones, those that finish in time are more often short.
    Raises ValueError: fewer than one step.
    """
    require_count(max_steps=max_steps)
    return _walk(agent, env, env.reset(), max_steps, lambda alive: not alive.any(), _move)


@torch.no_grad()
def _walk(
    agent: Actor, env: VectorEnv, obs: Tensor, steps: int, enough: Callable[[Tensor], bool], move: Move
) -> tuple[Rollout, Tensor]:
    """Act at most `steps` times, and until `enough(environments still in their first episode)`."""
    columns: list[tuple[Tensor, ...]] = []
    params_at: list[tuple[Tensor, ...]] = []
    phantoms: list[Tensor] = []
    alive = torch.ones(len(obs), dtype=torch.bool, device=obs.device)
    for _ in range(steps):
        action, params, step = move(agent, env, obs)
        columns.append((obs, action, step.reward, step.next_obs, step.terminated, step.truncated))
        params_at.append(params)
        if step.phantom is not None:
            phantoms.append(step.phantom)
        obs = step.obs
        alive = alive & ~(step.terminated | step.truncated)
        if enough(alive):
            break
    observed, action, reward, next_obs, terminated, truncated = (torch.stack(c) for c in zip(*columns, strict=True))
    params = tuple(torch.stack(p) for p in zip(*params_at, strict=True))
    return (
        Rollout(
            obs=observed,
            action=action,
            behavior_log_prob=agent.policy.log_prob(params, action),
            behavior_params=params,
            reward=reward,
            next_obs=next_obs,
            terminated=terminated,
            truncated=truncated,
            restart_weight=(~torch.stack(phantoms)).to(reward.dtype) if phantoms else None,
        ),
        obs,
    )


def _move(agent: Actor, env: VectorEnv, obs: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Step]:
    """One step of every environment: action, the parameters it was drawn from, and what came of it."""
    action, params = agent.act(obs)
    return action, params, env.step(agent.policy.to_env(action))
