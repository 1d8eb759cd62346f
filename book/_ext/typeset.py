"""Say which formulas MathJax cannot typeset, and how large the others are."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

TYPESETTER = Path(__file__).with_name("typeset.js")


def typeset(formulas: list[tuple[str, bool]], macros: dict, node_main: Path) -> list[dict]:
    """Return ``fault`` for each (TeX, is displayed), and ``width``, ``height``, ``depth`` in ex where that is ""."""
    request = json.dumps({"formulas": formulas, "macros": macros})
    command = ["node", str(TYPESETTER), str(node_main)]
    answer = subprocess.run(command, input=request, text=True, capture_output=True, timeout=120, check=False)
    if answer.returncode:
        raise RuntimeError(f"MathJax did not run in node: {answer.stderr.strip()}")
    return json.loads(answer.stdout)


def find_mathjax(node_main: Path) -> Path | None:
    """Return MathJax's entry point for node where both it and node are installed."""
    return node_main if shutil.which("node") and node_main.is_file() else None
