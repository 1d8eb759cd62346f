"""Answers of a language model to a batch of prompts: what an update of the sequence agent learns from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class Answers:
    """G answers to each of B / G prompts: column b answers prompt b // G."""

    prompt: Tensor  # [P, B / G] int64
    answer: Tensor  # [L, B] int64
    behavior_log_prob: Tensor  # [L, B]  log pi_b of each token given those before it, nats; 0 behind the end
    mask: Tensor  # [L, B] bool: true up to and including the end token
    reward: Tensor  # [B]  the task's

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name."""
        return dict(vars(self))

    @property
    def num_steps(self) -> int:
        """Answers, each of which is a step of the environment."""
        return self.reward.numel()

    def episodes(self) -> dict[str, Tensor]:
        """Means over the answers as `RunningEpisodes` has them: each is an episode, as long as its tokens are many."""
        length = self.mask.sum(0).to(self.reward.dtype).mean()
        return {"train/episode_return": self.reward.mean(), "train/episode_length": length}


@dataclass(frozen=True)
class AnswerBatch:
    """Answers as a loss reads them, whole groups of them."""

    prompt: Tensor  # [P, B / G] int64
    answer: Tensor  # [L, B] int64
    behavior_log_prob: Tensor  # [L, B] nats
    mask: Tensor  # [L, B] bool
    advantage: Tensor  # [L, B]  A_t of each token; the same for all tokens of an answer where there is no critic
    reference_log_prob: Tensor | None = None  # [L, B] nats; None: no price for leaving the reference in the loss
    value_target: Tensor | None = None  # [L, B]  R_t; None: no critic

    def minibatches(self, prompts: int, generator: Generator) -> Iterator[Self]:
        """One pass over all groups in a fresh random order, those of so many prompts at a time."""
        count = self.prompt.shape[1]
        if prompts >= count:
            yield self  # the order of columns in a sum is no matter, so none is drawn
            return
        group = self.answer.shape[1] // count
        order = torch.randperm(count, generator=generator, device=generator.device)
        inside = torch.arange(group, device=order.device)
        for start in range(0, count, prompts):
            chosen = order[start : start + prompts]
            columns = (chosen.unsqueeze(-1) * group + inside).flatten()
            taken: dict[str, Any] = {
                name: None if tensor is None else tensor[:, chosen if name == "prompt" else columns]
                for name, tensor in vars(self).items()
            }
            yield type(self)(**taken)
