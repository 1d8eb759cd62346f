"""Policy gradients for a language model: RLOO, GRPO and PPO with a critic over tokens, as options of one agent.

A rollout is G answers to each of a few prompts, sampled by a `Decoder` and judged as wholes. What the three share is
PPO's update; they differ in the advantage. `improve` is the algorithm of chapter 9, `loss` its formulas in order.

Sources: Ahmadian et al. 2024 (RLOO), arXiv:2402.14740; Shao et al. 2024 (GRPO), arXiv:2402.03300; Ouyang et al. 2022
(PPO on language models), arXiv:2203.02155.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..agents.base import GradientAgent
from ..agents.settings import OptimizerSettings, count, non_negative, one_of, optional, positive, unit_interval
from ..checks import require_count
from ..formulas.distributions import categorical_log_prob, kl_estimates
from ..formulas.returns import gae
from ..formulas.sequences import (
    average_tokens,
    clipped_sequence_objective,
    clipped_token_objective,
    group_advantage,
    kl_loss_terms,
    kl_rewards,
    last_token,
    leave_one_out_advantage,
    normalize_tokens,
    sequence_log_prob,
    sequence_log_ratio,
)
from .answering import AnsweringAgent
from .answers import AnswerBatch, Answers


@dataclass(frozen=True)
class SequenceConfig(OptimizerSettings):
    """Settings of the sequence agent; contradictions are refused when the object is made."""

    formerly = {"eta": "beta"}

    num_envs: int = count(32)  # prompts of one update
    group: int = count(8)  # answers to each prompt, G; an answer is what `train` counts as a step
    advantage: str = one_of("rloo", "grpo", "critic")  # off the reward: mean of the others, of the group, or a value
    normalize_advantage: bool = True  # divide by the spread: "grpo" by the group's, "critic" by all tokens'
    objective: str = one_of("token", "sequence", "gspo")  # clip each token's ratio, the answer's, or its root ("gspo")
    clip_low: float = positive(0.2)  # ratios are clipped below 1 - clip_low
    clip_high: float = positive(0.2)  # and above 1 + clip_high
    average: str = one_of("constant", "sequence", "token")  # how "token" sums: over B * L, answer by answer, or tokens
    kl: str = one_of("none", "reward", "loss")  # where KL(pi || reference) is priced
    kl_estimate: str = one_of("k3", "k1", "k2")  # of kl "loss"
    beta: float = non_negative(0.05)  # price of that KL, reward units per nat
    epochs: int = count(1)  # passes over each batch of answers
    minibatch_prompts: int = count(32)  # prompts of one gradient step, with all answers to them
    temperature: float = positive(1.0)  # of what is sampled and learned: logits are divided by it
    gamma: float = unit_interval(1.0)  # discount of "critic"
    lam: float = unit_interval(1.0)  # trace decay of "critic"
    vf_coef: float = non_negative(0.5)  # weight of the value loss of "critic"
    learning_rate: float = positive(5e-4)  # at the start
    max_grad_norm: float = positive(1.0)  # clip the gradient's norm
    width: int = count(64)  # of the decoder
    layers: int = count(2)  # of the decoder
    heads: int = count(4)  # of each layer's attention
    pretrain_steps: int | None = optional(require_count)  # of likelihood on solutions, at first; None: by the task
    pretrain_batch: int = count(128)  # solutions of each of them
    pretrain_learning_rate: float = positive(1e-3)  # of Adam in these steps

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.advantage != "critic" and self.group < 2:
            raise ValueError(
                f"group: wanted at least 2 answers to each prompt with advantage {self.advantage!r}, which compares "
                f"them; got {self.group}"
            )
        if self.minibatch_prompts > self.num_envs:
            raise ValueError(
                f"minibatch_prompts: wanted at most num_envs = {self.num_envs}; got {self.minibatch_prompts}"
            )
        if self.clip_low > 1.0:
            raise ValueError(f"clip_low: wanted a number in (0, 1], no ratio is below 0; got {self.clip_low}")
        if self.width % self.heads:
            raise ValueError(f"heads: wanted a divisor of width = {self.width}; got {self.heads}")
        self._refuse_unread(self.advantage != "critic", "advantage 'critic'", ("gamma", "lam", "vf_coef"))
        self._refuse_unread(self.advantage == "rloo", "another advantage than 'rloo'", ("normalize_advantage",))
        self._refuse_unread(self.objective != "token", "objective 'token'", ("average",))
        self._refuse_unread(self.kl != "loss", "kl 'loss'", ("kl_estimate",))
        self._refuse_unread(self.kl == "none", "kl 'reward' or 'loss'", ("beta",))
        if self.objective != "token" and self.advantage == "critic":
            raise ValueError(
                f"objective: wanted 'token' with advantage 'critic', which differs from token to token; "
                f"got {self.objective!r}"
            )

    def _refuse_unread(self, unread: bool, reader: str, names: tuple[str, ...]) -> None:
        """Raise ValueError if one of these settings was changed although nothing reads it."""
        for name in names:
            default = type(self).__dataclass_fields__[name].default
            if unread and getattr(self, name) != default:
                raise ValueError(
                    f"{name}: wanted {default} without {reader}, which reads it; got {getattr(self, name)}"
                )

    @property
    def rollout_steps(self) -> int:
        """Steps of each environment between two updates, as `train` counts them: answers to a prompt."""
        return self.group

    @property
    def batch_size(self) -> int:
        """Answers of one update, B."""
        return self.num_envs * self.group


class SequenceAgent(GradientAgent, AnsweringAgent):
    """A decoder that learns from what its answers to prompts were paid."""

    name = "sequence"
    config: SequenceConfig

    def setup(self) -> None:
        self.parameters = list(self.policy.parameters())
        if self.config.advantage == "critic":
            self.parameters += self.critic.parameters()
        self.make_optimizer(self.parameters, self.config.learning_rate)

    def improve(self, rollout: Answers, progress: float) -> dict[str, Tensor]:
        """Several passes of clipped steps over the answers, by advantages from before the first of them."""
        self.set_learning_rate(progress)
        batch, figures = self.prepare(rollout)
        parts, norms = [], []
        for _ in range(self.config.epochs):
            for minibatch in batch.minibatches(self.config.minibatch_prompts, self.minibatch_generator):
                loss, part = self.loss(minibatch)
                norms.append(self.gradient_step(loss))
                parts.append(part)
        mean = {name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}
        return (
            figures
            | mean
            | {
                "train/grad_norm": torch.stack(norms).mean(),
                "train/learning_rate": self.learning_rate,
            }
        )

    @torch.no_grad()
    def prepare(self, rollout: Answers) -> tuple[AnswerBatch, dict[str, Tensor]]:
        """Advantages, and what else a loss needs from before the first step; and figures of the answers, 0-d."""
        c, mask, reference = self.config, rollout.mask, None
        figures = {
            "adv/equal_groups": (rollout.reward.view(-1, c.group).std(1, correction=0) == 0).to(self.dtype).mean(),
        }
        tokens, whole = None, rollout.reward
        if c.kl != "none":
            reference = self.reference.log_prob(rollout.prompt, rollout.answer, temperature=c.temperature)
            figures["kl/to_reference"] = sequence_log_ratio(
                rollout.behavior_log_prob - reference, mask, per_token=False
            ).mean()
        if c.kl == "reward" and reference is not None:
            tokens = kl_rewards(rollout.behavior_log_prob, reference, mask, rollout.reward, c.beta)
            whole = tokens.sum(0)
        value_target = None
        if c.advantage == "critic":
            advantage, value_target = self.token_advantage(rollout, tokens)
            made_of = advantage.abs() + value_target.abs()
            if c.kl == "reward":
                made_of = made_of + c.beta * rollout.behavior_log_prob.abs()
        else:
            advantage = self.answer_advantage(whole).expand_as(mask)
        mean = average_tokens(advantage, mask, "token")
        variance = average_tokens((advantage - mean).square(), mask, "token")
        figures |= {"adv/raw_mean": mean, "adv/raw_std": variance.sqrt()}
        if c.advantage == "critic" and c.normalize_advantage:
            advantage = normalize_tokens(advantage, mask, size=(made_of * mask).max())
        batch = AnswerBatch(
            prompt=rollout.prompt,
            answer=rollout.answer,
            behavior_log_prob=rollout.behavior_log_prob,
            mask=mask,
            advantage=advantage,
            reference_log_prob=reference if c.kl == "loss" else None,
            value_target=value_target,
        )
        return batch, figures

    def answer_advantage(self, reward: Tensor) -> Tensor:
        """The advantage of each answer over others to its prompt: [B], from rewards [B]."""
        c = self.config
        if c.advantage == "rloo":
            return leave_one_out_advantage(reward, c.group)
        return group_advantage(reward, c.group, scale=c.normalize_advantage)

    def token_advantage(self, rollout: Answers, reward: Tensor | None) -> tuple[Tensor, Tensor]:
        """Advantages and value targets of the tokens, both [L, B]: the tokens are the steps of an episode.

        reward: [L, B] of the tokens; None: the answer's, on its last one.
        """
        c, mask = self.config, rollout.mask
        last = last_token(mask)
        if reward is None:
            reward = last.to(self.dtype) * rollout.reward
        value = self.critic(self.policy.answer_features(rollout.prompt, rollout.answer))
        next_value = torch.cat([value[1:], torch.zeros_like(value[:1])])
        advantage = gae(reward, value, next_value, last, torch.zeros_like(last), gamma=c.gamma, lam=c.lam)
        # LaTeX: R_t = A_t + V(s_t)
        value_target = advantage + value
        return advantage, value_target

    def loss(self, batch: AnswerBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend on a batch of answers, and its detached parts under the names they are logged by."""
        c, mask = self.config, batch.mask
        features = self.policy.answer_features(batch.prompt, batch.answer)
        log_prob = categorical_log_prob(batch.answer, self.policy.logits(features, c.temperature))
        # LaTeX: \log \rho_t = \log \pi_\theta(a_t \mid s_t) - \log \pi_b(a_t \mid s_t)
        log_ratio = log_prob - batch.behavior_log_prob
        if c.objective == "token":
            gain = clipped_token_objective(log_ratio, batch.advantage, c.clip_low, c.clip_high)
            objective = average_tokens(gain, mask, c.average)
            # LaTeX: L = -J
            loss = -objective
        else:
            # Without a critic all tokens of an answer have one advantage.
            answer_gain = clipped_sequence_objective(
                log_ratio, mask, batch.advantage[0], c.clip_low, c.clip_high, per_token=c.objective == "gspo"
            )
            # LaTeX: L = -\operatorname{mean}_i J_i
            loss = -answer_gain.mean()
        parts = {"loss/policy": loss.detach()} | self.drift(log_ratio.detach(), mask)
        if batch.reference_log_prob is not None:
            kl_loss = self.kl_loss(log_prob, batch.reference_log_prob, mask)
            parts["loss/kl"] = kl_loss.detach()
            # LaTeX: L := L + \beta L^{\mathrm{KL}}
            loss = loss + c.beta * kl_loss
        if batch.value_target is not None:
            value = self.critic(features)
            # LaTeX: x_t = (V(s_t) - R_t)^2
            squared = (value - batch.value_target).square()
            mean_square = average_tokens(squared, mask, "token")
            # LaTeX: L^V = \tfrac{1}{2} \nu
            critic_loss = 0.5 * mean_square
            parts["loss/value"] = critic_loss.detach()
            # LaTeX: L := L + c_V L^V
            loss = loss + c.vf_coef * critic_loss
        return loss, parts | {"loss/total": loss.detach()}

    def kl_loss(self, log_prob: Tensor, reference_log_prob: Tensor, mask: Tensor) -> Tensor:
        """The chosen estimate of KL(pi || reference), tokens [L, B], averaged as the objective is: 0-d, nats."""
        c = self.config
        estimates = kl_loss_terms(log_prob, reference_log_prob)
        kl = estimates[("k1", "k2", "k3").index(c.kl_estimate)]
        if c.objective == "sequence":
            whole = sequence_log_prob(kl, mask)
            # LaTeX: L^{\mathrm{KL}} = \operatorname{mean}_i k_i
            return whole.mean()
        return average_tokens(kl, mask, "sequence" if c.objective == "gspo" else c.average)

    def drift(self, log_ratio: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """How far the policy is from the one that answered, before the step: 0-d. All are 0 at the first step.

        k3 of the tokens, nats; and the share of ratios outside the clip range, of tokens or answers as the objective
        has them.
        """
        c = self.config
        k3 = average_tokens(kl_estimates(log_ratio)[2], mask, "token")
        if c.objective == "token":
            counted = mask
        else:
            log_ratio = sequence_log_ratio(log_ratio, mask, per_token=c.objective == "gspo").unsqueeze(0)
            counted = mask[:1]
        ratio = log_ratio.exp()
        outside = (ratio < 1.0 - c.clip_low) | (ratio > 1.0 + c.clip_high)
        return {"kl/k3": k3, "train/clip_fraction": average_tokens(outside.to(self.dtype), counted, "token")}

    def evidence(self, rollout: Answers) -> dict[str, Tensor]:
        batch, _ = self.prepare(rollout)
        loss, parts = self.loss(batch)
        return {"advantage": batch.advantage} | parts | {"loss": loss}
