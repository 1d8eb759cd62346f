"""Which assignments there are, and how a term's seed draws them."""

from __future__ import annotations

import functools
import importlib
import random
from collections.abc import Iterable
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
    "hw8_language_models",
)


def seed_of(folder: Path | None = None) -> str:
    """The seed of the course that a folder (the current one) lies in: its `seed.txt` or a parent's."""
    place = (folder or Path.cwd()).resolve()
    files = [parent / "seed.txt" for parent in (place, *place.parents)]
    return next((file.read_text().strip() for file in files if file.exists()), EXAMPLE_SEED)


@functools.cache
def assignment(name: str, seed: str = EXAMPLE_SEED) -> Assignment:
    """An assignment as the seed draws it; each from a generator of its own, so that none moves the others."""
    return importlib.import_module(f"{__package__}.{name.split('_')[0]}").make(random.Random(f"{seed}/{name}"))


def known(names: Iterable[str], option: str) -> list[str]:
    """The names, in their order. Raises ValueError, which names `option`: there is no such assignment."""
    names = list(names)
    for name in names:
        if name not in NAMES:
            raise ValueError(f"{option}: wanted one of {', '.join(NAMES)}; got {name!r}")
    return names
