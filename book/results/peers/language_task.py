"""What both sides of the race on language models do alike, and how they are watched. Imports neither side's library."""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from .measure import Clock

ALGORITHMS = ("grpo", "rloo")
PROMPTS, GROUP = 32, 8  # of one update
LENGTH = 6  # digits of a prompt, and tokens of an answer
LEARNING_RATE, ADAM_EPS = 8e-4, 1e-5  # of Adam; the rate falls to 0, linearly
MAX_GRAD_NORM = 1.0
TOKENS = PROMPTS * GROUP * LENGTH  # sampled in an update


def task() -> argparse.Namespace:
    """The command line of one run; one thread from here on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--algorithm", required=True, choices=ALGORITHMS)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--base", type=Path, required=True, help="file of the base model, in the form its side reads")
    torch.set_num_threads(1)
    return parser.parse_args()


class Watch:
    """The share of right answers of each update, and the seconds since the first one began."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.rows: list[tuple[int, float, float, float]] = []

    def start(self) -> None:
        """The training begins now."""
        self.clock.start = self.clock.now()

    def update_is_over(self, right: float) -> None:
        self.rows.append((len(self.rows) + 1, *self.clock.seconds(), right))


def report(watch: Watch, *packages: str) -> None:
    """Print the run as the one line of JSON that the bench reads."""
    versions = {name: version(name) for name in ("torch", "numpy", *packages)}
    told: dict[str, Any] = {"versions": {"python": platform.python_version()} | versions, "rows": watch.rows}
    print(json.dumps(told), flush=True)
