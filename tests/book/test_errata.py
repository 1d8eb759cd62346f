"""The errata name, for every fault, a test that the mutants prove to catch it."""

import re

from tests.equations import ROOT
from tests.mutants.faults import MUTANTS

UNREPORTED = 0  # the mutants' number for faults of our own imagination
SENTENCES = "test_text_errors.py"
ENTRY = re.compile(r"^\*\*(\d+)\. (.*?)(?=^\*\*\d+\. |^## |\Z)", re.M | re.S)


def entries() -> dict[int, str]:
    return {int(number): text for number, text in ENTRY.findall((ROOT / "book" / "errata.md").read_text())}


def defined_in(name: str) -> set[str]:
    """The tests that a file defines, as the errata call them."""
    [place] = (ROOT / "tests").glob(f"*/{name}")
    return {f"{name}::{test}" for test in re.findall(r"^def (test_\w+)", place.read_text(), re.M)}


def test_the_errata_and_the_mutants_have_the_same_faults():
    assert entries().keys() == {mutant.fault for mutant in MUTANTS} - {UNREPORTED}


def test_every_test_named_catches_a_mutant_of_its_fault():
    for number, text in entries().items():
        named = set(re.findall(r"`(test_\w+\.py::test_\w+)`", text))
        caught = {test for mutant in MUTANTS if mutant.fault == number for test in mutant.tests}
        assert named, number
        # A sentence need not have a line of code to break; its test holds the wrong one beside the right one.
        assert named - defined_in(SENTENCES) <= caught, (number, named - caught)


def test_every_test_of_a_wrong_sentence_stands_in_the_errata():
    told = set(re.findall(rf"`({re.escape(SENTENCES)}::test_\w+)`", "".join(entries().values())))
    assert told == defined_in(SENTENCES) - {f"{SENTENCES}::test_the_shared_world_by_hand"}
