"""Formulas as the pages show them: MathJax draws each once, in node, while the book is built."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

TYPESETTER = Path(__file__).with_name("typeset.js")


class Typeset(NamedTuple):
    """Of each formula its fault, "" for none, and its HTML; and the style sheet that these need."""

    faults: list[str]
    drawn: list[str]
    style: str


def typeset(formulas: list[tuple[str, bool]], macros: dict[str, str], node_main: Path) -> Typeset:
    """Draw formulas, each a pair: its TeX, and whether it is displayed."""
    request = json.dumps({"formulas": formulas, "macros": macros})
    command = ["node", str(TYPESETTER), str(node_main)]
    said = subprocess.run(command, input=request, text=True, capture_output=True, timeout=120, check=False)
    if said.returncode:
        raise RuntimeError(f"MathJax did not run in node: {said.stderr.strip()}")
    answer = json.loads(said.stdout)
    return Typeset(*([each.get(key, "") for each in answer["formulas"]] for key in ("fault", "drawn")), answer["style"])


def find_mathjax(node_main: Path) -> Path | None:
    """Return MathJax's entry point for node where both it and node are installed."""
    return node_main if shutil.which("node") and node_main.is_file() else None
