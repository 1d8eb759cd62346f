"""A stored SVG as a PNG: opaque, with a margin, in 256 colors."""

from __future__ import annotations

import io

import resvg_py
from PIL import Image, ImageOps

WIDTH, MARGIN, COLORS = 1280, 20, 256  # pixels of the whole picture; on each side; of the palette


def png(svg: str) -> bytes:
    """The picture as the page shows it in the light theme.

    svg: its letters are paths, as Matplotlib writes them by default here, so that no font is asked for.
    """
    drawn = bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg, width=WIDTH - 2 * MARGIN, dpi=96, background="#ffffff", skip_system_fonts=True
        )
    )
    picture = Image.open(io.BytesIO(drawn)).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    white = picture.getpixel((0, 0))
    file = io.BytesIO()
    ImageOps.expand(picture, MARGIN, fill=white).save(file, "PNG", optimize=True)
    return file.getvalue()
