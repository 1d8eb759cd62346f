"""What is asked of every question before students get it: of the book's by the tests, of a pack's by `check`.

Each function tries one thing and gives what does not hold, in lines; nothing if it holds. The answers to try are a
module: WRONG, by question, stories with edits of the example seed's solution or a whole source; RIGHT, stories with
sources of other kinds; PACKAGE, what takes the answer from minerva_lite instead.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from . import assignment
from .here import answered
from .packs import NAMES, module_of, own_names, private
from .question import EXAMPLE_SEED, Assignment, Code

SEEDS = [EXAMPLE_SEED, *(f"term {n}" for n in range(1, 20))]
WRONG, RIGHT = 6, 3  # answers of each kind that a question is tried with, at least
FORMS, FAULTS = 10, 3  # different functions to write, and different faults to find, on twenty seeds, at least
SOLVED = 4  # of these seeds, whose question the example's solution may solve, at most
NUMBERS = re.compile("entries are wrong|wanted shape|too (large|small)|wrong sign")  # wrong, and not fallen over
FAULT = "FAULT"  # how a line of the report begins that needs work
BOOKS = Path(__file__).parents[3] / "tests" / "homework" / "answers"  # to try the book's own questions with


@dataclass(frozen=True)
class Subject:
    """An assignment that is tried, with the answers to try on it."""

    name: str
    pack: Path | None = None

    def at(self, seed: str = EXAMPLE_SEED) -> Assignment:
        return assignment(self.name, seed, self.pack) if self.pack else assignment(self.name, seed)

    def asked(self, question: str, seed: str = EXAMPLE_SEED) -> Code:
        found = self.at(seed).question(question)
        assert isinstance(found, Code), question
        return found

    @property
    def answers(self) -> Any:
        return answers_of(self.name, self.pack)


@functools.cache
def answers_of(name: str, pack: Path | None = None) -> Any:
    """WRONG, RIGHT and PACKAGE of an assignment; for questions that a pack took from the book as they are, the book's.

    Raises FileNotFoundError: the pack has questions of its own and no answers.
    """
    short = name.split("_")[0]
    if pack is None:
        spec = importlib.util.spec_from_file_location(f"answers_{short}", BOOKS / f"{short}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    books, there = taken_over(name, pack), (pack / "answers" / f"{short}.py").exists()
    if not there and set(books) < {question.name for question in Subject(name, pack).at().coded}:
        raise FileNotFoundError(f"{name}: wanted answers to try in answers/{short}.py; there is no such file")
    own = module_of(pack / "answers", short) if there else SimpleNamespace()
    made = SimpleNamespace()
    for kind in ("WRONG", "RIGHT", "PACKAGE"):
        of_book = getattr(answers_of(name), kind) if books else {}
        setattr(made, kind, {q: of_book[q] for q in books if q in of_book} | getattr(own, kind, {}))
    return made


def taken_over(name: str, pack: Path) -> list[str]:
    """Questions that a pack's assignment has from the book's of the same name, as they are."""
    if name not in NAMES:
        return []
    books = {q.name: q for q in assignment(name).coded}
    kept = [q for q in Subject(name, pack).at().coded if q.name in books]
    return [q.name for q in kept if (q.text, q.solution) == (books[q.name].text, books[q.name].solution)]


def edited(text: str, edits: list[tuple[str, str]]) -> str:
    """Raises ValueError unless each old text stands there once."""
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"wanted the text once, found {text.count(old)}: {old!r} in\n{text}")
        text = text.replace(old, new)
    return text


def verdict(question: Code, source: str, seed: str = EXAMPLE_SEED, *, threads: int = 1) -> dict[str, str]:
    """Case -> what is wrong with the function that `source` defines, "" where nothing is. In this process."""
    before = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)  # as the notebook's first cell does
    torch.set_num_threads(threads)
    try:
        namespace: dict[str, Any] = {}
        exec("import math\nimport torch", namespace)
        exec(question.setup, namespace)
        exec(source, namespace)
        return answered(question, namespace[question.function], seed)
    finally:
        torch.set_default_dtype(before[0])
        torch.set_num_threads(before[1])


def is_right(question: Code, source: str, seed: str = EXAMPLE_SEED, **kwargs: Any) -> bool:
    return not any(verdict(question, source, seed, **kwargs).values())


def complete(subject: Subject) -> Iterator[str]:
    """Numbered questions, points, minutes, goals, texts, rubrics; and the same ones, worth the same, on every seed."""
    made = subject.at()
    if [question.name for question in made.questions] != [f"q{n}" for n in range(1, len(made.questions) + 1)]:
        yield f"wanted questions q1, q2, … in order; got {', '.join(q.name for q in made.questions)}"
    for q in made.questions:
        missing = [each for each in ("title", "goal", "text") if not getattr(q, each).strip()]
        missing += [each for each in ("points", "minutes") if not getattr(q, each) > 0]
        wanted = () if isinstance(q, Code) else ("rubric", "solution")
        missing += [each for each in wanted if not getattr(q, each).strip()]
        if missing:
            yield f"{q.name}: nothing stands in its {', '.join(missing)}"
        if isinstance(q, Code):
            if f"`{q.function}`" not in q.text and f"`faulty_{q.function}`" not in q.text:
                yield f"{q.name}: its text does not name the function, `{q.function}`"
            if not (q.example and q.oracle or q.visible):
                yield f"{q.name}: there is no example, and nothing visible in its place"
            if not (q.oracle or q.judge):
                yield f"{q.name}: there is neither an oracle nor a judge"
    for seed in SEEDS[1:]:
        other = subject.at(seed)
        if [frame(q) for q in other.questions] != [frame(q) for q in made.questions]:
            yield f"{seed}: other questions or points than with the example's seed; a seed draws forms and constants"


def frame(question: Any) -> tuple:
    """What is the same for every seed: the gradebook knows it."""
    return type(question), question.name, question.points, question.minutes, bool(getattr(question, "setup", ""))


def written_out(subject: Subject, seed: str) -> Iterator[str]:
    """No brace of a template, no float's tail, even dollars, nothing that shows the solution."""
    for question in subject.at(seed).questions:
        for text in (question.title, question.goal, question.text, getattr(question, "header", "")):
            if odd := re.search(r"\d\.\d{7,}|\{\{|\bNone\b|<function", text):
                yield f"{seed}, {question.name}: {odd[0]!r} stands in what students read"
        if question.text.count("$") % 2:
            yield f"{seed}, {question.name}: an odd number of dollars"
        plain = re.sub(r"\\[{}]", "", question.text)
        if plain.count("{") != plain.count("}"):
            yield f"{seed}, {question.name}: a brace without its fellow"
        if isinstance(question, Code):
            body = [line.strip() for line in question.body.splitlines() if len(line.strip()) > 24]
            if told := [line for line in body if line in question.text + question.header]:
                yield f"{seed}, {question.name}: the text shows the solution's {told[0]!r}"


def reference_right(subject: Subject, question: str, *, threads: int = 1) -> Iterator[str]:
    """The solution has full marks on twenty seeds."""
    for seed in SEEDS:
        asked = subject.asked(question, seed)
        wrong = {case: why for case, why in verdict(asked, asked.solution, seed, threads=threads).items() if why}
        if wrong:
            yield f"{seed}: the reference is refused: {wrong}"


def fault_seen(subject: Subject, question: str) -> Iterator[str]:
    """What is handed out with a fault fails on twenty seeds, and a term's fault is not the example's."""
    if not subject.asked(question).fault:
        return
    planted = set()
    for seed in SEEDS:
        asked = subject.asked(question, seed)
        assert asked.fault
        planted.add(asked.fault.name)
        if is_right(asked, asked.faulty, seed):
            yield f"{seed}: the fault is not seen: {asked.fault.name}"
        if not asked.fault.story:
            yield f"{seed}: the fault has no story: {asked.fault.name}"
    if len(planted) < FAULTS:
        yield f"wanted {FAULTS} different faults on twenty seeds; got {len(planted)}"


def wrong_refused(subject: Subject, question: str) -> Iterator[str]:
    """Six wrong answers at least, each refused for its numbers: that one could not be called would prove nothing."""
    asked, tried = subject.asked(question), subject.answers.WRONG.get(question, {})
    if len(tried) < WRONG:
        yield f"wanted {WRONG} wrong answers to try; got {len(tried)}"
    for story, edits in tried.items():
        got = verdict(asked, edits if isinstance(edits, str) else edited(asked.solution, edits))
        if not any(got.values()):
            yield f"not seen: {story}"
        elif all("Error" in why for why in got.values() if why):
            yield f"falls over rather than being wrong: {story}: {got}"


def right_accepted(subject: Subject, question: str) -> Iterator[str]:
    """Three right answers of other kinds at least, with one thread and with two."""
    asked, tried = subject.asked(question), subject.answers.RIGHT.get(question, {})
    if len(tried) < RIGHT:
        yield f"wanted {RIGHT} right answers of other kinds to try; got {len(tried)}"
    for story, source in tried.items():
        for threads in (1, 2):
            wrong = {case: why for case, why in verdict(asked, source, threads=threads).items() if why}
            if wrong:
                yield f"refused though right, with {threads} threads: {story}: {wrong}"


def package_refused(subject: Subject, question: str) -> Iterator[str]:
    """The package's own function loses the marks, by shape or by value."""
    if question in subject.answers.PACKAGE:
        got = verdict(subject.asked(question), subject.answers.PACKAGE[question])
        if not any(NUMBERS.search(why) for why in got.values()):
            yield f"the package's own function is not wrong by its numbers: {got}"


def idle_refused(subject: Subject, question: str) -> Iterator[str]:
    """No work is no marks."""
    asked = subject.asked(question)
    for body in ("raise NotImplementedError()", "return 0.0"):
        if is_right(asked, f"{asked.header}\n    {body}"):
            yield f"full marks for `{body}`"


def terms_differ(subject: Subject, question: str) -> Iterator[str]:
    """On twenty seeds: many different functions to write, and hardly one that the example's solution solves."""
    asked = subject.asked(question)
    if asked.judge:
        return
    others = {seed: subject.asked(question, seed) for seed in SEEDS[1:]}
    wanted = FAULTS if asked.fault else FORMS
    if len({other.solution for other in others.values()}) < wanted:
        got = len({other.solution for other in others.values()})
        yield f"wanted {wanted} different functions on twenty seeds; got {got}"
    solved = [seed for seed, other in others.items() if is_right(other, asked.solution, seed)]
    if len(solved) > SOLVED:
        yield f"the example's solution solves {len(solved)} of {len(others)} terms"


def kept_back(subject: Subject, seed: str) -> Iterator[str]:
    """What nbgrader makes of the source for students holds no line of a solution, hidden check or rubric."""
    import json

    from .leaks import MARKS, leaks, telling
    from .variants import cleared  # imported here: nbgrader takes seconds

    made = subject.at(seed)
    lines = telling(made)
    if untold := [name for name, found in lines.items() if not found]:
        yield f"{seed}: {', '.join(untold)}: the solution has no line of its own, so that nobody can look for it"
    text = json.dumps(cleared(made), ensure_ascii=False)
    for name in leaks(text, lines):
        yield f"{seed}: {name}: a line of its solution stands in what is handed out"
    for mark in MARKS:
        if mark in text:
            yield f"{seed}: {mark!r} stands in what is handed out"


QUESTION: dict[str, Callable[[Subject, str], Iterator[str]]] = {
    "the reference has full marks on 20 seeds": reference_right,
    "its fault is seen on 20 seeds": fault_seen,
    "wrong answers are refused for their numbers": wrong_refused,
    "right ones of other kinds are accepted": right_accepted,
    "the package's own function is refused": package_refused,
    "no work is no marks": idle_refused,
    "terms differ": terms_differ,
}
ASSIGNMENT: dict[str, Callable[[Subject], Iterable[str]]] = {
    "points, minutes, goals, rubrics are there": complete,
    "texts are written out": lambda subject: [line for seed in SEEDS for line in written_out(subject, seed)],
    "nothing handed out holds a solution": lambda subject: [x for seed in SEEDS[:4] for x in kept_back(subject, seed)],
}


def reported(pack: Path | None, names: Iterable[str] = ()) -> Iterator[str]:
    """All checks of a pack's assignments (of the book's without one), a line for each that holds, and a line that
    begins with FAULT for each thing that does not.

    Raises ValueError: the pack has no assignment, or not one of these names.
    """
    pack = pack and private(pack)
    own = own_names(pack) if pack else NAMES
    if unknown := [name for name in names if name not in own]:
        raise ValueError(f"pack {pack}: wanted one of {', '.join(own)}; got {', '.join(unknown)}")
    total = 0
    for name in names or own:
        subject = Subject(name, pack)
        yield f"{name}: {subject.at().title}"
        if pack and (books := taken_over(name, pack)):
            yield f"  {', '.join(books)}: the book's, whose solutions are public"
        tried = [(told, "", functools.partial(test, subject)) for told, test in ASSIGNMENT.items()]
        tried += [
            (told, f"{question.name}: ", functools.partial(test, subject, question.name))
            for question in subject.at().coded
            for told, test in QUESTION.items()
            if question.fault or test is not fault_seen
        ]
        for told, which, test in tried:
            found = lines_of(test)
            total += len(found)
            yield from (f"{FAULT} {name} {which}{line}" for line in found)
            if not found:
                yield f"  {which}{told}"
    yield f"{total} things do not hold" if total else "everything holds"


def lines_of(test: Callable[[], Iterable[str]]) -> list[str]:
    """What a check says; an error of the pack's own is something that does not hold as well."""
    found = []
    try:
        for line in test():
            found.append(" ".join(line.split()))
    except Exception as error:  # whatever the pack's code does
        found.append(f"{type(error).__name__}: {' '.join(str(error).split())}")
    return found
