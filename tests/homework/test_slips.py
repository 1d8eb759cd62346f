"""Wrong turns that a student may take, in every variant: refused by the hidden cases of whatever term draws them."""

from __future__ import annotations

import textwrap

import pytest

from .answers.slips import SLIPS, slipped
from .trials import EXAMPLE_SEED, SEEDS, answers_of, assignment, edited, is_right, verdict

from course import NAMES  # isort: skip - found by what trials puts on the path

TERMS = [*SEEDS, *(f"autumn {n}" for n in range(12))]
CODED = [(name, question.name) for name in NAMES for question in assignment(name).coded if not question.judge]


def slips_of(name: str, question: str) -> dict:
    return SLIPS[name.split("_")[0]][question]


@pytest.mark.parametrize(("name", "question"), CODED)
def test_a_slip_is_refused_in_the_first_term_that_has_room_for_it(name, question):
    for story, edits in slips_of(name, question).items():
        for term in TERMS:
            asked = assignment(name, term).question(question)
            source = slipped(asked.solution, edits)
            if source is not None:
                assert not is_right(asked, source, term), (story, term)
                break
        else:
            raise AssertionError(f"no term has room for this slip: {story}")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "question"), CODED)
def test_slips_are_refused_in_every_term(name, question):
    passed = []
    for term in TERMS:
        asked = assignment(name, term).question(question)
        sources = {story: slipped(asked.solution, edits) for story, edits in slips_of(name, question).items()}
        passed += [(story, term) for story, text in sources.items() if text and is_right(asked, text, term)]
    assert not passed


@pytest.mark.slow
@pytest.mark.parametrize(("name", "question"), CODED)
def test_wrong_answers_are_refused_and_right_ones_kept_whatever_the_cases(name, question):
    """The example's question with the hidden cases of 32 terms."""
    asked, answers = assignment(name, EXAMPLE_SEED).question(question), answers_of(name)
    for story, edits in answers.WRONG[question].items():
        source = edits if isinstance(edits, str) else edited(asked.solution, edits)
        assert not [term for term in TERMS if is_right(asked, source, term)], story
    for story, source in answers.RIGHT[question].items():
        for term in TERMS:
            assert not any((got := verdict(asked, source, term)).values()), (story, term, got)


def halved(solution: str, function: str) -> str:
    """The same answer computed from inputs in float32, in float32."""
    return f"{solution}\n" + textwrap.dedent(f"""
        in_float64 = {function}

        def {function}(*given):
            torch.set_default_dtype(torch.float32)
            try:
                return in_float64(*(x.float() if torch.is_tensor(x) and x.is_floating_point() else x for x in given))
            finally:
                torch.set_default_dtype(torch.float64)
    """)


@pytest.mark.parametrize(("name", "question"), CODED)
@pytest.mark.parametrize("terms", [TERMS[:3], pytest.param(TERMS[3:], marks=pytest.mark.slow)], ids=["few", "many"])
def test_an_answer_in_single_precision_is_right(name, question, terms):
    for term in terms:
        asked = assignment(name, term).question(question)
        wrong = {case: why for case, why in verdict(asked, halved(asked.solution, asked.function), term).items() if why}
        assert not wrong, (term, wrong)
