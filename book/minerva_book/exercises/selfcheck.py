"""What speaks against handing in a homework: it is run as the grader will run it, on the public examples."""

from __future__ import annotations

import contextlib
import copy
import glob
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import minerva_book
import minerva_lite

from .answers import NOT_YET
from .loading import CASE_SECONDS, CELL_SECONDS, DEFINING_SECONDS, OWN_SECONDS, TOO_SLOW
from .submission import Sorted, code_to_run, name_of, recorded, text_of

LARGEST = 200 << 20  # bytes of a notebook that the grader reads
WRITTEN = 2 << 20  # bytes of what is written in it: without outputs and pictures
CELLS = 300  # cells that may be added
EXPERIMENT_SECONDS = 120  # by the clock, for a cell in Jupyter
PATIENCE = 4.0  # times a limit of processor time that is waited for by the clock
STARTING = 120.0  # seconds by the clock until Python and torch are loaded
LEFT_OVER = ("YOUR ANSWER HERE", "YOUR CODE HERE")  # of the empty notebook


@dataclass(frozen=True)
class Bounds:
    """The grader's limits, as far as a process on a student's machine can have them."""

    cell_seconds: float = CELL_SECONDS
    own_seconds: float = OWN_SECONDS
    case_seconds: float = CASE_SECONDS
    memory: int = 2 << 30  # bytes beyond what Python and torch take


@dataclass
class Found:
    """What a self-check found."""

    faults: dict[str, str] = field(default_factory=dict)  # question -> what speaks against it, or ""
    remarks: list[str] = field(default_factory=list)  # what else is worth knowing


def self_check(path: Path | str) -> dict[str, str]:
    """For each question of a homework notebook what speaks against it, or `""`: then it can be handed in.

    A marked function must agree with its example where the grader's way of running cells is taken, the cell of an
    experiment must run in Jupyter, and a written answer must exist.

    Raises ValueError: the file is no notebook, is too large, or has another name than it was released under.
    """
    return examined(path).faults


def examined(path: Path | str) -> Found:
    """`self_check` with remarks."""
    path = Path(path)
    notebook = read(path)
    cells, found = code_to_run(notebook)
    small_enough(path, notebook, found)
    verdicts, told = tried(cells, checks(notebook))
    faults = verdicts | people(notebook, jupyter(notebook))
    first_lines = {cell["id"]: cell["source"].strip().split("\n")[0][:60] for cell in cells}
    remarks = [*found.remarks, *deleted(notebook, found)]
    remarks += [f"The cell that begins with {first_lines.get(name, name)!r}: {why}." for name, why in told.items()]
    return Found(dict(sorted(faults.items())), [*remarks, *pictures(notebook), *leftovers(notebook)])


def meant(name: str) -> Path:
    """The file of this name, else the only one a folder or two below. Raises ValueError: there is none, or several."""
    if Path(name).exists():
        return Path(name)
    found = sorted(file for depth in ("*", "*/*") for file in Path().glob(f"{depth}/{glob.escape(name)}"))
    if len(found) != 1:
        below = f"; say which of those below: {', '.join(map(str, found))}" if found else " nor below"
        raise ValueError(f"{name}: there is no such file in {Path.cwd()}{below}")
    return found[0]


def read(path: Path) -> Any:
    """The notebook in a file. Raises ValueError: see `self_check`."""
    import nbformat  # imported here, because the chapters' checks do not need it

    if path.stat().st_size > LARGEST:
        raise ValueError(f"{path.name}: wanted at most {LARGEST >> 20} MB; got {path.stat().st_size / 2**20:.1f} MB")
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        raise ValueError(f"{path.name}: wanted a Jupyter notebook; got a file that is none ({error})") from error
    name = notebook.metadata.get("homework", {}).get("name", path.stem)
    if name != path.stem:
        raise ValueError(f"{path.name}: wanted the name {name}.ipynb, under which it is collected")
    return notebook


def checks(notebook: Any) -> list[dict[str, str]]:
    """The marked questions {"name", "check"}: the check that was released, else the one in the notebook.

    Raises ValueError: a check was deleted, and the notebook does not say what it was.
    """
    texts = {name_of(cell): text_of(cell) for cell in reversed(notebook["cells"])}
    texts |= {name: text for name, text in recorded(notebook).items() if text is not None and name.endswith("-marked")}
    marked = notebook.metadata.get("homework", {}).get("marked")
    if marked is None:
        marked = [name.removesuffix("-marked") for name in texts if name.endswith("-marked")]
    missing = [question for question in marked if f"{question}-marked" not in texts]
    if missing:
        raise ValueError(f"wanted the check cells of {', '.join(sorted(missing))}; they were deleted")
    return [{"name": question, "check": texts[f"{question}-marked"]} for question in marked]


def tried(
    cells: list[dict[str, Any]],
    questions: list[dict[str, str]],
    bounds: Bounds = Bounds(),  # noqa: B008 - it cannot be changed
) -> tuple[dict[str, str], dict[str, str]]:
    """Question -> what speaks against its function, and cell -> what is to be told of it, from a process of its own.

    A cell or a function that takes too long by the clock costs itself and no other.
    """
    verdicts: dict[str, str] = {}
    told: dict[str, str] = {}
    skip: list[str] = []
    while left := [question for question in questions if question["name"] not in verdicts]:
        kind, at, why = one_process({"cells": cells, "questions": left, "skip": skip} | asdict(bounds), verdicts, told)
        if kind == "cell" and at not in skip:
            told[at] = why
            skip.append(at)
        elif kind == "question":
            verdicts[at] = why
        elif all(question["name"] not in verdicts for question in left):
            verdicts |= {question["name"]: why or "the process ended" for question in left}
    return {question["name"]: said(verdicts[question["name"]]) for question in questions}, told


def one_process(job: dict[str, Any], verdicts: dict[str, str], told: dict[str, str]) -> tuple[str, str, str]:
    """Run a job, note what it says; at what it was ended ("cell" or "question", its name, why), ("", "", "") if not."""
    packages = [str(Path(each.__file__).resolve().parents[1]) for each in (minerva_lite, minerva_book)]
    path = os.pathsep.join(filter(None, [*packages, os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    environment["TORCHDYNAMO_DISABLE"] = "1"
    kind, at, why, wait, frames = "", "", "", STARTING, queue.Queue[Any]()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty:
        child = subprocess.Popen(
            [sys.executable, "-m", "minerva_book.exercises.trial"],
            cwd=empty, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert child.stdin and child.stdout
        threading.Thread(target=hear, args=(child.stdout, frames), daemon=True).start()
        with contextlib.suppress(OSError):
            child.stdin.write(json.dumps(job).encode())
            child.stdin.close()
        while True:
            try:
                frame = frames.get(timeout=wait)
            except queue.Empty:
                why = TOO_SLOW
                break
            if frame is None:
                why = "ended the whole process"
                break
            if "done" in frame:
                kind = at = why = ""
                break
            if frame.get("begins"):
                kind, at, wait = "cell", frame["begins"], PATIENCE * job["cell_seconds"] + DEFINING_SECONDS
            elif frame.get("asks"):
                kind, at, wait = "question", frame["asks"], PATIENCE * job["case_seconds"]
            elif "cell" in frame:
                told[frame["cell"]] = frame["error"]
            elif "question" in frame:
                verdicts[frame["question"]] = frame["why"]
        child.kill()
        child.wait()
    return kind, at, why


def hear(stream: Any, frames: queue.Queue[Any]) -> None:
    """Pass on what a process says, line by line, and None when it has ended."""
    with contextlib.suppress(ValueError, OSError):
        for line in stream:
            with contextlib.suppress(ValueError):
                frames.put(json.loads(line))
    frames.put(None)


def jupyter(notebook: Any) -> dict[str, str]:
    """Error of each cell of an experiment when the notebook runs in Jupyter, or "". The checks are left out."""
    from nbclient import NotebookClient

    book = copy.deepcopy(notebook)
    book.cells = [cell for cell in book.cells if not name_of(cell).endswith("-marked")]
    runs = [cell for cell in book.cells if name_of(cell).endswith("-run")]
    if not runs:
        return {}
    try:
        options = {"allow_errors": True, "interrupt_on_timeout": True, "kernel_name": "python3"}
        quiet = ["--log-level=ERROR"]  # else each kernel warns of its network in the midst of what is said here
        NotebookClient(book, timeout=EXPERIMENT_SECONDS, extra_arguments=quiet, **options).execute()
    except Exception as error:
        why = f"the notebook could not be run in Jupyter ({type(error).__name__})"
        return dict.fromkeys(map(name_of, runs), why)
    errors = {
        name_of(cell): [f"{out.ename}: {out.evalue}" for out in cell.outputs if out.output_type == "error"]
        for cell in runs
    }
    return {name: said(found[0]) if found else "" for name, found in errors.items()}


def said(why: str) -> str:
    """Why a question is not right, in words: an untouched answer raises an error that says little."""
    return NOT_YET if why.strip() == "NotImplementedError:" else why


def people(notebook: Any, runs: dict[str, str]) -> dict[str, str]:
    """Question -> what speaks against an answer that a person will mark."""
    faults = {name.removesuffix("-run"): why for name, why in runs.items()}
    for cell in notebook["cells"]:
        question, _, kind = name_of(cell).partition("-")
        if kind == "answer":
            none = NOT_YET if LEFT_OVER[0] in text_of(cell) else ""
            faults[question] = faults.get(question) or none
    for name in recorded(notebook):
        if name.endswith(("-answer", "-run")) and name.partition("-")[0] not in faults:
            faults[name.partition("-")[0]] = "its cells were deleted"
    return faults


def small_enough(path: Path, notebook: Any, found: Sorted) -> None:
    """Raises ValueError: more cells or more text than the grader takes."""
    added = sum(map(len, found.added.values()))
    if added > CELLS:
        raise ValueError(f"{path.name}: wanted at most {CELLS} cells of your own; got {added}")
    told = json.dumps([text_of(cell) for cell in notebook["cells"]], ensure_ascii=False)
    # Colab pastes a picture into the text itself; the grader counts it as a picture.
    written = len(re.sub(r"data:image/\w{1,10};base64,[A-Za-z0-9+/=]+", "", told).encode("utf8", "replace"))
    if written > WRITTEN:
        raise ValueError(f"{path.name}: wanted at most {WRITTEN >> 20} MB of text; got {written / 2**20:.1f} MB")


def deleted(notebook: Any, found: Sorted) -> list[str]:
    """Remarks on released cells that are missing."""
    gone = [name for name in recorded(notebook) if name not in found.answers]
    return [f"The cell {name} was deleted; grading puts the released one back." for name in gone]


def pictures(notebook: Any) -> list[str]:
    """Remarks on pictures that were pasted into text, and their size."""
    sizes = [
        len(data)
        for cell in notebook["cells"]
        for file in cell.get("attachments", {}).values()
        for data in file.values()
        if isinstance(data, str)
    ]
    if not sizes:
        return []
    return [f"{len(sizes)} pasted pictures, {sum(sizes) * 3 / 4 / 2**20:.1f} MB in all, the file's outputs apart."]


def leftovers(notebook: Any) -> list[str]:
    """Remarks on cells in which the words of the empty notebook still stand beside something else."""
    known, found = recorded(notebook), []
    for cell in notebook["cells"]:
        name, text = name_of(cell), text_of(cell)
        for words in LEFT_OVER:
            if words in text and (not name or text.strip() != (known.get(name) or text).strip()):
                found.append(f"{words!r} still stands in {name or 'a cell of your own'}.")
    return found
