"""What keeps numbers that are not finite out of an agent, and how often a device is asked for a number."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

MAX_SKIPS = 3


class NonFiniteGuard:
    """Refuses a batch with a NaN or an infinity before any parameter moves, and counts the refusals by name."""

    def __init__(self) -> None:
        self.skipped: dict[str, int] = {}
        self.in_a_row = 0

    def refuses(self, **tensors: Tensor) -> str | None:
        """The name of the first tensor that is not finite, or None.

        Raises FloatingPointError: three batches in a row were refused.
        """
        # One question for all of them: on a GPU each would wait for the device.
        finite = torch.stack([torch.isfinite(tensor).all() for tensor in tensors.values()]).tolist()
        bad = [name for name, is_finite in zip(tensors, finite, strict=True) if not is_finite]
        if not bad:
            self.in_a_row = 0
            return None
        self.skipped[bad[0]] = self.skipped.get(bad[0], 0) + 1
        self.in_a_row += 1
        give_up(self.in_a_row, self.skipped, bad[0])
        return bad[0]

    def state_dict(self) -> dict[str, Any]:
        return {"skipped": dict(self.skipped), "skipped_in_a_row": self.in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.skipped, self.in_a_row = dict(state["skipped"]), state["skipped_in_a_row"]


class MaskedGuard:
    """The same counts for a device that must not be waited for: they stay there until somebody reads them."""

    def __init__(self, device: torch.device | str):
        self.names: tuple[str, ...] = ()
        self.device = torch.device(device)
        self.counts = torch.zeros(0, dtype=torch.int64, device=self.device)  # refusals by the name they were due to
        self.run = torch.zeros((), dtype=torch.int64, device=self.device)  # refusals in a row

    def finite(self, **tensors: Tensor) -> Tensor:
        """Whether every number of every tensor is finite, 0-d bool on the device; counted if not."""
        if tuple(tensors) != self.names:
            kept = self.skipped
            self.names = tuple(tensors)
            self.counts = torch.tensor([kept.get(name, 0) for name in self.names], device=self.device)
        bad = ~torch.stack([torch.isfinite(tensor).all() for tensor in tensors.values()])
        # In place: a recorded CUDA graph finds them where they were.
        self.counts += bad & (bad.cumsum(0) == 1)
        self.run.copy_((self.run + 1) * bad.any())
        return ~bad.any()

    @property
    def total(self) -> Tensor:
        """Refusals so far, 0-d."""
        return self.counts.sum()

    @property
    def skipped(self) -> dict[str, int]:
        """Refusals by name; this waits for the device."""
        return {name: count for name, count in zip(self.names, self.counts.tolist(), strict=True) if count}

    @property
    def in_a_row(self) -> int:
        """Refusals in a row; this waits for the device."""
        return int(self.run)

    def state_dict(self) -> dict[str, Any]:
        return {"skipped": self.skipped, "skipped_in_a_row": self.in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.names = tuple(state["skipped"])
        self.counts = torch.tensor(list(state["skipped"].values()), dtype=torch.int64, device=self.device)
        self.run.fill_(state["skipped_in_a_row"])


class Answer:
    """A yes or no on its way from a device: sent off without waiting, and read once it is needed."""

    def __init__(self, yes: Tensor):
        self.here = yes.to("cpu", non_blocking=True)
        self.sent = torch.cuda.Event() if yes.is_cuda else None
        if self.sent:
            self.sent.record()

    def __bool__(self) -> bool:
        if self.sent:
            self.sent.synchronize()  # returns at once if the figures behind it have been read
        return bool(self.here)


def give_up(in_a_row: int, skipped: dict[str, int], name: str) -> None:
    """Raise FloatingPointError if so many refusals in a row say that the training is over."""
    if in_a_row >= MAX_SKIPS:
        raise FloatingPointError(f"{name}: not finite in {MAX_SKIPS} batches in a row; refused so far: {skipped}")


def floats(figures: dict[str, Tensor]) -> dict[str, float]:
    """0-d figures as numbers: whatever lies on a device comes over in one transfer, the one moment it is waited for."""
    away = {name: figure.detach().double() for name, figure in figures.items() if figure.device.type != "cpu"}
    brought = dict(zip(away, torch.stack(list(away.values())).tolist(), strict=True)) if away else {}
    return {name: brought[name] if name in brought else float(figure) for name, figure in figures.items()}
