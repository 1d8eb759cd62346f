"""Pictures that students hand in, drawn anew: nothing of their bytes is kept. Runs in a process with limits."""

from __future__ import annotations

import base64
import binascii
import io

from PIL import Image, ImageOps, UnidentifiedImageError

KINDS = ("PNG", "JPEG")  # that are decoded
LARGEST = 20 << 20  # bytes of a picture that is looked at
PIXELS = 64_000_000  # of one; a phone's photo has fifty million
SIDE = 2000  # pixels of the longer side that are kept: a page can be read
KEPT = 1 << 20  # bytes of a picture as it is kept
TOGETHER = 8 << 20  # and of all of a notebook
COUNT = 40  # pictures of a notebook


Image.MAX_IMAGE_PIXELS = None  # the bound is PIXELS


class NoPicture(Exception):
    """Why a picture is not shown."""


def redrawn(data: bytes) -> tuple[str, str]:
    """A PNG or JPEG as ("image/png" or "image/jpeg", base64), upright, at most `SIDE` pixels and `KEPT` bytes.

    Raises NoPicture: it is none, of another kind, or larger than it may be.
    """
    if len(data) > LARGEST:
        raise NoPicture(f"it has more than {LARGEST >> 20} MB")
    try:
        with Image.open(io.BytesIO(data), formats=KINDS) as image:
            if image.width * image.height > PIXELS:
                raise NoPicture(f"it has more than {PIXELS // 1_000_000} million pixels")
            plain = image.format == "PNG"
            image.draft("RGB", (SIDE, SIDE))  # a large photo is decoded small
            image = ImageOps.exif_transpose(image)
            image.thumbnail((SIDE, SIDE))
            flat = on_white(image)
    except UnidentifiedImageError:
        raise NoPicture("it is no PNG or JPEG") from None
    except NoPicture:
        raise
    except Exception:  # whatever stands in the file
        raise NoPicture("it cannot be read") from None
    # Curves and text stay sharp as PNG; a photo is too large for it.
    tries = [("PNG", {"optimize": False})] * plain + [("JPEG", {"quality": q}) for q in (85, 60, 30)]
    for kind, options in tries:
        out = io.BytesIO()
        flat.save(out, kind, **options)
        if out.tell() <= KEPT:
            return f"image/{kind.lower()}", base64.b64encode(out.getvalue()).decode()
    raise NoPicture("it is too large")


def on_white(image: Image.Image) -> Image.Image:
    """Without transparency, palette or profile: numbers of pixels and nothing else."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        ground = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(ground, image)
    made = Image.new("RGB", image.size)
    made.paste(image.convert("RGB"))
    return made


class Album:
    """The pictures of one notebook, up to a bound for all of them."""

    def __init__(self) -> None:
        self.bytes, self.count = 0, 0

    def take(self, encoded: object) -> tuple[str, str]:
        """A picture given as base64, as `redrawn` gives it. Raises NoPicture."""
        text = "".join(map(str, encoded)) if isinstance(encoded, list) else encoded
        if not isinstance(text, str) or len(text) > 2 * LARGEST:
            raise NoPicture("it cannot be read")
        self.count += 1
        if self.count > COUNT:
            raise NoPicture(f"there are more than {COUNT}")
        try:
            kind, made = redrawn(base64.b64decode(text))
        except (binascii.Error, ValueError):
            raise NoPicture("it cannot be read") from None
        if self.bytes + len(made) > TOGETHER:
            raise NoPicture(f"all together they have more than {TOGETHER >> 20} MB")
        self.bytes += len(made)
        return kind, made
