"""An assignment as the notebook that nbgrader calls the source: questions, solutions, visible and hidden checks."""

from __future__ import annotations

from typing import Any

import nbformat
import torch
from torch import Tensor

from .marking import copied, parts_of
from .question import Assignment, Code, Question, Written
from .tried_out import literal

SCHEMA = 3  # of nbgrader's cell metadata
HOW = """**How this works.** Write your code and your answers in the cells that say so; add cells wherever you like.
Below each function a check compares it with one small example and says what differs. Its grade comes from hidden
cases of the same kind: a function gets its points if all of them agree (to about five digits), in any style, loops or
not; otherwise a share of them, by how many agree of the cases that neither an empty answer nor the code as you were
given it gets right. For that your cells run in a fresh process, from the top and without network or files, with
{seconds:.0f} seconds for a case; checks and experiments are left out. Answers on paper and experiments are marked by a
person.
Before you hand in: restart the kernel, run all, and `python -m minerva_book.exercises {name}.ipynb`."""


def nbgrader_cell(kind: str, source: str, grade_id: str, *, solution: bool = False, points: int | None = None) -> Any:
    """A cell that students fill in (`solution`), or read and that grading restores; with points it is marked."""
    made = nbformat.v4.new_code_cell(source) if kind == "code" else nbformat.v4.new_markdown_cell(source)
    graded = {} if points is None else {"points": points}
    about = {"grade": bool(graded), "grade_id": grade_id, "locked": not solution, "solution": solution}
    made.metadata["nbgrader"] = about | {"schema_version": SCHEMA, "task": False} | graded
    return made


def rounded(tensor: Tensor) -> list:
    return torch.round(tensor, decimals=8).tolist()


def kind_of(question: Question) -> str:
    if isinstance(question, Code):
        return "Find the bug" if question.fault else "Code"
    return "On paper" if isinstance(question, Written) else "Experiment"


def heading(question: Question) -> str:
    number = question.name.removeprefix("q")
    return (
        f"## {number}. {question.title}\n\n"
        f"*{kind_of(question)}, {question.points} points, about {question.minutes} minutes. "
        f"You learn: {question.goal}*\n\n{question.text.strip()}"
    )


def example_cell(question: Code) -> str:
    """The check that students see: one example and its answer, as plain numbers."""
    inputs = ",\n".join(f"    {name}={literal(value)}" for name, value in question.example.inputs.items())
    wanted = ", ".join(str(rounded(part)) for part in parts_of(question.oracle(**copied(question.example.inputs))))
    names = ", ".join(question.example.inputs)
    plain = Code.__dataclass_fields__["call"].default
    called = (
        question.function
        if question.call == plain
        else f"lambda {names}: {question.call.replace('answer', question.function)}"
    )
    leaves = f", gradients={question.leaves}" if question.leaves else ""
    told = 'print("The example agrees. The hidden cases are harder.")'
    return f"example = dict(\n{inputs},\n)\ncheck_example({called}, example, [{wanted}]{leaves})\n{told}"


def cells_of(assignment: Assignment, question: Question, reach: str) -> list[Any]:
    name = question.name
    cells = [nbgrader_cell("markdown", heading(question), f"{name}-text")]
    if isinstance(question, Code):
        if question.fault:
            faulty = question.faulty.replace(f"def {question.function}(", f"def faulty_{question.function}(", 1)
            cells.append(nbgrader_cell("code", f"# One mistake is in here.\n{faulty}", f"{name}-faulty"))
        if question.setup:
            cells.append(nbgrader_cell("code", question.setup, f"{name}-setup"))
        body = f"    ### BEGIN SOLUTION\n{question.body.rstrip()}\n    ### END SOLUTION"
        cells.append(nbgrader_cell("code", f"{question.header}\n{body}", f"{name}-code", solution=True))
        shown = (example_cell(question) if question.example else question.visible) + "\n"
        secret = f'import sys\n\nsys.path.insert(0, "{reach}")\nfrom course.here import full_marks\n\n'
        secret += f'full_marks("{assignment.name}", "{name}", {question.function})\n'
        test = f"{shown}### BEGIN HIDDEN TESTS\n{secret}### END HIDDEN TESTS"
        return [*cells, nbgrader_cell("code", test, f"{name}-marked", points=question.points)]
    if not isinstance(question, Written):
        code = f"### BEGIN SOLUTION\n{question.code.strip()}\n### END SOLUTION"
        cells.append(nbgrader_cell("code", code, f"{name}-run", solution=True))
    rubric = f"=== BEGIN MARK SCHEME ===\n\n**Rubric.** {question.rubric.strip()}\n\n=== END MARK SCHEME ==="
    answer = f"### BEGIN SOLUTION\n\n{question.solution.strip()}\n\n{rubric}\n\n### END SOLUTION"
    return [*cells, nbgrader_cell("markdown", answer, f"{name}-answer", solution=True, points=question.points)]


def notebook(assignment: Assignment, *, seconds: float, reach: str = "../..") -> nbformat.NotebookNode:
    """The source notebook, not executed. reach: from where it lies to the folder that holds `course`."""
    table = "\n".join(
        f"| {q.name.removeprefix('q')} | {q.title} | {kind_of(q).lower()} | {q.points} | {q.minutes} |"
        for q in assignment.questions
    )
    title = (
        f"# {assignment.title}\n\nGoes with {assignment.chapters}. {assignment.points} points, about "
        f"{assignment.minutes / 60:.1f} hours.\n\n{assignment.intro}\n\n"
        f"| | question | kind | points | minutes |\n|---|---|---|---|---|\n{table}\n\n"
        + HOW.format(seconds=seconds, name=assignment.name)
    )
    setup = f"{assignment.imports}\n\nfrom minerva_book.exercises import check_example\n\n"
    setup += "torch.set_default_dtype(torch.float64)"
    cells = [nbgrader_cell("markdown", title, "about"), nbgrader_cell("code", setup, "setup")]
    for question in assignment.questions:
        cells += cells_of(assignment, question, reach)
    book = nbformat.v4.new_notebook(cells=cells)
    book.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book.metadata["homework"] = {"name": assignment.name, "marked": [question.name for question in assignment.coded]}
    book.metadata["language_info"] = {"name": "python"}
    for place, cell in enumerate(book.cells):
        cell["id"] = f"{assignment.name.split('_')[0]}-{place:02d}"
    return book
