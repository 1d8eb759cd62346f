"""A worked example of adding an agent: advantage-weighted regression (Peng et al. 2019, arXiv:1910.00177), on-policy.

In the package the first 75 lines, down to the agent's last one, would be `minerva_lite/agents/awr.py`. What comes after
them goes, piece by piece, into the other files that CONTRIBUTING.md names. `tests/house/test_contributing.py` registers
all of it, and asks of this agent what the tests ask of every other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from minerva_lite.agents.base import GradientAgent
from minerva_lite.agents.on_policy import GradientConfig, OnPolicyAgent
from minerva_lite.agents.settings import count, positive
from minerva_lite.experience.rollout import Batch, Rollout
from minerva_lite.formulas.objectives import normalize_advantage, policy_gradient_loss, value_loss
from minerva_lite.training.presets import Preset
from tests.markers.inputs import agent_of, rows, stirred
from tests.markers.table import Table


@dataclass(frozen=True)
class AWRConfig(GradientConfig):
    """Settings of advantage-weighted regression, beyond those of every agent with one loss."""

    minibatch_size: int = count(256)  # rows of one gradient step; a smaller rollout is one minibatch
    epochs: int = count(10)  # passes over each rollout
    eta: float = positive(1.0)  # temperature of the weights, in standard deviations of the advantage if normalized
    weight_cap: float = positive(20.0)  # the largest weight of a sample


class AWRAgent(GradientAgent, OnPolicyAgent):
    """A policy that is fitted to its own actions, each weighted by the exponential of its advantage."""

    name = "example_awr"
    config: AWRConfig

    def improve(self, rollout: Rollout, progress: float) -> dict[str, Tensor]:
        """Several epochs of minibatch steps on one rollout."""
        self.set_learning_rate(progress)
        batch, steps = self.prepare(rollout), []
        # Normalized once, over the whole rollout: the weight of a sample must not depend on its minibatch.
        advantage = normalize_advantage(batch.advantage) if self.config.normalize_advantage else batch.advantage
        weighed = replace(batch, advantage=advantage)
        for _ in range(self.config.epochs):
            for minibatch in weighed.minibatches(self.config.minibatch_size, self.minibatch_generator):
                loss, parts = self.loss(minibatch)
                steps.append(parts | {"train/grad_norm": self.gradient_step(loss)})
        means = {name: torch.stack([step[name] for step in steps]).mean() for name in steps[0]}
        return self.diagnose(batch) | means | {"train/learning_rate": self.learning_rate}

    def loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend on N rows, whose advantages are as the weights take them, and its parts."""
        c = self.config
        log_prob = self.policy.log_prob(self.policy(batch.obs), batch.action)
        # LaTeX: q_t = \min\left( \exp\left( \frac{A_t'}{\eta} \right), q_{\mathrm{max}} \right)
        weights = (batch.advantage / c.eta).exp().clamp(max=c.weight_cap)
        # LaTeX: L^\pi = -\operatorname{mean}_t \left[ \mathrm{sg}(q_t) \log \pi_\theta(a_t \mid s_t) \right]
        policy_loss = policy_gradient_loss(log_prob, weights)
        critic_loss = value_loss(self.critic(batch.obs), batch.value_target)
        # LaTeX: L = L^\pi + c_V L^V
        loss = policy_loss + c.vf_coef * critic_loss
        parts = {"loss/policy": policy_loss, "loss/value": critic_loss, "train/weight": weights.mean()}
        return loss, {name: part.detach() for name, part in parts.items()}


# tests/markers/symbols.py
TABLE = Table(
    {
        r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t]",
        "A_t'": "batch.advantage [t]",
        r"\eta": "self.config.eta",
        r"q_{\mathrm{max}}": "self.config.weight_cap",
        "q_t": "[t]",
        r"L^\pi": "[]",
        "L^V": "critic_loss",
        "c_V": "self.config.vf_coef",
        "L": "[]",
    }
)


# tests/markers/inputs.py
def cases(g: Generator) -> Iterator[Any]:
    for eta, cap in ((0.7, 3.0), (1.9, 20.0)):  # in the first the cap is reached
        agent = agent_of("example_awr", eta=eta, weight_cap=cap)
        yield {"self": stirred(agent), "batch": rows(agent, g)}


# minerva_lite/training/presets.py
PRESET = Preset(AWRConfig(num_envs=32, rollout_steps=64, gamma=0.99, lam=0.95, learning_rate=1e-3), total_steps=65_536)
