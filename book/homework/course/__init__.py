"""Homework made from a seed, released and graded with nbgrader; students' code runs apart from the answers."""

from __future__ import annotations

from .packs import NAMES, assignment, names_of, pack_of, seed_of

__all__ = ["NAMES", "assignment", "names_of", "pack_of", "seed_of"]
