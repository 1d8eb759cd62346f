"""The floors of the package: a room imports only from rooms below its own, and importing does nothing."""

from __future__ import annotations

import ast
import graphlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import minerva_book
import minerva_lite

ROOT = Path(minerva_lite.__file__).parent
BOOK = Path(minerva_book.__file__).parent
# Floor by floor; the rooms of one floor do not know each other.
FLOORS = {
    1: {"checks", "files", "moved"},
    2: {"formulas", "figures", "exercises"},  # the last two are names of before, and lead to minerva_book
    3: {"worlds"},
    4: {"experience"},
    5: {"agents", "language"},
    6: {"training"},
    7: {"__main__"},
}
MOVED = {"moved", "figures", "exercises"}
# Except that a room may know what the agents share, though none of them.
SHARED = {("language", "agents"): {"AGENTS", "base", "optimizers", "settings"}}
FLOOR_OF = {room: floor for floor, rooms in FLOORS.items() for room in rooms}
FILES = sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")
ROOMS_OF_THE_BOOK = {"figures", "exercises"}  # which do not know each other
FILES_OF_THE_BOOK = sorted(p for p in BOOK.rglob("*.py") if p.parent != BOOK)


def imported(source: str, package: tuple[str, ...], root: str = "minerva_lite") -> set[tuple[str, ...]]:
    """What a source file in `package` imports from `root`, anywhere in it: names below it, as far as written."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
            found |= {tuple(name[1:]) for name in names if name[0] == root}
        elif isinstance(node, ast.ImportFrom):
            tail = node.module.split(".") if node.module else []
            path = [*package[: len(package) - node.level + 1], *tail] if node.level else tail
            if path and path[0] == root:
                found |= {(*path[1:], alias.name) for alias in node.names}
    return found


def room_of(path: Path) -> str:
    if path.name == "__main__.py":  # a folder's command stands above the folder
        return "__main__"
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def package_of(path: Path, root: Path = ROOT) -> tuple[str, ...]:
    return (root.name, *path.relative_to(root).parts[:-1])


def floor_breaks(room: str, source: str, package: tuple[str, ...]) -> list[str]:
    """Imports in `source` from rooms that do not lie below its own, its own room and what is shared excepted."""
    names = [name for name in imported(source, package) if not {*name[1:2]} & SHARED.get((room, *name[:1]), set())]
    rooms = {name[0] if name else "" for name in names}
    return sorted(r for r in rooms if r != room and FLOOR_OF.get(r, 99) >= FLOOR_OF[room])


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_come_from_rooms_below_and_none_from_the_books_package(path):
    """But for the names of before, which ask the book's package when somebody asks them."""
    source, package, room = path.read_text(), package_of(path), room_of(path)
    assert room in FLOOR_OF, "a room without a floor"
    assert floor_breaks(room, source, package) == []
    assert imported(source, package, "minerva_book") == set()
    assert "minerva_book" not in source or path.parent == ROOT and room in MOVED


@pytest.mark.parametrize("path", FILES_OF_THE_BOOK, ids=lambda p: str(p.relative_to(BOOK)))
def test_the_books_package_imports_no_name_of_before_and_no_other_room(path):
    source, package = path.read_text(), package_of(path, BOOK)
    assert not MOVED & {name[0] for name in imported(source, package) if name}
    rooms = {name[0] for name in imported(source, package, "minerva_book") if name} - {package[-1]}
    assert package[1:] and not rooms & ROOMS_OF_THE_BOOK


@pytest.mark.parametrize(("root", "files"), [(ROOT, FILES), (BOOK, FILES_OF_THE_BOOK)])
def test_no_file_imports_itself_by_way_of_others(root, files):
    names = {p: p.relative_to(root).with_suffix("").parts for p in files}
    names = {p: ".".join(n[:-1] if n[-1] == "__init__" else n) for p, n in names.items()}
    arrows = {}
    for path, name in names.items():
        targets = imported(path.read_text(), package_of(path, root), root.name)
        dotted = {".".join(target[:k]) for target in targets for k in (1, 2, 3)}
        # A file in a room needs the room's list.
        arrows[name] = (dotted & set(names.values())) - {name.split(".")[0]}
    assert any(arrows.values())
    graphlib.TopologicalSorter(arrows).prepare()  # raises where there is a circle


@pytest.mark.parametrize(("room", "line", "broken"), [
    ("formulas", "from .worlds import Step", ["worlds"]),  # a room above
    ("formulas", "def late():\n    from . import worlds", ["worlds"]),
    ("formulas", "import minerva_lite.worlds.envs", ["worlds"]),
    ("formulas", "from minerva_lite import worlds", ["worlds"]),
    ("training", "from .worlds import Step", []),
    ("figures", "from .exercises import x", ["exercises"]),  # its floor
    ("language/", "from ..agents.base import Agent", []),
    ("language/", "from ..agents import AGENTS", []),
    ("language/", "from ..agents.ppo import PPOAgent", ["agents"]),
    ("language/", "from .. import agents", ["agents"]),
    ("agents/", "from ..language import base", ["language"]),
])  # fmt: skip
def test_every_form_of_import_is_found(room, line, broken):
    """room/: in a file of the room's folder."""
    package = ("minerva_lite", room[:-1]) if room.endswith("/") else ("minerva_lite",)
    assert floor_breaks(room.rstrip("/"), line, package) == broken


def test_public_names_exist():
    for name in minerva_lite.__all__:
        assert hasattr(minerva_lite, name)


def test_import_neither_prints_nor_seeds_nor_picks_a_device():
    """Every module but the command line, imported in a fresh interpreter."""
    files = [(ROOT, path) for path in FILES] + [(BOOK, path) for path in FILES_OF_THE_BOOK]
    modules = sorted({".".join((root.name, *path.relative_to(root).with_suffix("").parts)) for root, path in files})
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
    environment = os.environ | {"PYTHONPATH": str(BOOK.parent)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT.parent, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
