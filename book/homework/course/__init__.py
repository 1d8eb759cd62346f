"""Homework made from a seed, released and graded with nbgrader; students' code runs apart from the answers."""

from __future__ import annotations

import functools
import importlib
import random
from pathlib import Path

from .question import EXAMPLE_SEED, Assignment

NAMES = (
    "hw1_mdp_policy_gradients",
    "hw2_gae",
    "hw3_trpo",
    "hw4_ppo",
    "hw5_mpo",
    "hw6_vmpo",
    "hw7_project",
)


@functools.cache
def assignment(name: str, seed: str = EXAMPLE_SEED) -> Assignment:
    """An assignment as the seed draws it; each from a generator of its own, so that none moves the others."""
    module = importlib.import_module(f"{__package__}.{name.split('_')[0]}")
    return module.make(random.Random(f"{seed}/{name}"))


def seed_of(folder: Path | None = None) -> str:
    """The seed of the course that a folder (the current one) lies in: its `seed.txt` or a parent's."""
    place = (folder or Path.cwd()).resolve()
    for parent in (place, *place.parents):
        if (parent / "seed.txt").exists():
            return (parent / "seed.txt").read_text().strip()
    return EXAMPLE_SEED
