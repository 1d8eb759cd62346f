"""Moved, as `minerva_lite.moved` says: notebooks from before version 0.3 find it here."""

from functools import partial

from ..moved import _from_book

__getattr__ = partial(_from_book, "worlds.answer_tree")
