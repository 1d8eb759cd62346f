"""What a submission can reach, and what its time is measured by."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from minerva_book.exercises import selfcheck

from .answers import hw2
from .hostile import MADE, SOLUTION
from .trials import edited

from course import isolation, kernel, overseer, seccomp  # isort: skip - found by what trials puts on the path
from course.isolation import Limits, offered, run  # isort: skip
from course.marking import hidden, mark_cells  # isort: skip

SETUP = {"id": "setup", "source": "import math\nimport torch\ntorch.set_default_dtype(torch.float64)"}
SHORT = Limits(cell_seconds=3.0, case_seconds=2.0, question_seconds=4.0)
Q2 = MADE.question("q2")
apart = pytest.mark.skipif(offered() != "bubblewrap", reason="bubblewrap is not at hand here")
filtered = pytest.mark.skipif(not seccomp.program()[0], reason="no filter of system calls is to be had here")


def cells_of(*own: str, **answers: str) -> list[dict[str, str]]:
    """A submission: the setup, own cells, then the right answers or those given."""
    sources = {f"own {place}": source for place, source in enumerate(own)}
    sources |= {f"{name}-code": source for name, source in (SOLUTION | answers).items()}
    return [SETUP, *({"id": name, "source": source} for name, source in sources.items())]


def earned(cells, limits=SHORT):
    marks, said = mark_cells(MADE, cells, "example", limits=limits)
    return {name for name, mark in marks.items() if mark.full}, said


def look(source: str, limits=SHORT) -> list[float]:
    """What a function of the student's gives for one case of question 2."""
    cases = {"q2": hidden(Q2, "example")[0][:1]}
    said = run([SETUP, {"id": "q2-code", "source": source}], [Q2], cases, limits=limits)
    assert ("q2", "one step") in said.answers, said
    return said.answers["q2", "one step"][0]["data"]


@pytest.mark.parametrize("by", [pytest.param("bubblewrap", marks=apart), "process"])
@pytest.mark.parametrize("package", ["minerva_book", "minerva_lite"])  # today's name, and that of before
def test_what_an_assignment_imports_is_there(package, by):
    source = f"from {package}.exercises import check_example\nfrom {package}.figures import book_style"
    said = run([{"id": "setup", "source": source}], [], {}, limits=replace(SHORT, unsafe=True), by=by)
    assert (said.ready, said.cells, said.stopped) == (True, {}, "")


@apart
def test_no_cell_sees_or_tells_a_hidden_input():
    """Not while the cells run, from whatever lies in memory; and not later, in the name of a cell."""
    search = """
import gc, sys
frame, found = sys._getframe(), []
while frame:
    found += [value for value in (frame.f_globals | frame.f_locals).values() if isinstance(value, dict)]
    frame = frame.f_back
found += [each for each in gc.get_objects() if isinstance(each, dict)]
raise ValueError(str([each["inputs"] for each in found if isinstance(each.get("inputs"), dict)])[:150])
"""
    later = """
import json, os
def twisted_gae(*inputs):
    for descriptor in range(3, 64):
        try:
            for name in ("own 1", "q3-code"):
                os.write(descriptor, (json.dumps(dict(cell=name, error="told later")) + chr(10)).encode())
                os.write(descriptor, (json.dumps(dict(question="q3", case="many ends", error="told")) + chr(10)).encode())
        except OSError:
            pass
"""
    points, said = earned(cells_of(search, "1", q2=later))
    assert points == {"q3", "q4"}
    assert said.cells == {"own 0": "ValueError: []"}
    assert {question for question, _ in said.errors} == {"q2"}


SAYS = """
import ctypes, json, os, time
def say(line, times=1):
    for descriptor in range(3, 64):
        try:
            for _ in range(times):
                os.write(descriptor, line)
        except OSError:
            pass
"""
ASLEEP = {  # what takes a worker's time and next to none of the processor's
    "sleeps": "time.sleep(10**6)",
    "works a little": "while True:\n        time.sleep(0.08)\n        until = time.process_time() + 0.01\n"
    "        while time.process_time() < until:\n            pass",
    "a parent that waits for its vfork": "SIGCHLD, CLONE_VFORK = 17, 0x4000\n"
    "    ctypes.CDLL(None).syscall(56 if os.uname().machine == 'x86_64' else 220, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0)\n"
    "    time.sleep(10**6)",
    "a pipe that nobody reads": "read, write = os.pipe()\n    while True:\n        os.write(write, bytes(1000))",
    "a lock that it holds": "import threading\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()",
    "begins to say something": "say(b'{' * 100)\n    time.sleep(10**6)",
}  # fmt: skip


@apart
@pytest.mark.parametrize("how", ASLEEP)
def test_what_waits_without_the_processor_ends_its_question_soon(how, monkeypatch):
    """The answers after it count, and the worker is free again: by its own clock, however busy the machine is."""
    began = time.monotonic()
    points, said = earned(cells_of(q2=f"{SAYS}def twisted_gae(*inputs):\n    {ASLEEP[how]}"), SHORT)
    assert points == {"q3", "q4"} and said.errors["q2", ""] == overseer.SLOW
    assert time.monotonic() - began < 60


@apart
@pytest.mark.parametrize("where", ["function", "cell"])
def test_who_says_more_than_a_submission_has_to_say_is_ended(where):
    """The grader heard no more after so many lines, not even that the next question's cases were asked for."""
    line = b'{"question": "q2", "error": "x"}\n' if where == "function" else b'{"cell": "q2-code", "error": "x"}\n'
    talk = f"say({line!r} * 1000, 30)"
    source = f"{SAYS}{talk}" if where == "cell" else f"{SAYS}def twisted_gae(*inputs):\n    {talk}\n    time.sleep(99)"
    began = time.monotonic()
    points, said = earned(cells_of(q2=source))
    assert said.stopped == "sent back more than it may" and time.monotonic() - began < 60


@apart
def test_a_grader_that_does_not_hear_a_question_is_not_waited_for(monkeypatch):
    """Signs of life that the watch gives while it waits for the grader are none of the submission's."""
    monkeypatch.setattr(isolation, "SILENCE", 8.0)
    monkeypatch.setattr(isolation.Talk, "send_cases", lambda self, name: None)
    began = time.monotonic()
    assert earned(cells_of())[1].stopped == overseer.SLOW and time.monotonic() - began < 60


@apart
def test_own_cells_that_end_the_process_have_no_more_time_than_others():
    burn = "import os, time\nwhile time.process_time() < 1.5:\n    pass\nos._exit(0)"
    cells = [cell | {"own": cell["id"].startswith("own")} for cell in cells_of(*[burn] * 5)]
    points, said = earned(cells, replace(SHORT, own_seconds=2.0))
    assert points == {"q2", "q3", "q4"}
    assert sum("all added cells" in why for why in said.cells.values()) >= 3, said.cells


@apart
@filtered
@pytest.mark.parametrize("source", [
    "@torch.compile\n" + SOLUTION["q2"],
    "@torch.compile(fullgraph=True, dynamic=True)\n" + SOLUTION["q2"],
    SOLUTION["q2"] + "\ntwisted_gae = torch.compile(twisted_gae, mode='reduce-overhead')",
    "import fcntl, tempfile\nwith tempfile.TemporaryFile() as file:\n    fcntl.flock(file, fcntl.LOCK_EX)\n"
    "    fcntl.lockf(file, fcntl.LOCK_EX)\n" + SOLUTION["q2"],
])  # fmt: skip
def test_what_the_self_check_passes_has_its_marks(source):
    points, said = earned(cells_of(q2=source))
    assert points == {"q2", "q3", "q4"}, said
    example = {"name": "q2", "check": "twisted_gae"}
    assert selfcheck.tried([SETUP, {"id": "q2-code", "source": source}], [example])[0] == {"q2": ""}


class Late(psutil.Popen):
    """A grader that does not come to the processor, whenever it asks whether its child still lives."""

    def poll(self):
        time.sleep(1.0)
        return self._Popen__subproc.poll()


@apart
def test_what_a_submission_says_last_is_heard_on_a_busy_machine(monkeypatch):
    monkeypatch.setattr(isolation.psutil, "Popen", Late)
    points, said = earned(cells_of())
    assert points == {"q2", "q3", "q4"} and not said.stopped and not said.errors, said.errors


@apart
def test_a_dozen_errors_of_own_cells_are_told_and_those_of_the_answers_always():
    loud = ["raise ValueError('x' * 300)"] * 30
    points, said = earned(cells_of(*loud, q4="raise ValueError('mine')"))
    assert points == {"q2", "q3"}
    assert len(said.cells) == 13 and said.cells["q4-code"] == "ValueError: mine"
    assert max(map(len, said.cells.values())) <= 200


RIGHT, WRONG = SOLUTION["q3"], edited(SOLUTION["q3"], hw2.WRONG["q3"]["the target carries a gradient"])
FUNCTION = MADE.question("q3").function
RECORDING = f"""
{RIGHT}
right = {FUNCTION}
{WRONG}
wrong, given, grad, total = {FUNCTION}, [], torch.autograd.grad, torch.Tensor.sum
def {FUNCTION}(*inputs):
    given[:] = inputs
    return wrong(*inputs)
"""
PATCHES = {
    "torch.autograd.grad": "torch.autograd.grad = lambda out, leaves, **more: grad(right(*given), leaves, **more)",
    "Tensor.sum": """
last, inner = [None], """ + FUNCTION + """
def """ + FUNCTION + """(*inputs):
    last[:] = [inner(*inputs)]
    return last[0]
def other(self, *more, **most):
    if self is last[0]:
        last[:] = [None]
        return right(*given)
    return total(self, *more, **most)
torch.Tensor.sum = other
""",
    "the engine": """
engine = torch.autograd.Variable._execution_engine
class Engine:
    def run_backward(self, tensors, *more, **most):
        return engine.run_backward((right(*given),), *more, **most)
torch.autograd.graph.Variable._execution_engine = torch.autograd.Variable._execution_engine = Engine()
""",
    "the package": """
import minerva_book.exercises.homework as homework
def with_gradients(function, leaves):
    for leaf in leaves:
        leaf.requires_grad_()
    function()
    return right(*given), *grad(right(*given), leaves)
homework.with_gradients = with_gradients
""",
    "a mode that is never left": """
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        if getattr(function, "__name__", "") == "sum" and arguments and arguments[0] is last[0]:
            last[:] = [None]
            return right(*given)
        return function(*arguments, **(keywords or {}))
last = [None]
inner = """ + FUNCTION + """
def """ + FUNCTION + """(*inputs):
    last[:] = [inner(*inputs)]
    return last[0]
mode = Mode()
mode.__enter__()
""",
    "a class of its own": """
class Own(torch.Tensor):
    def sum(self, *more, **most):
        return right(*given)
inner = """ + FUNCTION + """
def """ + FUNCTION + """(*inputs):
    return inner(*inputs).as_subclass(Own)
""",
    "another engine, under the name of the module that takes gradients": """
import sys
captured = sys.modules["captured"]
engine = captured.ENGINE
captured.ENGINE = lambda tensors, *more, **most: engine((right(*given),), *more, **most)
""",
    "another engine, through the frames of whoever calls": """
import sys
inner, honest = """ + FUNCTION + """, torch._C._ImperativeEngine().run_backward
def """ + FUNCTION + """(*inputs):
    frame = sys._getframe()
    while frame:
        if "ENGINE" in frame.f_globals:
            frame.f_globals["ENGINE"] = lambda tensors, *more, **most: honest((right(*given),), *more, **most)
        frame = frame.f_back
    return inner(*inputs)
""",
    "other functions, wherever they are found": """
import builtins, gc, sys
honest = isinstance
for module in [m for m in sys.modules.values() if hasattr(m, "with_gradients") and hasattr(m, "ENGINE")]:
    module.called = lambda call, answer, inputs, leaves: (right(*given), *grad(right(*given), leaves))
    module.with_gradients = lambda answer, leaves: (right(*given), *grad(right(*given), leaves))
    module.needs_gradient = lambda answer: False
def """ + FUNCTION + """(*inputs):
    given[:] = inputs
    for each in gc.get_objects():
        if honest(each, dict) and "needs_gradient" in each and "ENGINE" in each:
            each["zeros"] = lambda leaf: next(g for x, g in zip(inputs[1:3], grad(right(*inputs), inputs[1:3])) if x is leaf)
            each["needs_gradient"] = lambda answer: False
    builtins.isinstance = lambda value, kind: False if kind is torch._C.TensorBase else honest(value, kind)
    return wrong(*inputs)
""",
}  # fmt: skip


@apart
@pytest.mark.parametrize("patch", PATCHES)
def test_a_changed_torch_does_not_take_other_gradients(patch):
    points, said = earned(cells_of(q3=RECORDING + PATCHES[patch]))
    assert points == {"q2", "q4"} and not said.cells, said


@apart
def test_gradients_left_off_by_an_own_cell_cost_no_mark():
    cells = cells_of()
    points, _ = earned([*cells, {"id": "own", "source": "torch.set_grad_enabled(False)"}])
    assert points == {"q2", "q3", "q4"}


CALLS = {  # numbers of x86-64 and of the newer machines, with arguments that would do no harm
    "memfd_create": (319, 279, b"x", 0), "memfd_secret": (447, 447, 0), "shmget": (29, 194, 0, 4096, 0o1600),
    "msgget": (68, 186, 0, 0o1600), "semget": (64, 190, 0, 1, 0o1600), "mq_open": (240, 180, b"x", 0o102, 0o600, 0),
    "keyctl": (250, 219, 0, -3, 0), "add_key": (248, 217, b"user", b"x", b"y", 1, -2), "ptrace": (101, 117, 0, 0, 0, 0),
    "socket": (41, 198, 1, 1, 0), "a socket of virtual machines": (41, 198, 40, 1, 0), "socketpair": (53, 199, 1, 1, 0, bytes(8)),
    "userfaultfd": (323, 282, 1), "io_uring_setup": (425, 425, 1, bytes(120)), "unshare": (272, 97, 0x10000000),
    "bpf": (321, 280, 0, bytes(72), 72), "perf_event_open": (298, 241, bytes(112), 0, -1, -1, 0),
    "pidfd_open": (434, 434, 1, 0), "setns": (308, 268, 0, 0), "chroot": (161, 51, b"/"),
}  # fmt: skip


@apart
@filtered
def test_the_kernel_refuses_what_homework_has_no_business_with():
    column = 0 if os.uname().machine == "x86_64" else 1
    calls = [(row[column], *row[2:]) for row in CALLS.values()]
    codes = look(f"""
import ctypes, os
def twisted_gae(*inputs):
    libc, codes = ctypes.CDLL(None, use_errno=True), []
    for number, *values in {calls!r}:
        done = libc.syscall(number, *values)
        codes.append(float(ctypes.get_errno()) if done < 0 else 0.0)
    import resource  # the limits and the turn of whoever watches
    for change in (
        lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)), lambda: os.sched_setaffinity(1, [0]),
        lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)), lambda: os.setpriority(0, 1, 19),
    ):
        try:
            change()
            codes.append(0.0)
        except OSError as error:
            codes.append(float(error.errno))
    try:  # whoever does not wait for children would hide their time
        import signal
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        codes.append(0.0)
    except OSError as error:
        codes.append(float(error.errno))
    return torch.tensor(codes)
""")
    names = [*CALLS, "prlimit", "sched_setaffinity", "sched_setscheduler", "setpriority", "SIGCHLD"]
    assert dict(zip(names, codes, strict=True)) == dict.fromkeys(names, 1.0)  # EPERM


@apart
@filtered
def test_what_homework_needs_still_works_under_the_filter():
    assert look("""
import subprocess, threading, tempfile
import matplotlib.pyplot as plt
import numpy, scipy.optimize
def twisted_gae(*inputs):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(1.0))
    thread.start(); thread.join()
    plt.plot([1, 2]); plt.savefig(tempfile.mktemp(suffix=".png"))
    seen.append(float(subprocess.run(["/bin/true"]).returncode == 0))
    seen.append(float(scipy.optimize.brentq(lambda x: x - 1.0, 0, 3)))
    torch.nn.Linear(2, 2)(torch.ones(2)).sum().backward()
    return torch.tensor(seen)
""", replace(SHORT, case_seconds=10.0, question_seconds=15.0)) == [1.0, 1.0, 1.0]  # fmt: skip


@apart
def test_the_keys_of_whoever_grades_are_out_of_reach(monkeypatch):
    """The session keyring is another one, even where no filter refuses to ask."""
    number = kernel.KEYCTL.get(os.uname().machine)
    script = f"""
import ctypes
import sys
libc = ctypes.CDLL(None)
libc.syscall({number}, 1, None)
if libc.syscall({number - 2}, b"user", b"ticket", b"secret", 6, -3) < 0:
    sys.exit(7)
from course import isolation, seccomp
from tests.homework.test_isolation import look
seccomp.program = lambda: (b"", "")
print(look('''
import ctypes
def twisted_gae(*inputs):
    libc, data = ctypes.CDLL(None), ctypes.create_string_buffer(100)
    key = libc.syscall({number}, 10, -3, b"user", b"ticket", 0)
    return torch.tensor(float(key > 0 and libc.syscall({number}, 11, key, data, 100) > 0))
'''))
"""
    root = str(isolation.HOMEWORK.parents[1])
    path = os.pathsep.join([root, str(isolation.HOMEWORK), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    if done.returncode == 7:
        pytest.skip("this machine keeps no keys")
    assert done.stdout == "[0.0]\n", done.stderr


@apart
def test_no_other_process_can_be_looked_into():
    """The watch that holds the next question's cases: its memory, its descriptors, its environment."""
    seen = look("""
import os
def twisted_gae(*inputs):
    opened = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        if name != str(os.getpid()):
            for what in ("mem", "environ", "maps", "fd/0", "fd/1", "fd/3", "fd/4", "fd/5", "fd/6"):
                try:
                    os.close(os.open(f"/proc/{name}/{what}", os.O_RDONLY))
                    opened += 1
                except OSError:
                    pass
    return torch.tensor([float(opened)])
""")
    assert seen == [0.0]


HOGS = """
import os, time
started = []
inner = twisted_gae
def twisted_gae(*inputs):
    if not started:
        started.append(1)
        for _ in range(4):
            if os.fork() == 0:
                os.setsid()
                while time.process_time() < 1.6:
                    pass
                os._exit(0)
        for _ in range(4):
            os.wait()
    return inner(*inputs)
"""


@apart
def test_processes_that_broke_away_are_charged_to_their_question_and_ended():
    began, before = time.monotonic(), psutil.Process().children(recursive=True)
    points, said = earned(cells_of(q2=SOLUTION["q2"] + HOGS), replace(SHORT, question_seconds=4.0))
    assert points == {"q3", "q4"} and said.errors["q2", ""] == "took longer than it may"
    assert "q3" not in {question for question, _ in said.errors} and time.monotonic() - began < 60
    assert set(psutil.Process().children(recursive=True)) <= set(before)


@apart
def test_many_processes_end_a_question_and_no_other():
    many = "import os, time\ndef twisted_gae(*inputs):\n    for _ in range(40):\n        if os.fork() == 0:\n            time.sleep(60)\n    time.sleep(60)"
    points, said = earned(cells_of(q2=many))
    assert points == {"q3", "q4"} and said.errors["q2", ""] in (overseer.MANY, overseer.DIED)


@pytest.mark.parametrize(("awake", "why"), [(True, False), (False, True)])
def test_who_waits_for_the_processor_loses_no_time_and_who_sleeps_does(awake, why, monkeypatch):
    """A hundred seconds by the clock, one of the processor's: enough on a busy machine, a sleeper's end."""
    clock = iter(range(1000))
    monkeypatch.setattr(overseer.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(overseer, "tree", lambda: overseer.Tree(1.0, awake, [1]))
    meter = overseer.Meter()
    for _ in range(100):
        meter.look()
        over = meter.beyond(processor=2.0, asleep=50.0)
    assert over == why


@pytest.mark.slow  # keeps both processors busy for a while
@apart
def test_a_right_answer_on_a_busy_machine_gets_its_marks():
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        slow = SOLUTION["q2"].replace(
            "\n",
            "\n    import time\n    until = time.process_time() + 0.4\n    while time.process_time() < until:\n        pass\n",
            1,
        )
        assert slow != SOLUTION["q2"]
        points, said = earned(cells_of(q2=slow), Limits(question_seconds=5.0))
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert points == {"q2", "q3", "q4"}, said


@apart
def test_own_experiments_beyond_the_time_do_not_cost_the_answers():
    busy = "import time\nuntil = time.process_time() + 1.5\nwhile time.process_time() < until:\n    pass"
    points, said = earned(cells_of(*[busy] * 4), replace(SHORT, seconds=2.0))
    assert points == {"q2", "q3", "q4"}
    assert set(said.cells) == {f"own {place}" for place in range(4)}


@apart
def test_a_million_files_are_not_made():
    files = """
import os
def twisted_gae(*inputs):
    for number in range(10**7):
        os.close(os.open(f"/tmp/{number}", os.O_CREAT))
"""
    points, said = earned(cells_of(q2=files), replace(SHORT, case_seconds=30.0, question_seconds=30.0))
    assert points == {"q3", "q4"} and said.errors["q2", ""] == "made more files than it may"


@pytest.mark.parametrize(("lines", "files", "wanted"), [
    ("0::/a/b\n", {"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5),
    ("4:cpu,cpuacct:/a\n0::/\n", {"cpu,cpuacct/a/cpu.cfs_quota_us": "50000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"}, 0.5),
    ("4:cpu:/\n3:cpuset:/x\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, float("inf")),
    ("", {}, float("inf")),
])  # fmt: skip
def test_a_containers_share_bounds_the_workers(lines, files, wanted, tmp_path):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")
    (tmp_path / "cgroup").write_text(lines)
    assert isolation.share_of(tmp_path / "cgroup", tmp_path) == wanted
    assert (
        1 <= isolation.workers_here(tmp_path / "cgroup", tmp_path) <= max(1.0, min(wanted + 0.5, os.cpu_count() or 1))
    )


def script(path, text: str) -> str:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_why_nothing_started_is_told(monkeypatch, tmp_path):
    """In the words of bubblewrap or of Python, which name the cause."""
    monkeypatch.setattr(
        isolation, "PYTHON", script(tmp_path / "python", "#!/bin/sh\necho 'no such library' >&2\nexit 1\n")
    )
    with pytest.raises(RuntimeError, match="did not start.*no such library"):
        mark_cells(MADE, [SETUP], "example", limits=replace(SHORT, unsafe=True), by="process")
    script(tmp_path / "bwrap", "#!/bin/sh\necho 'bwrap: user namespaces are switched off' >&2\nexit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    isolation.probed.cache_clear()
    try:
        assert offered() == "process"
        assert "user namespaces are switched off" in isolation.protection()
        with pytest.raises(RuntimeError, match="namespaces are switched off"):
            mark_cells(MADE, [SETUP], "example", limits=SHORT)
    finally:
        isolation.probed.cache_clear()


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(seccomp, "program", lambda: (b"", "no filter of system calls: no library"))
    monkeypatch.setattr(isolation, "probed", lambda: ("bubblewrap", ""))
    assert isolation.protection() == "bubblewrap (no filter of system calls: no library)"
