"""A copy's pictures are what a browser makes of the same SVG."""

import base64
import io
import sys

import nbformat
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageFilter

from tests.equations import CHAPTERS, ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from pictures import MARGIN, png  # noqa: E402

pytestmark = pytest.mark.page
SQUARE, LIMIT = 8, 20  # pixels; of 255. A missing letter leaves 30 to 150; edges that are smoothed otherwise, up to 14
IN_A_BROWSER = """async ([svg, width, height]) => {
    const image = new Image();
    image.src = 'data:image/svg+xml;base64,' + svg;
    await image.decode();
    const canvas = Object.assign(document.createElement('canvas'), {width, height});
    const context = canvas.getContext('2d');
    context.fillStyle = 'white';
    context.fillRect(0, 0, width, height);
    context.drawImage(image, 0, 0, width, height);
    return canvas.toDataURL('image/png').split(',')[1];
}"""


def inside(file: bytes) -> Image.Image:
    picture = Image.open(io.BytesIO(file)).convert("RGB")
    return picture.crop((MARGIN, MARGIN, picture.width - MARGIN, picture.height - MARGIN))


def missing(drawn: Image.Image, shown: Image.Image) -> float:
    """What one picture has and the other has not within a pixel: of each color, the largest mean over a square."""
    most = 0.0
    for pair in zip(drawn.split(), shown.split(), strict=True):
        for one, other in (pair, pair[::-1]):
            near = np.asarray(other.filter(ImageFilter.MinFilter(3)), dtype=float)
            less = np.clip(near - np.asarray(one, dtype=float), 0, None)
            rows, columns = (size // SQUARE for size in less.shape)
            squares = less[: rows * SQUARE, : columns * SQUARE].reshape(rows, SQUARE, columns, SQUARE)
            most = max(most, squares.mean((1, 3)).max())
    return most


@pytest.fixture
def shown(browser):
    page = browser.new_page()

    def shown(svg: str, size: tuple[int, int]) -> Image.Image:
        file = base64.b64encode(svg.encode()).decode()
        return Image.open(io.BytesIO(base64.b64decode(page.evaluate(IN_A_BROWSER, [file, *size])))).convert("RGB")

    yield shown
    page.close()


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_pictures_are_those_of_a_browser(chapter, shown):
    outputs = [output for cell in nbformat.read(chapter, as_version=4).cells for output in cell.get("outputs", [])]
    for svg in (output.data["image/svg+xml"] for output in outputs if "image/svg+xml" in output.get("data", {})):
        drawn = inside(png(svg))
        assert missing(drawn, shown(svg, drawn.size)) < LIMIT


def test_a_curve_or_a_letter_that_is_missing_is_seen(shown):
    def drawn(label: str, width: float) -> str:
        figure, file = Figure(figsize=(6.4, 3.6)), io.StringIO()
        axes = figure.add_subplot(title=label)
        axes.plot([0, 1, 2], [0, 2, 1], lw=width)
        figure.savefig(file, format="svg")
        return file.getvalue()

    whole = drawn("Return", 1.5)
    there = inside(png(whole))
    in_a_browser = shown(whole, there.size)
    assert missing(there, in_a_browser) < LIMIT
    for less in (drawn("Return", 0), drawn("Retur", 1.5)):
        assert missing(inside(png(less)), in_a_browser) > LIMIT
