"""What passes in Jupyter passes where it is graded, and the self-check says before what the grader will say."""

from __future__ import annotations

import copy
import datetime
import os
import re
import runpy
import sys
from dataclasses import replace

import nbclient
import nbformat
import numpy
import pytest
import torch
from nbgrader.utils import determine_grade

from minerva_book.exercises import answers, check_example, loading, selfcheck
from minerva_book.exercises.loading import load
from minerva_book.exercises.submission import code_to_run

from .hostile import MADE, NAME, SOLUTION, WRONG_Q2
from .trials import apart, filled

from course import captured, graders, reading  # isort: skip - found by what trials puts on the path
from course.graders import about, rebuilt, to_run  # isort: skip
from course.isolation import Limits  # isort: skip
from course.marking import mark_cells  # isort: skip
from course.variants import cleared  # isort: skip

LIMITS = Limits(cell_seconds=1.0, own_seconds=2.0, case_seconds=1.0)
BOUNDS = selfcheck.Bounds(cell_seconds=1.0, own_seconds=2.0, case_seconds=1.0)
QUESTIONS = {"q2", "q3", "q4"}


RELEASE = cleared(MADE)
STUBS = {cell.metadata.nbgrader.grade_id: cell.source for cell in RELEASE.cells}


def handed_in(answers: dict[str, str] | None = None, **texts: str):
    """The released notebook with solutions (or `answers`, by the question), and cells' texts by name, "_" for "-"."""
    return filled(copy.deepcopy(RELEASE), SOLUTION | (answers or {}), **texts)


def with_added(made, after: str, *sources: str, markdown: bool = False):
    """With cells of the student's behind a released one."""
    kind = nbformat.v4.new_markdown_cell if markdown else nbformat.v4.new_code_cell
    (place,) = (n for n, cell in enumerate(made.cells) if about(cell).get("grade_id") == after)
    made.cells[place + 1 : place + 1] = [kind(source) for source in sources]
    return made


def without(made, *names: str):
    made.cells = [cell for cell in made.cells if cell.metadata.nbgrader.grade_id not in names]
    return made


def graded(made) -> dict[str, str]:
    """Question -> why the grader gives nothing for it, "" where it gives full marks."""
    marks, _ = mark_cells(MADE, to_run(rebuilt(RELEASE, made)), "example", LIMITS)
    return {name: "" if each.full else each.reason for name, each in marks.items()}


def checked(made) -> dict[str, str]:
    return selfcheck.tried(code_to_run(made)[0], selfcheck.checks(made), BOUNDS)[0]


SPIN = "import time\nended = time.process_time() + {}\nwhile time.process_time() < ended:\n    pass\n"
JIT = """@torch.jit.script
def of_script(one: torch.Tensor, other: torch.Tensor, factor: float) -> torch.Tensor:
    return one + factor * other

"""
AWAITED = "import asyncio\n\nasync def soon():\n    return 1.0\n\nONE = await soon()\n"
HELPED = SOLUTION["q2"].replace("    earned =", "    assert below() == 1\n    earned =", 1)
ENDLESS = "def critic_loss(*inputs):\n    while True:\n        pass"


def in_jupyter():
    """A magic, a changed given cell, a helper below, a script, an await, and torch changed by an experiment."""
    answers = {"q2": "%%time\n" + HELPED.replace("below() == 1", "below() < np.pi")}
    answers |= {"q3": JIT + SOLUTION["q3"], "q4": AWAITED + SOLUTION["q4"]}
    made = handed_in(answers, setup="import numpy as np\n" + STUBS["setup"])
    changed = "def below():\n    return 1\ntorch.set_grad_enabled(False)\ntorch.set_default_dtype(torch.float32)"
    return with_added(made, "q4-marked", changed)


JUPYTER = "what passes in Jupyter"
# Notebook -> the questions that it earns; "" for a notebook that is no work.
NOTEBOOKS = {
    "as released": (lambda: copy.deepcopy(RELEASE), ""),
    JUPYTER: (in_jupyter, "q2 q3 q4"),
    "deleted cells": (lambda: without(handed_in(), "setup", "q2-text", "q3-code", "q4-marked"), "q2 q4"),
    "wrong": (lambda: handed_in({"q2": WRONG_Q2}), "q3 q4"),
    "endless": (lambda: handed_in({"q3": ENDLESS}), "q2 q4"),
    "slow experiments": (
        lambda: with_added(
            handed_in({"q2": HELPED}), "setup", *[SPIN.format(1.5)] * 4, SPIN.format(1.5) + "def below():\n    return 1"
        ), "q2 q3 q4"),
}  # fmt: skip


@apart
@pytest.mark.parametrize(
    "name", [JUPYTER, *(pytest.param(name, marks=pytest.mark.slow) for name in NOTEBOOKS if name != JUPYTER)]
)
def test_the_self_check_and_the_grader_agree(name):
    make, earns = NOTEBOOKS[name]
    marks, verdicts = graded(make()), checked(make())
    for found in (marks, verdicts):
        assert {question for question, why in found.items() if not why} == {*earns.split()}, (marks, verdicts)
    assert name != "endless" or "took longer than it may" in marks["q3"] and "took longer than it may" in verdicts["q3"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_self_check_runs_the_cells_that_the_grader_runs(name):
    made = NOTEBOOKS[name][0]()
    assert code_to_run(made)[0] == to_run(rebuilt(RELEASE, made))


def test_the_self_check_has_the_graders_limits():
    limits, bounds = Limits(), selfcheck.Bounds()
    for name in ("cell_seconds", "own_seconds", "case_seconds", "memory"):
        assert getattr(limits, name) == getattr(bounds, name), name
    sizes = (selfcheck.LARGEST, selfcheck.WRITTEN, selfcheck.CELLS)
    assert sizes == (reading.ON_DISK, reading.WRITTEN, graders.CELLS)


@pytest.mark.parametrize("answer", [
    1, 2.5, True, torch.arange(3), torch.ones(2, 2, dtype=torch.float32), numpy.ones((1, 3)), [1.0, [2.0][0]], (1, 2),
    (torch.ones(2), 3.0), [numpy.zeros(2), torch.ones(1)], torch.tensor(1.0, requires_grad=True), "a", None, object(),
    torch.ones(2, dtype=torch.complex64), [[1.0], [1.0, 2.0]],
])  # fmt: skip
def test_what_the_grader_took_hold_of_reads_answers_as_the_self_check_does(answer):
    def read(plain):
        try:
            return plain(answer)
        except (TypeError, ValueError) as error:
            return type(error)

    assert read(captured.plain) == read(answers.plain)


# The loader by itself


@pytest.fixture
def cells(monkeypatch):
    """Runs cells in this process: the namespace, and what was told by cell."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    default = torch.get_default_dtype()

    def loaded(*sources, **seconds):
        told = {}
        given = [source if isinstance(source, dict) else {"source": source} for source in sources]
        found = load(
            [{"id": str(place)} | cell for place, cell in enumerate(given)],
            lambda **frame: told.update({frame["cell"]: frame["error"]} if "cell" in frame else {}),
            **seconds,
        )
        return found, vars(found.module), told

    yield loaded
    torch.set_default_dtype(default)
    torch.set_grad_enabled(True)


MAGICS = ("%%time", "%%timeit -n1 -r 1", "%%capture", "%%prun -l 5", "\n\n%%time", "%%capture out\n%%time")
IS_ONE = {"f()": 1}
LOADS = {  # cells, what is told by cell, and what there is afterwards
    **{f"{magic} runs its body": ([f"{magic}\nimport math\ndef f():\n    return 1 + 0 * math.pi"], {}, IS_ONE)
       for magic in MAGICS},
    "an indent is taken away": (["    def f():\n        return 1\n"], {}, IS_ONE),
    "a prompt is taken away": ([">>> def f():\n...     return 1"], {}, IS_ONE),
    "a prompt of IPython's is taken away": (["In [1]: def f():\n   ...:     return 1"], {}, IS_ONE),
    "a cell magic runs what stands beside it": (
        ["%%timeit -n 3 -r1 start = 2\nend = start + 1", "%%capture out\npass", "text = out.stdout"],
        {}, {"start, end, text": (2, 3, "")}),
    "line magics do no harm, and time runs its statement": ([
        "%matplotlib inline\n%load_ext autoreload\n!pip install nothing\n%pip install nothing\nfiles = !ls\nx = 1",
        "y = %time x + 1\n%time z = x + 2\ndef f(n):\n    w = %time n + x\n    return w\nf?",
        "w = f(3)\nget_ipython().run_line_magic('matplotlib', 'inline')\ndisplay(w)",
        "from IPython import get_ipython", "%matplotlib inline\nlast = __name__",
    ], {}, {"files, x, y, z, w, last": ([], 1, 2, 3, 4, "__main__")}),
    "what is not done here is told as what it is": ([
        "%%bash\nls", "%run other.py\nx = 1", "name = input('who? ')", "%time )(\nx = 2", "def f(:\n    pass", "1 / 0",
        "y = x",
    ], {
        "0": "%%bash does nothing here, and what stands below it was not run", "1": "%run does nothing here",
        "2": "RuntimeError: input() waits for somebody to type, and nobody is there when this runs by itself",
        "3": "SyntaxError: unmatched ')' (<%time>, line 1)", "4": "SyntaxError: invalid syntax (line 1)",
        "5": "ZeroDivisionError: division by zero",
    }, {"y": 1}),
    "await stands at the top of a cell, and a task outlives it": ([
        "import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x",
        "a = await f(1)\ntask = asyncio.ensure_future(f(2))", "b = await task", "raise ValueError(await f('awaited'))",
        "%%time\nc = await f(3)",
    ], {"3": "ValueError: awaited"}, {"a, b, c": (1, 2, 3)}),
    "the text of a function is found by `inspect`, a traceback and `torch.jit.script`": ([
        "%%time\ndef f():\n    raise KeyError('here')",
        "import inspect, traceback\ntext = inspect.getsource(f)\n"
        "try:\n    f()\nexcept KeyError:\n    trace = traceback.format_exc()",
        "import torch\n@torch.jit.script\ndef g(x: torch.Tensor) -> torch.Tensor:\n    return x + 1",
    ], {}, {"text": "def f():\n    raise KeyError('here')\n", "\"    raise KeyError('here')\" in trace": True,
            "float(g(torch.zeros(())))": 1.0}),
    "no `from __future__` of the loader's file comes into a cell": (
        ["def f(x: 1 + 1):\n    pass"], {}, {"f.__annotations__": {"x": 2}}),
}  # fmt: skip


@pytest.mark.parametrize("story", LOADS)
def test_a_cell_is_run_as_jupyter_runs_it(story, cells):
    sources, wanted, values = LOADS[story]
    _, names, told = cells(*sources)
    assert told == wanted and {what: eval(what, names) for what in values} == values


def test_a_cell_whose_time_is_up_still_defines(cells):
    """The code above and below the line at which it was stopped, whatever it catches; but nothing slow."""
    slow = "try:\n    " + SPIN.format(5).replace("\n", "\n    ").rstrip() + "\nexcept Exception:\n    pass\n"
    _, names, told = cells(
        f"A = 1\n{slow}B = [2]\ndef f():\n    return B\nfor _ in [0]:\n    C = 3",
        "%%time\n" + SPIN.format(5) + "def g():\n    return 4",
        cell_seconds=0.1,
    )
    assert set(told) == {"0", "1"} and all("took longer than it may" in why for why in told.values())
    assert (names["A"], names["f"](), names["g"]()) == (1, [2], 4) and "C" not in names


def test_the_definitions_of_a_stopped_cell_are_measured_anew(monkeypatch):
    """Whoever ends cells from outside would else end this one, with all that it defines."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    frames = []
    load([{"id": "slow", "source": SPIN.format(5)}], lambda **frame: frames.append(frame), cell_seconds=0.1)
    assert [frame.get("begins", "told") for frame in frames] == ["slow", "slow", "told", None]


def test_added_cells_share_a_budget_and_given_ones_do_not(cells):
    own = {"source": SPIN.format(0.2), "own": True}
    _, names, told = cells(own, own, own, {"source": "D = 1\nprint(1 / 0)", "own": True}, "E = 1 + 1", own_seconds=0.3)
    assert names["D"] == 1 and names["E"] == 2
    assert "0" not in told and "took longer" in told["1"] and "4" not in told
    assert told["2"] == told["3"] == "the time of all added cells is up: only what it defines was run"


def test_torch_stands_as_it_did_below_the_function(cells):
    found, *_ = cells(
        "import torch\ntorch.set_default_dtype(torch.float64)",
        "torch.set_default_dtype(torch.float16)\ntorch.set_grad_enabled(False)",
    )
    found.as_after("0")
    assert torch.get_default_dtype() == torch.float64 and torch.is_grad_enabled()


# What the example of a notebook accepts is what the hidden cases accept


def test_the_example_is_compared_as_hidden_cases_are():
    large, example = [1000.0, float("inf")], {"x": torch.tensor([1.0])}
    check_example(lambda x: [1000.009, float("inf")], example, [large])
    check_example(lambda x: 2.0, example, [2.0])
    for wrong in ([1000.02, float("inf")], [1000.0, 5.0], [float("nan"), float("inf")]):
        with pytest.raises(AssertionError, match="1 of 2 entries are wrong"):
            check_example(lambda x, wrong=wrong: torch.tensor(wrong), example, [large])
    with pytest.raises(AssertionError, match="the example: wanted numbers; got str"):
        check_example(lambda x: "two", example, [2.0])


def test_a_notebook_shows_a_checks_sentence_alone_and_the_lines_of_a_students_own_error():
    made = handed_in({"q2": WRONG_Q2, "q3": STUBS["q3-code"], "q4": "def mixed_return(*given):\n    return given[7]"})
    nbclient.execute(made, allow_errors=True)
    shown = {about(c)["grade_id"]: c.outputs[0].get("traceback") for c in made.cells if c.get("outputs")}
    (sentence,) = shown["q2-marked"]
    assert re.match(r"not right yet: the example: \d of 6 entries are wrong; the first, at ", sentence)
    assert shown["q3-marked"] == ["not answered yet"]
    assert "return given[7]" in re.sub(r"\x1b\[[\d;]*m", "", "\n".join(shown["q4-marked"]))


# Given cells, and answers that stand elsewhere


def test_a_changed_given_cell_runs_behind_the_given_one_and_that_is_told():
    made = handed_in(setup="import numpy as np\n" + STUBS["setup"], q4_faulty="FAULTY = 1", about="Nothing.")
    done = rebuilt(RELEASE, made)
    sources = [cell["source"] for cell in to_run(done)]
    assert sources[:2] == [STUBS["setup"], "import numpy as np\n" + STUBS["setup"]]
    place = sources.index("FAULTY = 1")
    assert sources[place - 1] == STUBS["q4-faulty"]
    told = "was changed; your version was run after the given one."
    assert done.metadata[graders.NOTE] == f"The given cell setup {told} The given cell q4-faulty {told}"
    again = rebuilt(RELEASE, done)
    assert [cell["source"] for cell in to_run(again)] == sources
    spaces = handed_in(setup=STUBS["setup"].replace("\n", "  \n") + "\n")
    assert graders.NOTE not in rebuilt(RELEASE, spaces).metadata


def test_a_copy_of_an_empty_cell_empties_nothing():
    made = handed_in()
    made.cells += [copy.deepcopy(cell) for cell in RELEASE.cells]
    assert to_run(rebuilt(RELEASE, made)) == to_run(rebuilt(RELEASE, handed_in()))


def grade_of(made, name: str) -> float | None:
    """nbgrader's own: 0, or None where a person is asked."""
    (cell,) = (c for c in rebuilt(RELEASE, made).cells if about(c).get("grade_id") == name)
    return determine_grade(cell)[0]


def added(after: str, *sources: str, markdown: bool = True):
    return with_added(handed_in(), after, *sources, markdown=markdown)


@pytest.mark.parametrize(("made", "name", "grade"), [
    (handed_in(), "q1-answer", 0), (handed_in(), "q5-answer", 0), (added("q1-answer", "By it."), "q1-answer", None),
    (added("q1-answer", "By linearity."), "q5-answer", 0), (added("q1-text", "Above it."), "q1-answer", None),
    (added("q5-answer", "print()", markdown=False), "q5-answer", None), (added("q1-answer", " \n"), "q1-answer", 0),
    (handed_in(q5_run="plt.plot([1, 2])"), "q5-answer", None), (added("q2-marked", "Of another."), "q1-answer", 0),
])  # fmt: skip
def test_an_answer_beside_its_cell_is_for_a_person(made, name, grade):
    assert grade_of(made, name) == grade


def test_an_answer_below_its_cell_moves_in_and_a_picture_stays():
    cells = rebuilt(RELEASE, added("q1-answer", "By linearity.", "![](attachment:scan.png)", " ")).cells
    (place,) = (n for n, c in enumerate(cells) if about(c).get("grade_id") == "q1-answer")
    moved = "*This answer's cell was left as it was handed out. In added cells below it stood:*\n\nBy linearity."
    assert [c.source for c in cells[place : place + 3]] == [moved, "![](attachment:scan.png)", " "]


# What else the self-check says


def test_the_self_check_names_what_is_left_over_changed_deleted_or_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(
        selfcheck, "tried", lambda cells, questions: ({q["name"]: "" for q in questions}, {"cell 3": "slow"})
    )
    monkeypatch.setattr(selfcheck, "jupyter", lambda made: {"q5-run": ""})
    made = handed_in(setup="import os\n" + STUBS["setup"], q1_answer="Nearly.\n\nYOUR ANSWER HERE")
    made = with_added(without(made, "q3-text"), "q5-answer", "A scan: ![](attachment:a.png)", markdown=True)
    made.cells[-1]["attachments"] = {"a.png": {"image/png": "A" * (4 << 20)}}
    file = tmp_path / f"{NAME}.ipynb"
    nbformat.write(made, file)
    found = selfcheck.examined(file)
    assert found.faults == dict.fromkeys(["q1", "q5"], "not answered yet") | dict.fromkeys(sorted(QUESTIONS), "")
    assert found.remarks == [
        "The given cell setup was changed; your version was run after the given one.",
        "The cell q3-text was deleted; grading puts the released one back.",
        "The cell that begins with 'cell 3': slow.",
        "1 pasted pictures, 3.0 MB in all, the file's outputs apart.",
        "'YOUR ANSWER HERE' still stands in q1-answer.",
    ]


def test_what_the_self_check_cannot_read_is_told(tmp_path):
    """What is too large, too, before it is handed in."""
    unchecked = without(handed_in(), "q3-marked")
    del unchecked.metadata["homework"]["cells"]
    for made, name, why in (
        (unchecked, NAME, "wanted the check cells of q3; they were deleted"), (None, NAME, "got a file that is none"),
        (handed_in(), "mine", f"wanted the name {NAME}"),
        (handed_in(q1_answer="x" * (3 << 20)), NAME, r"wanted at most 2 MB of text; got 3\.0 MB"),
        (added("setup", *["1"] * 301, markdown=False), NAME, "wanted at most 300 cells of your own; got 301"),
    ):  # fmt: skip
        file = tmp_path / f"{name}.ipynb"
        nbformat.write(made, file) if made else file.write_text("no")
        with pytest.raises(ValueError, match=why):
            selfcheck.examined(file)
    os.truncate(file, 201 << 20)
    with pytest.raises(ValueError, match="wanted at most 200 MB"):
        selfcheck.examined(file)


def test_the_command_takes_the_one_file_below_and_says_when_it_was_saved(tmp_path, monkeypatch, capsys):
    def ended(name: str) -> str | int:
        monkeypatch.setattr(sys, "argv", ["exercises", name])
        with pytest.raises(SystemExit) as end:
            runpy.run_module("minerva_book.exercises", run_name="__main__")
        return end.value.code

    monkeypatch.setattr(selfcheck, "examined", lambda path: selfcheck.Found({"q1": ""}))
    monkeypatch.chdir(tmp_path)
    name, saved = "hw2 [1].ipynb", datetime.datetime(2027, 2, 1, 14, 3, 12).timestamp()
    assert ended(name) == f"{name}: there is no such file in {tmp_path} nor below"
    for place, below in (("a/b", ", the only one below this folder,"), (".", "")):
        file = tmp_path / place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (saved, saved))
        assert ended(name) == 0
        first, _ = capsys.readouterr().out.splitlines()
        assert first == f"{file.relative_to(tmp_path)}{below} as saved at 14:03:12 on 2027-02-01"
    file.rename(tmp_path / "a" / name)
    assert ended(name).endswith(f"; say which of those below: a/b/{name}, a/{name}")


@pytest.mark.slow  # a limit runs out by the clock, three processes
def test_what_ends_or_outlasts_its_process_costs_itself_alone(monkeypatch):
    monkeypatch.setattr(selfcheck, "PATIENCE", 1.0)
    monkeypatch.setattr(selfcheck, "DEFINING_SECONDS", 0.0)
    made = with_added(
        handed_in({"q3": "def critic_loss(*inputs):\n    import time\n    time.sleep(100)"}),
        "setup",
        "import os\nos._exit(0)",
    )
    verdicts, told = selfcheck.tried(code_to_run(made)[0], selfcheck.checks(made), replace(BOUNDS, cell_seconds=5.0))
    assert verdicts == {"q2": "", "q3": "took longer than it may", "q4": ""}
    assert list(told.values()) == ["ended the whole process"]


def test_without_a_timer_of_the_system_cells_run_all_the_same(cells, monkeypatch):
    """As on Windows."""
    monkeypatch.delattr(loading.signal, "setitimer")
    _, names, told = cells(
        "A = 1",
        {"source": SPIN.format(0.3), "own": True},
        {"source": "B = 2\nprint(1 / 0)", "own": True},
        own_seconds=0.2,
    )
    assert (names["A"], names["B"]) == (1, 2) and "2" in told
