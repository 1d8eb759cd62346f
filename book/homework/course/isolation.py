"""Where students' code runs: a child process with limits, in a world of its own.

By bubblewrap (Debian's `bubblewrap`) the child sees Python, its packages and the book's two, read-only, and nothing
else: no homework sources, no gradebook, no other submission, no network, no process but its own. Where bubblewrap is
missing or user namespaces are switched off nothing runs. Where the kernel can filter system calls (`seccomp.py`) it
does, and every report says so.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import selectors
import shutil
import signal
import site
import subprocess
import sys
import sysconfig
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import matplotlib
import psutil
import torch

import minerva_book
import minerva_lite

from . import seccomp

HERE = Path(__file__).parent
INSIDE = [HERE / name for name in ("inside.py", "overseer.py", "kernel.py", "captured.py")]
HOMEWORK = HERE.parent
PACKAGES = [Path(each.__file__).resolve().parent for each in (minerva_lite, minerva_book)]
PYTHON = os.path.abspath(sys.executable)  # not resolved: a virtual environment is known by its link
ANSWER_BYTES = 1 << 24  # what a submission may send back in all
BASE_MEMORY = 1 << 30  # bytes that Python, torch and the package take
FRAMES = 20_000  # and in how many lines
CELL_ERRORS = 12  # of a student's own cells that are passed on
SILENCE = 120.0  # seconds without a sign of life from the watch
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "MPLCONFIGDIR": "/tmp", "MPLBACKEND": "Agg", "LANG": "C.UTF-8"}
# What is to be compiled runs as it is: here is neither a compiler's time nor its cache.
ENVIRONMENT |= {"OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"}
STARTING = 300.0  # seconds that loading Python and torch may take on a busy machine


@dataclass(frozen=True)
class Limits:
    """What one submission may use. Seconds are the processor's, of everything that was started, unless it sleeps."""

    cell_seconds: float = 10.0
    own_seconds: float = 60.0  # for all cells that the student added
    case_seconds: float = 5.0
    question_seconds: float = 30.0
    seconds: float = 180.0  # for all cells together
    memory: int = 2 << 30  # bytes beyond what Python and torch take


@dataclass
class Said:
    """What came back from a submission."""

    by: str  # "bubblewrap + seccomp" or "bubblewrap"
    cells: dict[str, str] = field(default_factory=dict)  # cell -> its error
    answers: dict[tuple[str, str], list[dict]] = field(default_factory=dict)  # (question, case) -> arrays
    errors: dict[tuple[str, str], str] = field(default_factory=dict)  # (question, case or "") -> why there is none
    ready: bool = False  # Python, torch and the package were loaded: without it nothing here is the student's doing
    stopped: str = ""  # why the whole submission ended early


@functools.cache
def missing() -> str:
    """Why bubblewrap does not work on this machine, "" if it does."""
    if not shutil.which("bwrap"):
        return "there is no command bwrap"
    done = subprocess.run([*walls(), PYTHON, "-I", "-c", "print(1)"], capture_output=True, text=True)
    return "" if done.stdout == "1\n" else readable(done.stderr).strip() or f"bwrap ended with {done.returncode}"


def named() -> str:
    """What keeps students' code apart where anything does."""
    return "bubblewrap + seccomp" if seccomp.program()[0] else "bubblewrap"


def protection() -> str:
    """For the instructor: what keeps students' code apart on this machine, and what is missing and why."""
    if missing():
        return f"nothing ({missing()})"
    return named() + (f" ({seccomp.program()[1]})" if seccomp.program()[1] else "")


def walls() -> list[str]:
    """The bubblewrap command whose world holds Python, its packages and the book's two, read-only, and no more."""
    places = (sys.prefix, sys.base_prefix, *site.getsitepackages(), sysconfig.get_path("stdlib"))
    # By the names by which Python asks for them, and by what these are links to.
    shown = {Path(place) for name in places for place in (os.path.abspath(name), Path(name).resolve())} - {Path("/usr")}
    options = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--clearenv"]
    # The watch is the first process of its world: from inside nobody ends, stops or looks into it.
    options += ["--die-with-parent", "--as-pid-1", "--new-session", "--ro-bind", "/usr", "/usr"]
    for place in ("/lib", "/lib64", "/bin"):
        if Path(place).is_symlink():
            options += ["--symlink", os.readlink(place), place]
        elif Path(place).exists():
            options += ["--ro-bind", place, place]
    options += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev"]
    # Under root's account the kernel's own settings would be open for writing, and memory as files without end.
    options += ["--remount-ro", "/proc", "--size", str(1 << 26), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    options += ["--size", str(1 << 26), "--tmpfs", "/tmp"]
    for place in sorted(shown):
        options += ["--ro-bind", str(place), str(place)]
    for package in PACKAGES:  # side by side, so that the book's folder is not there
        options += ["--ro-bind", str(package), str(PACKAGES[0].with_name(package.name))]
    options += ["--chdir", "/tmp"]
    for file in INSIDE:
        options += ["--ro-bind", str(file), f"/inside/{file.name}"]
    for cache in Path(matplotlib.get_cachedir()).glob("fontlist*.json"):  # else every child looks for fonts anew
        options += ["--ro-bind", str(cache), f"/tmp/{cache.name}"]
    options += ["--remount-ro", "/"]
    for name, value in ENVIRONMENT.items():
        options += ["--setenv", name, value]
    return [*options, "--"]


def written(value: Any) -> Any:
    """A tensor as {"dtype", "shape", "data"}; numbers and strings as they are."""
    if isinstance(value, torch.Tensor):
        return {
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "data": value.reshape(-1).tolist(),
        }
    return value


def run(cells: list[dict[str, Any]], questions: list[Any], cases: dict[str, list[Any]], *, limits: Limits) -> Said:
    """Run a submission's cells, then each question's function on its cases, which are sent when its turn has come.

    cells: {"id", "source"} in order, and "own" where the student added it. questions: `Code`. cases: by the question's
    name.
    Raises RuntimeError: nothing keeps the code apart here, or its process did not start; with the reason.
    """
    if missing():
        raise RuntimeError(
            "bubblewrap: wanted, to run students' code apart from the answers, and not at hand or not allowed here "
            f"({missing()}); install it (on Linux or WSL)"
        )
    own = {cell["id"]: bool(cell.get("own")) for cell in cells}
    talk = Talk(Said(named()), {q.name: q for q in questions}, own, cases)
    job = asdict(limits) | {
        "cells": cells,
        "own": [cell for cell in own if own[cell]],
        "filter": seccomp.program()[0].hex(),
        "questions": [
            {"name": q.name, "function": q.function, "call": q.call, "leaves": list(q.leaves)} for q in questions
        ],
    }
    talk.outgoing += json.dumps(job).encode() + b"\n"
    why, words = converse(talk, limits)
    if not talk.said.ready:
        raise RuntimeError(
            f"the process for students' code did not start; no mark was given: {words or 'it said nothing'}"
        )
    talk.said.stopped = talk.said.stopped or why
    return talk.said


@dataclass
class Talk:
    """What was said by a submission so far, what it may say now, and what it is yet to be told."""

    said: Said
    questions: dict[str, Any]
    own: dict[str, bool]  # cell -> whether it is the student's own and not one of the assignment's
    cases: dict[str, list[Any]]
    asked: list[str] = field(default_factory=list)  # questions that have got their cases
    outgoing: bytearray = field(default_factory=bytearray)
    incoming: bytearray = field(default_factory=bytearray)
    received: int = 0  # bytes
    frames: int = 0

    def take(self, data: bytes) -> None:
        self.received += len(data)
        self.incoming += data
        if b"\n" not in data:
            return
        *lines, rest = bytes(self.incoming).split(b"\n")
        self.incoming = bytearray(rest)
        for line in filter(None, lines):
            self.frames += 1
            if self.frames <= FRAMES:  # with more the submission is ended
                with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
                    self.hear(json.loads(line))

    def hear(self, frame: dict[str, Any]) -> None:
        """Note a frame. What is malformed raises and is dropped: the student's code may have written it."""
        said = self.said
        if "ready" in frame:
            said.ready = True
        elif "stopped" in frame:
            said.stopped = readable(frame["stopped"])
        elif "asks" in frame:
            self.send_cases(frame["asks"])
        elif "cell" in frame:  # once a question has its cases no cell says anything more: it might tell them
            few = sum(self.own[cell] for cell in said.cells) < CELL_ERRORS
            if not self.asked and frame["cell"] in self.own and (few or not self.own[frame["cell"]]):
                said.cells[frame["cell"]] = readable(frame["error"])
        elif not self.asked or frame["question"] != self.asked[-1]:
            return
        elif "parts" in frame:
            said.answers[frame["question"], str(frame["case"])] = list(frame["parts"])
        elif "error" in frame:
            said.errors[frame["question"], str(frame.get("case", ""))] = readable(frame["error"])
        elif frame.get("ended"):
            said.errors[frame["question"], ""] = readable(frame["ended"])

    def send_cases(self, name: str) -> None:
        if name in self.questions and name not in self.asked:
            self.asked.append(name)
            cases = [{"name": c.name, "inputs": {k: written(v) for k, v in c.inputs.items()}} for c in self.cases[name]]
            self.outgoing += json.dumps(cases).encode() + b"\n"


def readable(text: Any) -> str:
    """Text that can be written to a page, of a length that can be read."""
    return str(text)[:500].encode("utf8", "replace").decode()


def grown(child: psutil.Popen, memory: int) -> str:
    """Why the child and what it started have to end: too much memory; "" if they need not."""
    total = 0
    with contextlib.suppress(psutil.Error):
        for each in [child, *child.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += each.memory_full_info().pss  # what several share is counted once
    return "took more memory than it may" if total > memory else ""


def converse(talk: Talk, limits: Limits) -> tuple[str, str]:
    """Start the child and talk with it until it ends; why it was ended, "" if by itself, and what it complained of."""
    read, write = os.pipe()
    child = psutil.Popen(
        [*walls(), PYTHON, "-I", "-B", "/inside/inside.py", str(write), str(PACKAGES[0].parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,  # until it is ready
        pass_fds=[write],
        cwd="/",
        start_new_session=True,
    )
    os.close(write)
    try:
        why = listened(talk, child, read, limits)
    finally:
        os.close(read)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        with contextlib.suppress(OSError):
            child.stdin.close()
        os.set_blocking(child.stderr.fileno(), False)
        words = (child.stderr.read(1 << 16) or b"").decode("utf8", "replace").strip()
        child.stderr.close()
    return why, readable(words[-500:])


def listened(talk: Talk, child: psutil.Popen, read: int, limits: Limits) -> str:
    """Listen to the child, tell it what it asks for, and watch its memory and that it lives; why it has to end."""
    write = child.stdin.fileno()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    began = heard = time.monotonic()
    look = 0.0
    with selectors.DefaultSelector() as ready:
        ready.register(read, selectors.EVENT_READ)
        while True:
            now = time.monotonic()
            if now > look:
                look = now + 0.5
                if why := grown(child, BASE_MEMORY + 2 * limits.memory):
                    return why
            if talk.outgoing and write not in ready.get_map():
                ready.register(write, selectors.EVENT_WRITE)
            ended = child.poll() is not None  # asked first: what it said before its end is heard below
            events = [key.fd for key, _ in ready.select(timeout=0.25)]
            if write in events:
                try:
                    del talk.outgoing[: os.write(write, talk.outgoing)]
                except BrokenPipeError:
                    talk.outgoing.clear()
                if not talk.outgoing:
                    ready.unregister(write)
            if read in events:
                data = os.read(read, 1 << 16)
                if not data:
                    return ""
                heard = now
                talk.take(data)
            elif ended:
                return ""
            if talk.received > ANSWER_BYTES or talk.frames > FRAMES:
                return "sent back more than it may"
            # The watch inside counts the processor's time and gives signs of life; this is for when it is held up.
            if now - heard > (SILENCE if talk.said.ready else STARTING) or now - began > STARTING + 20 * limits.seconds:
                return "took longer than it may"
