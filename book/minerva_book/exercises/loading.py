"""Runs the code cells of a homework as a notebook would: the grader's own way, which the self-check takes as well.

Cells run in order in one namespace, each within a limit of processor time; one that fails is told and the rest goes on.
A student's own cells have a limit for all of them together: experiments must not eat the time of what is marked. A cell
whose time is up still gives what it defines, because a function that is marked may need it.

Nothing here is needed by a reader of the book. It works without Linux: where a system has no timer of processor time,
whoever started this process ends it by the clock.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import linecache
import os
import re
import signal
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

CELL_SECONDS = 10.0  # of the processor, for a cell
OWN_SECONDS = 60.0  # of the processor, for all cells that a student added
CASE_SECONDS = 5.0  # of the processor, for one call of a function
LEAST_SECONDS = 0.05  # of the processor: where less is left, nothing is
STATEMENT_SECONDS = 1.0  # of the processor, for one statement of a cell whose time is up
DEFINING_SECONDS = 10.0  # of the processor, for all such statements
TEXT = 400  # characters of an error's message that are passed on
TOO_SLOW = "took longer than it may"

IPYTHONS = ("%", "!", ">>>", "In [")  # how lines begin that only IPython understands
RUN_THEIR_BODY = {"time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "snakeviz", "scalene"}
WOULD_DEFINE = {"run", "pylab", "store", "load", "macro", "rerun", "recall", "cd"}  # line magics that are missed
OPTIONS_OF_TIMEIT = re.compile(r"(\s*-([nrp]\s*\d+|[tcqov]+)(?=\s|$))*\s*")

DEFINE = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MAY_DEFINE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.If, ast.Try)


LOOPS: list[asyncio.AbstractEventLoop] = []  # made ahead, where a process may later open no socket


def prepare_loops(count: int = 4) -> None:
    """Make event loops for cells with `await` now; each opens a pair of sockets."""
    LOOPS.extend(asyncio.new_event_loop() for _ in range(count))


class OutOfTime(BaseException):
    """A limit was reached. No `Exception`, so that a student's `except Exception` does not swallow it."""


def out_of_time(signum: int, frame: Any) -> None:
    raise OutOfTime(TOO_SLOW)


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block after so much of the processor's time, and every second after that.

    Without a timer of processor time (Windows) it does nothing.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGPROF, out_of_time)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def used() -> float:
    """Seconds of the processor that this process and its ended children took."""
    return sum(os.times()[:4])


def said(error: BaseException) -> str:
    """An error in one line, whatever its class does when asked."""
    try:
        told = str(error).replace("\n", " ")
        return (told if isinstance(error, OutOfTime) else f"{type(error).__name__}: {told}")[:TEXT]
    except BaseException:  # a hostile __str__
        return "an error that cannot be printed"


def compiled(tree: Any, filename: str, *, only_tree: bool = False) -> Any:
    """Code, or a tree, of a cell's text or tree: `await` may stand at its top, and nothing of this file's is inherited.

    Raises SyntaxError, ValueError.
    """
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | (ast.PyCF_ONLY_AST if only_tree else 0)
    return compile(tree, filename, "exec", flags, dont_inherit=True)


def as_python(source: str, filename: str) -> str:
    """A cell as Python: magics become calls of `get_ipython()`.

    Raises SyntaxError that says whether a line of IPython's own could not be read.
    """
    try:
        compiled(source, filename)
        return source
    except (SyntaxError, ValueError) as error:
        lines = [line for line in source.splitlines() if line.strip()]
        theirs = [line for line in lines if line.lstrip().startswith(IPYTHONS) or line.endswith("?")]
        if not theirs and not lines[0].startswith((" ", "\t")):  # IPython takes indented cells, and takes prompts away
            raise SyntaxError(shortened(error)) from None
    try:
        from IPython.core.inputtransformer2 import TransformerManager

        python = TransformerManager().transform_cell(source)
        compiled(python, filename)
        return python
    except ImportError:
        told = (theirs or lines)[0].strip()
        raise SyntaxError(f"{told!r}: wanted IPython, whose syntax this is; it is not installed") from None
    except (SyntaxError, ValueError) as error:
        more = f"; IPython's own lines: {theirs[0].strip()[:60]!r}" if theirs else ""
        raise SyntaxError(f"{shortened(error)}{more}") from None


def shortened(error: Exception) -> str:
    line = getattr(error, "lineno", None)
    return f"{getattr(error, 'msg', error)}" + (f" (line {line})" if line else "")


class Shell:
    """Stands in for IPython's: magics that run code run it; whatever else is asked of it, nothing happens."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.user_ns = session.module.__dict__

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None

    def getoutput(self, *args: Any, **kwargs: Any) -> list[str]:
        return []

    def run_cell_magic(self, name: str, line: str, body: str) -> None:
        if name not in RUN_THEIR_BODY:
            self.session.notes.append(f"%%{name} does nothing here, and what stands below it was not run")
            return
        if name == "timeit":  # what stands beside the options is run first
            self.session.nested(OPTIONS_OF_TIMEIT.sub("", line, count=1))
        elif name == "capture":
            from IPython.utils.capture import CapturedIO  # whoever wrote a cell magic has it

            names = [word for word in line.split() if word.isidentifier()]
            self.user_ns.update(dict.fromkeys(names, CapturedIO(None, None)))  # nothing was printed
        self.session.nested(body)

    def run_line_magic(self, name: str, line: str, *_: Any) -> Any:
        """`%time` runs its statement where it stands, and gives the value of an expression."""
        if name in WOULD_DEFINE:
            self.session.notes.append(f"%{name} does nothing here")
        if name != "time" or not line.strip():
            return None
        caller = sys._getframe(1)
        try:
            code = compile(line.strip(), "<%time>", "eval", dont_inherit=True)
        except SyntaxError:
            code = compile(line.strip(), "<%time>", "exec", dont_inherit=True)
        return eval(code, caller.f_globals, caller.f_locals)


def no_input(*args: Any) -> str:
    raise RuntimeError("input() waits for somebody to type, and nobody is there when this runs by itself")


def new_module() -> types.ModuleType:
    """The namespace of a notebook, which is `__main__` from now on."""
    module = types.ModuleType("__main__")
    module.__dict__.update(display=lambda *args, **kwargs: None, input=no_input)
    sys.modules["__main__"] = module
    return module


class Session:
    """One run of a notebook's cells."""

    def __init__(self, module: types.ModuleType, tell: Callable[..., None]) -> None:
        self.module, self.tell = module, tell
        self.shell = Shell(self)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.notes: list[str] = []
        self.name = ""  # of the cell that runs
        self.parts = 0  # of that cell, each with a file name of its own
        self.only_definitions = False
        self.defining = 0.0  # seconds spent on the definitions of cells whose time was up

    def run(self, name: str, source: str, seconds: float) -> str:
        """What is to be told of a cell after it ran, "" if nothing is. Without seconds it only defines."""
        self.name, self.parts, self.notes, self.only_definitions = name, 0, [], False
        self.module.__dict__["get_ipython"] = lambda: self.shell  # IPython's own gives None here
        try:
            if seconds > LEAST_SECONDS:
                with at_most(seconds):
                    self.part(source)
                    close_figures()
            else:
                self.define(source, "the time of all added cells is up: only what it defines was run")
        except OutOfTime as error:
            self.define(source, f"{said(error)}; what it defines was kept")
        except BaseException as error:
            self.notes.append(said(error))
        return "; ".join(self.notes)[: 2 * TEXT]

    def define(self, source: str, why: str) -> None:
        self.notes.append(why)
        self.only_definitions = True
        self.tell(begins=self.name)  # whoever measures its time from outside begins anew
        with contextlib.suppress(BaseException):
            self.part(source)

    def nested(self, source: str) -> None:
        """The body of a cell magic, which may be a magic again."""
        if source.strip():
            self.part(source)

    def part(self, source: str) -> None:
        self.parts += 1
        filename = f"<{self.name}>" if self.parts == 1 else f"<{self.name}, part {self.parts}>"
        python = as_python(source, filename)
        # Tracebacks, `inspect` and `torch.jit.script` look here for a function's text.
        linecache.cache[filename] = (len(python), None, python.splitlines(keepends=True), filename)
        if self.only_definitions:
            for statement in compiled(python, filename, only_tree=True).body:
                self.define_one(statement, filename)
        else:
            self.execute(compiled(python, filename))

    def define_one(self, statement: ast.stmt, filename: str) -> None:
        """Run a statement if it defines something, for a short time."""
        code = compiled(ast.Module([statement], []), filename)
        if is_cell_magic(statement):
            self.execute(code)
            return
        calls = any(isinstance(node, (ast.Call, ast.Await)) for node in ast.walk(statement))
        cheap = isinstance(statement, DEFINE) or isinstance(statement, MAY_DEFINE) and not calls
        if not cheap and not (isinstance(statement, MAY_DEFINE) and self.defining < DEFINING_SECONDS):
            return
        began = used()
        with contextlib.suppress(BaseException), at_most(STATEMENT_SECONDS):
            self.execute(code)
        self.defining += used() - began

    def execute(self, code: types.CodeType) -> None:
        if not code.co_flags & inspect.CO_COROUTINE:
            exec(code, self.module.__dict__)
            return
        self.loop = self.loop or (LOOPS.pop() if LOOPS else asyncio.new_event_loop())
        try:
            self.loop.run_until_complete(eval(code, self.module.__dict__))
        except BaseException:
            self.loop = None  # what was interrupted must not go on with the next cell
            raise


def is_cell_magic(statement: ast.stmt) -> bool:
    """Whether it is the one statement that IPython makes of a cell magic."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "run_cell_magic"


def close_figures() -> None:
    """As Jupyter does after every cell: figures take memory."""
    if plots := sys.modules.get("matplotlib.pyplot"):
        plots.close("all")


@dataclass
class Loaded:
    """A notebook after its cells have run."""

    module: types.ModuleType
    states: dict[str, tuple[torch.dtype, bool]] = field(default_factory=dict)  # after each cell

    def as_after(self, cell: str) -> None:
        """Torch's default type and whether it takes gradients, as they stood when a cell had run.

        An experiment further down may have changed them; the check below the function saw them as here.
        """
        dtype, gradients = self.states.get(cell, (torch.get_default_dtype(), True))
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(gradients)


def load(
    cells: Iterable[dict[str, Any]],
    tell: Callable[..., None],
    *,
    skip: Collection[str] = (),
    cell_seconds: float = CELL_SECONDS,
    own_seconds: float = OWN_SECONDS,
) -> Loaded:
    """Execute the cells in order.

    cells: {"id", "source"}, and "own" where the student added it. tell: called with `begins=id` before each cell, and
    again before the definitions of one whose time was up, with `begins=None` after the last cell, and with `cell=id,
    error=text` where there is something to tell. skip: ids.
    """
    session = Session(new_module(), tell)
    loaded, spent = Loaded(session.module), 0.0
    for cell in cells:
        name, own = cell["id"], cell.get("own", False)
        if name in skip:
            continue
        tell(begins=name)
        began = used()
        told = session.run(name, cell["source"], min(cell_seconds, own_seconds - spent) if own else cell_seconds)
        spent += used() - began if own else 0.0
        loaded.states[name] = (torch.get_default_dtype(), torch.is_grad_enabled())
        if told:
            tell(cell=name, error=told)
    tell(begins=None)
    return loaded
