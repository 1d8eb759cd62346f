"""Environments that a room above brings along, with ids that begin alike."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from .spec import VectorEnv


@dataclass(frozen=True)
class Entered:
    """A kind of environment in which no agent acts step by step."""

    ids: Collection[str]  # those that there are by now
    make: Callable[..., VectorEnv]  # called as `make_env` is, which leaves it to refuse an unknown id
    instead: str  # for the error of an agent that acts step by step: what it is, and which agent learns from it


ENTERED: dict[str, Entered] = {}  # by how the ids begin
