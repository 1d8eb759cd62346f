"""On-policy data, time-major [T, B] (floor 3). Only data: who acts and where is passed in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Generator, Tensor

from .checks import require_count


@dataclass(frozen=True)
class Rollout:
    """T steps of B environments, as the behavior policy lived them.

    next_obs is the true successor, also where the episode ended and `obs[t + 1]` belongs to the next one.
    """

    obs: Tensor  # [T, B, O]  s_t, raw
    action: Tensor  # [T, B, D] float or [T, B] int64: as sampled, before clipping or squashing
    behavior_log_prob: Tensor  # [T, B]  log pi_b(a_t | s_t), nats
    behavior_params: tuple[Tensor, ...]  # each [T, B, ...]: the parameters of pi_b(. | s_t)
    reward: Tensor  # [T, B]  r_t, raw
    next_obs: Tensor  # [T, B, O]  s_{t+1}, raw
    terminated: Tensor  # [T, B] bool
    truncated: Tensor  # [T, B] bool

    @property
    def ended(self) -> Tensor:
        return self.terminated | self.truncated

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor under the name an error message should use."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "behavior_params"}
        return named | {f"behavior_params[{i}]": p for i, p in enumerate(self.behavior_params)}


@torch.no_grad()
def collect(agent: Any, env: Any, obs: Tensor, steps: int) -> tuple[Rollout, Tensor]:
    """Let `agent` act `steps` times in every environment, from `obs` [B, O]; the rollout, and the next obs.

    One batched policy call a step; log-probabilities are computed once, for the whole rollout, from the
    parameters that were acted on. Raises ValueError: fewer than one step.
    """
    require_count(steps=steps)
    columns: list[tuple[Tensor, ...]] = []
    params_at: list[tuple[Tensor, ...]] = []
    for _ in range(steps):
        action, params = agent.act(obs)
        step = env.step(agent.policy.to_env(action))
        columns.append((obs, action, step.reward, step.next_obs, step.terminated, step.truncated))
        params_at.append(params)
        obs = step.obs
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
        ),
        obs,
    )


def _rows(tensors: Any, index: Any) -> Any:
    """tensors[index], for a tensor or each of a tuple of them."""
    return tuple(t[index] for t in tensors) if isinstance(tensors, tuple) else tensors[index]


def minibatches(rows: dict[str, Any], size: int, generator: Generator) -> Iterator[dict[str, Any]]:
    """One pass over all rows ([N, ...], or tuples of such) in a fresh random order, `size` at a time.

    The last minibatch may be shorter. The rows are shuffled once and then cut, so that a minibatch is a view,
    not a gather.
    """
    n = len(next(t for t in rows.values() if isinstance(t, Tensor)))
    order = torch.randperm(n, generator=generator, device=generator.device)
    shuffled = {name: _rows(tensor, order) for name, tensor in rows.items()}
    for start in range(0, n, size):
        yield {name: _rows(tensor, slice(start, start + size)) for name, tensor in shuffled.items()}
