"""What answers prompts: a decoder, the reference it came from, and how both are had and asked.

How it learns from its answers is in `sequence`.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn

from ..agents.base import Agent
from ..agents.optimizers import make_optimizer
from ..checks import require_bool, require_dtype, require_shape, wide
from ..formulas.sequences import average_tokens
from ..worlds.spec import EnvSpec, VectorEnv
from .answers import Answers
from .decoder import Decoder
from .tokens import TASKS, Task


class TokenValue(nn.Module):
    """V of what is known before a token: features [..., W] to [...], reward units. It begins at 0 everywhere."""

    def __init__(self, width: int):
        super().__init__()
        self.head = nn.utils.skip_init(nn.Linear, width, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, features: Tensor) -> Tensor:
        return self.head(features).squeeze(-1)


class AnsweringAgent(Agent):
    """A decoder that answers prompts, a copy of it as it was before (the reference), and a linear critic on it.

    Before the first answer it is pretrained on solutions of its task; `start_from` takes a decoder that already is.
    """

    config: Any  # with the fields of `sequence.SequenceConfig` about prompts, decoder and pretraining
    policy: Decoder
    reference: Decoder
    critic: TokenValue
    pretrained = False

    @property
    def task(self) -> Task:
        """What it answers."""
        return TASKS[self.spec.env_id]

    def require_world(self, spec: EnvSpec) -> None:
        if spec.env_id not in TASKS:
            raise ValueError(f"env_id: wanted one of {', '.join(TASKS)} for {self.name}; got {spec.env_id!r}")

    def make_modules(self, weights: Generator) -> dict[str, nn.Module]:
        c, task = self.config, self.task
        context = task.prompt_length + task.answer_length - 1  # nothing is read after the last token
        shape = {"width": c.width, "layers": c.layers, "heads": c.heads}
        policy = Decoder(len(task.alphabet), context, weights, end=task.end, **shape)
        reference = copy.deepcopy(policy).requires_grad_(False)
        return {"policy": policy, "reference": reference, "critic": TokenValue(c.width)}

    # Before the first answer

    def pretrain(self) -> Tensor:
        """Maximum likelihood on solutions of freshly drawn prompts; the reference becomes a copy. The last loss, 0-d.

        Raises FloatingPointError: it has diverged, because the learning rate is too large.
        """
        c, task = self.config, self.task
        optimizer = make_optimizer("adam", self.policy.parameters(), c.pretrain_learning_rate)
        loss = torch.zeros((), device=self.device)
        steps = task.pretrain_steps if c.pretrain_steps is None else c.pretrain_steps
        for step in range(steps):
            # A short warm-up: Adam's first steps have full length whatever the gradient.
            for group in optimizer.param_groups:
                group["lr"] = c.pretrain_learning_rate * min(1.0, (step + 1) / 10)
            prompt = task.draw(c.pretrain_batch, self.minibatch_generator)
            loss = self.pretrain_loss(prompt, task.solution(prompt))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.policy.parameters(), c.max_grad_norm)
            optimizer.step()
        # One question after all steps: a number that is not finite stays so.
        if not all(bool(torch.isfinite(weight).all()) for weight in self.policy.parameters()):
            raise FloatingPointError(
                f"pretrain_learning_rate: wanted one with finite weights after {steps} steps; "
                f"got {c.pretrain_learning_rate}"
            )
        self.start_from(self.policy)
        return loss.detach()

    def pretrain_loss(self, prompt: Tensor, solution: Tensor) -> Tensor:
        """Mean of -log pi over the tokens of solutions [L, B] to prompts [P, B]: 0-d, nats."""
        mask = self.task.mask(solution)
        likelihood = average_tokens(self.policy.log_prob(prompt, solution), mask, "token")
        # LaTeX: L = -\bar{\ell}
        return -likelihood

    def start_from(self, base: Decoder) -> None:
        """Take over the weights of a pretrained decoder, for the policy and for the reference.

        Raises ValueError: a decoder of another shape.
        """
        if base.form != self.policy.form:
            raise ValueError(f"reference: wanted a decoder of {self.policy.form}; got one of {base.form}")
        for decoder in (self.policy, self.reference):
            decoder.load_state_dict(base.state_dict())
        self.pretrained = True

    # Answering

    @torch.no_grad()
    def respond(self, prompt: Tensor, generator: Generator | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """One answer to each prompt [P, B]: the likeliest token each time, or draws from `generator`.

        Answers, log-probabilities and masks, all [L, B].
        """
        return self.policy.sample(
            prompt,
            self.task.answer_length,
            self.generator if generator is None else generator,
            temperature=self.config.temperature,
            deterministic=generator is None,
        )

    def predict(self, obs: Any, *, deterministic: bool = True) -> np.ndarray:
        """The answer to a prompt, [L], or to a batch of them, [B, L]: numbers of tokens, end tokens behind the end.

        obs: [P] or [B, P], whole numbers: an array, a list or a tensor. Nothing of the agent changes, but for its
        random numbers with deterministic=False. Raises ValueError: other shapes, or numbers that are no tokens.
        """
        prompt, single = self.as_prompts(obs)
        answer, _, _ = self.respond(prompt, None if deterministic else self.generator)
        own: np.ndarray = answer.T.cpu().numpy()
        return own[0] if single else own

    @torch.no_grad()
    def value(self, obs: Any) -> np.ndarray | float:
        """What the critic expects of an answer to a prompt [P], or to each of a batch [B, P]; in reward units.

        Raises ValueError: obs is refused as by `predict`, or no critic has learned.
        """
        prompt, single = self.as_prompts(obs)
        if self.config.advantage != "critic":
            raise ValueError(f"advantage: wanted 'critic', which learns one; got {self.config.advantage!r}")
        value: np.ndarray = self.critic(self.policy.features(prompt)[0][-1]).cpu().double().numpy()
        return float(value[0]) if single else value

    def as_prompts(self, obs: Any) -> tuple[Tensor, bool]:
        """Prompts [P, B] on the agent's device, from outside, and whether it was a single one."""
        array = obs.detach().cpu().numpy() if isinstance(obs, Tensor) else np.asarray(obs)
        wanted, tokens = self.spec.obs_dim, self.spec.num_actions
        if array.ndim not in (1, 2) or array.shape[-1] != wanted:
            raise ValueError(
                f"obs: wanted shape ({wanted},), one prompt, or (any, {wanted}), a batch; got {array.shape}"
            )
        if array.dtype.kind not in "iu" or array.size and not 0 <= array.min() <= array.max() < tokens:
            raise ValueError(f"obs: wanted whole numbers from 0 to {tokens - 1}, tokens; got others")
        prompt = torch.as_tensor(np.array(array, dtype=np.int64).reshape(-1, wanted).T.copy())
        return prompt.to(self.device), array.ndim == 1

    def collect(self, env: VectorEnv, obs: Tensor) -> tuple[Answers, Tensor]:
        """G answers to each prompt of obs [B / G, P], judged by `env`; and the next prompts."""
        if not self.pretrained:
            self.pretrain()
        c, prompt = self.config, obs.T
        answer, log_prob, mask = self.policy.sample(
            prompt, self.task.answer_length, self.generator, group=c.group, temperature=c.temperature
        )
        step = env.step(answer)
        return Answers(prompt, answer, log_prob, mask, step.reward), step.obs

    def examine(self, env_id: str, prompts: int, seed: int) -> tuple[Tensor, Tensor, dict[str, float]]:
        """Rewards and lengths of the likeliest answers to so many prompts of a task, both [B]; and what was right.

        `eval/right` and `eval/right_sampled` are shares of right answers, whatever the verifier pays for them: of the
        likeliest, and of one draw for each prompt, whose mean reward is `eval/sampled`. `eval/kl_to_reference` is the
        mean of log pi - log pi_ref over these draws, nats: KL(pi || pi_ref) of an answer, estimated without bias.
        """
        task = TASKS[env_id]
        generator = Generator(device=self.device).manual_seed(seed)
        prompt = task.draw(prompts, generator)
        answer, _, mask = self.respond(prompt)
        drawn, log_prob, mask = self.respond(prompt, generator)
        behind = self.reference.log_prob(prompt, drawn, temperature=self.config.temperature)
        totals = {
            "eval/right": task.right(prompt, answer, mask),
            "eval/right_sampled": task.right(prompt, drawn, mask),
            "eval/sampled": task.reward(prompt, drawn, mask),
            "eval/kl_to_reference": ((log_prob - behind) * mask).sum(0),
        }
        means = {name: float(wide(each).mean()) for name, each in totals.items()}
        return wide(task.reward(prompt, answer, mask)), wide(mask.sum(0)), means

    def check(self, rollout: Answers) -> None:
        """Raise ValueError unless the answers have the shapes and dtype that this agent learns from."""
        c, task = self.config, self.task
        require_dtype(torch.int64, prompt=rollout.prompt, answer=rollout.answer)
        require_dtype(self.dtype, behavior_log_prob=rollout.behavior_log_prob, reward=rollout.reward)
        require_bool(mask=rollout.mask)
        rows = task.answer_length, c.batch_size
        require_shape((task.prompt_length, c.num_envs), prompt=rollout.prompt)
        require_shape(rows, answer=rollout.answer, mask=rollout.mask, behavior_log_prob=rollout.behavior_log_prob)
        require_shape(rows[1:], reward=rollout.reward)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"pretrained": self.pretrained}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # Older files hold statistics of observations, too, which nothing ever moved or read.
        learned = {name: each for name, each in state["modules"].items() if not name.startswith("obs_normalizer.")}
        super().load_state_dict(state | {"modules": learned})
        self.pretrained = state["pretrained"]
