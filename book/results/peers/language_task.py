"""What both sides of the race on language models do alike, and how they are watched. Imports neither side's library."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import measure

ALGORITHMS = ("grpo", "rloo")
PROMPTS, GROUP = 32, 8  # of one update
LENGTH = 6  # digits of a prompt, and tokens of an answer
LEARNING_RATE, ADAM_EPS = 8e-4, 1e-5  # of Adam; the rate falls to 0, linearly
MAX_GRAD_NORM = 1.0
TOKENS = PROMPTS * GROUP * LENGTH  # sampled in an update


def task() -> argparse.Namespace:
    """The command line of one run; `base` is the file of the base model, in the form its side reads."""
    return measure.task(algorithm=ALGORITHMS, seed=int, updates=int, base=Path)


class Watch:
    """The share of right answers of each update, and the seconds since the first one began."""

    def __init__(self) -> None:
        self.clock = measure.Clock()
        self.rows: list[tuple[int, float, float, float]] = []

    def start(self) -> None:
        """The training begins now."""
        self.clock.start = self.clock.now()

    def update_is_over(self, right: float) -> None:
        self.rows.append((len(self.rows) + 1, *self.clock.seconds(), right))


def report(watch: Watch, *packages: str) -> None:
    """Print the run; TRL's side has no gymnasium."""
    measure.report({"rows": watch.rows}, *packages, always=("torch", "numpy"))
