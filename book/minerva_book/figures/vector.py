"""Vector pictures in few bytes.

Matplotlib writes each picture on its own, each letter as an outline and each coordinate with six decimals. Here
pictures are written together: what occurs twice, in one of them or in two, is written once and referred to. A
curve keeps the points that an eye can tell from a straight line.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from matplotlib.path import Path

GRID = 100  # coordinates are multiples of 1 / GRID points; a point is 1/72 inch
BEND = 0.05  # points: what bends less is straight
WORTH = 45  # characters: repeating less than that is shorter than referring to it
ROOT_STYLE = "stroke-linejoin:round;stroke-linecap:butt"  # Matplotlib gives it to every element
PIECE = re.compile(r"([MLQCz])([^MLQCz]*)")
QUOTE = {"'": "&#39;"}
REFERENCE = re.compile(r"(href='#|url\(#)([\w-]+)")


def written_together(svgs: Sequence[str]) -> tuple[str, list[str]]:
    """(markup of what the pictures share, markup of each picture), from Matplotlib's SVG files of one size.

    Both are the insides of `<svg>` elements of one page. A name in them belongs to these pictures alone.
    """
    parts: dict[str, tuple[str, str, list[str]]] = {}  # markup of an element -> tag, attributes, markups inside
    outlines: dict[str, str] = {}  # Matplotlib's name -> markup: letters, markers, what a curve is cut off by
    pictures = [read_children(ElementTree.fromstring(svg), parts, outlines) for svg in svgs]

    uses = Counter(child for _, _, children in parts.values() for child in children)
    uses.update(child for children in pictures for child in children)
    prefix = base64.b32encode(hashlib.sha256(repr(pictures).encode()).digest()).decode()[:4].lower()
    names: dict[str, str] = {}
    shared: list[str] = []

    def named(markup: str) -> str:
        if markup not in names:
            names[markup] = f"{prefix}{len(names)}"
            shared.append(spelled(markup, f" id='{names[markup]}'"))
        return names[markup]

    def written(markup: str) -> str:
        if uses[markup] > 1 and len(markup) > WORTH:
            return f"<use href='#{named(markup)}'/>"
        return spelled(markup)

    def spelled(markup: str, name: str = "") -> str:
        tag, attributes, children = parts[markup]
        attributes = name + REFERENCE.sub(lambda found: found[1] + named(outlines[found[2]]), attributes)
        inside = "".join(map(written, children))
        return f"<{tag}{attributes}>{inside}</{tag}>" if inside else f"<{tag}{attributes}/>"

    bodies = ["".join(map(written, children)) for children in pictures]
    return "".join(shared), bodies


def smaller(svg: str) -> str:
    """The same picture, from Matplotlib's SVG file, as a file about half as long."""
    root = ElementTree.fromstring(svg)
    size = "".join(f" {name}={quoteattr(root.attrib[name])}" for name in ("width", "height", "viewBox"))
    shared, (body,) = written_together([svg])
    namespace = "http://www.w3.org/2000/svg"
    return f"<svg xmlns='{namespace}'{size} style='{ROOT_STYLE}'><defs>{shared}</defs>{body}</svg>"


def read_children(element, parts: dict, outlines: dict) -> list[str]:
    """Markups of what an element of Matplotlib's file draws; `parts` and `outlines` take in what they are made of."""
    return [markup for child in element if (markup := read(child, parts, outlines))]


def read(element, parts: dict, outlines: dict) -> str:
    """Markup of an element, as its key in `parts`; empty where it draws nothing."""
    tag = element.tag.rpartition("}")[2]
    if tag == "defs":
        outlines.update({child.get("id"): read(child, parts, outlines) for child in element if child.get("id")})
    if tag in ("defs", "metadata"):
        return ""
    given = {key.rpartition("}")[2]: value for key, value in element.items()}  # without their namespaces
    values = {key: short(key, value) for key, value in given.items() if key != "id"}
    if tag == "use":
        if not outlines[values["href"][1:]]:  # a space between words
            return ""
        if moved := re.fullmatch(r"translate\((\S+) (\S+)\)", values.get("transform", "")):
            del values["transform"]
            values |= {key: value for key, value in zip("xy", moved.groups(), strict=True) if value != "0"}
    attributes = "".join(f" {key}='{escape(value, QUOTE)}'" for key, value in values.items())
    children = read_children(element, parts, outlines)
    if tag == "g" and len(children) == 1 and not attributes:
        return children[0]
    if not children and (tag == "g" or (tag == "path" and not values.get("d"))):
        return ""
    markup = f"<{tag}{attributes}>{''.join(children)}</{tag}>"
    parts[markup] = tag, attributes, children
    return markup


def short(key: str, value: str) -> str:
    """An attribute's value in few characters."""
    if key == "d":
        return short_path(value)
    if key == "style":
        return value.replace(": ", ":").replace("; ", ";")
    if key == "transform":  # a scale keeps its digits
        return re.sub(r"translate\([^)]*\)", lambda found: rounded(found[0]), value)
    if key == "href":
        return "".join(value.split())  # a raster image comes in lines
    return rounded(value) if key in ("x", "y", "width", "height") else value


def rounded(text: str) -> str:
    """Its numbers that have a decimal point, on the grid."""
    return re.sub(r"-?\d+\.\d+", lambda found: decimal(round(GRID * float(found[0]))), text)


def short_path(data: str) -> str:
    """Path data with each point relative to the one before, and without the points that do not bend it."""
    out, here, start = [], np.zeros((1, 2)), np.zeros((1, 2))
    pieces = [(letter, np.array(numbers.split(), float).reshape(-1, 2)) for letter, numbers in PIECE.findall(data)]
    for letter, same in groupby(pieces, key=lambda piece: piece[0]):
        if letter == "z":
            out, here = [*out, "z"], start
            continue
        points = GRID * np.concatenate([points for _, points in same])
        if letter == "M":
            points = points[-1:]
        if letter == "L":
            points = bent(np.concatenate([here, points]))[1:]
        points = points.round()
        step = {"Q": 2, "C": 3}.get(letter, 1)  # points a curve; the last is where the next begins
        ends = np.concatenate([here, points[step - 1 :: step]])
        moves = (points - ends[:-1].repeat(step, axis=0)).ravel()
        words = "".join(f" {decimal(move)}" for move in moves.astype(int))
        out.append(letter.lower() + words[1:].replace(" -", "-"))
        here = ends[-1:]
        start = here if letter == "M" else start
    return "".join(out)


def bent(points: np.ndarray) -> np.ndarray:
    """The points of an open line, [N, 2], without those that lie on it, to within BEND; [at most N, 2]."""
    if len(points) < 3:
        return points
    line = Path(points)
    line.simplify_threshold = BEND * GRID
    corners = line.cleaned(simplify=True).vertices[:-1].round()
    moved = (np.diff(corners, axis=0) != 0.0).any(-1)  # Matplotlib may name a corner twice
    return corners[np.append(True, moved)] if moved.any() else points[[0, -1]]


def decimal(value: int) -> str:
    """This many parts of GRID."""
    return re.sub(r"^(-?)0\.", r"\1.", f"{value / GRID:.2f}".rstrip("0").rstrip("."))
