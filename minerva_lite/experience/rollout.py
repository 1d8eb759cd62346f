"""On-policy data, time-major [T, B]. Only data: who acts and where is passed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Generator, Tensor

from ..checks import require_count
from ..worlds.spec import Step, VectorEnv
from ..worlds.torch_native import TorchEnv


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


def collect(
    agent: Any, env: VectorEnv, obs: Tensor, steps: int, watch: Callable[[], None] | None = None
) -> tuple[Rollout, Tensor]:
    """Let `agent` act `steps` times in every environment, from `obs` [B, O]; the rollout, and the next obs.

    One batched policy call a step; log-probabilities are computed once, for the whole rollout, from the
    parameters that were acted on. watch: called before every step. Raises ValueError: fewer than one step.
    """
    require_count(steps=steps)
    return _walk(agent, env, obs, steps, lambda alive: False, watch)


def collect_episodes(agent: Any, env: VectorEnv, max_steps: int) -> tuple[Rollout, Tensor]:
    """Reset every environment and act until each has finished an episode, `max_steps` times at most.

    The rows of second episodes are in the rollout too; `Rollout.first_episode` tells them apart. Keeping only first
    episodes matters: whatever finishes within a fixed window is more often short.
    Raises ValueError: fewer than one step.
    """
    require_count(max_steps=max_steps)
    return _walk(agent, env, env.reset(), max_steps, lambda alive: not alive.any())


@torch.no_grad()
def _walk(
    agent: Any,
    env: VectorEnv,
    obs: Tensor,
    steps: int,
    enough: Callable[[Tensor], bool],
    watch: Callable[[], None] | None = None,
) -> tuple[Rollout, Tensor]:
    """Act at most `steps` times, and until `enough(environments still in their first episode)`."""
    columns: list[tuple[Tensor, ...]] = []
    params_at: list[tuple[Tensor, ...]] = []
    phantoms: list[Tensor] = []
    alive = torch.ones(len(obs), dtype=torch.bool, device=obs.device)
    for _ in range(steps):
        if watch:
            watch()
        if isinstance(env, TorchEnv) and getattr(agent, "compiles", False):
            action, params, step = _compiled_move(agent, env, obs)
        else:
            action, params, step = _move(agent, env, obs)
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


def _move(agent: Any, env: VectorEnv, obs: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Step]:
    """One step of every environment: action, the parameters it was drawn from, and what came of it."""
    action, params = agent.act(obs)
    return action, params, env.step(agent.policy.to_env(action))


def _compiled_move(agent: Any, env: TorchEnv, obs: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Step]:
    """The same by one compiled function, all that is random drawn before it and in the same order."""
    noise = agent.policy.noise(len(obs), agent.generator)
    action, params, step, env.state, env.elapsed = agent.act_and_step(
        env, obs, noise, env.state, env.elapsed, env.initial()
    )
    return action, params, step


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
