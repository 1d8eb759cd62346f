"""The floors of the package: a module imports only from floors below its own, and importing does nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import minerva_lite

ROOT = Path(minerva_lite.__file__).parent
FLOORS = {
    0: {"checks"},
    1: {"returns", "distributions", "objectives", "trust_region", "bounds", "duals", "diagnostics"},
    2: {"guard", "networks", "recorded", "snapshot", "spec", "tabular"},
    3: {"envs", "rollout", "learning", "normalizer", "on_device", "tabular_trpo"},
    4: {"agent", "replay"},
    5: {"on_policy"},
    6: {"agents"},
    7: {"presets", "checkpoints", "style", "variants"},
    8: {"training", "plots", "answers", "trackers", "workers"},
    9: {"studies", "widgets", "grading", "video"},
    10: {"__main__"},
}
FLOOR_OF = {module: floor for floor, modules in FLOORS.items() for module in modules}
FILES = sorted(p for p in ROOT.rglob("*.py") if p.name != "__init__.py")


def imported(source: str, package: tuple[str, ...]) -> set[str]:
    """The modules (first name below minerva_lite) that a source file in `package` imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {name[1] if len(name) > 1 else "" for name in names if name[0] == "minerva_lite"}
        elif isinstance(node, ast.ImportFrom):
            tail = node.module.split(".") if node.module else []
            path = [*package[: len(package) - node.level + 1], *tail] if node.level else tail
            if path and path[0] == "minerva_lite":
                found |= {path[1]} if len(path) > 1 else {alias.name for alias in node.names}
    return found


def module_of(path: Path) -> str:
    if path.name == "__main__.py":  # a folder's command stands above the folder
        return "__main__"
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def floor_breaks(module: str, source: str, package: tuple[str, ...]) -> list[str]:
    """Imports in `source` that do not come from below the floor of `module`."""
    return sorted(i for i in imported(source, package) if FLOOR_OF.get(i, 99) >= FLOOR_OF[module])


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_come_from_floors_below(path):
    assert module_of(path) in FLOOR_OF, "a module without a floor"
    package = ("minerva_lite", *path.relative_to(ROOT).parts[:-1])
    assert floor_breaks(module_of(path), path.read_text(), package) == []


def test_the_walk_sees_every_way_to_import():
    package = ("minerva_lite",)
    for line in (
        "from .envs import Step",
        "from . import envs",
        "import minerva_lite.envs",
        "from minerva_lite import envs",
    ):
        assert imported(line, package) == {"envs"}
        assert floor_breaks("rollout", f"def late():\n    {line}", package) == ["envs"], "its own floor"
        assert floor_breaks("training", line, package) == []
    assert imported("from ..envs import Step", ("minerva_lite", "agents")) == {"envs"}
    assert imported("from .ppo import PPOAgent", ("minerva_lite", "agents")) == {"agents"}
    assert floor_breaks("agents", "from .ppo import PPOAgent", ("minerva_lite", "agents")) == ["agents"]


def test_public_names_exist():
    for name in minerva_lite.__all__:
        assert hasattr(minerva_lite, name)


def test_import_neither_prints_nor_seeds_nor_picks_a_device():
    """Every module but the command line, imported in a fresh interpreter."""
    modules = sorted({".".join(("minerva_lite", *p.relative_to(ROOT).with_suffix("").parts)) for p in FILES})
    modules = [m.removesuffix(".__init__") for m in modules if not m.endswith("__main__")]
    program = f"""
import random, numpy, torch, importlib
random.seed(1); numpy.random.seed(1); torch.manual_seed(1)
before = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
for name in {modules!r}:
    importlib.import_module(name)
after = random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
assert before == after, "a generator moved"
assert torch.get_default_device().type == "cpu" and torch.get_default_dtype() == torch.float32
assert not torch.cuda.is_initialized()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT.parent, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
