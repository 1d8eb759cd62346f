"""Pictures written together: what repeats is there once; tests/pages/test_frames.py compares how they look."""

import io
import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from minerva_book.figures import book_style
from minerva_book.figures.vector import smaller, written_together


def picture(height: float, title: str = "weights") -> str:
    """Curve, dots, bar, raster image, formula and legend, as Matplotlib writes them."""
    with mpl.rc_context(book_style()):
        figure, file = Figure(figsize=(6.0, 3.0)), io.BytesIO()
        left, right = figure.subplots(1, 2)
        x = np.linspace(0.0, 6.0, 500)
        left.plot(x, height * np.sin(3.0 * x), label=r"$\frac{1}{2} \sin^2 x$")
        left.plot(x[::50], height * np.cos(x[::50]), "o--", label="it's < 2 & > 1")
        left.set(xlim=(0.0, 4.0), ylim=(-1.0, 1.0), ylabel="height", title=title)
        left.legend(loc="lower left")
        right.bar([0, 1, 2], [1.0, height, 2.0])
        right.imshow(np.eye(3), extent=(0, 1, 1, 2), aspect="auto")
        right.set(xlim=(-1, 3), ylim=(0, 3))
        figure.savefig(file, format="svg")
    return file.getvalue().decode()


def test_what_two_pictures_share_is_there_once():
    one, two = picture(0.5), picture(0.7)
    shared, bodies = written_together([one, two])
    letters = [text.count("scale(0.015625)") for text in (shared, *bodies)]
    assert letters == [len(set(re.findall(r'<path id="(DejaVu[^"]*)" d=', one))), 0, 0]
    assert max(map(len, bodies)) < 0.1 * len(one)
    assert len(shared) + sum(map(len, bodies)) < 1.2 * len(smaller(one))
    _, (first, second) = written_together([one, one])
    assert first == second and len(first) < 200


def test_names_are_those_of_these_pictures_and_the_same_each_time():
    def names(shared):
        return set(re.findall(r" id='(\w+)'", shared))

    shared, bodies = written_together([picture(0.5), picture(0.7)])
    assert (shared, bodies) == written_together([picture(0.5), picture(0.7)])
    referred = set(re.findall(r"(?:href='#|url\(#)(\w+)", shared + "".join(bodies)))
    assert referred == names(shared) and len(names(shared)) == shared.count(" id=")
    assert not names(shared) & names(written_together([picture(0.5), picture(0.8)])[0])


def test_a_file_keeps_its_size_and_its_image_and_loses_nearly_half_its_bytes():
    original = picture(0.5)
    small = smaller(original)
    before, after = (ElementTree.fromstring(text) for text in (original, small))
    assert all(before.get(name) == after.get(name) for name in ("width", "height", "viewBox"))
    assert len(small) < 0.55 * len(original)
    (data,) = re.findall(r"base64,\s*([^\"]+)", original)
    assert "".join(data.split()) in small
