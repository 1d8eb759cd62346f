"""Runs a student's cells and functions, and sends back numbers. Nothing in this process knows what is right.

Started by `isolation.py`: a job comes in as JSON on standard input, frames of JSON go out by the descriptor that
argv[1] names; argv[2] is where minerva_lite lies. The process that reads the job keeps out of the student's way: it
forks one that runs the cells, which forks one for every question, so that what kills a process costs no more than its
cell or its question.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import sys
import time

CAME_THROUGH = 17  # a process that ended as it should, and not by os._exit(0)
PROCESSES = 60  # that a submission may have at a time


def send(channel: int, **frame) -> None:
    data = (json.dumps(frame) + "\n").encode()
    while data:
        data = data[os.write(channel, data) :]


def limit(memory: int, seconds: int, file_bytes: int) -> None:
    """Bounds that the kernel holds to, for this process and those it starts."""
    with contextlib.suppress(OSError, ValueError):  # Linux alone tells, and holds to it
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NPROC, (256, 256))


ALONE = False  # whether this process and those it starts are in a world of their own
FORKED: set[int] = set()  # processes that may be killed from here
REFUSED = {"os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.remove", "os.rename", "os.rmdir", "os.mkdir"}
REFUSED |= {"os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate", "shutil.rmtree"}
REFUSED_KINDS = ("socket.connect", "socket.bind", "socket.sendto", "subprocess.", "ctypes.dlopen", "sqlite3.")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def guard(closed: list[str]) -> None:
    """Where no namespace hides the disk and the network: refuse what a homework has no business with."""

    def hook(event: str, args: tuple) -> None:
        if event in REFUSED or event.startswith(REFUSED_KINDS):
            raise PermissionError(f"{event} is not allowed in homework")
        if event in ("os.kill", "os.killpg") and args[0] not in FORKED:
            raise PermissionError("homework may not end other processes")
        if event == "open" and isinstance(args[0], (str, bytes)):
            path, mode, flags = os.path.realpath(os.fsdecode(args[0])), args[1], args[2]
            if any(path == place or path.startswith(place + "/") for place in closed):
                raise PermissionError("this file is not open to homework")
            if path != "/dev/null" and (set(mode or "") & set("wax+") or (flags or 0) & WRITES):
                raise PermissionError("homework may not write files")

    sys.addaudithook(hook)


def tensor_of(value):
    """What the parent wrote as {"dtype", "shape", "data"}, as a tensor; anything else as it is."""
    import torch

    if isinstance(value, dict) and "dtype" in value:
        return torch.tensor(value["data"], dtype=getattr(torch, value["dtype"])).reshape(value["shape"])
    return value


class Silent:
    """A standard output that forgets."""

    encoding = "utf-8"

    def write(self, text):
        return len(text)

    def flush(self):
        pass

    def isatty(self):
        return False


def run_cells(channel: int, job: dict, skip: dict):
    """The loaded notebook: the cells, as the self-check runs them too."""
    from minerva_lite.exercises.loading import load

    seconds = {"cell_seconds": job["cell_seconds"], "own_seconds": job["own_seconds"]}
    return load(job["cells"], lambda **frame: send(channel, **frame), skip=skip, **seconds)


def called(call, answer, inputs: dict, leaves: list[str]):
    """What the function gives, and its gradients by the leaves; as the check of the example takes them."""
    import torch

    from minerva_lite.exercises.homework import with_gradients

    names = {"answer": answer, "inputs": inputs, "torch": torch, **inputs}
    return with_gradients(lambda: eval(call, names), [inputs[leaf] for leaf in leaves])


def answer_question(channel: int, job: dict, loaded, question: dict) -> None:
    """Call one function on all its cases and send what came back."""
    from minerva_lite.exercises.answers import plain
    from minerva_lite.exercises.loading import at_most, said

    name = question["name"]
    loaded.as_after(f"{name}-code")
    answer = getattr(loaded.module, question["function"], None)
    if not callable(answer):
        send(channel, question=name, error=f"there is no function {question['function']}")
        return
    call = compile(question["call"], "<call>", "eval")

    for case in question["cases"]:
        try:
            inputs = {key: tensor_of(value) for key, value in case["inputs"].items()}
            with at_most(job["case_seconds"]):
                got = plain(called(call, answer, inputs, question["leaves"]))
            send(channel, question=name, case=case["name"], parts=got)
        except BaseException as error:
            send(channel, question=name, case=case["name"], error=said(error))


def crowded() -> bool:
    """Whether this world holds more processes than a submission may start. Without a world of its own: never."""
    return ALONE and sum(name.isdigit() for name in os.listdir("/proc")) > PROCESSES


def ended(pid: int, *, kill: bool) -> int | None:
    """The exit code of a forked process, ended with all of its group if `kill` says so; None while it runs."""
    if kill:
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    done, status = os.waitpid(pid, 0 if kill else os.WNOHANG)
    if not done:
        return None
    with contextlib.suppress(OSError):  # what it started and left behind
        os.killpg(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status)


def forked(task) -> int:
    """The number of a new process, with a group of its own, that runs `task` and exits with CAME_THROUGH."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.setpgid(0, 0)
            task()
        os._exit(CAME_THROUGH)
    FORKED.add(pid)
    return pid


def student(channel: int, job: dict, skip: dict) -> None:
    loaded = run_cells(channel, job, skip)
    for question in job["questions"]:
        pid = forked(lambda q=question: answer_question(channel, job, loaded, q))
        deadline, why, code = time.monotonic() + job["question_seconds"], "", None
        while code is None:
            time.sleep(0.005)
            if time.monotonic() > deadline:
                why = "took longer than it may"
            elif crowded():
                why = "started more processes than it may"
            code = ended(pid, kill=bool(why))
        if not why and code != CAME_THROUGH:
            why = "the process was ended by its own code or by a limit"
        send(channel, question=question["name"], ended=why)


def supervise(channel: int, job: dict) -> None:
    """Fork the student's process, and again without the cell that killed it, until one comes through."""
    skip: dict[str, str] = {}
    deadline = time.monotonic() + job["seconds"]
    for _ in range(len(job["cells"]) + 1):
        read, write = os.pipe()

        def task(read=read, write=write):
            os.close(read)
            os.close(channel)
            student(write, job, skip)

        pid = forked(task)
        os.close(write)
        os.set_blocking(read, False)
        at, why, code, pending, began = "", "", None, b"", time.monotonic()
        while True:
            data = b""
            with contextlib.suppress(BlockingIOError):
                data = os.read(read, 1 << 16)
            pending += data
            *lines, pending = pending.split(b"\n")
            for line in filter(None, lines):
                with contextlib.suppress(ValueError, AttributeError, TypeError, RecursionError):
                    frame = dict(json.loads(line))
                    if "begins" in frame:
                        at, began = frame["begins"], time.monotonic()
                os.write(channel, line + b"\n")
            if code is not None and not data:  # it has ended, and all that it said was passed on
                break
            now = time.monotonic()
            if code is None:
                if now > deadline or at and now - began > 3 * job["cell_seconds"] or len(pending) > 1 << 24:
                    why = "took longer than it may"
                elif at and crowded():
                    why = "started more processes than it may"
                code = ended(pid, kill=bool(why))
            if not data:
                time.sleep(0.005)
        os.close(read)
        if code == CAME_THROUGH and not why:
            return
        why = why or "ended the whole process"
        if not isinstance(at, str) or not at or at in skip or time.monotonic() > deadline:
            send(channel, stopped=why)
            return
        skip[at] = why
        send(channel, cell=at, error=why)


def main() -> None:
    global ALONE
    channel = int(sys.argv[1])
    job = json.loads(sys.stdin.buffer.read())
    ALONE = job["closed"] is None
    null = os.open("/dev/null", os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    sys.stdout = sys.stderr = Silent()
    sys.path.insert(0, sys.argv[2])  # this very package, whichever the environment would find
    import matplotlib.pyplot
    import torch

    import minerva_lite.exercises

    del matplotlib, minerva_lite  # loaded for the student's cells, before the bounds
    torch.set_num_threads(job["threads"])
    # In a world of its own a file is nobody's harm; elsewhere not one byte is written, by whatever library.
    limit(job["memory"], job["cpu_seconds"], 1 << 24 if ALONE else 0)
    if not ALONE:
        guard(job["closed"])
    send(channel, ready=True)
    supervise(channel, job)


if __name__ == "__main__":
    main()
