"""The pictures, which are `minerva_book.figures` now: notebooks from before version 0.3 find them here."""

from functools import partial

from .moved import from_book

__getattr__ = partial(from_book, "figures")
