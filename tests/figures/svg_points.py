"""What an SVG file draws, as points on its page: references followed, transforms applied."""

import math
import re
from xml.etree import ElementTree

import numpy as np


def matrix(transform: str) -> np.ndarray:
    """Affine map, [3, 3], of a list of translations, scales and rotations."""
    product = np.eye(3)
    for kind, inside in re.findall(r"(\w+)\(([^)]*)\)", transform):
        values, step = [float(x) for x in re.findall(r"-?[\d.]+", inside)], np.eye(3)
        if kind == "translate":
            step[:2, 2] = values if len(values) == 2 else [values[0], 0.0]
        elif kind == "scale":
            step[0, 0], step[1, 1] = values[0], values[-1]
        elif kind == "rotate":
            turn = math.radians(values[0])
            step[:2, :2] = [[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]
        else:
            raise ValueError(transform)
        product = product @ step
    return product


def points_of(data: str) -> np.ndarray:
    """The points of path data, absolute or relative, those that only steer a curve among them; [N, 2]."""
    out, here, start = [], np.zeros(2), np.zeros(2)
    for letter, inside in re.findall(r"([MLQCmlqcz])([^MLQCmlqcz]*)", data):
        if letter == "z":
            here = start
            continue
        points = np.array([float(x) for x in re.findall(r"-?\d*\.?\d+", inside)]).reshape(-1, 2)
        step = {"Q": 2, "C": 3}.get(letter.upper(), 1)
        for curve in points.reshape(-1, step, 2):
            curve = curve + here if letter.islower() else curve
            out.extend(curve)
            here = curve[-1]
            start = here if letter in "Mm" else start
    return np.array(out)


def drawn(svg: str) -> list[tuple[str, np.ndarray]]:
    """(style, points [N, 2]) of every path in the order of drawing; `svg` is a file, or all of a page's `<svg>`."""
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    named = {element.get("id"): element for element in root.iter() if element.get("id")}
    out = []

    def walk(element, outer: np.ndarray, style: str) -> None:
        style = element.get("style", style).replace(": ", ":").replace("; ", ";")
        inner = outer @ matrix(element.get("transform", ""))
        if element.tag == "use":
            at = f"translate({element.get('x', '0')} {element.get('y', '0')})"
            walk(named[element.get("href")[1:]], inner @ matrix(at), style)
        elif element.tag == "path" and element.get("d"):
            points = points_of(element.get("d"))
            out.append((style, (np.c_[points, np.ones(len(points))] @ inner.T)[:, :2]))
        elif element.tag not in ("defs", "metadata"):
            for child in element:
                walk(child, inner, style)

    walk(root, np.eye(3), "")
    return out


def farthest(points: np.ndarray, line: np.ndarray) -> float:
    """Largest distance of a point, [N, 2], from a line through points, [M, 2]."""
    start, step = line[:-1], np.diff(line, axis=0)
    if not len(step):
        start, step = line, np.zeros_like(line)
    length = (step**2).sum(-1)
    along = ((points[:, None] - start) * step).sum(-1) / np.where(length > 0, length, 1.0)
    nearest = start + along.clip(0.0, 1.0)[..., None] * step
    return float(np.sqrt(((points[:, None] - nearest) ** 2).sum(-1)).min(-1).max())
