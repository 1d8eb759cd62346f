"""Watches over the process that runs a student's code, from a process that runs none of it.

It reads the job, forks the student's process, passes on what that says and what it may say, hands a question its cases
only when its turn has come, and counts the processor time of everything that was started. Time is counted, and not the
clock's, so that neither a busy machine nor a greedy neighbor costs anybody a mark; who only sleeps is ended as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

CAME_THROUGH = 17  # a process that ended as it should, and not by os._exit(0)
PROCESSES = 16  # that a submission may have at a time
PLACES = ("/tmp", "/dev/shm")  # that are open for writing
FILES = 20_000  # that it may make: each takes memory of the kernel's
LINE = 1 << 24  # bytes that it may say at a time
ASLEEP = 20.0  # seconds by the clock that a cell or a question may take without the processor
LOOK = 0.1  # seconds between two looks at what it does
BEAT = 5.0  # seconds between two signs of life to the grader
TICK = os.sysconf("SC_CLK_TCK")
TEXT = 200  # characters of an error's message that are passed on
SLOW, MANY, BIG = "took longer than it may", "started more processes than it may", "made more files than it may"
DIED = "the process was ended by its own code or by a limit"


def send(channel: int, **frame: object) -> None:
    data = f"\n{json.dumps(frame)}\n".encode()  # a line of its own, whatever the student's code began there
    while data:
        data = data[os.write(channel, data) :]


def line_of(descriptor: int, data: bytes = b"") -> tuple[bytes, bytes]:
    """The first line that comes, of which `data` came before, and what came with it of the next."""
    while b"\n" not in data:
        more = os.read(descriptor, 1 << 18)
        if not more:
            raise EOFError("the grader has gone")
        data += more
    line, _, rest = data.partition(b"\n")
    return line, rest


@dataclass
class Tree:
    """All that this process started, directly or not, and that still runs; and the processor time of all of it."""

    seconds: float = 0.0  # of those that have ended as well
    awake: bool = False  # whether any of it runs, or waits for the processor; not for a disk, nor for another process
    pids: list[int] = field(default_factory=list)


def status(path: str) -> tuple[str, int, int, int]:
    """State, parent, ticks of its own, ticks of its children that have ended, from a `stat` of /proc."""
    with open(path, "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])


def tree() -> Tree:
    """What runs now."""
    found: dict[int, tuple[str, int, int, int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, IndexError, ValueError):
            found[int(name)] = status(f"/proc/{name}/stat")
    children: dict[int, list[int]] = {}
    for pid, (_, parent, _, _) in found.items():
        children.setdefault(parent, []).append(pid)
    # Time goes up to a parent when it waits for its child; what is an orphan comes here, and is waited for here.
    me = os.getpid()
    made, ticks, rest = Tree(), found[me][3], list(children.get(me, []))
    while rest:
        pid = rest.pop()
        state, _, own, ended = found[pid]
        ticks += own + ended
        rest += children.get(pid, [])
        if state not in "ZX":
            made.pids.append(pid)
            made.awake = made.awake or state == "R" or threads_run(pid)
    made.seconds = ticks / TICK
    return made


def threads_run(pid: int) -> bool:
    with contextlib.suppress(OSError, IndexError, ValueError):
        tasks = os.listdir(f"/proc/{pid}/task")
        return len(tasks) > 1 and any(status(f"/proc/{pid}/task/{task}/stat")[0] == "R" for task in tasks)
    return False


class Meter:
    """How long something has run: by the processor, and asleep by the clock."""

    def __init__(self) -> None:
        self.since, self.asleep, self.seen, self.last, self.over = tree().seconds, 0.0, 0.0, time.monotonic(), 0

    def look(self) -> Tree:
        now, found = time.monotonic(), tree()
        spent = found.seconds - self.since
        # A stop of this process, or of the whole machine, is no sleep of the student's; a little work is no day's.
        if not found.awake:
            self.asleep += max(0.0, min(now - self.last, 1.0) - max(0.0, spent - self.seen))
        self.seen, self.last = spent, now
        return found

    def beyond(self, processor: float, asleep: float) -> bool:
        """Whether it has been too long; twice in a row, as a process may be counted twice while it ends."""
        self.over = self.over + 1 if self.seen > processor or self.asleep > asleep else 0
        return self.over > 1


def full() -> bool:
    """Whether more files lie in the folders that are open for writing than a submission may make."""
    there = map(os.statvfs, PLACES)
    return any(each.f_files - each.f_ffree > FILES for each in there)


def tidy() -> None:
    """Remove what was written where it is too much: one question's files are not counted against the next."""
    for place in PLACES if full() else ():
        for name in os.listdir(place):
            path = os.path.join(place, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):  # the list of fonts is read-only
                    os.remove(path)


def end(spared: int = 0) -> bool:
    """End everything that this process started but the one that is spared; whether that worked out."""
    until = time.monotonic() + 5.0
    if spared:
        with contextlib.suppress(OSError):
            os.kill(spared, signal.SIGCONT)  # one question may have stopped it
    while True:
        others = [pid for pid in tree().pids if pid != spared]
        for pid in others:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        reap(spared)
        if not others or time.monotonic() > until:
            return not others
        time.sleep(0.002)


def reap(spared: int = 0) -> None:
    """Wait for orphans that have ended, so that their time is counted; not for the one whose end means something."""
    with contextlib.suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid == spared:
                return
            os.waitpid(found.si_pid, 0)


class Student:
    """The student's process and the pipes to it: one from it, and one to it for every question's cases."""

    def __init__(self, job: dict, skip: dict, run: Callable, fork: Callable) -> None:
        self.code: int | None = None
        self.pending = b""
        self.read, write = os.pipe()
        pipes = {question["name"]: os.pipe() for question in job["questions"]}
        self.cases = {name: ends[1] for name, ends in pipes.items()}
        orders = {name: ends[0] for name, ends in pipes.items()}
        # Forked with every end of every pipe, and it closes those that are not its own.
        self.pid = fork(lambda: run(write, orders, [self.read, *self.cases.values()], job, skip))
        for descriptor in (write, *orders.values()):
            os.close(descriptor)
        for descriptor in (self.read, *self.cases.values()):
            os.set_blocking(descriptor, False)

    def frames(self, wait: float) -> list[dict]:
        """What it said since: frames, of which the student's code may have written any."""
        if not select.select([self.read], [], [], wait)[0]:
            return []
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self.read, 1 << 18)
        if not data:  # every writer has gone
            time.sleep(min(wait, 0.005))
        *lines, self.pending = (self.pending + data).split(b"\n")
        found = []
        for line in filter(None, lines):
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                found.append(dict(json.loads(line)))
        return found

    def ended(self) -> bool:
        if self.code is None:
            reap(self.pid)
            done, status_ = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status_) if done else None
        return self.code is not None

    def close(self) -> None:
        end(spared=self.pid)
        if not self.ended():
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
                self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        end()  # what came from it in the meantime
        for descriptor in (self.read, *self.cases.values()):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@dataclass
class Overseer:
    """One submission. orders: the descriptor from which come a question's cases. channel: where frames go."""

    job: dict
    orders: int
    channel: int
    run: Callable  # the student's process: run(write, orders, others, job, skip)
    fork: Callable  # fork(task) -> its number
    beat: float = 0.0
    coming: bytes = b""  # what was read of the next cases

    def oversee(self) -> None:
        """Run the cells, and again without a cell that killed the process, until one comes through; then questions."""
        skip: dict[str, str] = {}
        self.spent = Meter()  # of all cells together
        for _ in range(len(self.job["cells"]) + 2):
            student = Student(self.job, skip, self.run, self.fork)
            try:
                at, why = self.cells(student)
                if not why:
                    self.questions(student)
                    return
            finally:
                student.close()
            tidy()
            left = {at} if at else set(self.job["own"])  # no time for all: then for those of the assignment
            if not left - skip.keys():
                break
            self.spent = self.spent if at else Meter()
            for cell in sorted(left - skip.keys()):
                skip[cell] = why
                send(self.channel, cell=cell, error=why)
        send(self.channel, stopped=why)

    def watched(self, meter: Meter, processor: float, asleep: float) -> str:
        """Why what runs has to end, "" if it need not."""
        if time.monotonic() > self.beat:
            self.beat = time.monotonic() + BEAT
            send(self.channel, beat=1)
        if time.monotonic() - meter.last < LOOK:
            return ""
        found = meter.look()
        if meter.beyond(processor, asleep):
            return SLOW
        if len(found.pids) > PROCESSES:
            return MANY
        return BIG if full() else ""

    def cells(self, student: Student) -> tuple[str, str]:
        """Where the cells came to an end before the last, and why; "" and "" if they came through."""
        known = {cell["id"] for cell in self.job["cells"]}
        seconds = self.job["cell_seconds"]
        at, meter, over = "", Meter(), False
        while True:
            gone = student.ended()
            for frame in student.frames(0.0 if gone else 0.02):
                if frame.get("cell") in known and "error" in frame:
                    send(self.channel, cell=frame["cell"], error=str(frame["error"])[:TEXT])
                elif frame.get("begins", "") is None:
                    over = True
                elif frame.get("begins") in known:
                    self.charge(at, meter)
                    at, meter = frame["begins"], Meter()
            if over:
                return "", ""
            why = "ended the whole process" if gone else SLOW if len(student.pending) > LINE else ""
            why = why or self.watched(meter, 1.0 + seconds, min(3.0 * seconds, ASLEEP))
            if why:
                self.charge(at, meter)
                return at, why
            if time.monotonic() - self.spent.last > 1.0:
                self.spent.look()
                if self.spent.beyond(self.job["seconds"], 3.0 * ASLEEP):
                    return "", SLOW

    def charge(self, cell: str, meter: Meter) -> None:
        """Take what a cell of the student's own has used from what all of them may, also when they are begun anew."""
        if cell in self.job["own"]:
            meter.look()
            self.job["own_seconds"] -= meter.seen

    def questions(self, student: Student) -> None:
        for question in self.job["questions"]:
            if not end(spared=student.pid):
                send(self.channel, stopped=MANY)
                return
            tidy()
            name = question["name"]
            send(self.channel, asks=name)
            # Nothing of the cases was here before; and while they are waited for no sign of life is given.
            cases, self.coming = line_of(self.orders, self.coming)
            why = self.question(student, name, cases)
            send(self.channel, question=name, ended=why)
            if student.ended():
                return

    def question(self, student: Student, name: str, cases: bytes) -> str:
        """Pass on what a question's process answers; why it ended before the last case, "" if it did not."""
        meter, limit = Meter(), self.job["question_seconds"]
        names = {case["name"] for case in json.loads(cases)}
        while True:
            gone = student.ended()
            if cases:
                with contextlib.suppress(BlockingIOError):
                    try:
                        cases = cases[os.write(student.cases[name], cases) :]
                    except BrokenPipeError:
                        cases = b""
                if not cases:
                    os.close(student.cases.pop(name))
            for frame in student.frames(0.0 if gone else 0.02):
                if frame.get("question") != name:
                    continue
                if "ended" in frame:
                    return "" if frame["ended"] == CAME_THROUGH else DIED
                if frame.get("case") in names and "parts" in frame:
                    send(self.channel, question=name, case=frame["case"], parts=frame["parts"])
                elif "error" in frame and frame.get("case", "") in names | {""}:
                    where = {"case": frame["case"]} if frame.get("case") else {}
                    send(self.channel, question=name, **where, error=str(frame["error"])[:TEXT])
            if gone or len(student.pending) > LINE:
                end()
                return DIED
            if why := self.watched(meter, limit, min(limit, ASLEEP)):
                self.halted(student, name)
                return why

    def halted(self, student: Student, name: str) -> None:
        """End a question, and all if the student's process does not take note of it."""
        until = time.monotonic() + 10.0 if end(spared=student.pid) else 0.0
        while not student.ended() and time.monotonic() < until:
            if any(frame.get("question") == name and "ended" in frame for frame in student.frames(0.02)):
                return
        end()
