"""What has been proved: `record.json`, which `make test-full` writes anew.

A mutant that turns its tests red is a fact about the file that it changes and the files of those tests. A proof's key
covers them, and the engine and the libraries; so it need not be proved anew until one of them changes. What another
file may have done to it shows in the sample of the quick checks, one in SAMPLE, drawn by the hash of all sources.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Collection
from functools import cache
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from .reach import normalized
from .runner import ROOT, Mutant, located, patched

RECORD = Path(__file__).with_name("record.json")
ENGINE = Path(__file__).with_name("runner.py")
SAMPLE = 20
DISTRIBUTIONS = ("torch", "numpy", "scipy", "gymnasium", "pytest", "hypothesis")


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def syntax(path: Path) -> str:
    """What of a file can change a verdict."""
    return ast.dump(normalized(path.read_text("utf8")))


@cache
def surroundings() -> list[str]:
    """What every proof depends on. A build of torch for a GPU is the same torch."""
    libraries = [f"{name} {version(name).split('+')[0]}" for name in DISTRIBUTIONS]
    return [syntax(ENGINE), *libraries, python_version().rpartition(".")[0]]


def key(mutant: Mutant) -> str:
    """The hash of all that a proof rests on; ValueError where the edits change nothing."""
    faulty = ast.dump(normalized(patched(mutant)))
    if faulty == syntax(ROOT / "minerva_lite" / mutant.file):
        raise ValueError(f"{mutant.story}: the edits change nothing")
    tests = sorted(map(located, mutant.tests))
    files = [syntax(ROOT / file) for file in sorted({test.partition("::")[0] for test in tests})]
    return digest(surroundings(), mutant.file, faulty, tests, files)


def read(path: Path) -> dict[str, str]:
    """The proofs: key -> what was told. None where there is no file, or a damaged one."""
    try:
        return dict(json.loads(path.read_text("utf8")))
    except (OSError, ValueError, TypeError):
        return {}


def write(proofs: dict[str, str], path: Path) -> None:
    ordered = dict(sorted(proofs.items(), key=lambda proof: proof[::-1]))
    path.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n", "utf8")


def tree() -> str:
    """The hash of the package's and the tests' sources."""
    rooms = ("minerva_lite", "tests", "book/results/studies")
    files = [f for room in rooms for f in sorted((ROOT / room).rglob("*.py"))]
    return digest([[str(f.relative_to(ROOT)), hashlib.sha256(f.read_bytes()).hexdigest()] for f in files])


def plan(keys: Collection[str], proofs: dict[str, str], seed: str) -> list[str]:
    """What the quick checks prove: all that the record lacks, and a sample of what it holds."""
    held = [key for key in keys if key in proofs]
    sample = sorted(held, key=lambda key: digest(seed, key))[: math.ceil(len(held) / SAMPLE)]
    return [key for key in keys if key not in proofs or key in sample]
