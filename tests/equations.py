"""From a chapter's table of equations to mutants of the functions it names; `python -m tests.mutants` runs them.

Each row of the table that says "computed" names a function and a test. Every marked line of the function is changed
by one sign or operator, and the named test has to turn red.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.runner import Mutant

ROOT = Path(__file__).parents[1]
# The chapters, then the appendices.
CHAPTERS = [path for name in ("[0-9]*", "[a-z]_*") for path in sorted((ROOT / "book").glob(f"{name}.ipynb"))]
ROW = re.compile(r"^\| \{eq\}`([\w-]+)` \| (computed|derivation) \| (.*?) \| (.*?) \|$", re.M)
# The first operator on a line that can be changed, and what it becomes. A unary minus after `return` counts.
SWAPS = (
    (" + ", " - "), (" - ", " + "), (" * ", " + "), (" / ", " * "), ("= -", "= "), (".mean()", ".sum()"),
    (".clamp(max=", ".clamp(min="), ("masked_fill(terminated,", "masked_fill(~terminated,"), (" | ", " & "),
    (".exp()", ""), ("**", " * "), (" @ ", ".sign() @ "), (".softmax(", ".log_softmax("),
    ("zeros_like(", "ones_like("), (".clone()", ".neg()"), (".log_softmax(", ".softmax("), (".max(0)", ".min(0)"),
    ("weighted_nll(", "-weighted_nll("), ("masked_fill(~mask,", "masked_fill(mask,"), ("rank < k", "rank <= k"),
    ("= eligible.sum()", "= torch.ones_like(eligible).sum()"), (".log()", ""), (" // ", " % "),
    (".mean((0, 1))", ".sum((0, 1))"), (".sum()", ".prod()"), (".amax(", ".amin("),
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One row of a chapter's table."""

    label: str
    kind: str  # "computed" or "derivation"
    function: str  # dotted name, empty for a derivation
    check: str  # the test's node id, or the tag of the cell that checks the derivation


def table_rows(text: str) -> list[Row]:
    """The rows of the equation table in a chapter's Markdown."""
    rows = []
    for label, kind, link, check in ROW.findall(text):
        target = re.search(r"<([\w.:]+)>", link)
        found = re.search(r"`([^`]+)`", check)
        rows.append(Row(label, kind, target[1] if target else "", found[1] if found else ""))
    return rows


def markdown(path: Path) -> str:
    """All Markdown cells of a notebook."""
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def mutations(function: str) -> list[tuple[str, str, str]]:
    """(file in the package, old text, new text): every marked line of `function`, changed by one operator.

    `function` may name one marked value, `package.module.function:value`; then only the lines that assign it.
    """
    function, _, value = function.partition(":")
    *module, name = function.split(".")[1:]
    if module[-1][0].isupper():  # a method: the class is no module
        module.pop()
    file = Path(*module).with_suffix(".py")
    text = (ROOT / "minerva_lite" / file).read_text()
    lines = text.splitlines(keepends=True)
    node = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name == name)
    found = []
    for number in range(node.lineno, node.end_lineno):
        if not lines[number - 1].lstrip().startswith("# LaTeX:"):
            continue
        if value and not lines[number].lstrip().startswith(f"{value} = "):
            continue
        swap = next((s for s in SWAPS if s[0] in lines[number]), None)
        if swap is None:
            raise ValueError(f"{function}, line {number + 1}: no operator to change in {lines[number]!r}")
        old, new = lines[number], lines[number].replace(*swap, 1)
        # Lines above are taken along until the text is the only one of its kind in the file.
        first = number
        while text.count("".join(lines[first : number + 1])) > 1:
            first -= 1
        context = "".join(lines[first:number])
        found.append((str(file), context + old, context + new))
    if not found:
        raise ValueError(f"{function}: no marked line")
    return found


def mutants() -> list[Mutant]:
    """A mutant for each marked line of each function that a chapter's table names."""
    return [
        Mutant(0, f"{row.label}: {new.strip().splitlines()[-1].strip()}", file, ((old, new),), (Path(row.check).name,))
        for path in CHAPTERS
        for row in table_rows(markdown(path))
        if row.kind == "computed"
        for file, old, new in mutations(row.function)
    ]
