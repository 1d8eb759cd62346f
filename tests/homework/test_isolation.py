"""What a submission can reach, and what its time is measured by."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from minerva_book.exercises import selfcheck

from .answers.slips import HW2, slipped
from .hostile import MADE, SOLUTION
from .trials import ROOT, SETUP, SHORT, apart

from course import isolation, kernel, overseer, seccomp  # isort: skip - found by what trials puts on the path
from course.isolation import Said, run  # isort: skip
from course.marking import hidden, mark_cells, refused  # isort: skip

Q2, Q3 = MADE.question("q2"), MADE.question("q3")
FUNCTION = Q3.function
filtered = pytest.mark.skipif(not seccomp.program()[0], reason="no filter of system calls is to be had here")
slow = pytest.mark.slow


def cells_of(*own: str, **answers: str) -> list[dict]:
    """A submission: the setup, own cells, then the right answers or those given."""
    coded = [{"id": f"{name}-code", "source": source} for name, source in (SOLUTION | answers).items()]
    return [SETUP, *({"id": f"own {k}", "source": text, "own": True} for k, text in enumerate(own)), *coded]


def earned(cells, limits=SHORT):
    marks, said = mark_cells(MADE, cells, "example", limits)
    return {name for name, mark in marks.items() if mark.full}, said


def all_at_once(sources: dict[str, str], limits=SHORT) -> tuple[Said, dict[str, str]]:
    """One submission with as many questions as sources: question 3 for whoever writes its function, else question 2.

    Each is answered in a process of its own. What was said; and, by source, what is wrong with its answer.
    """
    questions, cells, drawn = [], [SETUP], {}
    for place, (story, text) in enumerate(sources.items()):
        of = Q3 if FUNCTION in text else Q2
        q = replace(of, name=story, function=f"{of.function}_{place}")
        questions.append(q)
        cells.append({"id": f"{story}-code", "source": text.replace(of.function, q.function)})
        drawn[story] = hidden(of, "example")
    said = run(cells, questions, {story: cases for story, (cases, _) in drawn.items()}, limits=limits)
    why = {}
    for q in questions:
        cases, right = drawn[q.name]
        whys = [refused(q, case, right[case.name], said) for case in cases]
        why[q.name] = said.errors.get((q.name, "")) or next(filter(None, whys), "")
    return said, why


def numbers_of(said: Said, story: str) -> list[float]:
    """What a function gave for the first case."""
    assert (story, "one step") in said.answers, said
    return said.answers[story, "one step"][0]["data"]


# What can be seen and done from inside: one submission for all looks


RIGHT, WRONG = SOLUTION["q3"], slipped(SOLUTION["q3"], HW2["q3"]["the target carries a gradient"])
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


CALLS = {  # numbers of x86-64 and of the newer machines, with arguments that would do no harm
    "memfd_create": (319, 279, b"x", 0), "memfd_secret": (447, 447, 0), "shmget": (29, 194, 0, 4096, 0o1600),
    "msgget": (68, 186, 0, 0o1600), "semget": (64, 190, 0, 1, 0o1600), "mq_open": (240, 180, b"x", 0o102, 0o600, 0),
    "keyctl": (250, 219, 0, -3, 0), "add_key": (248, 217, b"user", b"x", b"y", 1, -2), "ptrace": (101, 117, 0, 0, 0, 0),
    "socket": (41, 198, 1, 1, 0), "a socket of virtual machines": (41, 198, 40, 1, 0), "socketpair": (53, 199, 1, 1, 0, bytes(8)),
    "userfaultfd": (323, 282, 1), "io_uring_setup": (425, 425, 1, bytes(120)), "unshare": (272, 97, 0x10000000),
    "bpf": (321, 280, 0, bytes(72), 72), "perf_event_open": (298, 241, bytes(112), 0, -1, -1, 0),
    "pidfd_open": (434, 434, 1, 0), "setns": (308, 268, 0, 0), "chroot": (161, 51, b"/"),
}  # fmt: skip


LOOKS = {  # what a function gives that looks around, and what it has to give
    "nothing of the homework, the repository, home or the network is in sight, and Python is read-only": (f"""
import os, numpy
def twisted_gae(*inputs):
    places = {[*map(str, (ROOT / "book", ROOT / "tests", ROOT / ".git")), "/etc/passwd", "/sys"]!r}
    seen = [float(os.path.exists(place)) for place in places]
    for place in ("/", "/usr", {str(ROOT / "minerva_lite")!r}, os.path.dirname(numpy.__file__)):
        try:
            open(place + "/was_here", "w").close()
            seen.append(1.0)
        except OSError:
            seen.append(0.0)
    return torch.tensor([*seen, float(sum(name.isdigit() for name in os.listdir("/proc")) > 6)])
""", [0.0] * 10),
    "neither the kernel's settings nor memory as files": ("""
import os
def twisted_gae(*inputs):
    seen, written = [], 0
    for path in ("/proc/sys/kernel/core_pattern", "/proc/self/oom_score_adj", "/dev/was_here", "/proc/sys/vm/drop_caches"):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
            seen.append(1.0)
        except OSError:
            seen.append(0.0)
    try:
        with open("/dev/shm/x", "wb", buffering=0) as one, open("/dev/shm/y", "wb", buffering=0) as two:
            for file in (one, two) * 8:
                written += file.write(bytes(1 << 23))
    except OSError:
        pass
    return torch.tensor([*seen, float(written > 1 << 26)])
""", [0.0] * 5),
    "no other process, such as the watch that holds the next question's cases": ("""
import os
def twisted_gae(*inputs):
    opened = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        if name != str(os.getpid()):
            for what in ("mem", "environ", "maps", *(f"fd/{k}" for k in range(7))):
                try:
                    os.close(os.open(f"/proc/{name}/{what}", os.O_RDONLY))
                    opened += 1
                except OSError:
                    pass
    return torch.tensor([float(opened)])
""", [0.0]),
    "what homework needs works": ("""
import os, subprocess, threading, tempfile
import matplotlib.pyplot as plt
import scipy.optimize
from minerva_book.exercises import check_example
from minerva_lite.figures import book_style  # by the name of before
def twisted_gae(*inputs):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(1.0))
    thread.start(); thread.join()
    plt.plot([1, 2]); plt.savefig(tempfile.mktemp(suffix=".png"))
    print("x" * 10**7); os.write(1, b"y" * 10**7)
    seen.append(float(subprocess.run(["/bin/true"]).returncode == 0))
    seen.append(float(scipy.optimize.brentq(lambda x: x - 1.0, 0, 3)))
    torch.nn.Linear(2, 2).double()(torch.ones(2)).sum().backward()
    return torch.tensor(seen)
""", [1.0] * 3),
    "the right answer": (SOLUTION["q2"], None),
}  # fmt: skip
if seccomp.program()[0]:
    CALLED = [(row[os.uname().machine != "x86_64"], *row[2:]) for row in CALLS.values()]
    LOOKS["the kernel refuses what homework has no business with"] = (f"""
import ctypes, os, resource, signal
def twisted_gae(*inputs):
    libc, codes = ctypes.CDLL(None, use_errno=True), []
    for number, *values in {CALLED!r}:
        done = libc.syscall(number, *values)
        codes.append(float(ctypes.get_errno()) if done < 0 else 0.0)
    for change in (  # the limits and the turn of whoever watches; and not to wait for children would hide their time
        lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)), lambda: os.sched_setaffinity(1, [0]),
        lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)), lambda: os.setpriority(0, 1, 19),
        lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    ):
        try:
            change()
            codes.append(0.0)
        except OSError as error:
            codes.append(float(error.errno))
    return torch.tensor(codes)
""", [float(errno.EPERM)] * (len(CALLS) + 5))  # fmt: skip


@slow
@apart
def test_the_keys_of_whoever_grades_are_out_of_reach(monkeypatch):
    """The session keyring is another one, even where no filter refuses to ask."""
    number, libc = kernel.KEYCTL.get(os.uname().machine), ctypes.CDLL(None)
    libc.syscall(number, 1, None)
    if libc.syscall(number - 2, b"user", b"ticket", b"secret", 6, -3) < 0:
        pytest.skip("this machine keeps no keys")
    monkeypatch.setattr(seccomp, "program", lambda: (b"", ""))
    asks = f"""
import ctypes
def twisted_gae(*inputs):
    libc, data = ctypes.CDLL(None), ctypes.create_string_buffer(100)
    key = libc.syscall({number}, 10, -3, b"user", b"ticket", 0)
    return torch.tensor(float(key > 0 and libc.syscall({number}, 11, key, data, 100) > 0))
"""
    assert numbers_of(all_at_once({"asks": asks})[0], "asks") == [0.0]


@apart
def test_no_cell_sees_or_tells_a_hidden_input():
    """Not while the cells run, from whatever lies in memory; and not later, in the name of a cell. Nor is more heard."""
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
                os.write(descriptor, (json.dumps(dict(cell=name, error="later")) + chr(10)).encode())
                os.write(descriptor, (json.dumps(dict(question="q3", case="many ends", error="x")) + chr(10)).encode())
        except OSError:
            pass
"""
    loud = ["raise ValueError('x' * 300)"] * 30
    points, said = earned(cells_of(search, "1", *loud, q2=later, q4="raise ValueError('mine')"))
    assert points == {"q3"} and said.cells["own 0"] == "ValueError: []" and "own 1" not in said.cells
    assert {question for question, _ in said.errors} == {"q2", "q4"}
    # A dozen errors of own cells are told, and those of the answers always.
    assert len(said.cells) == 13 and said.cells["q4-code"] == "ValueError: mine"
    assert max(map(len, said.cells.values())) <= 200


@slow
@apart
@pytest.mark.parametrize("patch", PATCHES)
def test_a_torch_that_a_cell_changed_does_not_take_other_gradients(patch):
    """Whether it was changed before, or (below) while the answer is computed."""
    points, said = earned(cells_of(q3=RECORDING + PATCHES[patch]))
    assert points == {"q2", "q4"} and not said.cells, said


# What costs its question and no other


SAYS = """
import ctypes, json, os, time
def say(line, times=1):
    for descriptor in range(3, 64):
        try:
            for _ in range(times):
                os.write(descriptor, line)
        except OSError:
            pass
def forge(**frame):
    for case in """ + repr([case.name for case in hidden(Q2, "example")[0]]) + """:
        say(json.dumps(dict(frame, case=case)).encode() + b"\\n")
    os._exit(17)
"""  # fmt: skip
ENDED, WRONG_SHAPE = overseer.DIED, "wanted shape"
CHEAP = {  # the body of a function, and why it earns nothing
    "sleeps, whatever wakes it": ("""while True:
        try:
            time.sleep(1)
        except BaseException:
            pass""", overseer.SLOW),
    "many processes": ("""for _ in range(40):
        if os.fork() == 0:
            time.sleep(60)
    time.sleep(60)""", (overseer.MANY, ENDED)),
    "ends its process": ("os._exit(0)", ENDED),
    "memory": ("rows = []\n    while True:\n        rows.append(torch.empty(10**7))", "RuntimeError"),
    # Numbers too large to convert, shapes that would take hours to multiply, lines without end, words for numbers.
    "huge": ("forge(parts=[dict(shape=[1, 3], data=[10**400, 0, 0])])", "wanted numbers"),
    "shape": ("forge(parts=[dict(shape=[10**4000] * 20, data=[0])])", (WRONG_SHAPE, "no answer came back")),
    "infinite": ("forge(parts=[dict(shape=float('inf'), data=None)])", WRONG_SHAPE),
    "words": ("forge(parts='a')", "what came back is no answer"),
    "newlines": ("say(b'\\n' * 2**20)\n    os._exit(17)", "no answer came back"),
    "nested": ("say(b'[\"begins\"]\\n' + b'[' * 100_000 + b'\\n')\n    os._exit(17)", "no answer came back"),
    "surrogate": ("forge(error='\\ud800 <script>')", "? <script>"),
}  # fmt: skip
ATTACKS = CHEAP | {
    # What takes a worker's time and next to none of the processor's.
    "works a little": ("""while True:
        time.sleep(0.08)
        until = time.process_time() + 0.01
        while time.process_time() < until:
            pass""", overseer.SLOW),
    "a parent that waits for its vfork": ("""SIGCHLD, CLONE_VFORK = 17, 0x4000
    ctypes.CDLL(None).syscall(56 if os.uname().machine == 'x86_64' else 220, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0)
    time.sleep(10**6)""", overseer.SLOW),
    "a pipe that nobody reads": ("read, write = os.pipe()\n    while True:\n        os.write(write, bytes(1000))", overseer.SLOW),
    "a lock that it holds": (
        "import threading\n    lock = threading.Lock()\n    lock.acquire()\n    lock.acquire()", overseer.SLOW),
    "begins to say something": ("say(b'{' * 100)\n    time.sleep(10**6)", overseer.SLOW),
    # Processes that broke away are charged to their question and ended.
    "breaks away": ("""for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            while time.process_time() < 1.6:
                pass
            os._exit(0)
    for _ in range(4):
        os.wait()
    time.sleep(99)""", overseer.SLOW),
    "a fork bomb": ("while True:\n        os.fork()", (overseer.MANY, ENDED)),
    "many files": ("for k in range(10**7):\n        os.close(os.open(f'/tmp/{k}', os.O_CREAT))", overseer.BIG),
}  # fmt: skip


PATCHED = {story: f"def {FUNCTION}(*inputs):\n    global {FUNCTION}\n    space = dict(torch=torch)\n"
           f"    exec({(RECORDING + PATCHES[story]).replace(FUNCTION, 'inner_loss')!r}, space)\n"
           f"    {FUNCTION} = space['inner_loss']\n    return {FUNCTION}(*inputs)\n" for story in PATCHES}  # fmt: skip


@pytest.fixture(scope="module", params=[pytest.param(CHEAP, id="some"), pytest.param(ATTACKS, id="all", marks=slow)])
def tried(request):
    """One submission that looks around, changes torch and attacks: the attacks, what was said, what is wrong."""
    began, before = time.monotonic(), psutil.Process().children(recursive=True)
    sources = {name: source for name, (source, _) in LOOKS.items()} | PATCHED | {"another right answer": RIGHT}
    for name, (body, _) in request.param.items():
        body = body.replace("forge(", f"forge(question={name!r}, ")
        sources |= {name: f"{SAYS}def twisted_gae(*inputs):\n    {body}", f"after {name}": SOLUTION["q2"]}
    said, why = all_at_once(sources, replace(SHORT, case_seconds=30.0, memory=1 << 30))
    assert not said.stopped and not said.cells, said
    # The worker is free again: by its own clock, however busy the machine is.
    assert set(psutil.Process().children(recursive=True)) <= set(before)
    assert time.monotonic() - began < 60 + 5 * len(sources)
    return request.param, said, why


@apart
def test_what_can_be_seen_from_inside(tried):
    _, said, why = tried
    for name, (_, wanted) in LOOKS.items():
        assert wanted is None or numbers_of(said, name) == wanted, name
    assert why["the right answer"] == ""


@apart
def test_a_changed_torch_does_not_take_other_gradients(tried):
    *_, why = tried
    assert why["another right answer"] == ""
    assert all(why[story].startswith("the gradient by") for story in PATCHES), why


@apart
def test_an_attack_earns_nothing_and_costs_no_other_question(tried):
    """The answers after it count."""
    attacks, _, why = tried
    assert {name: why[f"after {name}"] for name in attacks} == dict.fromkeys(attacks, "")
    for name in attacks:
        assert why[name].startswith(attacks[name][1]), (name, why[name])
    "".join(why.values()).encode("utf8")  # it can be written


@slow
@apart
def test_memory_by_many_processes_ends_a_submission():
    hogs = """
import os
def twisted_gae(*inputs):
    for _ in range(6):
        if not os.fork():
            break
    rows = [bytearray(os.urandom(1 << 20)) * 300 for _ in range(2)]
    while True:
        rows[0][::4096] = rows[1][::4096]
"""
    small = replace(SHORT, memory=1 << 30, question_seconds=20.0, case_seconds=20.0)
    assert all_at_once({"hogs": hogs}, small)[0].stopped == "took more memory than it may"


@apart
def test_who_says_more_than_a_submission_has_to_say_is_ended():
    """The grader heard no more after so many lines, not even that the next question's cases were asked for."""
    talk = """say(b'{"question": "q2", "error": "x"}\\n' * 1000, 30)"""
    began = time.monotonic()
    points, said = earned(cells_of(q2=f"{SAYS}def twisted_gae(*inputs):\n    {talk}\n    time.sleep(99)"))
    assert said.stopped == "sent back more than it may" and time.monotonic() - began < 60


@slow
@apart
def test_a_grader_that_does_not_hear_a_question_is_not_waited_for(monkeypatch):
    """Signs of life that the watch gives while it waits for the grader are none of the submission's."""
    monkeypatch.setattr(isolation, "SILENCE", 8.0)
    monkeypatch.setattr(isolation.Talk, "send_cases", lambda self, name: None)
    began = time.monotonic()
    assert earned(cells_of())[1].stopped == overseer.SLOW and time.monotonic() - began < 60


BUSY = "import os, time\nuntil = time.process_time() + 1.5\nwhile time.process_time() < until:\n    pass\n"


@slow
@apart
@pytest.mark.parametrize(("own", "limits", "why"), [
    # Own cells that end the process have no more time than others; nor do experiments beyond the time cost the answers.
    ([BUSY + "os._exit(0)"] * 5, {"own_seconds": 2.0}, "all added cells"), ([BUSY] * 4, {"seconds": 2.0}, overseer.SLOW),
    (["import torch\ntorch.set_grad_enabled(False)"], {}, ""),
])  # fmt: skip
def test_own_cells_cost_the_answers_nothing(own, limits, why):
    points, said = earned(cells_of(*own), replace(SHORT, **limits))
    assert points == {"q2", "q3", "q4"}
    assert not why or sum(why in each for each in said.cells.values()) >= 3, said.cells


COMPILED = {
    "compiled": "@torch.compile\n" + SOLUTION["q2"],
    "as a whole": "@torch.compile(fullgraph=True, dynamic=True)\n" + SOLUTION["q2"],
    "called": SOLUTION["q2"] + "\ntwisted_gae = torch.compile(twisted_gae, mode='reduce-overhead')",
    "locks": "import fcntl, tempfile\nwith tempfile.TemporaryFile() as file:\n    fcntl.flock(file, fcntl.LOCK_EX)\n"
    "    fcntl.lockf(file, fcntl.LOCK_EX)\n" + SOLUTION["q2"],
}  # fmt: skip


@slow
@apart
@filtered
def test_what_the_self_check_passes_has_its_marks():
    assert all_at_once(COMPILED)[1] == dict.fromkeys(COMPILED, "")
    for source in COMPILED.values():
        example = {"name": "q2", "check": "twisted_gae"}
        assert selfcheck.tried([SETUP, {"id": "q2-code", "source": source}], [example])[0] == {"q2": ""}


class Late(psutil.Popen):
    """A grader that does not come to the processor, whenever it asks whether its child still lives."""

    def poll(self):
        time.sleep(1.0)
        return self._Popen__subproc.poll()


@slow
@apart
def test_what_a_submission_says_last_is_heard_on_a_busy_machine(monkeypatch):
    monkeypatch.setattr(isolation.psutil, "Popen", Late)
    points, said = earned(cells_of())
    assert points == {"q2", "q3", "q4"} and not said.stopped and not said.errors, said.errors


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


@slow  # keeps both processors busy for a while
@apart
def test_a_right_answer_on_a_busy_machine_gets_its_marks():
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        slow = SOLUTION["q2"].replace("\n", "\n    " + BUSY.replace("1.5", "0.4").replace("\n", "\n    ") + "\n", 1)
        assert slow != SOLUTION["q2"]
        points, said = earned(cells_of(q2=slow), replace(SHORT, case_seconds=5.0, question_seconds=5.0))
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert points == {"q2", "q3", "q4"}, said


# What is told where it does not work


@apart
def test_why_nothing_started_is_told(monkeypatch, tmp_path):
    """In the words of bubblewrap, which name the cause; and what is missing where something starts."""
    monkeypatch.setattr(isolation, "PYTHON", "/no/python")
    with pytest.raises(RuntimeError, match="did not start.*/no/python"):
        mark_cells(MADE, [SETUP], "example", SHORT)
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: user namespaces are switched off' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    isolation.missing.cache_clear()
    try:
        assert "user namespaces are switched off" in isolation.protection()
        with pytest.raises(RuntimeError, match="bubblewrap: wanted, .*namespaces are switched off"):
            mark_cells(MADE, [SETUP], "example", SHORT)
    finally:
        isolation.missing.cache_clear()
    monkeypatch.setattr(seccomp, "program", lambda: (b"", "no filter of system calls: no library"))
    monkeypatch.setattr(isolation, "missing", lambda: "")
    assert isolation.protection() == "bubblewrap (no filter of system calls: no library)"
