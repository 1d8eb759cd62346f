"""The assignments by themselves: references right, wrong answers caught, other right answers kept, on every seed."""

from __future__ import annotations

import re
import textwrap

import pytest
import torch

from .answers.slips import slipped
from .trials import (
    CODED,
    EXAMPLE_SEED,
    SEEDS,
    TERMS,
    answers_of,
    assignment,
    mistakes,
    on_the_example,
    verdict,
    worthless,
    written,
    wrong_cases,
)

from course import NAMES  # isort: skip - found by what trials puts on the path
from course.feedback import differs  # isort: skip
from course.marking import counting, earned, hidden  # isort: skip
from course.question import Code, Experiment, Written  # isort: skip
from minerva_book.exercises.answers import CLOSE

WRONG = 6  # mistakes that the example's question is tried with, at least
FORMS, FAULTS = 10, 3  # different functions to write, and different faults to find, on twenty seeds, at least
SOLVED = 4  # of these seeds, whose question the example's solution may solve, at most
NUMBERS = re.compile("entries are wrong|wanted shape|too (large|small)|wrong sign")  # wrong, and not fallen over
SLOW = pytest.mark.slow
every_question = pytest.mark.parametrize(("name", "question"), CODED)


def frame(question) -> tuple:
    """What is the same for every seed: the gradebook knows it."""
    return type(question), question.name, question.points, question.minutes, bool(getattr(question, "setup", ""))


@pytest.mark.parametrize("name", NAMES)
def test_an_assignment_has_every_kind_of_question_and_all_that_belongs_to_it(name):
    """Numbered questions with points, minutes, goals, texts and rubrics; on every seed the same, worth the same."""
    made = assignment(name)
    kinds = [type(question) for question in made.questions]
    assert kinds.count(Written) >= 1 and kinds.count(Experiment) >= 1 and kinds.count(Code) >= 3
    assert sum(bool(q.fault) for q in made.coded) == 1, "one bug to find"
    assert [q.name for q in made.questions] == [f"q{n}" for n in range(1, len(made.questions) + 1)]
    for q in made.questions:
        wanted = ("title", "goal", "text") if isinstance(q, Code) else ("title", "goal", "text", "rubric", "solution")
        assert q.points > 0 and q.minutes > 0 and all(getattr(q, each).strip() for each in wanted), q.name
        if isinstance(q, Code):
            assert f"`{q.function}`" in q.text or f"`faulty_{q.function}`" in q.text, f"{q.name} names its function"
            assert (q.example and q.oracle or q.visible) and (q.oracle or q.judge), q.name
    for seed in SEEDS[1:5]:
        assert [*map(frame, assignment(name, seed).questions)] == [*map(frame, made.questions)], seed


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_written_out(name):
    """No brace of a template, no float's tail, even dollars, nothing that shows the solution."""
    for seed in SEEDS[:4]:
        for q in assignment(name, seed).questions:
            for text in (q.title, q.goal, q.text, getattr(q, "header", "")):
                assert not re.search(r"\d\.\d{7,}|\{\{|\bNone\b|<function", text), (seed, q.name)
            bare = re.sub(r"\\[{}]", "", q.text)
            assert q.text.count("$") % 2 == 0 and bare.count("{") == bare.count("}"), (seed, q.name)
            body = [line.strip() for line in getattr(q, "body", "").splitlines() if len(line.strip()) > 24]
            assert not [line for line in body if line in q.text + q.header], (seed, q.name)


@every_question
@pytest.mark.parametrize(
    ("seeds", "threads"), [(SEEDS[:2], 1), pytest.param(SEEDS, 1, marks=SLOW), pytest.param(SEEDS, 2, marks=SLOW)],
    ids=["few", "all", "all, two threads"],
)  # fmt: skip
def test_the_reference_has_full_marks_on_every_seed_and_a_fault_has_not(name, question, seeds, threads):
    faults = set()
    for seed in seeds:
        problem = assignment(name, seed).question(question)
        assert wrong_cases(problem, problem.solution, seed, threads=threads) == {}, seed
        if problem.fault:
            faults.add(problem.fault.name)
            assert problem.fault.story and wrong_cases(problem, problem.faulty, seed), (seed, problem.fault.name)
    assert not problem.fault or len(faults) >= FAULTS or len(seeds) < len(SEEDS)


@every_question
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=SLOW)], ids=["first", "every"])
def test_a_mistake_is_refused_in_the_terms_that_have_room_for_it(name, question, every):
    """By its numbers: that the function could not be called would prove nothing."""
    assert len(on_the_example(name, question)) >= WRONG
    for story, edits in mistakes(name, question).items():
        tried = 0
        for term in TERMS:
            problem = assignment(name, term).question(question)
            source = slipped(problem.solution, edits)
            if source is not None and (every or not tried):
                tried += 1
                wrong = wrong_cases(problem, source, term)
                assert wrong and not all("Error" in why for why in wrong.values()), (story, term, wrong)
        assert tried, f"no term has room for this mistake: {story}"


@every_question
def test_right_answers_of_another_kind_are_right_with_any_threads(name, question):
    problem = assignment(name).question(question)
    for story, text in answers_of(name).RIGHT[question].items():
        for threads in (1, 2):
            assert wrong_cases(problem, written(name, question, text), threads=threads) == {}, (story, threads)


@pytest.mark.parametrize(("name", "question"), [pair for pair in CODED if pair[1] in answers_of(pair[0]).PACKAGE])
def test_the_packages_own_function_loses_the_marks(name, question):
    got = verdict(assignment(name).question(question), written(name, question, answers_of(name).PACKAGE[question]))
    assert any(NUMBERS.search(why) for why in got.values()), got


@every_question
@pytest.mark.parametrize("seeds", [SEEDS[:1], pytest.param(SEEDS[1:6], marks=SLOW)], ids=["one", "more"])
def test_what_takes_no_work_earns_nothing(name, question, seeds):
    """0, 1, an input as it came, a fault as it was handed out, and a cell as it was released."""
    for seed in seeds:
        problem = assignment(name, seed).question(question)
        counted = counting(problem, seed)
        # In some terms a fault shows only where an input is the answer: then nothing counts, and it is all or nothing.
        assert problem.judge or counted or seed != EXAMPLE_SEED, "a share can be earned"
        for body in ("raise NotImplementedError()", "return 0.0"):
            assert wrong_cases(problem, f"{problem.header}\n    {body}", seed)
        for got in [] if problem.judge else worthless(problem, seed):
            assert earned(problem.points, counted, {case for case, why in got.items() if why}) == 0.0, seed


@SLOW
@every_question
def test_terms_differ(name, question):
    """Many different functions to write, and hardly one that the example's solution solves."""
    problem = assignment(name).question(question)
    others = {seed: assignment(name, seed).question(question) for seed in SEEDS[1:]}
    if not problem.judge:
        assert len({other.solution for other in others.values()}) >= (FAULTS if problem.fault else FORMS)
        assert sum(not wrong_cases(other, problem.solution, seed) for seed, other in others.items()) <= SOLVED


@SLOW
@every_question
def test_mistakes_are_refused_and_right_answers_kept_whatever_the_cases(name, question):
    """The example's question with the hidden cases of 32 terms."""
    problem = assignment(name, EXAMPLE_SEED).question(question)
    for term in [] if problem.judge else TERMS:
        for story, source in on_the_example(name, question).items():
            assert wrong_cases(problem, source, term), (story, term)
        for story, text in answers_of(name).RIGHT[question].items():
            assert wrong_cases(problem, written(name, question, text), term) == {}, (story, term)


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


@every_question
@pytest.mark.parametrize("terms", [TERMS[:1], pytest.param(TERMS[1:], marks=SLOW)], ids=["one", "others"])
def test_an_answer_in_single_precision_is_right(name, question, terms):
    for term in terms:
        problem = assignment(name, term).question(question)
        assert problem.judge or wrong_cases(problem, halved(problem.solution, problem.function), term) == {}, term


# What is told of a mistake


def test_hidden_cases_are_the_terms_own_and_stay_the_same_whatever_the_type_of_torch():
    """The tests and the notebook draw in float64 and the grader did in float32: then they tried other cases."""
    drawn = []
    for seed, kind in (("a", torch.float32), ("a", torch.float64), ("b", torch.float32)):
        torch.set_default_dtype(kind)
        try:
            cases, right = hidden.__wrapped__(assignment("hw2_gae", seed).question("q2"), seed)
        finally:
            torch.set_default_dtype(torch.float32)
        drawn.append(str([(case.name, case.inputs) for case in cases]) + str(right))
    assert drawn[0] == drawn[1] != drawn[2]


INFINITE = float("inf")


SQUARE, ONE = [[1.5, 2.0], [3.0, 4.25]], 3.5


@pytest.mark.parametrize(("right", "data", "why"), [
    (SQUARE, [1.5, 2.0, 3.0, 4.25], ""), (SQUARE, [1.5, 2.0, 3.0, 4.25 + 4 * CLOSE], ""),
    (SQUARE, [1.5, 2.0, 3.5, 5.25],
     "2 of 4 entries are wrong, the first at [1, 0], all in row 1; off by the order of 1"),
    (SQUARE, [1.5, 2.5, 3.0, 4.75],
     "2 of 4 entries are wrong, the first at [0, 1], all in column 1; off by the order of 0.1"),
    (SQUARE, [1.5, float("nan"), 3.0, 4.25],
     "1 of 4 entries are wrong, the first at [0, 1], all in row 0; 1 of them is not a number (NaN)"),
    (SQUARE, [1.5, 2.0, INFINITE, -INFINITE],
     "2 of 4 entries are wrong, the first at [1, 0], all in row 1; 2 of them are infinite"),
    (SQUARE, [1.5, 2.0, 3.0], "wanted 4 numbers; got 3"), (SQUARE, ["a", 2.0, 3.0, 4.25], "wanted numbers"),
    (SQUARE, [10**400, 2.0, 3.0, 4.25], "wanted numbers"),
    (ONE, [4.0], "the value is too large, off by the order of 0.1"),
    (ONE, [3.1234], "the value is too small, off by the order of 0.1"),
    (ONE, [3.5 + 4e-4], "the value is too large, off by the order of 0.0001"),
    (ONE, [-3.5], "the value has the wrong sign"), (ONE, [float("nan")], "the value is not a number (NaN)"),
    (ONE, [INFINITE], "the value is infinite"),
])  # fmt: skip
def test_what_differs_is_told_by_its_place_side_and_order_without_the_answer(right, data, why):
    right = torch.tensor(right).double()
    assert differs([{"shape": [*right.shape], "data": data}], [right]) == why


def test_which_of_several_arrays_is_wrong_is_told():
    right = [torch.tensor([1.5, INFINITE]).double(), torch.tensor(2.0).double()]
    got = [{"shape": [2], "data": [1.5, INFINITE]}, {"shape": [], "data": [1.0]}]
    assert differs(got, right, ["the value", "the gradient by eta"]).startswith("the gradient by eta is too small")
    assert differs(got, right) == "array 1 is too small, off by the order of 1"
    assert differs([], right) == "wanted 2 arrays; got 0"
    assert differs([{"shape": [2, 1], "data": [1.5, 2.0]}], right[:1]) == "wanted shape (2,); got [2, 1]"
    assert differs([{"shape": [2], "data": [1.5, 2.0]}], right[:1]).endswith("1 of them is finite and must not be")
