"""Branches from states on one path, for TRPO's vine sampling (Schulman et al. 2015, section 5.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..checks import require_count, require_one_of
from ..formulas.returns import discounted_returns
from ..worlds.spec import BranchingEnv, Step, VectorEnv
from .rollout import Actor, Rollout, _move, collect


@dataclass(frozen=True)
class Vine:
    """K branches from each of N states."""

    obs: Tensor  # [N, O]  the states, raw
    action: Tensor  # [N, K, D] float or [N, K] int64: the first action of each branch
    proposal_log_prob: Tensor  # [N, K]  log q(a | s), nats: q proposed the first actions
    behavior_params: tuple[Tensor, ...]  # each [N, ...]: the parameters of pi_b(. | s)
    q_value: Tensor  # [N, K]  discounted return of the branch, bootstrapped where it was cut
    trunk: Rollout  # [T, B]  the path on which the states lie; the critic learns from it
    num_steps: int  # environment steps that were taken, trunk and branches

    @property
    def visited(self) -> Tensor:
        """The observations whose actions are compared, [N, O]."""
        return self.obs

    @property
    def reward(self) -> Tensor:
        """[T, B] what the trunk paid."""
        return self.trunk.reward

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor under the name an error message should use."""
        named = {name: getattr(self, name) for name in ("obs", "action", "proposal_log_prob", "q_value")}
        named |= {f"behavior_params[{i}]": p for i, p in enumerate(self.behavior_params)}
        return named | {f"trunk.{name}": tensor for name, tensor in self.trunk.tensors().items()}


@torch.no_grad()
def collect_vine(
    agent: Any,
    env: VectorEnv,
    obs: Tensor,
    *,
    trunk_steps: int,
    states: int,
    actions: int,
    branch_steps: int,
    proposal: str = "policy",
) -> tuple[Vine, Tensor]:
    """A trunk of `trunk_steps` by the policy, then `actions` branches from each of `states` states on it; next obs.

    A branch takes its first action from `proposal` ("policy", or "uniform" over [-1, 1] or the action set) and
    follows the policy for `branch_steps` steps in all, or to the end of its episode. All branches of a state see the
    same random numbers, so that their difference is due to the first action. A finite action set of at most
    `actions` actions is enumerated.

    Source: Schulman et al. 2015, arXiv:1502.05477, section 5.2.
    Raises ValueError: a count below 1, more states than the trunk has, an unknown proposal, or an environment whose
    state cannot be set.
    """
    require_count(trunk_steps=trunk_steps, states=states, actions=actions, branch_steps=branch_steps)
    require_one_of(("policy", "uniform"), proposal=proposal)
    if not isinstance(env, BranchingEnv):
        raise ValueError(
            f"env: wanted an environment whose state can be set, for vine sampling; {type(env).__name__} has none"
        )
    memory: list[tuple[Tensor, Tensor]] = []

    def remembered(agent: Actor, env: BranchingEnv, obs: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Step]:
        memory.append((env.state.clone(), env.elapsed.clone()))
        return _move(agent, env, obs)

    trunk, next_obs = collect(agent, env, obs, trunk_steps, remembered)
    visited, elapsed = (torch.stack(column).flatten(0, 1) for column in zip(*memory, strict=True))
    if states > len(visited):
        raise ValueError(f"states: wanted at most the {len(visited)} states of the trunk; got {states}")
    chosen = torch.randperm(len(visited), generator=agent.generator, device=visited.device)[:states]
    start = trunk.obs.flatten(0, 1)[chosen]
    params = tuple(p.flatten(0, 1)[chosen] for p in trunk.behavior_params)
    first, log_proposal = _propose(agent, params, actions, proposal)
    seed = int(torch.randint(2**31, (), generator=agent.generator, device=visited.device))
    common, q_values = agent.generator.get_state(), []
    for k in range(first.shape[1]):
        # Policy and world start every branch with the same generator states, so all see the same random numbers.
        agent.generator.set_state(common)
        world = env.branch(visited[chosen], elapsed[chosen], seed)
        q_values.append(_branch_return(agent, world, first[:, k], branch_steps))
    vine = Vine(
        obs=start,
        action=first,
        proposal_log_prob=log_proposal,
        behavior_params=params,
        q_value=torch.stack(q_values, 1),
        trunk=trunk,
        num_steps=trunk.num_steps + states * first.shape[1] * branch_steps,
    )
    return vine, next_obs


def _propose(agent: Any, params: tuple[Tensor, ...], actions: int, proposal: str) -> tuple[Tensor, Tensor]:
    """First actions [N, K, ...] and their log-probabilities [N, K] under the proposal."""
    policy, count = agent.policy, agent.spec.num_actions
    n, device = len(params[0]), params[0].device
    wide = tuple(p.unsqueeze(1).expand(n, actions, *p.shape[1:]) for p in params)
    if count and count <= actions:
        every = torch.arange(count, device=device).expand(n, count)
        return every, torch.zeros(n, count, dtype=params[0].dtype, device=device)  # every action is taken, so q = 1
    flat = torch.zeros_like(wide[0])
    if proposal == "policy" or policy.discrete:
        wide = wide if proposal == "policy" else (flat,)  # equal logits
        drawn = policy.sample(wide, agent.generator)
        return drawn, policy.log_prob(wide, drawn)
    unit = torch.rand(flat.shape, generator=agent.generator, dtype=flat.dtype, device=device)
    # The policies' log-densities are those of the environment's action, which here has density 2^-D.
    return policy.from_env(2.0 * unit - 1.0), torch.full_like(flat[..., 0], -flat.shape[-1] * math.log(2.0))


def _branch_return(agent: Any, world: VectorEnv, action: Tensor, steps: int) -> Tensor:
    """Discounted return [N] of each environment from `action` to its episode's end, bootstrapped where it is cut."""
    columns = []
    for _ in range(steps):
        step = world.step(agent.policy.to_env(action))
        columns.append((step.reward, step.next_obs, step.terminated, step.truncated))
        action, _ = agent.act(step.obs)
    reward, next_obs, terminated, truncated = (torch.stack(c) for c in zip(*columns, strict=True))
    next_value = agent.critic(agent.normalized(next_obs))
    return discounted_returns(reward, next_value, terminated, truncated, gamma=agent.config.gamma)[0]
