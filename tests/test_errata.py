"""The errata name, for every fault, a test that the mutants prove to catch it."""

import re

from tests.equations import ROOT
from tests.mutants.faults import MUTANTS

ENTRY = re.compile(r"^\*\*(\d+)\. (.*?)(?=^\*\*\d+\. |^## |\Z)", re.M | re.S)


def entries() -> dict[int, str]:
    return {int(number): text for number, text in ENTRY.findall((ROOT / "book" / "errata.md").read_text())}


def test_every_fault_that_is_a_mutant_is_told_and_the_other_way_round():
    assert entries().keys() == {mutant.fault for mutant in MUTANTS}


def test_every_test_named_catches_a_mutant_of_its_fault():
    for number, text in entries().items():
        named = set(re.findall(r"`(test_\w+\.py::test_\w+)`", text))
        caught = {test for mutant in MUTANTS if mutant.fault == number for test in mutant.tests}
        assert named and named <= caught, (number, named - caught)
