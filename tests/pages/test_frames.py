"""Pictures written together look as Matplotlib's own files do, in a real browser."""

import io

import numpy as np
import pytest
from PIL import Image

from minerva_book.figures import widgets
from minerva_book.figures.vector import ROOT_STYLE, smaller

pytestmark = pytest.mark.page
# The ends of each figure's slider. The quick tier looks at the first; tests/figures/test_vector.py compares numbers.
ENDS = {
    "ppo_clip": {"clip_eps": (0.05, 0.6)},
    "trap": {"gamma": (0.0, 0.99)},
    "trust_region": {"kl_bound": (0.01, 2.0)},
    "conjugate_gradient": {"condition": (2.0, 100.0)},
    "baseline": {"baseline": (0.0, 2.4)},
    "discount": {"gamma": (0.1, 0.99)},
    "readings": {"sweeps": (0, 160)},
    "dropped_factor": {"gamma": (0.8, 0.99)},
    "gae": {"lam": (0.0, 1.0)},
    "top_k": {"eta": (0.1, 12.8)},
    "temperature": {"eta": (0.1, 2.5)},
    "decoupled_kl": {"std_fit": (0.4, 1.2)},
    "seeds": {"seeds": (1, 20)},
}


def test_every_figure_that_moves_is_looked_at():
    assert {f"explore_{name}" for name in ENDS} == {name for name in vars(widgets) if name.startswith("explore_")}


@pytest.mark.parametrize(
    "name", [name if name == "ppo_clip" else pytest.param(name, marks=pytest.mark.slow) for name in ENDS]
)
def test_pictures_look_as_matplotlib_drew_them(browser, monkeypatch, name):
    kept = {}

    def keep(svgs):
        kept["svgs"], kept["written"] = svgs, written_together(svgs)
        return kept["written"]

    written_together = widgets.written_together
    monkeypatch.setattr(widgets, "written_together", keep)
    getattr(widgets, f"explore_{name}")(**ENDS[name])
    shared, bodies = kept["written"]

    context = browser.new_context(viewport={"width": 720, "height": 480}, device_scale_factor=2)
    page = context.new_page()

    def look(markup):
        page.set_content(
            f"<style>body {{ margin: 0 }} svg {{ display: block; width: 720px; height: auto }}</style>{markup}"
        )
        pixels = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"), dtype=float)
        return pixels.reshape(240, 4, 360, 4).mean((1, 3))  # the edge of a line may fall on either side of a pixel's

    for svg, body in zip(kept["svgs"], bodies, strict=True):
        original = look(svg[svg.index("<svg") :])
        assert (original < 128).mean() > 0.005, "nothing is drawn"
        box = svg.partition('viewBox="')[2].partition('"')[0]
        common = f"<svg style='width:0;height:0'><defs>{shared}</defs></svg>"
        for picture in (f"{common}<svg viewBox='{box}' style='{ROOT_STYLE}'>{body}</svg>", smaller(svg)):
            off = np.abs(look(picture) - original).max()
            assert off < 40, "a picture differs from Matplotlib's own"
    context.close()
