"""Words that several lines for the instructor share."""

from __future__ import annotations


def counted(number: int, one: str, more: str) -> str:
    """A number with its noun, and a verb if that stands in both: "1 folder is", "2 folders are"."""
    return f"{number} {one if number == 1 else more}"
