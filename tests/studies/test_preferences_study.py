"""What the study of chapter 9b descends, by hand; and that its file holds every run."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Generator

from book.results.studies import preferences
from book.results.studies.preferences import LOOKS, SEEDS, SORT, WAYS, Way, compared, log_probs, loss_of
from book.results.studies.record import read_rows
from minerva_lite.language.base_model import load_base


@pytest.fixture(scope="module")
def base():
    return load_base(preferences.BASE)


def test_a_pair_is_a_right_and_a_wrong_answer_to_one_prompt(base):
    prompt, preferred, rejected = compared(base, 20, Generator().manual_seed(0))
    solution = SORT.solution(prompt)
    assert (preferred == solution).all()
    assert (rejected != solution).any(0).all()
    with pytest.raises(ValueError, match="at most 0 here; got 3"):
        compared(_always_a_zero(base), 3, Generator().manual_seed(0))


def _always_a_zero(base):
    policy = copy.deepcopy(base)
    with torch.no_grad():
        policy.head.bias[0] = 1e4
    return policy


LOGS = [torch.tensor(each) for each in ([-1.0, -2.0], [-3.0, -1.0], [-1.5, -2.0], [-2.0, -1.0])]  # margins 1.5 and 0


def test_the_losses_by_hand():
    dpo = (-math.log(1 / (1 + math.exp(-0.15))) + math.log(2)) / 2
    assert loss_of(Way(), LOGS).item() == pytest.approx(dpo, rel=1e-5)
    assert loss_of(Way(loss="ipo"), LOGS).item() == pytest.approx(((1.5 - 5) ** 2 + 25) / 2, rel=1e-5)
    assert loss_of(Way(likelihood=0.1), LOGS).item() == pytest.approx(dpo + 0.15, rel=1e-5)
    assert loss_of(Way(loss="none", likelihood=0.1), LOGS).item() == pytest.approx(0.15, rel=1e-5)


def test_the_reference_is_a_constant(base):
    policy, pairs = copy.deepcopy(base), compared(base, 4, Generator().manual_seed(0))
    logs = log_probs(policy, base, pairs)
    assert [each.requires_grad for each in logs] == [True, True, False, False]
    assert loss_of(Way(), logs).item() == pytest.approx(math.log(2), rel=1e-5)


def test_new_pairs_are_the_policys_own_where_a_run_says_so(base):
    """A policy that never writes a right answer has no pairs to offer; the base model has."""
    pairs, hopeless = compared(base, 64, Generator().manual_seed(0)), _always_a_zero(base)
    draw = Generator().manual_seed(1)
    found = next(preferences.batches(WAYS["new pairs of the base model"], pairs, hopeless, base, draw))
    assert found[0].shape == (6, 64)
    with pytest.raises(ValueError, match="at most 0 here"):
        next(preferences.batches(WAYS["new pairs of the policy"], pairs, hopeless, base, draw))


def test_the_file_holds_every_run_once_and_whole():
    rows = read_rows(preferences.PATH)
    got = [(row["way"], int(row["seed"]), int(row["steps"])) for row in rows]
    assert len(got) == len(set(got))
    assert set(got) == {(way, seed, steps) for way in WAYS for seed in SEEDS for steps in (0, *LOOKS)}
