"""What a student is told of a mark, in words: enough to find the mistake, and no number of the answer."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from minerva_book.exercises.answers import agree

UNWRITTEN = "Nothing is written here yet."
NAMED = 12  # failing cases that are named


def reason(names: list[str], wrong: dict[str, str], counted: frozenset[str], explained: str = "") -> str:
    """How many cases agree, which do not, and one of those in detail: the first, or `explained`.

    names: of all hidden cases, in order. wrong: by name, why a case fails. counted: those that earn a share.
    """
    if not wrong:
        return f"Every hidden case agrees ({len(names)})."
    if len(wrong) == len(names) and all(why.startswith("NotImplementedError") for why in wrong.values()):
        return UNWRITTEN
    failing = [name for name in names if name in wrong]
    listed = ", ".join(f'"{name}"' for name in failing[:NAMED]) + (", ..." if len(failing) > NAMED else "")
    text = f"{len(names) - len(failing)} of {len(names)} hidden cases agree; not: {listed}. "
    if counted and len(counted) < len(names) > len(failing):
        agreeing = len(counted - wrong.keys())
        text += f"Of the {len(counted)} that count {agreeing} agree; one that an empty answer or the given code passes "
        text += "earns nothing, and costs one if it is wrong. "
    one = explained or failing[0]
    return text + f'Case "{one}": {wrong[one]}.'


def magnitude(off: float) -> str:
    """The power of ten below a positive number: what a mistake's size says, and no digit of the answer."""
    return f"{10.0 ** math.floor(math.log10(off)):g}"


def differs(got: list[Any], right: list[Tensor], names: list[str] | None = None) -> str:
    """Why an answer is wrong: which entry, which axis, by what order; the right number is not told. "" if it is right.

    names: what the arrays are, if they have names.
    """
    names = names if names and len(names) == len(right) > 1 else [f"array {place}" for place in range(len(right))]
    if len(got) != len(right):
        return f"wanted {len(right)} arrays; got {len(got)}"
    for place, (part, wanted) in enumerate(zip(got, right, strict=True)):
        which = f"{names[place]}: " if len(right) > 1 else ""
        # What came back may be anything: it is compared before it is converted.
        if part["shape"] != list(wanted.shape):
            return f"{which}wanted shape {tuple(wanted.shape)}; got {str(part['shape'])[:60]}"
        if len(part["data"]) != wanted.numel():
            return f"{which}wanted {wanted.numel()} numbers; got {len(part['data'])}"
        try:
            array = torch.tensor([float(x) for x in part["data"]], dtype=torch.float64).reshape(wanted.shape)
        except (TypeError, ValueError, OverflowError):
            return f"{which}wanted numbers"
        right_ones = agree(array, wanted)
        if not right_ones.all():
            if wanted.numel() == 1:
                return single(names[place] if len(right) > 1 else "the value", float(array), float(wanted))
            return which + several(array, wanted, ~right_ones)
    return ""


def single(what: str, number: float, wanted: float) -> str:
    """What is wrong with one number."""
    if math.isnan(number):
        return f"{what} is not a number (NaN)"
    if math.isinf(number):
        return f"{what} is infinite"
    if not math.isfinite(wanted):
        return f"{what} is finite, and must not be"
    if number * wanted < 0.0:
        return f"{what} has the wrong sign"
    size = "large" if number > wanted else "small"
    return f"{what} is too {size}, off by the order of {magnitude(abs(number - wanted))}"


def several(array: Tensor, wanted: Tensor, wrong: Tensor) -> str:
    """What is wrong with an array: how many entries, where, of what kind, by what order."""
    first = tuple(int(i) for i in wrong.nonzero()[0])
    parts = [f"{int(wrong.sum())} of {wrong.numel()} entries are wrong, {where(wrong, first)}"]
    kinds = (
        ("not a number (NaN)", array.isnan()),
        ("infinite", array.isinf()),
        ("finite and must not be", array.isfinite() & ~wanted.isfinite()),
    )
    for kind, there in kinds:
        if number := int((there & wrong).sum()):
            parts.append(f"{number} of them {'is' if number == 1 else 'are'} {kind}")
    both = wrong & array.isfinite() & wanted.isfinite()
    if both.any():
        parts.append(f"off by the order of {magnitude(float((array - wanted).abs()[both].max()))}")
    return "; ".join(parts)


def where(wrong: Tensor, first: tuple[int, ...]) -> str:
    """The pattern of wrong entries in words."""
    told = f"the first at {list(first) if len(first) > 1 else first[0]}"
    if wrong.ndim == 2:
        rows, columns = wrong.any(1), wrong.any(0)
        if rows.sum() == 1 and wrong.shape[0] > 1:
            told += f", all in row {int(rows.nonzero()[0])}"
        elif columns.sum() == 1 and wrong.shape[1] > 1:
            told += f", all in column {int(columns.nonzero()[0])}"
    return told
