"""Interactive figures, which also live without a kernel.

In a notebook a control takes any value of its range, and the kernel draws the picture anew. For a page, that is where
`BOOK_FRAMES` is set, every picture is drawn beforehand; the controls only choose which one is shown, by links that run
in the browser. These pictures are vectors, and what they have in common is stored once (`vector`).
"""

from __future__ import annotations

import base64
import gc
import io
import math
import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from html import escape
from itertools import product

import ipywidgets as widgets
import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from PIL import Image

from minerva_lite.training.progress import FRAMES
from minerva_lite.worlds.tabular import TabularMDP, drifting_critic

from .comparison import plot_order
from .estep import plot_temperature, temperature_example
from .gradients import plot_baseline, plot_dropped_factor
from .mstep import RULES, decoupled_kl_optimum, plot_decoupled_kl
from .ppo import plot_clip_objective
from .style import BLUE, GRAY, GREEN, ORANGE, RED, book_style
from .top_k import plot_top_k, top_k_example
from .trpo import plot_conjugate_gradient, plot_trap, plot_trust_region
from .values import corridor_gae_error, plot_discount, plot_gae, plot_readings
from .vector import ROOT_STYLE, written_together

MAX_FRAMES = 24
POSITIONS = 200  # about so many has a slider that takes any value of its range
READOUT = ".3g"  # such a value, beside the slider and in the picture
RUN = "To move it, run the cells above (Run › Run All Above Selected Cell), then this one."
RELOAD = "To move it, reload this page in the browser, then run this cell again."
STILL = "figure-still"
# Seen in JupyterLab and Notebook 7 if the figure above is not, whose "model not found" then goes.
SHOWN = f""".{STILL} {{ display: none }}
.jp-OutputArea:not(:has(.frames-figure)) .{STILL} {{ display: block }}
.jp-OutputArea-child:has(+ .jp-OutputArea-child .{STILL}):not(:has(.frames-figure)) {{ display: none }}"""
# Notebook 7 looks for shortcuts before a slider sees its key, and has some for arrows.
ARROWS = """window.arrows ??= [window.addEventListener("keydown", ({target, key}) => target.matches(".noUi-handle")
  && target.toggleAttribute("data-lm-suppress-shortcuts", key.startsWith("Arrow")), true)]"""


class FramesFigure(widgets.VBox):
    """Controls above a picture; `frames` is the number of those that were drawn beforehand, none where a kernel draws.

    Without widgets a reader sees one still picture. A kernel that draws lays it below the figure, with a word on what
    is missing: a notebook that is opened again has it in the figure's place.
    """

    def __init__(self, children, *, alt: str, still: bytes, frames: int):
        super().__init__(children, _dom_classes=("frames-figure",))
        self.alt, self.still, self.frames = alt, still, frames

    def _repr_mimebundle_(self, **kwargs):
        still = {"text/plain": self.alt, "image/png": base64.b64encode(self.still).decode()}
        return still | self._widget_view()

    def _ipython_display_(self) -> None:
        if self.frames:
            raise NotImplementedError  # a page's figure is one output: the above
        display = sys.modules["IPython.display"].display  # which asks for this
        # Of a page that was open before there were widgets; one that has them speaks to the kernel when it is loaded.
        early = "BOOK_RELOAD" in os.environ and getattr(widgets.Widget, "_control_comm", None) is None
        missing, style = (RELOAD, "") if early else (RUN, f"<style>{SHOWN}</style>")
        picture = f"<img src='data:image/png;base64,{base64.b64encode(self.still).decode()}'>"
        still = f"{style}<div class='{STILL}'>{picture}<p><em>{missing}</em></p></div>"
        display({"text/plain": self.alt} | ({} if early else self._widget_view()), raw=True)
        display({"text/plain": missing, "text/html": still}, raw=True, metadata={"added": True})

    def _widget_view(self) -> dict:
        view = super()._repr_mimebundle_() or {}
        return {key: value for key, value in view.items() if "widget-view" in key}


def few_colors(picture: Image.Image) -> Image.Image:
    """Reduced to 63 colors.

    That is a third of the size. Letters stay sharp, and the book's own colors stay exact.
    """
    own = [bytes.fromhex(color[1:]) for color in (BLUE, ORANGE, GREEN, RED, GRAY, "#FFFFFF", "#000000")]
    few = picture.quantize(56, dither=Image.Dither.NONE)
    pixels, index = np.asarray(picture), np.array(few)
    for i, color in enumerate(own):
        index[(pixels == np.frombuffer(color, np.uint8)).all(-1)] = 56 + i
    reduced = Image.fromarray(index, "P")
    reduced.putpalette(few.getpalette()[: 3 * 56] + list(b"".join(own)))
    return reduced


class Sheet:
    """A figure that is drawn on again and again, in half of the time that a new one takes.

    Axes stay where the layout of the first picture of a kind has put them, and the canvas knows how large its words
    are. Artists refer to one another in circles: the collector waits for the end of a picture and takes them at once,
    or it would look for them, every few pictures, among all that a kernel holds.
    """

    def __init__(self, size: tuple[float, float]):
        self.places: dict[Hashable, Bbox] = {}
        with mpl.rc_context(book_style()):
            self.canvas = FigureCanvasAgg(Figure(figsize=size, dpi=144))

    def picture(self, draw: Callable[[Axes], None], kind: Hashable = None) -> bytes:
        figure, file, collects = self.canvas.figure, io.BytesIO(), gc.isenabled()
        place = self.places.get(kind)
        gc.disable()
        try:
            with mpl.rc_context(book_style()):
                figure.set_layout_engine("none" if place else "constrained")
                ax = figure.add_axes(place) if place else figure.add_subplot()
                draw(ax)
                self.canvas.draw()
            self.places[kind] = ax.get_position(original=True)
            pixels = Image.fromarray(np.asarray(self.canvas.buffer_rgba())).convert("RGB")
            pixels.save(file, format="png", compress_level=1)
        finally:
            figure.clear()
            if collects:
                gc.enable()
            gc.collect(0)
        return file.getvalue()


def frames_figure(
    draw: Callable[..., None],
    *,
    alt: Callable[..., str],
    start: Mapping[str, object] | None = None,
    labels: Mapping[str, str] | None = None,
    size: tuple[float, float] = (6.4, 3.8),
    **grids: Mapping[str, object] | Sequence[object],
) -> FramesFigure:
    """Figure that moves: on a page one picture for every combination of the grids, at most 24 of them.

    draw(ax, **values) draws a picture and alt(**values) describes it, one value a grid; every plotting function
    whose settings are named arguments will do for `draw`. A grid given as a mapping (label to value) becomes a row
    of buttons, one given as a sequence becomes a slider; with a kernel it goes to any value between the sequence's
    ends, by whole numbers if all are whole, by factors if the ends are 30 times apart. `start` names the first value
    shown (otherwise each grid's first), `labels` what a control is called, `size` the picture's inches.

        frames_figure(plot_discount, alt=describe, labels={"gamma": "γ"}, start={"gamma": 0.5}, gamma=(0.1, 0.5, 0.9))

    The pictures are stored as vectors, and what two of them have in common is stored once. So axes whose limits,
    ticks and legend stay in place cost next to nothing from the second picture on, and twenty pictures take 50 to
    100 kB; `tests/book/test_budgets.py` says how much a chapter has. A curve of a thousand points does no harm, a
    thousand dots do, and so does a long title that is another one in each picture.

    Raises ValueError: no grid, an empty grid, more than 24 pictures, or a start value outside its grid.
    """
    options = {name: list(grid.items()) if isinstance(grid, Mapping) else [(f"{v:g}", v) for v in grid]
               for name, grid in grids.items()}  # fmt: skip
    frames = math.prod(map(len, options.values()))
    if not options or not 1 <= frames <= MAX_FRAMES:
        raise ValueError(f"grids: wanted 1 to {MAX_FRAMES} pictures in all, got {frames if options else 0}")
    at = dict.fromkeys(options, 0)
    for name, value in (start or {}).items():
        values = [v for _, v in options.get(name, [])]
        if value not in values:
            raise ValueError(f"start: wanted {name!r} to be one of {values}, got {value!r}")
        at[name] = values.index(value)

    def render(values: dict, **save) -> bytes:
        with mpl.rc_context(book_style()):
            figure, file = Figure(figsize=size), io.BytesIO()
            draw(figure.add_subplot(), **values)
            figure.savefig(file, **save)
        return file.getvalue()

    wide = widgets.Layout(width="100%", max_width="45em")
    first = {name: choices[at[name]][1] for name, choices in options.items()}
    names = {name: (labels or {}).get(name, name) for name in options}
    still = io.BytesIO()
    drawn = Image.open(io.BytesIO(render(first, format="png", dpi=100))).convert("RGB")
    few_colors(drawn).save(still, format="png", optimize=True)
    about = {"alt": alt(**first), "still": still.getvalue()}
    if not os.environ.get(FRAMES):
        knobs = {name: knob(grid, first[name], names[name]) for name, grid in grids.items()}
        as_still = widgets.Layout(width="auto", max_width=f"{100 * size[0]:g}px")
        picture, sheet = widgets.HTML(layout=as_still), Sheet(size)

        def redraw(change: object = None) -> None:
            values = {name: as_read(each) for name, each in knobs.items()}
            kind = tuple(values[name] for name, grid in grids.items() if isinstance(grid, Mapping))
            drawn = base64.b64encode(sheet.picture(partial(draw, **values), kind)).decode()
            shown = f"alt='{escape(alt(**values))}' src='data:image/png;base64,{drawn}'"
            picture.value = f"<img style='width:100%' {shown} onload='{ARROWS}'>"

        for each in knobs.values():
            each.observe(redraw, "value")
        redraw()
        return FramesFigure([*knobs.values(), picture], frames=0, **about)
    every = [dict(zip(options, values, strict=True))
             for values in product(*([value for _, value in choices] for choices in options.values()))]  # fmt: skip
    shared, bodies = written_together([render(values, format="svg").decode() for values in every])
    # Always on the page, since the pictures refer to it. It has no height in place of "display: none", under which
    # Chromium does not find the frames that curves are cut off by.
    common = widgets.HTML(
        f"<svg aria-hidden='true' width='0' height='0' style='position:absolute'><defs>{shared}</defs></svg>",
        layout=widgets.Layout(height="0", margin="0"),
    )
    box = f"viewBox='0 0 {72 * size[0]:g} {72 * size[1]:g}' style='display:block;width:100%;{ROOT_STYLE}'"
    pictures = iter([
        widgets.HTML(f"<svg role='img' aria-label='{escape(alt(**values))}' {box}>{body}</svg>", layout=wide,
                     style=common.style)
        for values, body in zip(every, bodies, strict=True)
    ])  # fmt: skip

    def nest(names: list[str]) -> widgets.Widget:
        """One stack per grid, each inside the one before; the innermost holds the pictures."""
        if not names:
            return next(pictures)
        name, *rest = names
        stack = widgets.Stack([nest(rest) for _ in options[name]], selected_index=at[name], layout=wide)
        widgets.jslink((controls[name], "index"), (stack, "selected_index"))
        return stack

    controls = {
        name: (widgets.ToggleButtons if isinstance(grids[name], Mapping) else widgets.SelectionSlider)(
            options=choices, index=at[name], description=names[name])
        for name, choices in options.items()
    }  # fmt: skip
    return FramesFigure([*controls.values(), nest(list(options)), common], frames=frames, **about)


def knob(grid: Mapping[str, object] | Sequence[object], start: object, description: str) -> widgets.Widget:
    """What sets a value in a notebook: buttons, or a slider from the least to the largest of the grid."""
    wide = {"description": description, "layout": widgets.Layout(width="auto", max_width="32em")}
    if isinstance(grid, Mapping):
        return widgets.ToggleButtons(options=list(grid.items()), value=start, description=description)
    low, high = min(grid), max(grid)
    if low == high:
        return widgets.ToggleButtons(options=[(f"{low:g}", low)], description=description)
    if all(isinstance(value, int) for value in grid):
        return widgets.IntSlider(start, low, high, **wide)
    if low > 0 and high / low >= 30:
        ends = {"min": math.log10(low), "max": math.log10(high), "step": math.log10(high / low) / POSITIONS}
        return widgets.FloatLogSlider(start, **ends, **wide, readout_format=READOUT)
    steps = (digit * 10.0**power for power in range(-9, 9) for digit in (1, 2, 5))  # so that 0.9 can be reached
    step = min(steps, key=lambda step: abs(math.log(step * POSITIONS / (high - low))))
    return widgets.FloatSlider(start, min=low, max=high, step=step, readout_format=READOUT, **wide)


def as_read(control: widgets.Widget) -> object:
    """The value of a control, with the digits that a reader sees beside it."""
    sliders = widgets.FloatSlider, widgets.FloatLogSlider
    return float(format(control.value, READOUT)) if isinstance(control, sliders) else control.value


def explore_ppo_clip(
    clip_eps: Sequence[float] = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6),
) -> FramesFigure:
    """PPO's clipped objective against the ratio: choose the advantage's sign and the clip range."""

    def alt(advantage: float, clip_eps: float) -> str:
        side, edge = ("above", 1 + clip_eps) if advantage > 0 else ("below", 1 - clip_eps)
        return (
            f"PPO's clipped objective against the ratio for an advantage of {advantage:+.0f} and epsilon "
            f"{clip_eps:g}: it equals the unclipped line except {side} a ratio of {edge:g}, where it is flat."
        )

    return frames_figure(
        plot_clip_objective, alt=alt,
        start={"clip_eps": 0.2 if 0.2 in clip_eps else clip_eps[0]},
        labels={"advantage": "Advantage", "clip_eps": "ε (clip)"},
        advantage={"A = +1": 1.0, "A = −1": -1.0}, clip_eps=clip_eps,
    )  # fmt: skip


def explore_trust_region(kl_bound: Sequence[float] = (0.01, 0.2, 0.5, 2.0)) -> FramesFigure:
    """One TRPO step in two dimensions: choose the bound, and the parametrization in which gradients are taken."""

    def alt(kl_bound: float, stretch: float) -> str:
        return (
            f"Surrogate in two parameters with the curve KL = {kl_bound:g} nats and the ellipse that approximates it; "
            f"the plain gradient step taken in a parametrization stretched {stretch:g} times, the natural gradient "
            "step, which does not depend on it, and the trials of the line search."
        )

    return frames_figure(
        plot_trust_region, alt=alt, size=(7.2, 4.2),
        start={"kl_bound": kl_bound[len(kl_bound) // 2]},
        labels={"kl_bound": "δ (nats)", "stretch": "Parameters"},
        stretch={"θ": 1.0, "θ₁ / 3": 3.0, "θ₁ · 3": 1.0 / 3.0}, kl_bound=kl_bound,
    )  # fmt: skip


def explore_trap(gamma: Sequence[float] = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)) -> FramesFigure:
    """A world in which the surrogate promises and the return falls, by mixture: choose the discount."""

    def alt(gamma: float) -> str:
        turns = min((1 - gamma) / gamma, 1.0) if gamma > 0 else 1.0
        return (
            f"The trap at a discount of {gamma:g}, by mixture: the surrogate promises a straight line up; the true "
            f"gain lies on the surrogate less the sharp bound and "
            + (f"turns negative at a mixture of {turns:.3f}." if turns < 1 else "is nowhere negative.")
        )

    start = {"gamma": 0.9 if 0.9 in gamma else gamma[-1]}
    return frames_figure(plot_trap, alt=alt, start=start, size=(7.6, 3.6), labels={"gamma": "γ"}, gamma=gamma)


def explore_conjugate_gradient(condition: Sequence[float] = (2.0, 10.0, 100.0)) -> FramesFigure:
    """Steepest descent against conjugate gradient in two dimensions: choose the condition number and the steps."""

    def alt(condition: float, steps: float) -> str:
        return (
            f"Level curves of a quadratic with condition number {condition:g}, and the path of {steps:g} steps of "
            "steepest descent, which zigzags, and of conjugate gradient, which is at the solution after two."
        )

    return frames_figure(
        plot_conjugate_gradient, alt=alt, size=(7.2, 4.2),
        start={"condition": condition[len(condition) // 2], "steps": 2},
        labels={"condition": "Condition", "steps": "Steps"},
        condition={f"{c:g}": c for c in condition}, steps=(1, 2, 4, 8),
    )  # fmt: skip


def explore_baseline(
    baseline: Sequence[float] = (0.0, 0.6, 1.05, 1.2, 1.5, 1.8, 1.95, 2.4),
) -> FramesFigure:
    """One sample of a two-armed bandit's gradient: choose how peaked the policy is, and the baseline."""

    def alt(chance: float, baseline: float) -> str:
        return (
            f"Two arms worth 2 and 1, the better one pulled with probability {chance:g}. Left: noise of the one-sample "
            f"gradient against the baseline, a V with its zero at {2 - chance:g}, where the policy's value is "
            f"{1 + chance:g}. Right: the two values a sample takes at baseline {baseline:g}, "
            f"{(1 - chance) * (2 - baseline):.3g} and {chance * (baseline - 1):.3g}; their mean stays at the gradient."
        )

    return frames_figure(
        plot_baseline, alt=alt, size=(8.4, 3.8),
        start={"chance": 0.8, "baseline": 0.0 if 0.0 in baseline else baseline[0]},
        labels={"chance": "π(arm 1)", "baseline": "b"},
        chance={"0.5": 0.5, "0.8": 0.8, "0.95": 0.95}, baseline=baseline,
    )  # fmt: skip


def explore_discount(
    gamma: Sequence[float] = (0.1, 0.3, 0.5, 0.55, 0.6, 0.65, 0.68, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99),
) -> FramesFigure:
    """The best policy of the chain, its values and its visits: choose the discount."""

    def alt(gamma: float) -> str:
        turned = int(TabularMDP.chain(6, gamma).best_policy()[:, 1].sum())
        return (
            f"Chain of six states at a discount of {gamma:g}: the best action is right in the {turned} states nearest "
            f"the right end and left in the other {6 - turned}; bars show values per step, dots the visits."
        )

    start = {"gamma": 0.8 if 0.8 in gamma else gamma[-1]}
    return frames_figure(plot_discount, alt=alt, start=start, labels={"gamma": "γ"}, gamma=gamma)


def explore_readings(
    sweeps: Sequence[int] = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 24, 40, 80, 160),
) -> FramesFigure:
    """Values and visits of *always right* in the corridor, growing toward each other: choose the number of sweeps."""

    def alt(sweeps: int) -> str:
        return (
            f"Always right in the corridor of eight states after {sweeps} sweeps from zero. Left: the values, which "
            "spread from the right end to the left. Right: the discounted visits of as many steps, which spread from "
            "the left end to the right. The start's value and the visits to the last state are equal."
        )

    start = {"sweeps": 4 if 4 in sweeps else sweeps[0]}
    return frames_figure(plot_readings, alt=alt, size=(8.0, 3.4), start=start, labels={"sweeps": "Sweeps"},
                         sweeps=sweeps)  # fmt: skip


def explore_dropped_factor(
    gamma: Sequence[float] = (0.8, 0.85, 0.9, 0.94, 0.96, 0.975, 0.985, 0.99),
) -> FramesFigure:
    """A world of two states that no action changes: choose what the second one pays, and the discount."""

    def alt(later: float, gamma: float) -> str:
        ahead = later * gamma / (1.0 - gamma)
        turns = "down, away from the best policy" if ahead < 1.0 else "up, like the other one"
        return (
            f"State 0 pays 1 once for action 0, state 1 pays {later:g} a step for action 1, discount {gamma:g}. Left: "
            f"with the factor the pulls of the two states are {1.0 - gamma:.3g} and {-later * gamma:.3g}, without it "
            f"0 and {-later:g}. Right: the climb without the factor goes {turns}, from "
            f"{0.5 * (1.0 + ahead) / max(1.0, ahead):.2f} of the best return toward {ahead / max(1.0, ahead):.2f}."
        )

    return frames_figure(
        plot_dropped_factor, alt=alt, size=(8.6, 3.6),
        start={"later": 0.05, "gamma": 0.9 if 0.9 in gamma else gamma[0]},
        labels={"later": "r₁", "gamma": "γ"},
        later={"0.02": 0.02, "0.05": 0.05, "0.2": 0.2}, gamma=gamma,
    )  # fmt: skip


def explore_gae(
    lam: Sequence[float] = (0.0, 0.5, 0.8, 0.9, 0.95, 1.0),
    rollout_steps: Sequence[int] = (1, 8, 32, 128),
    *,
    error: float = 0.5,
) -> FramesFigure:
    """Which of a wrong critic's errors GAE lets in, and its exact bias and variance: choose T and lambda."""

    def alt(rollout_steps: int, lam: float) -> str:
        bias, variance = corridor_gae_error(error, lam, rollout_steps)
        gamma = drifting_critic(error)[0].gamma
        seam = gamma * (gamma * lam) ** (rollout_steps - 1)
        return (
            f"Left: weights of the critic's errors at lambda {lam:g}, falling by a factor of {gamma * lam:.3g} a step; "
            f"that of step {rollout_steps}, where the rollout ends, is {seam:.2f}. "
            f"Right: squared bias, variance and their sum against lambda for rollouts of {rollout_steps} rows; "
            f"at lambda {lam:g}: {bias:.3f}, {variance:.3f} and {bias + variance:.3f}."
        )

    return frames_figure(
        partial(plot_gae, error=error), alt=alt, size=(8.6, 3.8),
        start={"rollout_steps": 8 if 8 in rollout_steps else rollout_steps[0],
               "lam": 0.95 if 0.95 in lam else lam[0]},
        labels={"rollout_steps": "T", "lam": "λ"},
        rollout_steps=rollout_steps, lam=lam,
    )  # fmt: skip


def explore_top_k(eta: Sequence[float] = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 12.8)) -> FramesFigure:
    """V-MPO's weights of 32 samples against their advantages: choose the share that is kept, and the temperature."""

    def alt(top_k_frac: float, eta: float) -> str:
        example = top_k_example(top_k_frac, eta)
        return (
            f"Thirty-two samples, the best {int(example['mask'].sum())} of them kept at temperature {eta:g}: weights "
            f"rise with the advantage as a straight line on the logarithmic axis, the largest being "
            f"{float(example['psi'].max()):.2f} of the whole; KL to the kept {float(example['kl_kept']):.2f} nats, "
            f"to the batch {float(example['kl_batch']):.2f} nats, effective sample size {float(example['ess']):.1f}."
        )

    return frames_figure(
        plot_top_k, alt=alt, size=(7.2, 4.0),
        start={"top_k_frac": 0.5, "eta": 0.8 if 0.8 in eta else eta[0]},
        labels={"top_k_frac": "Keep", "eta": "η"},
        top_k_frac={"all": 1.0, "half": 0.5, "a quarter": 0.25}, eta=eta,
    )  # fmt: skip


def explore_temperature(
    eta: Sequence[float] = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5),
) -> FramesFigure:
    """MPO's weights and the dual of their temperature: choose the bound, then move the temperature."""

    def alt(eps_eta: float, eta: float) -> str:
        kl, value = temperature_example(eta)
        return (
            f"Left: probabilities of seven actions before and after the reweighting at temperature {eta:g}: it moved "
            f"{kl:.2f} nats and the mean value is {value:.2f}. Right: the dual for a bound of {eps_eta:g} nats, "
            f"convex, and its tangent at {eta:g}, whose slope is {eps_eta - kl:+.2f}, the bound less the divergence."
        )

    return frames_figure(
        plot_temperature, alt=alt, size=(8.6, 3.8),
        start={"eps_eta": 0.5, "eta": 1.0 if 1.0 in eta else eta[0]},
        labels={"eps_eta": "ε (nats)", "eta": "η"},
        eps_eta={"0.1": 0.1, "0.5": 0.5, "4": 4.0}, eta=eta,
    )  # fmt: skip


def explore_decoupled_kl(std_fit: Sequence[float] = (0.4, 0.7, 0.9, 1.2)) -> FramesFigure:
    """Policies that a bound allows around N(0, 1): choose what is bounded, and the std that the weights ask for."""
    eps_mean, eps_std, mean_fit = 0.05, 0.005, 0.6

    def alt(rule: str, std_fit: float) -> str:
        (mean, std), _ = decoupled_kl_optimum(rule, mean_fit, std_fit, eps_mean, eps_std)
        region = {
            "coupled": "a round region of means and stds whose whole KL is below one bound",
            "new std": "a band of stds in which a wider policy may move its mean farther",
            "decoupled": "a box: so far for the mean, so far for the std, each by itself",
        }[rule]
        return (
            f"The plane of mean and std around an old policy with mean 0 and std 1: {region}. The weights have mean "
            f"{mean_fit:g} and std {std_fit:g}; the best policy allowed has mean {mean:.2f} and std {std:.2f}."
        )

    return frames_figure(
        plot_decoupled_kl, alt=alt,
        start={"std_fit": 0.7 if 0.7 in std_fit else std_fit[0]},
        labels={"rule": "Bounded", "std_fit": "std wanted"},
        rule=dict(zip(("the whole KL", "parts, new std", "parts, old std"), RULES, strict=True)), std_fit=std_fit,
    )  # fmt: skip


def explore_seeds(seeds: Sequence[int] = (1, 2, 3, 5, 10, 20)) -> FramesFigure:
    """How often a comparison of two agents' means orders them wrongly: choose the seeds and the gap."""

    def alt(gap: float, seeds: int) -> str:
        share = 50.0 * math.erfc(gap * math.sqrt(seeds) / 2.0)
        return (
            f"Density of the difference of two means over {seeds} seeds each, around a true gap of {gap:g} standard "
            f"deviations. The part below zero, {share:.1f} percent, is shaded."
        )

    return frames_figure(
        plot_order, alt=alt, start={"gap": 0.5, "seeds": 3 if 3 in seeds else seeds[0]},
        labels={"gap": "Gap (spreads)", "seeds": "Seeds"},
        gap={f"{gap:g}": gap for gap in (0.25, 0.5, 1.0, 2.0)}, seeds=seeds,
    )  # fmt: skip
