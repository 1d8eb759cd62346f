"""What an assignment is made of: questions for people to mark, and questions that a machine marks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # whoever reads students' files imports this package, and needs no torch
    from torch import Generator

EXAMPLE_SEED = "example"  # the one seed whose solutions are public


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs of one call of a student's function: tensors, numbers, strings, by name."""

    name: str
    inputs: dict[str, Any]  # in the order of the function's arguments


@dataclass(frozen=True, eq=False)
class Question:
    """What every question says of itself."""

    name: str  # "q1"
    title: str
    points: int
    minutes: int
    goal: str  # what answering it teaches
    text: str  # Markdown: what is asked, such as what a function must compute


@dataclass(frozen=True, eq=False)
class Written(Question):
    """A derivation or a short answer, marked by a person after the rubric."""

    solution: str  # Markdown
    rubric: str  # Markdown: what earns how many points


@dataclass(frozen=True, eq=False)
class Experiment(Question):
    """A plot and a short answer, marked by a person after the rubric."""

    code: str  # the solution's cell; what it draws ends in plt.show()
    solution: str  # the short answer, Markdown
    rubric: str


@dataclass(frozen=True, eq=False)
class Fault:
    """A planted mistake: the text of the solution that it replaces, and its story."""

    name: str
    old: str
    new: str
    story: str  # where it was seen; for the instructor


@dataclass(frozen=True, eq=False)
class Code(Question):
    """A function to write, marked by a machine: all points if every hidden case agrees, else a share."""

    function: str  # its name
    header: str  # "def …:" and the docstring with the shapes; what students are given
    body: str  # the rest of the solution, indented by four
    oracle: Callable[..., Any] | None  # the same by another, slower way, on its own: takes the inputs by name
    cases: Callable[[Generator], list[Case]]  # hidden ones, drawn anew for every term
    example: Case | None  # a small one, shown with its answer
    leaves: tuple[str, ...] = ()  # inputs by which the answer is also differentiated: their gradients are marked too
    call: str = "answer(*inputs.values())"  # by place, as names are the student's; every input is at hand by name too
    judge: Callable[[dict[str, Any], list[Any]], str] | None = (
        None  # instead of an oracle: inputs and arrays -> what is wrong
    )
    fault: Fault | None = None  # "find the bug": students are given the solution with this mistake
    visible: str = ""  # what students check by, where there is no example
    setup: str = ""  # code that stands above and that the function may use

    @property
    def solution(self) -> str:
        return f"{self.header}\n{self.body}"

    @property
    def faulty(self) -> str:
        """The text of a bug question's function with the mistake in it."""
        assert self.fault and self.solution.count(self.fault.old) == 1, f"{self.name}: {self.fault}"
        return self.solution.replace(self.fault.old, self.fault.new)


@dataclass(frozen=True, eq=False)
class Assignment:
    """A homework: its notebook is made of this and of nothing else."""

    name: str  # "hw2_gae"
    title: str
    chapters: str  # which chapters it goes with, Markdown
    questions: list[Question]
    intro: str = ""
    imports: str = "import math\n\nimport matplotlib.pyplot as plt\nimport torch"

    @property
    def coded(self) -> list[Code]:
        return [question for question in self.questions if isinstance(question, Code)]

    def question(self, name: str) -> Question:
        return next(question for question in self.questions if question.name == name)

    @property
    def points(self) -> int:
        return sum(question.points for question in self.questions)

    @property
    def minutes(self) -> int:
        return sum(question.minutes for question in self.questions)
