"""PPO and what came after it: what chapters 5 and 5b ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import parameters_to_vector

from minerva_lite.agents import PPOAgent, PPOConfig
from minerva_lite.worlds import make_env

from .answers import Wrong, compare


def check_walks_back(agent_class: type[Any]) -> None:
    """Raise AssertionError unless a PPO agent takes back the steps after which its policy's KL exceeds `bound`.

    bound: an attribute of the class, nats. The KL is the exact one, averaged over the whole batch. No other step is
    taken back, and the critic takes all of them.
    """
    config = PPOConfig(rollout_steps=32, minibatch_size=64, clip_eps=9e9, max_grad_norm=9e9, learning_rate=0.01)
    env = make_env("Pendulum-v1", config.num_envs, seed=0)
    usual = PPOAgent(config, env.spec, seed=0, device="cpu")
    rollout, _ = usual.collect(env, env.reset())
    first = _numbers(usual.policy)
    usual.update(rollout)
    for bound, wanted in ((1e3, _numbers(usual.policy)), (-1.0, first), (0.01, None)):
        agent = agent_class(config, env.spec, seed=0, device="cpu")
        agent.bound = bound
        kl = float(agent.update(rollout)["kl/exact"])
        compare(f"bound = {bound}, parameters of the critic", _numbers(agent.critic), _numbers(usual.critic))
        if wanted is not None:
            compare(f"bound = {bound}, parameters of the policy", _numbers(agent.policy), wanted)
        elif not 0.0 < kl <= bound:
            raise Wrong(f"bound = {bound}: wanted a KL above 0 and at most that; got {kl:.6g}")


def _numbers(network: nn.Module) -> Tensor:
    return parameters_to_vector(network.parameters()).detach()


def check_dials(function: Callable[[Tensor, Sequence[int], Tensor], tuple[Tensor, Tensor]], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(logits, sizes, action)` gives log-probability and entropy of dials, [N].

    logits: [N, sum(sizes)]. sizes: positions of each dial. action: [N, D] int64, the position of each.
    """
    generator = Generator().manual_seed(seed)
    for sizes in ([2, 3, 5], [4], [1, 3, 1, 2]):
        logits = 3.0 * torch.randn(7, sum(sizes), generator=generator, dtype=torch.float64)
        action = torch.stack([torch.randint(size, (7,), generator=generator) for size in sizes], -1)
        dials = [part.log_softmax(-1) for part in logits.split(sizes, -1)]
        taken = [dial.gather(1, at[:, None])[:, 0] for dial, at in zip(dials, action.unbind(1), strict=True)]
        log_prob, entropy = function(logits, sizes, action)
        compare(f"sizes {sizes}, the log-probability", log_prob, torch.stack(taken).sum(0))
        wanted = -torch.stack([(dial.exp() * dial).sum(-1) for dial in dials]).sum(0)
        compare(f"sizes {sizes}, the entropy", entropy, wanted)
