"""A class of a chapter, a solution or a page that changes an agent changes something that the agent asks for."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from minerva_lite.agents import AGENTS, base, on_policy
from tests.book.test_chapters import cells_of
from tests.equations import CHAPTERS, ROOT, markdown

AGENT_CLASSES = [*(agent for agent, _ in AGENTS.values()), base.Agent, base.GradientAgent, on_policy.OnPolicyAgent]


def sources(path: Path) -> list[str]:
    """The code of a notebook or a page: its cells, and what its text shows as Python."""
    if path.suffix == ".md":
        return re.findall(r"```python\n(.*?)```", path.read_text("utf8"), re.S)
    cells = ["".join(cell["source"]) for cell in cells_of(path, "code")]
    return cells + re.findall(r"~~~python\n(.*?)~~~", markdown(path), re.S)


def uncalled(source: str) -> list[str]:
    """Methods of subclasses of agents that nobody calls: neither a base has the name, nor does the class ask itself."""
    found, known = [], {agent.__name__: set(dir(agent)) for agent in AGENT_CLASSES}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            bases = [known[each.id] for each in node.bases if isinstance(each, ast.Name) and each.id in known]
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            asked = set(re.findall(r"\bself\.(\w+)", ast.unparse(node)))
            if bases:
                known[node.name] = set().union(*bases)
                found += [f"{node.name}.{name}" for name in sorted(methods - known[node.name] - asked)]
    return found


@pytest.mark.parametrize("path", [*CHAPTERS, ROOT / "book" / "extend.md"], ids=lambda path: path.stem)
def test_a_method_that_a_subclass_defines_is_called(path):
    python = [re.sub(r"^[%!].*$", "", source, flags=re.M) for source in sources(path)]
    assert [name for source in python for name in uncalled(source)] == []


def test_a_method_that_nobody_calls_is_found():
    before = "class A(MPOAgent):\n  def loss(self): super().loss()\nclass B(A):\n  def improve(self): pass"
    assert uncalled(before) == ["A.loss"]
