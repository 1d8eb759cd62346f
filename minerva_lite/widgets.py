"""Interactive figures that also live without a kernel (floor 7).

Every picture is drawn beforehand; the controls only choose which one is shown, by links that run in the
browser. So the same figure moves in a notebook and on a rendered page opened from disk.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from html import escape

import ipywidgets as widgets
import matplotlib as mpl
from matplotlib.figure import Figure
from PIL import Image

from .plots import book_style, plot_clip_objective

MAX_FRAMES = 24


class FramesFigure(widgets.VBox):
    """Controls above a picture; `frames` says how many pictures. Shown as a still where no widget can be."""

    def __init__(self, children, *, alt: str, still: bytes, frames: int):
        super().__init__(children, _dom_classes=("frames-figure",))
        self.alt, self.still, self.frames = alt, still, frames

    def _repr_mimebundle_(self, **kwargs):
        still = base64.b64encode(self.still).decode()
        return {"text/plain": self.alt, "image/png": still, **self._widget_view()}

    def _widget_view(self) -> dict:
        view = super()._repr_mimebundle_() or {}
        return {key: value for key, value in view.items() if "widget-view" in key}


def frames_figure(
    draw: Callable[..., None],
    *,
    alt: Callable[..., str],
    start: Mapping[str, object] | None = None,
    labels: Mapping[str, str] | None = None,
    size: tuple[float, float] = (6.4, 3.8),
    **grids: Mapping[str, object] | Sequence[object],
) -> FramesFigure:
    """Figure with one picture for every combination of the grids, at most 24 of them.

    draw(ax, **values) draws a picture and alt(**values) describes it, one value a grid. A grid given as a
    mapping (label to value) becomes a row of buttons, one given as a sequence becomes a slider. `start` names
    the first value shown (otherwise each grid's first), `labels` what a control is called.

    Raises ValueError: no grid, an empty grid, more than 24 pictures, or a start value outside its grid.
    """
    options = {name: list(grid.items()) if isinstance(grid, Mapping) else [(f"{v:g}", v) for v in grid]
               for name, grid in grids.items()}  # fmt: skip
    frames = 1
    for choices in options.values():
        frames *= len(choices)
    if not options or not 1 <= frames <= MAX_FRAMES:
        raise ValueError(f"grids: wanted 1 to {MAX_FRAMES} pictures in all, got {frames if options else 0}")
    at = dict.fromkeys(options, 0)
    for name, value in (start or {}).items():
        values = [v for _, v in options.get(name, [])]
        if value not in values:
            raise ValueError(f"start: wanted {name!r} to be one of {values}, got {value!r}")
        at[name] = values.index(value)

    def render(values: dict, dpi: int, **save) -> bytes:
        with mpl.rc_context(book_style()):
            figure = Figure(figsize=size)
            draw(figure.add_subplot(), **values)
            drawn, packed = io.BytesIO(), io.BytesIO()
            figure.savefig(drawn, format="png", dpi=dpi)
        # 64 colors and lossless: a third of the size, and letters stay sharp.
        pixels = Image.open(drawn).convert("RGB").quantize(64, dither=Image.Dither.NONE)
        pixels.convert("RGB" if save["format"] == "webp" else "P").save(packed, **save)
        return packed.getvalue()

    def picture(values: dict) -> widgets.HTML:
        data = base64.b64encode(render(values, dpi=115, format="webp", lossless=True, quality=100)).decode()
        tag = f'<img style="width: 100%" alt="{escape(alt(**values))}" src="data:image/webp;base64,{data}">'
        return widgets.HTML(tag, layout=wide)

    wide = widgets.Layout(width="100%", max_width="45em")

    def nest(names: list[str], values: dict) -> widgets.Widget:
        """A stack per grid, each inside the one before; the innermost holds the pictures."""
        if not names:
            return picture(values)
        name, rest = names[0], names[1:]
        pages = [nest(rest, {**values, name: v}) for _, v in options[name]]
        stack = widgets.Stack(pages, selected_index=at[name], layout=wide)
        widgets.jslink((controls[name], "index"), (stack, "selected_index"))
        return stack

    controls = {
        name: (widgets.ToggleButtons if isinstance(grids[name], Mapping) else widgets.SelectionSlider)(
            options=choices, index=at[name], description=(labels or {}).get(name, name))
        for name, choices in options.items()
    }  # fmt: skip
    first = {name: choices[at[name]][1] for name, choices in options.items()}
    return FramesFigure(
        [*controls.values(), nest(list(options), {})],
        alt=alt(**first),
        still=render(first, dpi=100, format="png", optimize=True),
        frames=frames,
    )


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
