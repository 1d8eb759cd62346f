"""The pictures, which are `minerva_book.figures` now: notebooks from before version 0.3 find them here."""

from functools import partial

from .moved import _from_book

__getattr__ = partial(_from_book, "figures")
