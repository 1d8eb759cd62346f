"""Which assignments a term has: the book's, and an instructor's own from a private folder, a pack."""

from __future__ import annotations

import functools
import hashlib
import importlib
import random
import re
import sys
import sysconfig
import types
from collections.abc import Callable
from pathlib import Path

from .question import EXAMPLE_SEED, Assignment

NAMES = (
    "hw1_mdp_policy_gradients",
    "hw2_gae",
    "hw3_trpo",
    "hw4_ppo",
    "hw5_mpo",
    "hw6_vmpo",
    "hw7_project",
    "hw8_language_models",
)  # of the book's
FILE = re.compile(r"hw(\d+)_[a-z0-9_]+")
HERE = Path(__file__).resolve().parent


def parent_with(file: str, folder: Path | None) -> Path | None:
    """A file of the course that a folder (the current one) lies in: there or in a parent; None if there is none."""
    place = (folder or Path.cwd()).resolve()
    return next((parent / file for parent in (place, *place.parents) if (parent / file).exists()), None)


def seed_of(folder: Path | None = None) -> str:
    """The seed of the course that a folder (the current one) lies in: its `seed.txt` or a parent's."""
    file = parent_with("seed.txt", folder)
    return file.read_text().strip() if file else EXAMPLE_SEED


def pack_of(folder: Path | None = None) -> Path | None:
    """The pack of the course that a folder (the current one) lies in: what its `pack.txt` names; None without one."""
    seed = parent_with("seed.txt", folder)
    file = seed.with_name("pack.txt") if seed else None
    return Path(file.read_text().strip()) if file and file.exists() else None


def own_names(pack: Path | None) -> tuple[str, ...]:
    """The assignments of a pack, each a file of its own. Raises ValueError: there is none, or two have one number."""
    if pack is None:
        return ()
    found = [file.stem for file in sorted(pack.glob("hw*.py"))] if pack.is_dir() else []
    odd = [name for name in found if not FILE.fullmatch(name)]
    if odd or not found:
        got = ", ".join(f"{name}.py" for name in odd) or "none"
        raise ValueError(f"pack {pack}: wanted files such as hw9_mine.py; got {got}")
    taken = {number(name): name for name in NAMES}
    for name in found:
        other = taken.setdefault(number(name), name)
        if other != name:
            raise ValueError(
                f"pack {pack}: {name}.py: wanted a number of its own, or {other}.py, which takes that one's place"
            )
    return tuple(found)


def number(name: str) -> int:
    found = FILE.fullmatch(name)
    assert found, name
    return int(found[1])


def names_of(pack: Path | None = None) -> tuple[str, ...]:
    """All assignments of a term with this pack (of the book without one), by their numbers."""
    return tuple(sorted({*NAMES, *own_names(pack)}, key=number))


def module_of(folder: Path, name: str) -> types.ModuleType:
    """A module of a pack, which may import its neighbors, `from . import common`, and `from course import hw2`.

    It is the instructor's code and runs where the answers are known.
    """
    folder = folder.resolve()
    root = f"pack_{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"
    if root not in sys.modules:
        package = types.ModuleType(root)
        package.__path__ = [str(folder)]
        sys.modules[root] = package
    importlib.invalidate_caches()
    return importlib.import_module(f"{root}.{name}")


def maker(name: str, pack: Path | None) -> Callable[[random.Random], Assignment]:
    """What draws an assignment: the pack's if it has one of this name, else the book's."""
    if name in own_names(pack):
        return module_of(pack, name).make
    return importlib.import_module(f"{__package__}.{name.split('_')[0]}").make


@functools.cache
def assignment(name: str, seed: str = EXAMPLE_SEED, pack: Path | None = None) -> Assignment:
    """An assignment as the seed draws it; each from a generator of its own, so that none moves the others."""
    made = maker(name, pack)(random.Random(f"{seed}/{name}"))
    if made.name != name:
        raise ValueError(f"{name}.py: wanted an assignment with this name; got {made.name!r}")
    return made


def private(pack: Path) -> Path:
    """The pack's whole path. Raises ValueError: it has no assignment, or lies where students' code can read it."""
    pack = pack.expanduser().resolve()
    own_names(pack)
    seen = {sys.prefix, sys.base_prefix, "/usr", sysconfig.get_path("stdlib")}
    seen |= {str(HERE.parents[2] / "minerva_lite"), str(HERE.parents[1] / "minerva_book")}
    for place in sorted(seen):
        if pack.is_relative_to(Path(place).resolve()):
            raise ValueError(f"pack {pack}: wanted a place that students' code cannot read; it reads all of {place}")
    return pack
