"""A tree as text again, to name mutants in reports and in the list of survivors."""

from __future__ import annotations

from .parse import Node

INFIX = {"add": " + ", "sub": " - ", "mul": r" \cdot ", "and": r" \wedge ", "or": r" \vee "}


def render(node: Node) -> str:
    """LaTeX of a tree, with brackets around every sum."""
    parts = [render(a) for a in node.args]
    if node.kind in INFIX:
        return f"({INFIX[node.kind].join(parts)})"
    match node.kind:
        case "number":
            return node.value if isinstance(node.value, str) else f"{node.value:g}"
        case "index":
            return node.value
        case "symbol":
            moved = [p for p, a in zip(parts, node.args, strict=True) if a.kind != "index"]
            return f"{node.value}{{at {', '.join(moved)}}}" if moved else node.value
        case "neg":
            return f"-{parts[0]}"
        case "div":
            return rf"\frac{{{parts[0]}}}{{{parts[1]}}}"
        case "pow":
            return f"{parts[0]}^{{{parts[1]}}}"
        case "call":
            return f"{node.value}({parts[0]})"
        case "apply":
            return f"{node.value} {parts[0]}"
        case "nary":
            return f"{node.value}({', '.join(parts)})"
        case "compare":
            return parts[0] + "".join(f" {o} {p}" for o, p in zip(node.value, parts[1:], strict=True))
        case "reduce":
            name, subscript = node.value
            bounds = f"{{{subscript}={parts[1]}}}^{{{parts[2]}}}" if len(parts) == 3 else subscript
            return f"{name}_{bounds}[{parts[0]}]"
        case _:
            return f"{node.kind}({', '.join(parts)})"
