"""The errata name, for every fault, a test that the mutants prove to catch it, and show its line as it is put in."""

import re
from itertools import pairwise

import pytest
import torch

from minerva_book.worlds import tabular_trpo
from minerva_lite.formulas.bounds import cpi_bound
from tests.equations import ROOT
from tests.mutants.faults import MUTANTS
from tests.mutants.runner import patched

UNREPORTED = 0  # the mutants' number for faults of our own imagination
SENTENCES = "test_text_errors.py"
PAGE = ROOT / "book" / "errata.md"
ENTRY = re.compile(r"^### (\d+)\. (.*?)(?=^\(fault-|^## |\Z)", re.M | re.S)
ROW = re.compile(r"^\| \[(\d+)\]\(#fault-\d+\) \|.*$", re.M)
BLOCK = re.compile(r"^:class: (wrong|right)\n\*\*(.+?)\*\*\n\n(```python|\$\$)\n(.*?)\n(?:```|\$\$)$", re.M | re.S)
LABELS = {("Wrong", "Right"), ("As printed", "Right"), ("As told", "As computed")}
# What a mutant leaves where a line was taken out.
NOTHING = re.compile(r"if False:\n\s*break$|^\s*(?:pass|(\w+) = \1)$", re.M)


def entries() -> dict[int, str]:
    return {int(number): text for number, text in ENTRY.findall(PAGE.read_text("utf8"))}


def named() -> dict[int, set[str]]:
    """The tests that the page's last table gives to each fault."""
    return {
        int(row[1]): set(re.findall(r"`(test_\w+\.py::test_\w+)`", row[0]))
        for row in ROW.finditer(PAGE.read_text("utf8"))
    }


def defined_in(name: str) -> set[str]:
    """The tests that a file defines, as the errata call them."""
    [place] = (ROOT / "tests").glob(f"*/{name}")
    return {f"{name}::{test}" for test in re.findall(r"^def (test_\w+)", place.read_text(), re.M)}


def pairs(entry: str) -> list[tuple[str, str, bool]]:
    """What an entry shows as wrong and as right, and whether it is code."""
    blocks = BLOCK.findall(entry)
    assert [kind for kind, *_ in blocks] == ["wrong", "right"] * (len(blocks) // 2)
    found = []
    for (_, first, start, wrong), (_, second, end, right) in list(pairwise(blocks))[::2]:
        assert (first, second) in LABELS and start == end
        found.append((wrong, right, start == "```python"))
    return found


def words(code: str) -> list[str]:
    """Code without comments, line breaks and what does nothing."""
    code = re.sub(r"^\s*#.*$|  # .*$", "", code, flags=re.M)
    return re.findall(r"\w+|[^\w\s]", NOTHING.sub("", code))


def holds(source: list[str], code: str) -> bool:
    """Whether the code stands in the source, word for word; `...` stands for any number of words."""
    place = 0
    for piece in map(words, re.split(r"^\.\.\.$", code, flags=re.M)):
        starts = (i for i in range(place, len(source)) if source[i : i + len(piece)] == piece)
        place = next(starts, -1)
        if place < 0:
            return False
        place += len(piece)
    return True


def shows(mutant, wrong: str, right: str) -> bool:
    """Whether the wrong code is what the mutant puts in, and the right code what it takes out."""
    source = words((ROOT / "minerva_lite" / mutant.file).read_text("utf8"))
    faulty = words(patched(mutant))
    added_to = holds(words(wrong), right)  # the fault leaves the right words and adds some
    return (
        holds(faulty, wrong)
        and not holds(source, wrong)
        and holds(source, right)
        and (added_to or not holds(faulty, right))
    )


def test_the_errata_and_the_mutants_have_the_same_faults():
    assert entries().keys() == named().keys() == {mutant.fault for mutant in MUTANTS} - {UNREPORTED}


def test_faults_stand_in_the_order_of_their_numbers():
    text = PAGE.read_text("utf8")
    numbers = [int(n) for n in re.findall(r"^### (\d+)\. ", text, re.M)]
    assert numbers == sorted(numbers) == [int(n) for n in re.findall(r"^\(fault-(\d+)\)=$", text, re.M)]


def test_the_places_are_counted():
    text, public = entries(), re.compile(r"\*Seen in:\* (?:\[|\{cite)")
    reported = {number for number, entry in text.items() if "*Reported" in entry}
    seen = {number for number, entry in text.items() if public.search(entry)} - reported
    told = f"Of the {len(text)}, {len(reported)} were reported in public, {len(seen)} we only saw in a public source"
    page = " ".join(PAGE.read_text("utf8").split())
    assert told in page and f"for {len(text) - len(reported) - len(seen)} we name no public place" in page


def test_the_last_table_has_the_titles():
    for number, entry in entries().items():
        assert f"\n| [{number}](#fault-{number}) | {entry.splitlines()[0]} | " in PAGE.read_text("utf8")


def test_every_test_named_catches_a_mutant_of_its_fault():
    for number, tests in named().items():
        caught = {test for mutant in MUTANTS if mutant.fault == number for test in mutant.tests}
        assert tests, number
        # A sentence need not have a line of code to break; its test holds the wrong one beside the right one.
        assert tests - defined_in(SENTENCES) <= caught, (number, tests - caught)


def test_every_test_of_a_wrong_sentence_stands_in_the_errata():
    told = {test for tests in named().values() for test in tests if test.startswith(SENTENCES)}
    assert told == defined_in(SENTENCES)


@pytest.mark.parametrize("number", sorted({mutant.fault for mutant in MUTANTS} - {UNREPORTED}))
def test_the_lines_shown_are_those_that_a_mutant_exchanges(number):
    shown = pairs(entries()[number])
    assert shown
    for wrong, right, is_code in shown:
        assert not is_code or any(shows(mutant, wrong, right) for mutant in MUTANTS if mutant.fault == number), wrong


def test_the_trap_that_was_told_the_wrong_way_round():
    stay, go = torch.eye(2, dtype=torch.float64).unsqueeze(1).expand(2, 2, 2)
    mixed = (stay + go) / 2
    reward = torch.tensor([[0.0, -1.0], [0.0, 1.0]], dtype=torch.float64)
    bound = cpi_bound(1.0, 0.5, 0.9, sharp=True)
    numbers = []
    for sign in (1.0, -1.0):
        world = tabular_trpo.trap(sign * reward, gamma=0.9)
        numbers += [float(f(world, stay, mixed)) for f in (tabular_trpo.surrogate, tabular_trpo.gain)]
        assert sign * float(tabular_trpo.error(world, stay, mixed)) == pytest.approx(bound)
    assert [f"{number:+.2f}" for number in numbers] == ["-5.00", "+3.18", "+5.00", "-3.18"]
    told = PAGE.read_text("utf8")
    assert "surrogate was $-5.00$ and the gain $+3.18$" in told and "promises $+5.00$ and loses 3.18" in told
