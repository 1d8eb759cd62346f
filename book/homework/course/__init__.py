"""Homework made from a seed, released and graded with nbgrader; students' code runs apart from the answers."""

from __future__ import annotations

from .drawn import NAMES, assignment, known, seed_of

__all__ = ["NAMES", "assignment", "known", "seed_of"]
