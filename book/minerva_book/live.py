"""What a long cell says while it computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from minerva_lite.training.progress import State, live

Thing = TypeVar("Thing")


def counted(things: Iterable[Thing], what: str, returns: Sequence = ()) -> Iterator[Thing]:
    """The same things; in a notebook a line says how many of them are done, "12 of 40 updates".

    returns: a list that grows meanwhile, drawn as a curve: numbers, tensors whose mean counts, or tuples that end so.
    """
    page, things = live(), list(things)
    if page is None:
        yield from things
        return
    done = 0

    def state() -> State:
        share = done / len(things) if things else 1.0
        heights = [each[-1] if isinstance(each, tuple) else each for each in returns]
        curve = [(share * i / len(heights), float(np.mean(np.asarray(y)))) for i, y in enumerate(heights, 1)]
        return State(f"{done} of {len(things)} {what}", share, {"return": curve})

    with page.following(state) as tell:
        for done, thing in enumerate(things):  # noqa: B007 (state reads it)
            tell()
            yield thing
        done = len(things)
