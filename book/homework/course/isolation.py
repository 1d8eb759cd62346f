"""Where students' code runs: a child process with limits, in a world of its own where the machine offers one.

By bubblewrap (Debian's `bubblewrap`) the child sees Python, its packages and `minerva_lite`, read-only, and nothing
else: no homework sources, no gradebook, no other submission, no network, no process but its own. Where bubblewrap is
missing or user namespaces are switched off nothing runs, unless `Limits.unsafe` says so: then limits and an audit hook
remain, and every report says so.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import re
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

import minerva_lite

INSIDE = Path(__file__).with_name("inside.py")
HOMEWORK = INSIDE.parents[1]
PYTHON = os.path.abspath(sys.executable)  # not resolved: a virtual environment is known by its link
ANSWER_BYTES = 1 << 24  # what a submission may send back in all
BASE_MEMORY = 1 << 30  # bytes that Python, torch and the package take
FRAMES = 20_000  # and in how many lines
PROCESSES = 200  # that it may have at a time: the child itself ends a question or a cell at fewer


@dataclass(frozen=True)
class Limits:
    """What one submission may use."""

    cell_seconds: float = 10.0  # of the processor, and three times as many by the clock
    own_seconds: float = 60.0  # of the processor, for all cells that the student added
    case_seconds: float = 5.0  # of the processor
    question_seconds: float = 30.0  # by the clock
    seconds: float = 180.0  # by the clock, for everything
    memory: int = 2 << 30  # bytes beyond what Python and torch take
    threads: int = 1
    unsafe: bool = False  # go on where the machine offers no namespace: that stops accidents, not a student who tries
    closed: tuple[str, ...] = ()  # folders that are not to be read, where no namespace hides everything


@dataclass
class Said:
    """What came back from a submission."""

    by: str  # "bubblewrap" or "process"
    cells: dict[str, str] = field(default_factory=dict)  # cell -> its error
    answers: dict[tuple[str, str], list[dict]] = field(default_factory=dict)  # (question, case) -> arrays
    errors: dict[tuple[str, str], str] = field(default_factory=dict)  # (question, case or "") -> why there is none
    ready: bool = False  # Python, torch and the package were loaded: without it nothing here is the student's doing
    stopped: str = ""  # why the whole submission ended early


@functools.cache
def offered() -> str:
    """`bubblewrap` if it works on this machine, else `process`."""
    if not shutil.which("bwrap"):
        return "process"
    done = subprocess.run([*walls(), PYTHON, "-I", "-c", "print(1)"], capture_output=True, text=True)
    return "bubblewrap" if done.stdout == "1\n" else "process"


def walls() -> list[str]:
    """The bubblewrap command whose world holds Python, its packages and minerva_lite, read-only, and no more."""
    package = Path(minerva_lite.__file__).resolve().parent
    places = (sys.prefix, sys.base_prefix, *site.getsitepackages(), sysconfig.get_path("stdlib"))
    # By the names by which Python asks for them, and by what these are links to.
    shown = {Path(place) for name in places for place in (os.path.abspath(name), Path(name).resolve())} - {Path("/usr")}
    options = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--clearenv"]
    options += ["--die-with-parent", "--new-session", "--ro-bind", "/usr", "/usr"]
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
    options += ["--ro-bind", str(package), str(package), "--ro-bind", str(INSIDE), "/inside.py", "--chdir", "/tmp"]
    for cache in Path(matplotlib.get_cachedir()).glob("fontlist*.json"):  # else every child looks for fonts anew
        options += ["--ro-bind", str(cache), f"/tmp/{cache.name}"]
    options += ["--remount-ro", "/"]
    for name, value in environment("/tmp").items():
        options += ["--setenv", name, value]
    return [*options, "--"]


def environment(home: str) -> dict[str, str]:
    names = {"PATH": "/usr/bin:/bin", "HOME": home, "MPLCONFIGDIR": home}
    return names | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "LANG": "C.UTF-8"}


def written(value: Any) -> Any:
    """A tensor as {"dtype", "shape", "data"}; numbers and strings as they are."""
    if isinstance(value, torch.Tensor):
        return {
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "data": value.reshape(-1).tolist(),
        }
    return value


def run(
    cells: list[dict[str, str]],
    questions: list[Any],
    cases: dict[str, list[Any]],
    *,
    limits: Limits,
    by: str | None = None,
) -> Said:
    """Run a submission's cells, then each question's function on its cases.

    cells: {"id", "source"} in order. questions: `Code`. cases: by the question's name. by: one of `offered`.
    """
    by = by or offered()
    if by == "process" and not limits.unsafe:
        raise RuntimeError(
            "bubblewrap: wanted, to run students' code apart from the answers, and not at hand or not allowed here; "
            "install it (on Linux or WSL), or say --unsafe, which stops accidents but no student who tries"
        )
    job = asdict(limits) | {
        "cells": cells,
        "closed": [str(HOMEWORK), str(HOMEWORK.parents[1] / "tests"), *limits.closed] if by == "process" else None,
        "cpu_seconds": int(limits.seconds) + 10,
        "questions": [
            {
                "name": q.name,
                "function": q.function,
                "call": q.call,
                "leaves": list(q.leaves),
                "cases": [
                    {"name": c.name, "inputs": {k: written(v) for k, v in c.inputs.items()}} for c in cases[q.name]
                ],
            }
            for q in questions
        ],
    }
    said = Said(by)
    sent, why = spoken(json.dumps(job).encode(), by, limits)
    for line in itertools.islice(re.finditer(rb"[^\n]+", sent), FRAMES):
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
            hear(said, json.loads(line[0]))
    if not said.ready:
        raise RuntimeError(f"the process for students' code did not start ({by}); no mark was given")
    said.stopped = said.stopped or why
    return said


def hear(said: Said, frame: dict[str, Any]) -> None:
    """Note a frame. What is malformed raises and is dropped: the student's code may have written it."""
    if "ready" in frame:
        said.ready = True
    elif "cell" in frame:
        said.cells[str(frame["cell"])] = readable(frame["error"])
    elif "stopped" in frame:
        said.stopped = readable(frame["stopped"])
    elif "parts" in frame:
        said.answers[str(frame["question"]), str(frame["case"])] = list(frame["parts"])
    elif "error" in frame:
        said.errors[str(frame["question"]), str(frame.get("case", ""))] = readable(frame["error"])
    elif frame.get("ended"):
        said.errors[str(frame["question"]), ""] = readable(frame["ended"])


def readable(text: Any) -> str:
    """Text that can be written to a page, of a length that can be read."""
    return str(text)[:500].encode("utf8", "replace").decode()


def grown(child: psutil.Popen, memory: int) -> str:
    """Why the child and what it started have to end: too many processes or too much memory; "" if they need not."""
    total = 0
    with contextlib.suppress(psutil.Error):
        family = [child, *child.children(recursive=True)]
        if len(family) > PROCESSES:
            return "started more processes than it may"
        for each in family:
            with contextlib.suppress(psutil.Error):
                total += each.memory_full_info().pss  # what several share is counted once
    return "took more memory than it may" if total > memory else ""


def spoken(job: bytes, by: str, limits: Limits) -> tuple[bytes, str]:
    """What the child wrote, up to a bound, and why it was ended, "" if it ended by itself."""
    read, write = os.pipe()
    package = Path(minerva_lite.__file__).resolve().parents[1]
    inside = [PYTHON, "-I", "/inside.py" if by == "bubblewrap" else str(INSIDE), str(write), str(package)]
    child = psutil.Popen(
        [*walls(), *inside] if by == "bubblewrap" else inside,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[write],
        cwd="/",
        env=environment(matplotlib.get_configdir()),
        start_new_session=True,
    )
    os.close(write)
    os.set_blocking(read, False)
    # A margin for starting Python and torch; the child's own deadline comes first.
    data, deadline, look, why = bytearray(), time.monotonic() + limits.seconds + 60.0, 0.0, ""
    with selectors.DefaultSelector() as ready:
        ready.register(read, selectors.EVENT_READ)
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(job)
            child.stdin.close()
        while not why:
            now = time.monotonic()
            if now > look:
                look, why = now + 0.5, grown(child, BASE_MEMORY + 2 * limits.memory)
            if ready.select(timeout=0.25):
                more = os.read(read, 1 << 16)
                if not more:
                    break
                data += more
            elif child.poll() is not None:
                break
            if len(data) > ANSWER_BYTES:
                why = "sent back more than it may"
            elif now > deadline:
                why = "took longer than it may"
    os.close(read)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return bytes(data), why
