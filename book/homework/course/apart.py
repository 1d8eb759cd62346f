"""Work on what a student wrote, in a process of its own with limits on memory and time.

A small server is started afresh: it knows no secret, no hidden case and no submission. It imports what a task needs and
forks for every question, so that a file that takes too much costs its own student a sentence and nobody else anything.
What comes back is bytes, never an object.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

MODULES = ("reading", "rendering")  # whose functions may be asked for
MARGIN = 60.0  # seconds beyond a task's own, for starting Python and importing what it needs
LONGEST = 300  # characters of an error that are passed on
TOO_LONG = "it takes longer than it may"
TOO_LARGE = "it takes more memory than it may"


class Failed(Exception):
    """Why a task has no answer; str() of it is a sentence's end, as "it takes longer than it may"."""


class Server:
    """The parent's end: a process that forks one for each task."""

    def __init__(self) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.owner = os.getpid()
        # Nothing of this process's surroundings is passed on: tokens and seeds stand there.
        surroundings = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", str(Path(__file__).resolve()), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
                env=surroundings,
                start_new_session=True,
            )

    def alive(self) -> bool:
        return self.owner == os.getpid() and self.process.poll() is None


_server: Server | None = None
_starting = threading.Lock()


def server() -> Server:
    """The one server of this process; a new one where it has ended."""
    global _server
    with _starting:
        if _server is None or not _server.alive():
            _server = Server()
        return _server


def ask(task: str, payload: bytes, *, memory: int, seconds: float) -> bytes:
    """What the function `task` ("module.function", bytes -> bytes) makes of a payload, in a process of its own.

    memory: bytes beyond what the imports take. seconds: by the clock.
    Raises Failed: it took too much, or the function raised.
    """
    asked = json.dumps({"task": task, "memory": memory, "seconds": seconds}).encode()
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            try:
                socket.send_fds(server().control, [asked], [theirs.fileno()])
            except OSError:  # it ended a moment ago
                socket.send_fds(server().control, [asked], [theirs.fileno()])
        began, answer = time.monotonic(), bytearray()
        try:
            ours.settimeout(seconds + MARGIN)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                ours.sendall(payload)
                ours.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                while part := ours.recv(1 << 20):
                    answer += part
        except TimeoutError:
            raise Failed(TOO_LONG) from None
    if answer[:1] == b"+" and answer[-1:] == b"+":
        return bytes(answer[1:-1])
    if answer[:1] == b"-":
        raise Failed(answer[1:].decode("utf8", "replace"))
    raise Failed(TOO_LONG if time.monotonic() - began >= seconds else TOO_LARGE)


def bound(memory: int, seconds: float) -> None:
    """Limits that the kernel holds to: memory beyond what is there, the clock, the processor, no file, no program."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    with open("/proc/self/statm") as file:
        there = int(file.read().split()[0]) * resource.getpagesize()
    limits = {
        resource.RLIMIT_AS: there + memory,
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
    }
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


def work(line: socket.socket, task: str, memory: int, seconds: float) -> None:
    """In the process of a task: the function's answer between two "+", or "-" and why there is none."""
    bound(memory, seconds)
    try:
        payload = b"".join(iter(lambda: line.recv(1 << 20), b""))
        module, function = task.split(".")
        answer = b"+" + getattr(sys.modules[f"course.{module}"], function)(payload) + b"+"
    except MemoryError:
        answer = b"-" + TOO_LARGE.encode()
    except Exception as error:  # whatever the payload was
        told = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        answer = b"-" + " ".join(told.split())[:LONGEST].encode("utf8", "replace")
    line.sendall(answer)


def serve(control: socket.socket) -> None:
    """In the server: fork for each task, until the parent is gone."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel takes the ended ones away
    while True:
        asked, lines, _, _ = socket.recv_fds(control, 4096, 1)
        if not asked:
            return
        wanted = json.loads(asked)
        module = wanted["task"].split(".")[0]
        if module in MODULES and f"course.{module}" not in sys.modules:
            importlib.import_module(f"course.{module}").prepare()
            gc.collect()
            gc.freeze()  # what is shared stays shared
        if os.fork() == 0:
            try:
                control.close()
                with socket.socket(fileno=lines[0]) as line:
                    work(line, wanted["task"], wanted["memory"], wanted["seconds"])
            finally:
                os._exit(0)
        os.close(lines[0])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    with socket.socket(fileno=int(sys.argv[1])) as end:
        serve(end)
