"""A hidden case as Python that a student can run, to see the mistake that a mark tells of."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .question import Case, Code

SHOWN_NUMBERS, SHOWN_TEXT = 250, 2500  # of a case's inputs, at most


def literal(value: Any) -> str:
    """A value as Python that a student can read."""
    if not isinstance(value, Tensor):
        return repr(value)
    kind = "" if value.dtype in (torch.bool, torch.int64) else ", dtype=torch.float64"
    return f"torch.tensor({value.tolist()}{kind})"


def tried_out(question: Code, case: Case) -> str:
    """A case's inputs and the call, numbers rounded; "" where it is too large, or a judge has no inputs to show."""
    numbers = sum(getattr(value, "numel", lambda: 1)() for value in case.inputs.values())
    if question.judge or numbers > SHOWN_NUMBERS:
        return ""
    lines = [f"{name} = {literal(shortened(value))}" for name, value in case.inputs.items()]
    call = question.call.replace("*inputs.values()", ", ".join(case.inputs))
    lines.append(call.replace("answer(", f"{question.function}("))
    text = "\n".join(lines)
    told = f'\nThe hidden case "{case.name}", to try it (its numbers are rounded):\n\n{text}\n'
    return told if len(text) <= SHOWN_TEXT else ""


def explained(question: Code, cases: list[Case], wrong: dict[str, str]) -> str:
    """Which failing case to explain: the first that may be shown later, else the first; "" if none fails."""
    failing = [case for case in cases if case.name in wrong]
    return next((case.name for case in failing if tried_out(question, case)), failing[0].name if failing else "")


def shortened(value: Any) -> Any:
    """Numbers to five significant digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if getattr(value, "dtype", None) is not None and value.is_floating_point():
        flat = [float(f"{number:.5g}") for number in value.reshape(-1).tolist()]
        return value.new_tensor(flat).reshape(value.shape)
    return value
