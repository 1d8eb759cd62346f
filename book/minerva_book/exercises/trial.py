"""The process in which the self-check runs a homework: a job comes in as JSON, lines of JSON go out.

It has what the grader's has, as far as the system allows: the same loader and limits, no network, no files of the
student's, a bound of memory. It is ended by the clock from outside (`tried` in `selfcheck.py`).
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

import torch

from .homework import check_example, check_runs
from .loading import Loaded, at_most, load, said

GIVEN = {"torch": torch, "check_example": check_example, "check_runs": check_runs}
HERE = {"localhost", "127.0.0.1", "::1"}


def without_network() -> None:
    """The grader has none; a connection to this machine itself is let through, as event loops make one on Windows."""

    def hook(event: str, args: tuple) -> None:
        if event == "socket.getaddrinfo" and args[0] not in HERE:
            raise PermissionError("there is no network where homework is graded")
        if event == "socket.connect" and isinstance(args[1], tuple) and args[1][0] not in HERE:
            raise PermissionError("there is no network where homework is graded")

    sys.addaudithook(hook)


def bound_memory(memory: int) -> None:
    """So many bytes beyond what is in use; on Linux, which alone holds to it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm") as file:
            in_use = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + memory, in_use + memory))


def verdict(loaded: Loaded, question: dict[str, str], seconds: float) -> str:
    """What a question's released check says of the function, "" if nothing."""
    loaded.as_after(f"{question['name']}-code")
    names = vars(loaded.module) | GIVEN
    try:
        code = compile(question["check"], f"<{question['name']}-marked>", "exec", dont_inherit=True)
        with at_most(seconds):
            exec(code, names)
    except AssertionError as error:
        return str(error) or "AssertionError"
    except BaseException as error:
        return said(error)
    return ""


def main() -> None:
    job: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)

    def tell(**frame: Any) -> None:
        channel.write(json.dumps(frame) + "\n")
        channel.flush()

    import matplotlib.pyplot  # noqa: F401 - loaded before the bounds, as where it is graded

    torch.set_num_threads(1)
    bound_memory(job["memory"])
    without_network()
    tell(ready=True)
    seconds = {"cell_seconds": job["cell_seconds"], "own_seconds": job["own_seconds"]}
    loaded = load(job["cells"], tell, skip=job["skip"], **seconds)
    for question in job["questions"]:
        tell(asks=question["name"])
        tell(question=question["name"], why=verdict(loaded, question, job["case_seconds"]))
    tell(done=True)
    channel.flush()
    os._exit(0)  # whatever threads were started


if __name__ == "__main__":
    main()
