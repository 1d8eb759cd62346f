"""Optimizers, fits of a critic, parameter vectors, the device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..checks import require_non_negative, require_one_of, require_positive
from .recorded import is_recording


def pick_device(device: str | torch.device = "auto") -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU.

    Raises ValueError: the device named is none, or is not here.
    """
    if device != "auto":
        try:
            named = torch.device(device)
            torch.empty(0, device=named)  # a name of torch's says nothing about what is here
        except (AssertionError, ImportError, RuntimeError) as error:  # torch tells it in all three ways
            here = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
            here += ["mps"] if torch.backends.mps.is_available() else []
            why = str(error).splitlines()[0].split(". ")[0]
            raise ValueError(
                f"device: wanted auto or one that is here, {', '.join(here)}; got {str(device)!r} ({why})"
            ) from error
        return named
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


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Set the learning rate of an optimizer's parameter group; one on a device in place, and not by a recording."""
    if not isinstance(group["lr"], Tensor):
        group["lr"] = rate
    elif not is_recording():
        group["lr"].fill_(rate)


def rates_on_device(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
    """Let Adam read its learning rates on the device: a recorded step would keep a number for good."""
    for group in optimizer.param_groups:
        group["lr"], group["capturable"] = torch.tensor(group["lr"], device=device), True


def moments(name: str, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors that an optimizer keeps of its parameters, by name; themselves, none before its first step."""
    of_each = enumerate(optimizer.state.values())
    return {f"{name}.{i}.{key}": t for i, state in of_each for key, t in state.items() if t is not None}


def load_optimizer(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Take over a saved optimizer's state; its learning rates stay where they are here, a number or on a device."""
    own = [(group["lr"], group.get("capturable")) for group in optimizer.param_groups]
    optimizer.load_state_dict(saved)
    for group, (rate, capturable) in zip(optimizer.param_groups, own, strict=True):
        group["lr"] = rate.fill_(float(group["lr"])) if isinstance(rate, Tensor) else float(group["lr"])
        if capturable is not None:
            group["capturable"] = capturable


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """All entries of the tensors, one after another: [n]."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])
