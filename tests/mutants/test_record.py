"""The record of what was proved: what makes a proof stale, what is run again, and that nothing can be slipped in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.mutants import __main__ as command
from tests.mutants import reach, record, runner
from tests.mutants.runner import Mutant

PACKAGE = {
    "minerva_lite/__init__.py": "from .low import double\n",
    "minerva_lite/low.py": '''
SCALE = 2  # a comment
OTHER = 3

def double(x):
    """Twice as much."""
    return SCALE * x

def other(x):
    return OTHER * x
''',
    "minerva_lite/high.py": """
from . import low
from .low import double

class Adder:
    def add(self, x):
        return double(x) + 1
""",
}
TESTS = {
    "tests/conftest.py": """
import pytest

@pytest.fixture
def adder():
    from minerva_lite.high import Adder
    return Adder()
""",
    "book/results/studies/shared.py": "def three():\n    return 3\n",
    "tests/room/test_toy.py": """
from minerva_lite import double
from book.results.studies.shared import three

def helper():
    return three() + 1

def test_double():
    assert double(helper()) == 8

def test_add(adder):
    assert adder.add(1) == 3

def test_other(monkeypatch):
    monkeypatch.setattr("minerva_lite.low.OTHER", 5)
""",
}
SIGN = Mutant(1, "half of it", "low.py", (("SCALE * x", "SCALE / x"),), ("test_toy.py::test_double",))
PLUS = Mutant(2, "one less", "high.py", (("+ 1", "- 1"),), ("test_toy.py::test_add",))


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A package of two files with its tests, in place of the real one: toy(file, old, new) edits it."""
    for name, text in (PACKAGE | TESTS).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for module in (reach, record, runner):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "TESTS", tmp_path / "tests")

    def forget():
        for memory in (reach.modules, reach.source, record.unpatched, record.surroundings):
            memory.cache_clear()

    def edit(file: str, old: str, new: str) -> None:
        text = (tmp_path / file).read_text()
        assert text.count(old) == 1
        (tmp_path / file).write_text(text.replace(old, new))
        forget()

    forget()
    yield edit
    forget()


def rows(*mutants: Mutant) -> dict[str, dict]:
    return {record.key(m): {"story": m.story, "tests": dict.fromkeys(m.tests, "red"), "caught": True} for m in mutants}


@pytest.mark.parametrize(("file", "old", "new", "stale"), [
    ("minerva_lite/low.py", "SCALE = 2", "SCALE = 4", {"SIGN", "PLUS"}),
    ("minerva_lite/low.py", "return SCALE * x", "return SCALE * x + 0", {"SIGN", "PLUS"}),
    ("minerva_lite/high.py", "double(x) + 1", "double(x) + 1 + 0", {"PLUS"}),
    ("minerva_lite/high.py", "class Adder:", "print()\n\nclass Adder:", {"PLUS"}),
    ("tests/conftest.py", "import Adder\n", "import Adder\n    print()\n", {"PLUS"}),
    ("tests/conftest.py", "import pytest\n", "import pytest\nprint()\n", {"SIGN", "PLUS"}),
    ("book/results/studies/shared.py", "return 3", "return 2 + 1", {"SIGN"}),
    ("tests/room/test_toy.py", "assert double", "assert 0 + double", {"SIGN"}),
    ("tests/room/test_toy.py", "three() + 1", "1 + three()", {"SIGN"}),
    ("minerva_lite/low.py", "OTHER = 3", "OTHER = 4", set()),
    ("minerva_lite/low.py", "def other", "def new():\n    pass\n\ndef other", set()),
    ("minerva_lite/low.py", "a comment", "another comment", set()),
    ("minerva_lite/low.py", "Twice as much.", "Two times as much.", set()),
])  # fmt: skip
def test_a_proof_is_stale_when_what_it_rests_on_changes(toy, file, old, new, stale):
    before = {name: record.key(mutant) for name, mutant in (("SIGN", SIGN), ("PLUS", PLUS))}
    toy(file, old, new)
    after = {name: record.key(mutant) for name, mutant in (("SIGN", SIGN), ("PLUS", PLUS))}
    assert {name for name in before if before[name] != after[name]} == stale


def test_another_mutation_or_test_is_another_proof(toy):
    others = [
        Mutant(1, SIGN.story, "low.py", (("SCALE * x", "SCALE - x"),), SIGN.tests),
        Mutant(1, SIGN.story, "low.py", SIGN.edits, (*SIGN.tests, "test_toy.py::test_add")),
    ]
    assert len({record.key(mutant) for mutant in (SIGN, *others)}) == 3


@pytest.mark.parametrize("name", ["torch", "pytest"])
def test_another_version_makes_every_proof_stale(toy, monkeypatch, name):
    before, known = record.key(SIGN), record.version
    monkeypatch.setattr(record, "version", lambda each: "0" if each == name else known(each))
    record.surroundings.cache_clear()
    assert record.key(SIGN) != before


def test_another_python_makes_every_proof_stale(toy, monkeypatch):
    keys = []
    for number in ("3.11.1", "3.11.9", "3.12.0"):
        monkeypatch.setattr(record, "python_version", lambda number=number: number)
        record.surroundings.cache_clear()
        keys.append(record.key(SIGN))
    assert keys[0] == keys[1] != keys[2]


def test_another_engine_makes_every_proof_stale(toy, monkeypatch, tmp_path):
    before = record.key(SIGN)
    for name in record.ENGINE:
        text = (Path(record.__file__).with_name(name)).read_text()
        (tmp_path / name).write_text(text + ("\nCHANGED = True\n" if name == "runner.py" else "\n# no change\n"))
    record.surroundings.cache_clear()
    monkeypatch.setattr(record, "__file__", str(tmp_path / "record.py"))
    assert record.key(SIGN) != before


def test_a_mutant_that_its_test_cannot_see_is_refused(toy):
    unseen = Mutant(1, "unseen", "low.py", (("OTHER * x", "OTHER / x"),), SIGN.tests)
    with pytest.raises(ValueError, match=r"unseen: the edits change nothing that tests/room/test_toy\.py::test_double"):
        record.key(unseen)
    record.key(Mutant(1, "a text names it", "low.py", (("OTHER * x", "OTHER / x"),), ("test_toy.py::test_other",)))
    with pytest.raises(ValueError, match="changes? nothing"):
        record.key(Mutant(1, "a comment", "low.py", (("# a comment", "# no"),), SIGN.tests))


def test_what_was_written_is_read_and_is_the_same_twice(toy, tmp_path):
    found = rows(SIGN, PLUS)
    record.write(found, tmp_path / "one.json")
    record.write(dict(reversed(found.items())), tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    proofs, why = record.read(tmp_path / "one.json")
    assert proofs.keys() == found.keys() and why == ""


@pytest.mark.parametrize(("old", "new"), [
    ('"red"', '"green"'),
    ('"story": "half of it"', '"story": "half"'),
    (r'"key": "\w', '"key": "_'),
    (r'"seal": "\w', '"seal": "_'),
    ("test_double", "test_add"),
    (r'"proofs": \[\s*\{', '"proofs": [{"story": "x", "tests": {}, "key": "x"}, {'),
    ('"proofs"', '"proof"'),
    (r"\}", ""),
    (r"[\s\S]+", "[]"),
], ids=["verdict", "story", "key", "seal", "test", "one more", "no proofs", "damaged", "empty"])  # fmt: skip
def test_a_record_changed_by_hand_holds_nothing(toy, tmp_path, old, new):
    path = tmp_path / "record.json"
    record.write(rows(SIGN, PLUS), path)
    text, count = re.subn(old, new, path.read_text(), count=1)
    assert count == 1
    path.write_text(text)
    proofs, why = record.read(path)
    assert proofs == {} and "record.json" in why


def test_no_record_holds_nothing(tmp_path):
    assert record.read(tmp_path / "none.json") == ({}, "there is no none.json")


def test_a_mutant_that_survived_is_not_recorded(toy, tmp_path):
    survived = {key: row | {"caught": False} for key, row in rows(SIGN).items()}
    with pytest.raises(ValueError, match="wanted mutants that are caught"):
        record.write(rows(PLUS) | survived, tmp_path / "record.json")
    assert not (tmp_path / "record.json").exists()


KEYS = [f"{n:03d}" for n in range(100)]


def test_what_is_stale_runs_again_up_to_a_number():
    held = dict.fromkeys(KEYS[3:], {})
    assert record.plan(KEYS, held, seed="x", limit=3).stale == KEYS[:3]
    assert record.plan(KEYS, held, seed="x", limit=3).refusal == ""
    refused = record.plan(KEYS, held, "changed by hand", seed="x", limit=2)
    assert refused.refusal == ("3 of 100 mutation proofs are not in the record (changed by hand), and the quick checks "
                               "prove at most 2: run `make test-full`, which writes it anew")  # fmt: skip
    assert (refused.stale, refused.sample) == (KEYS[:3], [])


def test_a_twentieth_of_what_is_held_is_drawn_by_the_tree():
    held = dict.fromkeys(KEYS, {})
    samples = [record.plan(KEYS, held, seed=seed, limit=0).sample for seed in ("one", "one", "other")]
    assert len(samples[0]) == 5 and set(samples[0]) < set(KEYS) and samples[0] == samples[1] != samples[2]
    drawn = {key for n in range(300) for key in record.plan(KEYS, held, seed=str(n), limit=0).sample}
    assert drawn == set(KEYS), "in time every one is drawn"


def test_the_tree_is_the_sources_of_package_and_tests(toy):
    seen = [record.tree()]
    for file, old, new in (
        ("minerva_lite/low.py", "a comment", "another"),
        ("tests/room/test_toy.py", "== 3", "== 4"),
    ):
        toy(file, old, new)
        seen.append(record.tree())
    assert len(set(seen)) == 3


@pytest.fixture
def prover(toy, tmp_path, monkeypatch):
    """The command with the two mutants of the toy, a record in a folder, and a prover that says what it was asked."""
    asked, said = [], {}

    def run(mutants, processes):
        asked[:] = mutants
        green = {"green": True, "story": "no fault", "tests": {}, "fault": 0, "seconds": 0.0}
        found = [
            {
                "fault": m.fault,
                "story": m.story,
                "tests": dict.fromkeys(m.tests, said.get(m, "red")),
                "caught": said.get(m, "red") == "red",
                "seconds": 0.0,
            }
            for m in asked
        ]
        return [green, *found]

    path = tmp_path / "record.json"
    monkeypatch.setattr(command, "MUTANTS", (SIGN, PLUS))
    monkeypatch.setattr(command, "mutants", lambda: [])
    monkeypatch.setattr(command, "run_mutants", run)
    monkeypatch.setattr(record, "RECORD", path)
    return asked, said, path


def test_the_quick_checks_never_write(prover):
    asked, _, path = prover
    assert command.main(["--quick"]) == 0 and {*asked} == {SIGN, PLUS}
    assert not path.exists()
    assert command.main([]) == 0 and not path.exists()
    assert command.main(["--write"]) == 0 and len(record.read(path)[0]) == 2
    before = path.read_bytes()
    assert command.main(["--quick"]) == 0 and len(asked) == 1, "one of two is a twentieth, rounded up"
    assert path.read_bytes() == before


def test_nothing_is_written_where_a_mutant_survives(prover):
    _, said, path = prover
    said[SIGN] = "green"
    assert command.main(["--write"]) == 1 and not path.exists()


def test_a_recorded_verdict_that_a_run_does_not_give_is_told(prover, capsys, monkeypatch):
    asked, said, path = prover
    command.main(["--write"])
    capsys.readouterr()
    monkeypatch.setattr(record, "SAMPLE", 1)
    assert command.main(["--quick", "--json"]) == 0 and len(asked) == 2
    assert json.loads(capsys.readouterr().out)["contradictions"] == []
    said[SIGN] = "green"
    assert command.main(["--quick", "--json"]) == 1
    red, green = ({"test_toy.py::test_double": verdict} for verdict in ("red", "green"))
    assert json.loads(capsys.readouterr().out)["contradictions"] == [
        f"half of it: the record says {red}, a run says {green}"
    ]


def test_too_much_that_is_stale_is_told_with_the_command_that_helps(prover, monkeypatch):
    asked, _, path = prover
    monkeypatch.setattr(record, "LIMIT", 1)
    with pytest.raises(SystemExit, match="2 of 2 mutation proofs are not in the record.*run `make test-full`"):
        command.main(["--quick"])
    assert asked == []


def test_only_the_full_checks_write():
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    writers = re.findall(r"^([\w-]+):.*\n(?:\t.*\n)*?\t.*tests\.mutants.*--write", makefile, re.M)
    assert writers == ["test-full"] and makefile.count("--write") == 1
