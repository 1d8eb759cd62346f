"""Pictures written together look as Matplotlib's own files do, in a real browser; test_vector.py counts bytes."""

import io

import numpy as np
import pytest
from PIL import Image

from minerva_book.figures.vector import ROOT_STYLE, smaller, written_together
from tests.figures.test_vector import picture

pytestmark = pytest.mark.page


def test_pictures_look_as_matplotlib_drew_them(browser):
    context = browser.new_context(viewport={"width": 720, "height": 480}, device_scale_factor=2)
    page = context.new_page()

    def look(markup):
        page.set_content(
            f"<style>body {{ margin: 0 }} svg {{ display: block; width: 720px; height: auto }}</style>{markup}"
        )
        pixels = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("L"), dtype=float)
        return pixels.reshape(240, 4, 360, 4).mean((1, 3))  # the edge of a line may fall on either side of a pixel's

    svgs = [picture(0.5), picture(2.0, title="other words")]
    shared, bodies = written_together(svgs)
    for svg, body in zip(svgs, bodies, strict=True):
        original = look(svg[svg.index("<svg") :])
        assert (original < 128).mean() > 0.005, "nothing is drawn"
        box = svg.partition('viewBox="')[2].partition('"')[0]
        common = f"<svg style='width:0;height:0'><defs>{shared}</defs></svg>"
        for drawn in (f"{common}<svg viewBox='{box}' style='{ROOT_STYLE}'>{body}</svg>", smaller(svg)):
            assert np.abs(look(drawn) - original).max() < 40, "a picture differs from Matplotlib's own"
    context.close()
