"""The assignments by themselves: references right, wrong answers caught, other right answers kept, on every seed."""

from __future__ import annotations

import pytest
import torch

from .trials import SEEDS, answers_of, assignment

from course import NAMES, check  # isort: skip - found by what trials puts on the path
from course.check import Subject  # isort: skip
from course.here import answered  # isort: skip
from course.marking import CLOSE, differs, hidden  # isort: skip
from course.question import EXAMPLE_SEED, Code, Experiment, Written  # isort: skip

CODED = [(name, question.name) for name in NAMES for question in assignment(name).coded]


@pytest.mark.parametrize("name", NAMES)
def test_an_assignment_has_every_kind_of_question(name):
    made = assignment(name)
    kinds = [type(question) for question in made.questions]
    assert kinds.count(Written) >= 1 and kinds.count(Experiment) >= 1 and kinds.count(Code) >= 3
    assert sum(bool(getattr(question, "fault", None)) for question in made.questions) == 1, "one bug to find"
    assert list(check.complete(Subject(name))) == []


@pytest.mark.parametrize(("name", "question"), CODED)
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_reference_has_full_marks_on_twenty_seeds(name, question, threads):
    assert list(check.reference_right(Subject(name), question, threads=threads)) == []


@pytest.mark.parametrize(("name", "question"), [pair for pair in CODED if assignment(pair[0]).question(pair[1]).fault])
def test_what_is_handed_out_with_a_fault_fails_on_twenty_seeds(name, question):
    assert list(check.fault_seen(Subject(name), question)) == []


@pytest.mark.parametrize(("name", "question"), CODED)
def test_wrong_answers_are_wrong_and_right_ones_right(name, question):
    assert list(check.wrong_refused(Subject(name), question)) == []
    assert list(check.right_accepted(Subject(name), question)) == []


@pytest.mark.parametrize(("name", "question"), [pair for pair in CODED if pair[1] in answers_of(pair[0]).PACKAGE])
def test_the_packages_own_function_loses_the_marks(name, question):
    assert list(check.package_refused(Subject(name), question)) == []


@pytest.mark.parametrize(("name", "question"), CODED)
def test_no_work_is_no_marks(name, question):
    assert list(check.idle_refused(Subject(name), question)) == []


@pytest.mark.parametrize("name", NAMES)
def test_terms_differ(name):
    """Twenty seeds: at least ten different functions to write, and hardly one that the example's solution solves."""
    for question in assignment(name).coded:
        assert list(check.terms_differ(Subject(name), question.name)) == [], question.name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_texts_are_written_out(name, seed):
    """No brace of a template, no float's tail, even dollars, nothing that shows the solution."""
    assert list(check.written_out(Subject(name), seed)) == []


def test_hidden_cases_are_the_terms_own_and_stay_the_same():
    one, again, other = (hidden(assignment("hw2_gae", seed).question("q2"), seed) for seed in ("a", "a", "b"))
    for case, same, different in zip(one[0], again[0], other[0], strict=True):
        assert torch.equal(case.inputs["reward"], same.inputs["reward"])
        assert case.inputs["reward"].shape != different.inputs["reward"].shape or not torch.equal(
            case.inputs["reward"], different.inputs["reward"]
        )


def test_what_differs_is_told_without_the_answer():
    right = [torch.tensor([[1.5, 2.0], [3.0, 4.25]]).double()]

    def told(data, shape=(2, 2)):
        return differs([{"shape": list(shape), "data": data}], right)

    assert told([1.5, 2.0, 3.0, 4.25]) == "" == told([1.5, 2.0, 3.0, 4.25 + 4 * CLOSE])
    two_wrong = "2 of 4 entries are wrong, the first at [1, 0], all in row 1; off by the order of 1"
    assert told([1.5, 2.0, 3.5, 5.25]) == two_wrong
    assert told([1.5, 2.5, 3.0, 4.75]).endswith("the first at [0, 1], all in column 1; off by the order of 0.1")
    assert told([1.5, float("nan"), 3.0, 4.25]).endswith("all in row 0; 1 of them is not a number (NaN)")
    assert told([1.5, 2.0, float("inf"), -float("inf")]).endswith("all in row 1; 2 of them are infinite")
    assert told([1.5, 2.0, 3.0, 4.25], (4,)) == "wanted shape (2, 2); got [4]"
    assert told([1.5, 2.0, 3.0]) == "wanted 4 numbers; got 3"
    assert told([10**400, 2.0, 3.0, 4.25]) == "wanted numbers"
    assert told(["a", 2.0, 3.0, 4.25]) == "wanted numbers"
    two = [{"shape": [2, 2], "data": [1.5, 2.0, 3.0, 4.25]}, {"shape": [], "data": [1.0]}]
    other = [*right, torch.tensor(2.0).double()]
    smaller = "is too small, off by the order of 1"
    assert differs(two, other, ["the value", "the gradient by eta"]) == f"the gradient by eta {smaller}"
    assert differs(two, other) == f"array 1 {smaller}"
    assert differs([], right) == "wanted 1 arrays; got 0"
    assert "4.25" not in told([1.5, 2.0, 3.0, 4.0]) and "2.0" not in told([1.5, 9.0, 3.0, 4.25])


def test_a_function_that_falls_over_is_told_so():
    asked = assignment("hw2_gae").question("q2")
    assert set(answered(asked, lambda *a: 1 / 0, EXAMPLE_SEED).values()) == {"ZeroDivisionError: division by zero"}
