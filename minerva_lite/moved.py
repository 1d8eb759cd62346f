"""What `minerva_book` holds since version 0.3 still answers under the names that it had here."""

from __future__ import annotations

import importlib
from typing import Any

ASKED = {"__all__", "__path__"}  # by `import *`, and by the import of a module below


def _from_book(room: str, name: str) -> Any:
    """The attribute of `minerva_book.<room>`, which is imported when somebody asks. Raises ImportError: it is missing.

    Python asks a module for names of its own, which must not import anything.
    """
    if name.startswith("__") and name not in ASKED:
        raise AttributeError(f"module 'minerva_lite.{room}' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"minerva_book.{room}"), name)
    except ImportError as error:
        raise ImportError(
            f"minerva_lite.{room} is minerva_book.{room} now, which needs `pip install minerva_lite[book]` ({error})"
        ) from error
