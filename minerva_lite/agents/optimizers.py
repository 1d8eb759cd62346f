"""Optimizers by name, and a gradient as one vector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import require_non_negative, require_one_of, require_positive


def make_optimizer(
    name: str, parameters: Iterable[nn.Parameter] | list[dict[str, Any]], learning_rate: float, *, momentum: float = 0.0
) -> torch.optim.Optimizer:
    """`adam` (eps 1e-5, as in the PPO code of OpenAI baselines) or `sgd` with momentum.

    Where a gradient is almost 0 for long, eps keeps Adam from dividing it by its own size and stepping at full length.
    Raises ValueError: an unknown name, a learning rate not above 0, or a momentum that Adam would ignore.
    """
    require_one_of(("adam", "sgd"), optimizer=name)
    require_positive(learning_rate=learning_rate)
    require_non_negative(momentum=momentum)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=learning_rate, momentum=momentum)
    if momentum != 0.0:
        raise ValueError(f"momentum: wanted 0 with adam, which has its own; got {momentum}")
    # One fused kernel over all parameters: on these small networks the loop over tensors is the cost.
    return torch.optim.Adam(parameters, lr=learning_rate, eps=1e-5, fused=True)


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """All entries of the tensors, one after another: [n]."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
