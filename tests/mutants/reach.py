"""The syntax of a source without what never runs: comments and docstrings."""

from __future__ import annotations

import ast

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
ALL, LOOSE = "*", ""  # in place of a name: everything in a file, and its loose statements


def normalized(text: str) -> ast.Module:
    """The syntax tree without docstrings; comments are not in it anyway."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *DEFINITIONS)) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree
