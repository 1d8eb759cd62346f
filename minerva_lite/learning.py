"""Optimizers, the device, and the guard against non-finite batches (floor 3)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from .checks import require_non_negative, require_one_of, require_positive

MAX_SKIPS = 3


def pick_device(device: str | torch.device = "auto") -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU; anything else is taken at its word."""
    if device != "auto":
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def make_optimizer(
    name: str, parameters: Iterable[nn.Parameter], learning_rate: float, *, momentum: float = 0.0
) -> torch.optim.Optimizer:
    """`adam` (eps 1e-5, as in the PPO code of OpenAI baselines) or `sgd` with momentum.

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


class NonFiniteGuard:
    """Refuses a batch with a NaN or an infinity before any parameter moves, and counts the refusals by name."""

    def __init__(self) -> None:
        self.skipped: dict[str, int] = {}
        self.in_a_row = 0

    def refuses(self, **tensors: Tensor) -> str | None:
        """The name of the first tensor that is not finite, or None.

        Raises FloatingPointError: three batches in a row were refused.
        """
        for name, tensor in tensors.items():
            if not torch.isfinite(tensor).all():
                self.skipped[name] = self.skipped.get(name, 0) + 1
                self.in_a_row += 1
                if self.in_a_row >= MAX_SKIPS:
                    raise FloatingPointError(
                        f"{name}: not finite in {MAX_SKIPS} batches in a row; refused so far: {self.skipped}"
                    )
                return name
        self.in_a_row = 0
        return None
