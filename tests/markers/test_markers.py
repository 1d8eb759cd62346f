"""Where a marker may stand."""

from __future__ import annotations

import pytest

from .markers import MarkerError, find_markers

LEGAL = '''
def f(x):
    """
    # LaTeX: not a marker: it stands in a string
    """
    # Text above a marker is welcome.
    # LaTeX: y = 2x
    y = (
        2
        * x
    )
    z = y + 1  # LaTeX: z = y + 1
    for t in range(3):
        # LaTeX: z = z + y
        z += y
    # LaTeX: r = z
    return z


class C:
    def g(self):
        # LaTeX: a = 1
        self.a: int = 1
'''


def test_markers_and_their_statements():
    markers = find_markers("f.py", LEGAL)
    assert [(m.latex, m.owner) for m in markers] == [
        ("y = 2x", "f"), ("z = y + 1", "f"), ("z = z + y", "f"), ("r = z", "f"), ("a = 1", "C.g"),
    ]  # fmt: skip
    assert markers[0].code == "y = 2 * x"
    assert markers[2].loop_names == {"t"}
    assert markers[3].target is None


ILLEGAL = {
    "blank line": ("    # LaTeX: y = x\n\n    y = x", "no simple statement directly below"),
    "other comment": ("    # LaTeX: y = x\n    # and then\n    y = x", "no simple statement directly below"),
    "two markers": ("    # LaTeX: y = x\n    # LaTeX: y = x\n    y = x", "no simple statement directly below"),
    "compound": ("    # LaTeX: y = x\n    if x:\n        y = x", "no simple statement directly below"),
    "expression": ("    # LaTeX: y = x\n    print(x)", "neither assigns nor returns"),
    "bare return": ("    # LaTeX: y = x\n    return", "neither assigns nor returns"),
    "declaration": ("    # LaTeX: y = x\n    y: int", "neither assigns nor returns"),
    "inside": ("    y = (\n        # LaTeX: y = x\n        x\n    )", "inside a statement"),
    "spelling": ("    # Latex: y = x\n    y = x", "starts with exactly"),
    "no space": ("    #LaTeX: y = x\n    y = x", "starts with exactly"),
    "empty": ("    # LaTeX:\n    y = x", "empty"),
    "two statements": ("    # LaTeX: y = x\n    y = x; z = x", "several statements"),
    "last line": ("    y = x\n    # LaTeX: y = x", "no simple statement directly below"),
}


@pytest.mark.parametrize("case", ILLEGAL)
def test_a_misplaced_marker_is_refused(case):
    body, message = ILLEGAL[case]
    with pytest.raises(MarkerError, match=message):
        find_markers("f.py", f"def f(x):\n{body}\n")


def test_a_marker_outside_a_function_is_refused():
    with pytest.raises(MarkerError, match="outside any function"):
        find_markers("f.py", "# LaTeX: y = 1\ny = 1\n")


def test_a_marker_in_a_nested_function_is_refused():
    with pytest.raises(MarkerError, match="nested function"):
        find_markers("f.py", "def f(x):\n    def g(x):\n        # LaTeX: y = x\n        return x\n    return g(x)\n")
