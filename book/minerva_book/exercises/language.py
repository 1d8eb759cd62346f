"""Language models: what chapters 9 and 9b ask for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from .answers import compare


def check_token_rewards(function: Callable[..., Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(log_prob, reference_log_prob, mask, reward, beta)` gives rewards [L, B].

    log_prob, reference_log_prob: [L, B], with garbage behind an answer's end. mask: [L, B] bool. reward: [B].
    """
    generator = Generator().manual_seed(seed)
    for lengths, beta in (([1, 3, 4, 5], 0.3), ([5, 2], 0.0), ([1], 2.0)):
        mask = torch.arange(5)[:, None] < torch.tensor(lengths)
        ours, theirs = -torch.rand(2, 5, len(lengths), generator=generator, dtype=torch.float64)
        reward = torch.rand(len(lengths), generator=generator, dtype=torch.float64)
        wanted = torch.zeros_like(ours)
        for b, length in enumerate(lengths):
            wanted[:length, b] = beta * (theirs - ours)[:length, b]
            wanted[length - 1, b] += reward[b]
        got = function(ours.masked_fill(~mask, 7.0), theirs, mask, reward, beta)
        compare(f"lengths {lengths}, beta = {beta}", got, wanted)


def check_smoothed_labels(function: Callable[[Tensor, float, float], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(margin, beta, epsilon)` is the expected Bradley-Terry loss, scalar.

    margin: [B]. epsilon: the chance that a label is turned around.
    """
    margin = 3.0 * torch.randn(6, generator=Generator().manual_seed(seed), dtype=torch.float64)
    for name, h in (("one pair", margin[:1]), ("six pairs", margin), ("margins of thousands", 1e3 * margin)):
        for beta, epsilon in ((0.4, 0.0), (0.4, 0.1), (2.0, 0.5)):
            wanted = ((1 - epsilon) * softplus(-beta * h) + epsilon * softplus(beta * h)).mean()
            compare(f"{name}, beta = {beta}, epsilon = {epsilon}", function(h, beta, epsilon), wanted)
