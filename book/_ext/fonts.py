"""The fonts that lie beside the pages: of MathJax's and of the theme's icons only the signs that the pages show."""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path

from fontTools import subset

QUOTED = r'"(?:[^"\\]|\\.)*"'
RULE = re.compile(rf'(?:[^{{}}"]|{QUOTED})+\{{(?:[^{{}}"]|{QUOTED})*\}}')
FACE = re.compile(r'@font-face.*?font-family: (?P<family>[\w-]+);.*?(?P<file>[\w-]+)\.woff"', re.S)
SIGN = re.compile(rf"mjx-c\.mjx-c\w+(?:\.(?P<variant>TEX-\w+))?::before.*?content: (?P<signs>{QUOTED})", re.S)
# Of what a tall brace and the like are put together, and the fonts in which MathJax looks for it.
PIECE = re.compile(rf"mjx-stretchy-[vh]\.[^{{}}]*::before \{{[^}}]*?content: (?P<signs>{QUOTED})")
PIECES_OF = "MJXTEX-S1", "MJXTEX-S4", "MJXTEX", "MJXTEX-A"
EMPTY = "MJXZERO", 0xEFFC  # a font of MathJax for its lines' heights, and its one sign
ICONS = "Font Awesome 6 Free"
FACES = {"Source Serif": "source-serif-4", "Source Sans": "source-sans-3", "Source Code": "source-code-pro"}
RANGES = {"latin": "U+0-24F, U+2000-206F, U+2212", "greek": "U+370-3FF"}
# Lines break by their widths, so they come with the style sheet.
AT_ONCE = (
    "source-serif-4-latin-wght-normal", "source-serif-4-latin-wght-italic", "source-sans-3-latin-wght-normal",
)  # fmt: skip


def decoded(quoted: str) -> set[int]:
    """The signs in a string of a style sheet."""
    found = re.findall(r"\\([\da-fA-F]+) ?|(\\?.)", quoted[1:-1])
    return {int(code, 16) if code else ord(sign[-1]) for code, sign in found}


def merged(*styles: str) -> str:
    """Style sheets as one, each rule once."""
    return "\n".join(dict.fromkeys(rule.strip() for style in styles for rule in RULE.findall(style))) + "\n"


def part(font: Path, wanted: Iterable[int]) -> str:
    """A font's wanted signs, as an address that holds them, so that they are there when the style sheet is."""
    options = subset.Options(flavor="woff", layout_features=[], drop_tables=["FFTM"])
    with subset.load_font(str(font), options) as loaded, io.BytesIO() as file:
        chosen = subset.Subsetter(options)
        chosen.populate(unicodes=wanted)
        chosen.subset(loaded)
        subset.save_font(loaded, file, options)
        return address(file.getvalue(), "woff")


def address(font: bytes, kind: str) -> str:
    return f"data:font/{kind};base64,{b64encode(font).decode()}"


def faces(modules: Path) -> tuple[str, list[Path]]:
    """The rules for the text's faces, and the files that they ask for in `fonts/`, which may come late."""
    rules, files = [], []
    for family, name in FACES.items():
        for signs, range_ in RANGES.items():
            for slope in ("normal", "italic"):
                file = modules / "@fontsource-variable" / name / "files" / f"{name}-{signs}-wght-{slope}.woff2"
                source, waits = f"fonts/{file.name}", "swap"
                if file.stem in AT_ONCE:
                    source, waits = address(file.read_bytes(), "woff2"), "block"
                else:
                    files.append(file)
                rules.append(
                    f'@font-face {{font-family: "{family}"; font-weight: 200 900; font-style: {slope}; '
                    f'font-display: {waits}; unicode-range: {range_}; src: url({source}) format("woff2")}}\n'
                )
    return "".join(rules), files


def formulas(style: str, folder: Path) -> str:
    """MathJax's style sheet with the fonts in it that it names and needs; `folder` has all of them."""
    wanted: dict[str, set[int]] = {EMPTY[0]: {EMPTY[1]}}
    for each in SIGN.finditer(style):
        wanted.setdefault(f"MJX{each['variant'] or 'TEX'}", set()).update(decoded(each["signs"]))
    pieces = {sign for each in PIECE.finditer(style) for sign in decoded(each["signs"])}
    for family in PIECES_OF if pieces else ():
        wanted.setdefault(family, set()).update(pieces)
    rules = []
    for rule in RULE.findall(style):
        if not (face := FACE.match(rule.strip())):
            rules.append(rule)
        elif signs := wanted.get(face["family"]):
            source = part(folder / f"{face['file']}.woff", signs)
            rules.append(f"\n@font-face {{font-family: {face['family']}; src: url({source}) format('woff')}}")
    return "".join(rules)


def icons(pages: str, theme: str, font: Path) -> str:
    """The rule for the icons that are named on these pages, or by the theme itself for any page."""
    shown = set(re.findall(r"\bfa-[\w-]+", pages))
    rules = re.findall(r"([^{}]*):before\{content:\"\\(\w+)\"", theme)
    used = {int(code, 16) for names, code in rules if shown & set(re.findall(r"fa-[\w-]+", names))}
    used |= {ord(sign) for sign in re.findall(r"--pst-icon-[\w-]+: ?\"(.)\"", theme)}
    return f'@font-face {{font-family: "{ICONS}"; font-weight: 900; src: url({part(font, used)}) format("woff")}}\n'
