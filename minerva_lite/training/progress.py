"""What a training shows while it runs: in a notebook a line, a bar and a growing curve, elsewhere a bar of characters.

A notebook's cell has one such output, which is written anew and ends as a line of text and the curve.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from html import escape
from typing import Any, NamedTuple

from tqdm import tqdm

FRAMES = "BOOK_FRAMES"  # the environment variable, which the book's build and its checks set: nothing is shown
PAUSE = 0.5  # seconds at least from one state to the next
LIVE = {"minerva_lite": "live"}  # metadata of the output, by which a comparison of outputs finds it
POINTS, PAST = 200, 20  # of a curve, and curves of before, at most
LETTERS = 11  # pixels of a curve's words

Curve = Sequence[tuple[float, float]]  # shares of the whole, and values


class State(NamedTuple):
    """Where a computation stands."""

    line: str
    share: float  # of the whole, that is done
    curves: dict[str, Curve] = {}  # by name


def picture(past: list[Curve], curves: dict[str, Curve]) -> str:
    """Curves as an SVG in the notebook's own color, those of before pale; empty if there is nothing to draw.

    curves: by the word at their end.
    """
    now = [(name, curve, 1.5 * i, 0.5 + 0.2 * i) for i, (name, curve) in enumerate(curves.items(), 1)]
    values = [y for curve in (*past, *curves.values()) for _, y in curve if math.isfinite(y)]
    if not values:
        return ""
    low, high, lines, words = min(values), max(values), "", ""
    ends: list[tuple[float, str, str]] = []
    for name, curve, width, strength in [("", each, 1.5, 0.25) for each in past] + now:
        some = [(x, y) for x, y in curve[:: -(-len(curve) // POINTS) or 1] if math.isfinite(y)]
        points = [f"{70 + 370 * x:.1f},{110 - 100 * (y - low) / (high - low or 1):.1f}" for x, y in some]
        lines += f'<polyline points="{" ".join(points)}" stroke-width="{width}" stroke-opacity="{strength}"/>'
        if name and points:
            x, _, y = points[-1].partition(",")
            ends.append((float(y), x, name))
    above = -math.inf
    for i, (y, x, name) in enumerate(sorted(ends), 1):  # each below the one above, the last one in the frame
        above = max(min(y, 110.0 - LETTERS * (len(ends) - i)), above + LETTERS)
        words += f'<text x="{x}" y="{above:.1f}" dx="4" dy="4">{name}</text>'
    words += f'<g text-anchor="end"><text x="62" y="14">{high:.4g}</text><text x="62" y="113">{low:.4g}</text></g>'
    return (
        f'<svg viewBox="0 0 480 120" width="480" style="display:block;max-width:100%" role="img" aria-label="returns">'
        f'<g fill="none" stroke="currentColor"><path d="M70 5V115H440" stroke-opacity="0.4"/>{lines}</g>'
        f'<g fill="currentColor" font-size="{LETTERS}">{words}</g></svg>'
    )


class Live:
    """The output of one cell. What runs inside of something else adds its line to that one's."""

    def __init__(self, display: Callable[..., Any]):
        self.display, self.handle, self.due = display, None, time.monotonic() + PAUSE
        self.asked: list[Callable[[], State]] = []  # of what runs, the outermost first
        self.past: list[Curve] = []
        self.stopped = False

    @contextmanager
    def following(self, state: Callable[[], State]) -> Iterator[Callable[[], None]]:
        """Yields what to call after every step; `state` is asked at most every PAUSE seconds, and at the end.

        A line of text is left, and its curve; nothing of what takes no longer than a pause.
        """

        def tell() -> None:
            if time.monotonic() >= self.due:
                self.write()

        depth = len(self.asked)
        self.asked.append(state)
        try:
            yield tell
        finally:
            if depth:
                tell()
            elif self.handle:
                self.write(ends=True)
            self.past = (self.past + [each for each in state().curves.values() if each])[-PAST:]
            del self.asked[depth:]

    def write(self, ends: bool = False) -> None:
        states = [state() for state in self.asked]
        stopped = ", stopped" if ends and states[0].share < 1 else ""
        stopped += ", and with it what waited to run" if ends and self.stopped else ""
        data = {"text/plain": "; ".join(each.line for each in states) + stopped}
        drawn = picture(self.past, states[-1].curves)
        if drawn or not ends:
            bar = "" if ends else f'<progress value="{states[0].share:.3f}" style="width:12em"></progress> '
            data["text/html"] = f"<div>{bar}{escape(data['text/plain'])}{drawn}</div>"
        if self.handle is None:
            self.handle = self.display(data, raw=True, metadata=LIVE, display_id=True)
        else:
            self.handle.update(data, raw=True, metadata=LIVE)
        self.due = time.monotonic() + PAUSE


_last: tuple[Any, Live] | None = None  # of the cell that ran last, and what the front end asked for with it


def in_notebook() -> bool:
    return hasattr(_shell(), "get_parent")


def _shell() -> Any:
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def live() -> Live | None:
    """The output of the cell that runs; None outside of a notebook, and where `BOOK_FRAMES` is set."""
    global _last
    if not in_notebook() or os.environ.get(FRAMES):
        return None
    asked = _shell().get_parent()
    if _last is None or _last[0] is not asked:
        _last = asked, Live(sys.modules["IPython.display"].display)
    return _last[1]


def stop(progress: bool) -> None:
    """End a training by hand: in a notebook that shows it, with what it has, but no other training of its cell begins.

    The cells that wait behind that one, as in Run All, do not run: they would take a part for the whole.
    Raises KeyboardInterrupt elsewhere.
    """
    page = live() if progress else None
    if page is None:
        raise KeyboardInterrupt
    page.stopped, events = True, _shell().events

    def fail(result: Any) -> None:
        events.unregister("post_run_cell", fail)
        result.error_in_exec = KeyboardInterrupt()

    events.register("post_run_cell", fail)


@contextmanager
def watching(run: Any) -> Iterator[Callable[[], None] | None]:
    """Show a training; yields what to call after every update. Raises KeyboardInterrupt after a stop in its cell."""
    if in_notebook():
        page = live()
        if page and page.stopped:
            raise KeyboardInterrupt
        with page.following(lambda: _state(run)) if page else nullcontext() as tell:
            yield tell
        return
    with _bar(run) as bar:
        yield lambda: _show(bar, run)


def _state(run: Any) -> State:
    history, total, curves = run.history, run.total_steps, {}
    line = f"{run.agent.spec.env_id}: {run.steps:,} of {total:,} steps in {run.seconds:.0f} s"
    for name, rows, figure in (
        ("train", history.updates, "train/episode_return"),
        ("eval", history.evaluations, "eval/mean"),
    ):
        curves[name] = curve = [(row["steps"] / total, row[figure]) for row in rows if figure in row]
        line += f", {name} return {curve[-1][1]:.1f}" if curve else ""
    return State(line, 1.0 if run.stopped else min(1.0, run.steps / total), curves)


def _bar(run: Any) -> tqdm:
    """The progress bar: live in a terminal; in a file its first and its last state alone."""
    return tqdm(
        total=run.total_steps,
        initial=min(run.steps, run.total_steps),  # a last rollout may pass the end, and tqdm would write "?"
        mininterval=0.1 if sys.stderr.isatty() else math.inf,
        # Without tqdm's own rate, which counts the time of evaluations.
        bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt} steps [{elapsed}<{remaining}{postfix}]",
    )


def _show(bar: tqdm, run: Any) -> None:
    """Move the bar to where the run stands."""
    if "train/episode_return" in run.history.updates[-1]:
        run.shown["train return"] = f"{run.history.updates[-1]['train/episode_return']:.1f}"
    if run.history.evaluations:
        run.shown["eval return"] = f"{run.history.evaluations[-1]['eval/mean']:.1f}"
    bar.set_postfix(run.shown | {"steps/s": f"{run.steps / run.seconds:.0f}"}, refresh=False)
    bar.update(min(run.steps, run.total_steps) - bar.n)  # tqdm drops the bar of a run that passes its end
