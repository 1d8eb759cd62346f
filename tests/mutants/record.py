"""What has been proved: `record.json`, written by `make test-full` alone.

A mutant that turns its tests red is a fact about sources and tests, so it need not be proved anew until one of them
changes. A proof's key covers all that the verdict can depend on. The quick checks prove again what the record does not
hold, up to LIMIT proofs, and one in SAMPLE of what it holds, drawn by the hash of the sources.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from .reach import Sources, normalized
from .runner import ROOT, Mutant, located, patched

RECORD = Path(__file__).with_name("record.json")
LIMIT = 200  # an edit of any one agent or formula makes fewer stale
SAMPLE = 20
ENGINE = ("reach.py", "runner.py")
DISTRIBUTIONS = ("torch", "numpy", "scipy", "gymnasium", "pytest", "hypothesis")


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def surroundings() -> dict[str, str]:
    """What every proof depends on: the engine, Python, the libraries. A build of torch for a GPU is the same torch."""
    engine = {name: ast.dump(normalized(Path(__file__).with_name(name).read_text("utf8"))) for name in ENGINE}
    libraries = {name: version(name).split("+")[0] for name in DISTRIBUTIONS}
    return engine | libraries | {"python": python_version().rpartition(".")[0]}


def key(mutant: Mutant) -> str:
    """Covers the tests and all that they reach in the patched package; ValueError where a test cannot see the fault."""
    changed = Sources({ROOT / "minerva_lite" / mutant.file: patched(mutant)})
    digests = {test: changed.digest(test) for test in map(located, mutant.tests)}
    for test in digests:
        if digests[test] == unpatched(test):
            raise ValueError(f"{mutant.story}: the edits change nothing that {test} can reach")
    return digest(surroundings(), digests)


@cache
def unpatched(test: str) -> str:
    return Sources().digest(test)


def seal(proofs: list[dict]) -> str:
    return digest(surroundings(), proofs)


def read(path: Path) -> tuple[dict[str, dict], str]:
    """The proofs by their keys, and why there are none where the file cannot be trusted."""
    if not path.exists():
        return {}, f"there is no {path.name}"
    try:
        told = json.loads(path.read_text("utf8"))
        proofs = told["proofs"]
        if told["seal"] != seal(proofs):
            return {}, f"{path.name} was written by another engine, Python or library, or changed by hand"
        return {proof["key"]: proof for proof in proofs}, ""
    except (ValueError, KeyError, TypeError):
        return {}, f"{path.name} is damaged"


def write(rows: dict[str, dict], path: Path) -> None:
    """Keep the rows of proofs, by their keys; all of them must hold."""
    if not all(row["caught"] for row in rows.values()):
        raise ValueError("wanted mutants that are caught; got one that survived")
    proofs = [{"story": row["story"], "tests": row["tests"], "key": key} for key, row in rows.items()]
    proofs.sort(key=lambda proof: (proof["story"], proof["key"]))
    path.write_text(json.dumps({"seal": seal(proofs), "proofs": proofs}, indent=1, ensure_ascii=False) + "\n", "utf8")


def tree() -> str:
    """The hash of the package's and the tests' sources."""
    rooms = ("minerva_lite", "tests", "book/results/studies")
    files = [f for room in rooms for f in sorted((ROOT / room).rglob("*.py"))]
    return digest([[str(f.relative_to(ROOT)), hashlib.sha256(f.read_bytes()).hexdigest()] for f in files])


@dataclass(frozen=True)
class Plan:
    """What the quick checks prove: the keys."""

    stale: list[str]
    sample: list[str]
    refusal: str  # why they prove nothing, "" where they do


def plan(keys: Iterable[str], proofs: dict[str, dict], why: str = "", *, seed: str, limit: int) -> Plan:
    keys = sorted(set(keys))
    stale, held = [k for k in keys if k not in proofs], [k for k in keys if k in proofs]
    if len(stale) > limit:
        refusal = f"{len(stale)} of {len(keys)} mutation proofs are not in the record{why and f' ({why})'}, "
        refusal += f"and the quick checks prove at most {limit}: run `make test-full`, which writes it anew"
        return Plan(stale, [], refusal)
    sample = sorted(held, key=lambda k: digest(seed, k))[: math.ceil(len(held) / SAMPLE)]
    return Plan(stale, sample, "")


def contradictions(proofs: dict[str, dict], rows: dict[str, dict]) -> list[str]:
    """Where a run gives another verdict than the record."""
    return [f"{row['story']}: the record says {proofs[k]['tests']}, a run says {row['tests']}"
            for k, row in rows.items() if k in proofs and proofs[k]["tests"] != row["tests"]]  # fmt: skip
