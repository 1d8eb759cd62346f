"""Pictures that follow the page: in its colors, light or dark, and panel below panel where there is no room.

A picture that Matplotlib drew is written into the page as one ``<svg>`` a panel, each as wide as what it draws. On a
wide screen they stand as they were drawn, on a phone below one another (book.css). The book's colors become variables;
others, as of a shaded cell or of a bitmap, get a second value for the dark. What pictures of a page have in common,
such as letters, stands once, at the page's end.
"""

from __future__ import annotations

import base64
import colorsys
import io
import re
from copy import deepcopy
from functools import reduce
from html import escape
from pathlib import Path

import numpy as np
import resvg_py
from docutils import nodes
from lxml import etree
from PIL import Image
from sphinx.util.osutil import relative_uri

from minerva_book.figures.vector import ROOT_STYLE, smaller

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
NAMED = {
    "#0072b2": "blue", "#e69f00": "orange", "#009e73": "green", "#d55e00": "red", "#6e6e6e": "gray", "#777777": "gray",
    "#cc79a7": "pink", "#56b4e9": "sky", "#000000": "ink", "#222222": "ink", "#e5e5e5": "grid", "#ffffff": "paper",
}  # fmt: skip
COLOR = re.compile(r"(?<=:)#[0-9a-f]{6}\b")
WHOLE = 342  # points: panels that together are no wider stay together
SIDE = re.compile(r"(\b(?:Left|Right)\b|(?<=\()(?:left|right)(?=\)))")  # as captions say it
DOTS = 1  # a point, where a panel's box is looked for
MARGIN = 2  # points around it
DARKEST = 0.12  # brightness of what is white in the light

Box = tuple[float, float, float, float]  # left, top, right, bottom


def dark(red: float, green: float, blue: float) -> tuple[float, float, float]:
    """A color of its hue, as far from the dark page as it was from white."""
    light, *tint = colorsys.rgb_to_yiq(red, green, blue)
    return colorsys.yiq_to_rgb(DARKEST + (1 - DARKEST) * (1 - light), *tint)


class Pictures:
    """Those of a page."""

    def __init__(self) -> None:
        self.shared: dict[str, str] = {}  # markup without its name -> name
        self.colors: dict[str, str] = {}  # one that has no name -> what it is in the dark

    def markup(self, svg: str, alt: str) -> str:
        root = etree.fromstring(smaller(svg) if svg.startswith("<?xml") else svg)
        width, height = map(float, root.get("viewBox").split()[2:])
        for each in root.iter(f"{SVG}image"):
            self.both_bitmaps(each)
        boxes = panels(root)
        names = self.names(root[0])
        inside = []
        for (left, top, right, bottom), drawn in boxes:
            across, down = right - left, bottom - top
            place = f"left:{left / width:.2%};top:{top / height:.2%};width:{across / width:.2%};--points:{across:.0f}"
            body = "".join(self.written(each, names) for each in drawn)
            view = f"{left:.1f} {top:.1f} {across:.1f} {down:.1f}"
            inside.append(f'<svg aria-hidden="true" viewBox="{view}" style="{place}">{body}</svg>')
        size = f"--points:{width:.0f};--ratio:{width:.1f}/{height:.1f}"
        widest = max(right - left for (left, _, right, _), _ in boxes)
        kind = "panels wide" if widest > WHOLE + 1 else "panels one" if len(boxes) == 1 else "panels"
        return f'<span class="{kind}" role="img" aria-label="{escape(alt)}" style="{size}">{"".join(inside)}</span>'

    def names(self, definitions: etree._Element) -> dict[str, str]:
        """Of what a picture defines: the name that it has here -> the one that it has on the page."""
        names: dict[str, str] = {}
        for each in definitions:
            name = each.attrib.pop("id")
            names[name] = self.shared.setdefault(self.written(each, names), name)
        return names

    def written(self, element: etree._Element, names: dict[str, str]) -> str:
        text = etree.tostring(element, encoding="unicode").replace(' xmlns="http://www.w3.org/2000/svg"', "")
        text = re.sub(r'(?<=["(]#)\w+(?=[")])', lambda found: names.get(found[0], found[0]), text)
        return COLOR.sub(self.variable, text)

    def variable(self, found: re.Match) -> str:
        color = found[0]
        if color in NAMED:
            return f"var(--{NAMED[color]})"
        channels = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
        self.colors[color[1:]] = "#" + "".join(f"{round(255 * each):02x}" for each in dark(*channels))
        return f"var(--c{color[1:]},{color})"

    def both_bitmaps(self, image: etree._Element) -> None:
        """Put the bitmap for the dark behind the one for the light."""
        data = image.get("href").partition("base64,")[2]
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))
        colors, places = np.unique(pixels.reshape(-1, 4), axis=0, return_inverse=True)
        colors[:, :3] = [[round(255 * each) for each in dark(*color[:3] / 255)] for color in colors]
        file, second = io.BytesIO(), deepcopy(image)
        Image.fromarray(colors[places.ravel()].reshape(pixels.shape)).save(file, "PNG", optimize=True)
        second.set("href", f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}")
        image.set("class", "in-light")
        second.set("class", "in-dark")
        image.addnext(second)

    def common(self) -> str:
        """What the pictures refer to. Without "display: none", under which a clip path is none."""
        named = (re.sub(r"^<\w+", rf'\g<0> id="{name}"', markup) for markup, name in self.shared.items())
        shared = f'<svg class="shared" aria-hidden="true" width="0" height="0"><defs>{"".join(named)}</defs></svg>'
        second = ";".join(f"--c{name}:{value}" for name, value in sorted(self.colors.items()))
        colors = f'<style>@media screen{{html[data-theme="dark"]{{{second}}}}}</style>' if second else ""
        return colors + shared


def panels(root: etree._Element) -> list[tuple[Box, list[etree._Element]]]:
    """The boxes of a picture, as they are read, and what is drawn in each; what overlaps has one box."""
    figure = root[1]
    drawn = [each for each in figure[1:] if each.tag is not etree.Comment]  # before them, the background
    found: list[tuple[Box, list[etree._Element]]] = []
    for each in drawn:
        box, together = extent(root, each), [each]
        if not box:
            continue
        while met := next((other for other in found if overlap(box, other[0])), None):
            found.remove(met)
            box, together = around(box, met[0]), met[1] + together
        found.append((box, together))
    whole = reduce(around, [box for box, _ in found])
    if whole[2] - whole[0] <= WHOLE:
        return [(whole, drawn)]
    rows: list[list] = []
    for panel in sorted(found, key=lambda panel: panel[0][1]):
        middle = (panel[0][1] + panel[0][3]) / 2
        if rows and middle < max(other[0][3] for other in rows[-1]):
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return [panel for row in rows for panel in sorted(row, key=lambda panel: panel[0][0])]


def extent(root: etree._Element, part: etree._Element) -> Box | None:
    """Where a part of a picture draws anything but white."""
    alone = etree.Element(root.tag, dict(root.attrib), root.nsmap)
    alone.extend([deepcopy(root[0]), deepcopy(part)])
    svg = etree.tostring(alone, encoding="unicode")
    image = resvg_py.svg_to_bytes(svg_string=svg, zoom=DOTS * 0.75, dpi=96, skip_system_fonts=True)
    box = Image.open(io.BytesIO(bytes(image))).getchannel("A").getbbox()
    if not box:
        return None
    left, top, right, bottom = (each / DOTS for each in box)
    return left - MARGIN, top - MARGIN, right + MARGIN, bottom + MARGIN


def overlap(one: Box, other: Box) -> bool:
    inside = 2 * MARGIN
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return across > inside and down > inside


def around(one: Box, other: Box) -> Box:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def name_by_order(caption: nodes.caption) -> None:
    """Call two panels first and second where they stand below one another (book.css)."""
    for text in [*caption.findall(nodes.Text)]:
        pieces = [nodes.Text(each) for each in SIDE.split(text)]
        for i in range(1, len(pieces), 2):
            order = ("first", "second")[pieces[i].lower() == "right"]
            told = order.capitalize() if pieces[i].istitle() else order
            pieces[i] = nodes.raw("", f'<span class="side" data-order="{told}">{pieces[i]}</span>', format="html")
        text.parent.replace(text, pieces)


def write_into_page(app, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":
        return
    pictures, here = Pictures(), app.builder.get_target_uri(docname)
    images = [each for each in doctree.findall(nodes.image) if each["uri"].endswith(".svg")]
    for image in images:
        svg = Path(app.srcdir, image["uri"]).read_text("utf8")
        if ROOT_STYLE not in svg and "Matplotlib" not in svg:  # drawn by hand
            continue
        name = app.env.images[image["uri"]][1]
        app.builder.images[image["uri"]] = name  # it stands beside the pages, too, where it can be opened alone
        file = relative_uri(here, f"_images/{name}")
        markup = f'<a class="picture" href="{file}">{pictures.markup(svg, image.get("alt", ""))}</a>'
        if markup.count("<svg ") == 2 and 'class="panels"' in markup:
            for caption in image.parent.findall(nodes.caption):
                name_by_order(caption)
        image.replace_self(nodes.raw("", markup, format="html"))
    if images:
        doctree += nodes.raw("", pictures.common(), format="html")


def setup(app) -> dict:
    app.connect("doctree-resolved", write_into_page, priority=960)  # after code has found its picture (folds.py)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
