"""The record of what was proved: what makes a proof stale, what is run again, and who writes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants import record, runner
from tests.mutants.runner import Mutant

FILES = {
    "minerva_lite/low.py": 'SCALE = 2  # a comment\n\ndef double(x):\n    """Twice as much."""\n    return SCALE * x\n',
    "minerva_lite/high.py": "def add(x):\n    return x + 1\n",
    "tests/room/test_low.py": "def test_double():\n    assert double(4) == 8\n",
    "tests/room/test_high.py": "def test_add():\n    assert add(1) == 2\n",
}
SIGN = Mutant(1, "half of it", "low.py", (("SCALE * x", "SCALE / x"),), ("test_low.py::test_double",))
PLUS = Mutant(2, "one less", "high.py", (("+ 1", "- 1"),), ("test_high.py::test_add",))


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A package of two files with its tests, in place of the real one: toy(file, old, new) edits it."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for module in (record, runner):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "TESTS", tmp_path / "tests")

    def forget():
        record.syntax.cache_clear(), record.surroundings.cache_clear()

    def edit(file: str, old: str, new: str) -> None:
        (tmp_path / file).write_text((tmp_path / file).read_text().replace(old, new))
        forget()

    edit.forget = forget
    forget()
    yield edit
    forget()


@pytest.mark.parametrize(("file", "old", "new", "stale"), [
    ("minerva_lite/low.py", "SCALE = 2", "SCALE = 4", {SIGN}),
    ("minerva_lite/high.py", "def add", "print()\n\ndef add", {PLUS}),
    ("tests/room/test_low.py", "assert double", "assert 0 + double", {SIGN}),
    ("minerva_lite/low.py", "a comment", "another comment", set()),
    ("minerva_lite/low.py", "Twice as much.", "Two times as much.", set()),
])  # fmt: skip
def test_a_proof_is_stale_when_its_file_or_its_tests_change(toy, file, old, new, stale):
    before, seen = {mutant: record.key(mutant) for mutant in (SIGN, PLUS)}, record.tree()
    toy(file, old, new)
    assert {mutant for mutant in before if before[mutant] != record.key(mutant)} == stale
    assert record.tree() != seen, "the sample is drawn by whatever is written anywhere"


def test_another_mutation_test_engine_library_or_python_is_another_proof(toy, monkeypatch, tmp_path):
    other = ("SCALE * x", "SCALE - x")
    mutants = SIGN, replace(SIGN, edits=(other,)), replace(SIGN, tests=(*SIGN.tests, *PLUS.tests))
    keys, known = [*map(record.key, mutants)], record.version
    for name, value in (
        ("version", lambda name: "0" if name == "torch" else known(name)),
        ("python_version", lambda: "3.99.1"),
        ("ENGINE", tmp_path / "minerva_lite/high.py"),
    ):
        monkeypatch.setattr(record, name, value)
        toy.forget()
        keys.append(record.key(SIGN))
    assert len(set(keys)) == 6


@pytest.fixture
def prover(toy, tmp_path, monkeypatch):
    """The command with the two mutants of the toy, a record in a folder, and a prover that notes what it proves."""
    proved, survives, path = [], set(), tmp_path / "record.json"

    def run(mutants, processes):
        proved[:] = mutants
        green = {"green": True, "story": "no fault", "tests": {}, "fault": 0, "seconds": 0.0}
        return [green, *(green | {"caught": mutant not in survives} for mutant in proved)]

    monkeypatch.setattr(command, "MUTANTS", (SIGN, PLUS))
    monkeypatch.setattr(command, "mutants", lambda: [])
    monkeypatch.setattr(command, "run_mutants", run)
    monkeypatch.setattr(record, "RECORD", path)
    return proved, survives, path


def test_what_the_record_lacks_is_proved_and_a_sample_and_only_writing_writes(prover, toy):
    proved, survives, path = prover
    assert command.main(["--quick"]) == command.main([]) == 0 and {*proved} == {SIGN, PLUS} and not path.exists()
    survives.add(SIGN)
    assert command.main(["--write"]) == 1 and not path.exists(), "nothing is kept where a mutant survives"
    assert command.main(["--write", "one l", "nowhere"]) == 0 and proved == [PLUS]
    assert command.main(["--quick", "--write"]) == 1 and {*proved} == {SIGN, PLUS}, "one lacking, one of one sampled"
    survives.clear()
    assert command.main(["--write", "test_double"]) == 0 and proved == [SIGN]
    held = path.read_bytes()
    assert sorted(json.loads(held).values()) == ["half of it", "one less"]
    assert command.main(["--quick"]) == 0 and len(proved) == 1, "one of two is a twentieth, rounded up"
    assert command.main(["--write"]) == 0 and len(proved) == 2 and path.read_bytes() == held
    toy("minerva_lite/low.py", "SCALE = 2", "SCALE = 4")
    assert command.main(["--quick"]) == 0 and SIGN in proved
    assert command.main(["--write"]) == 0 and len(record.read(path)) == 2, "what is stale is not kept"
    path.write_text("{")
    assert record.read(path) == {}, "a damaged one proves nothing"


def test_in_time_every_proof_is_sampled():
    keys = [str(n) for n in range(100)]
    samples = [record.plan(keys, dict.fromkeys(keys, ""), str(seed)) for seed in range(300)]
    assert {len(sample) for sample in samples} == {5} and {key for sample in samples for key in sample} == {*keys}


def test_only_the_full_checks_write():
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    writers = re.findall(r"^([\w-]+):.*\n(?:\t.*\n)*?\t.*tests\.mutants.*--write", makefile, re.M)
    assert writers == ["test-full"] and makefile.count("--write") == 1
