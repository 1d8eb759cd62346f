"""Say which formulas cannot be typeset, by MathJax in node or by their structure, and how large the rest are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

TYPESETTER = Path(__file__).with_name("typeset.js")
# What the structural check knows; node, where there is one, knows all that MathJax does.
COMMANDS = frozenset(
    re.findall(
        r"\w+",
        """
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta kappa lambda mu nu xi pi rho sigma tau
    phi varphi chi psi omega ell Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega
    frac tfrac dfrac sqrt sum prod int partial nabla infty log exp min max sup inf tanh arg det Pr
    left right bigl bigr Bigl Bigr langle rangle lvert rvert lVert rVert lfloor rfloor lceil rceil Vert vert
    hat bar tilde vec dot prime star top cdot times circ odot dots ldots cdots
    le leq ge geq ne neq in notin sim approx equiv propto mid to leftarrow rightarrow gets pm mp
    vee wedge neg cup cap setminus subset forall exists quad qquad
    mathrm mathbf mathcal mathbb mathsf mathit mathop boldsymbol operatorname text underbrace overline
    limits nolimits displaystyle textstyle
""",
    )
)


def typesetting_faults(formulas: list[str], macros: dict, node_main: Path | None) -> list[str]:
    """Return "" or the reason of failure for each formula; ``node_main`` is MathJax's, if there is one."""
    if node_main is None:
        return [structural_fault(formula, macros) for formula in formulas]
    return [each["fault"] for each in typeset([(formula, True) for formula in formulas], macros, node_main)]


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


def structural_fault(formula: str, macros: dict) -> str:
    """Balanced braces, paired \\left and \\right, known commands: what can be seen without MathJax."""
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", formula):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            break
    if depth:
        return "unbalanced braces"
    if r"\mathbb{1}" in formula:
        return r"no font of MathJax has a double-struck 1: \mathbf{1}"
    commands = re.findall(r"\\([A-Za-z]+)", formula)
    if commands.count("left") != commands.count("right"):
        return r"unpaired \left and \right"
    unknown = [each for each in commands if each not in COMMANDS and each not in macros]
    return f"unknown command \\{unknown[0]}" if unknown else ""
