"""Weighted regression on recorded data, over recordings, exponents and temperatures.

It runs the very cells of chapter 7c that record, judge and fit, so the table is made by the code that the reader sees.
"""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any, NamedTuple

import torch

from book.results.studies.record import asked
from tests.equations import ROOT

ETAS = (10.0, 3.0, 2.0, 1.0, 0.5, 0.25, 0.125)
# Recording, episodes, exponent, cut of the weights.
CURVES = [
    ("segments", 60, "G - V", math.inf),
    ("segments", 60, "G - V", 20.0),
    ("segments", 60, "lambda 0.5", math.inf),
    ("segments", 60, "G", math.inf),
    ("segments", 60, "V", math.inf),
    ("segments", 15, "G - V", math.inf),
    ("episodes", 60, "G - V", math.inf),
    ("episodes", 60, "G", math.inf),
    ("good", 60, "G - V", math.inf),
    ("good", 60, "G - V", 20.0),
    ("good", 60, "G", math.inf),
]


class Row(NamedTuple):
    """One fitted policy. `eta` is in spreads of the exponent; `clone`, `best third` and `recording` have none."""

    data: str
    episodes: int
    seed: int
    exponent: str
    clip: float
    eta: float
    returned: float
    effective: float


def chapter() -> dict[str, Any]:
    """The names that the chapter's cells define: those that record, and the definitions of the loop."""
    cells = json.loads((ROOT / "book" / "07c_relatives.ipynb").read_text("utf8"))["cells"]
    names: dict[str, Any] = {}
    for cell in cells:
        source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
        if source.startswith("import csv"):
            exec(source.replace('set_matplotlib_formats("svg")', ""), names)
        elif "record" in tags or "loop" in tags:
            exec(source.partition("\n\n\nfor seed")[0], names)
    return names


def study(seed: int) -> list[Row]:
    """All policies of one seed; those of one recording are judged together, from the same starts."""
    book, rows = chapter(), []
    for data, episodes in dict.fromkeys(curve[:2] for curve in CURVES):
        recording = book["record"](data, episodes, seed)
        returned = recording[2].sum(0)
        good = (returned >= returned.sort(descending=True).values[len(returned) // 3 - 1]).repeat(len(recording[2]))
        X, action, count = book["features"](recording[0]).flatten(0, 1), recording[1].flatten(), recording[1].numel()
        fits = [("clone", math.inf, math.inf, book["least_squares"](X, action, torch.ones(count)), float(count))]
        weights = good.double() / good.double().mean()
        fits.append(("best third", math.inf, math.inf, book["least_squares"](X, action, weights), float(good.sum())))
        for exponent, clip in [curve[2:] for curve in CURVES if curve[:2] == (data, episodes)]:
            A, value = book["judge"](recording, lam=0.5 if exponent == "lambda 0.5" else 1.0)
            x = {"G": A + value, "V": value}.get(exponent, A)
            x = (x - x.mean()) / x.std() if x is not A else A / A.std()
            for eta in ETAS:
                policy, effective = book["regress"](recording, x, eta, clip)
                fits.append((exponent, clip, eta, policy, float(effective)))
        scores = book["returns_of"](torch.stack([fit[3] for fit in fits]))
        rows.append(Row(data, episodes, seed, "recording", math.inf, math.inf, float(returned.mean()), float(count)))
        for (exponent, clip, eta, _, effective), score in zip(fits, scores.tolist(), strict=True):
            rows.append(Row(data, episodes, seed, exponent, clip, eta, score, effective))
    return rows


if __name__ == "__main__":
    record, options = asked(__spec__.name, __doc__, Row, digits=6, seeds={"type": int, "default": 10})
    record.fill(((*CURVES[0][:2], seed), partial(study, seed)) for seed in range(options.seeds))
