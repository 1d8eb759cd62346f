"""How long a chapter takes to read, counted: `python book/_ext/reading.py` prints it, `--write` sets the pages.

The pages are the front page, with the times, and the instructors' page, with the number of exercises of each kind.

Nobody was measured. The rates below are assumptions, stated here and on the front page, and what they are applied to is
counted. The prose is read slowly, once; a formula in a sentence takes as long as three words. A displayed equation is
read line by line. Code is read where it is shown: a folded check costs nothing, since it is there for whoever doubts.
Exercises are counted apart, by their stars, and so are the tables of symbols and of tests, which nobody reads through.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

BOOK = Path(__file__).resolve().parents[1]
WORDS_A_MINUTE = 150  # half to two thirds of the rate at which a novel is read
EQUATION = 1.0  # minutes for a displayed equation
CODE_LINE = 8 / 60  # minutes for a line of code that is shown
PICTURE = 1.0  # minutes for a picture, a widget included
PREDICTION = 1.0  # minutes to commit oneself before an answer is unfolded
EXERCISE = {1: 10, 2: 25, 3: 60}  # minutes by the number of stars
INDEX_ROW = re.compile(r"^(\| \[.*?\]\((\S+\.ipynb)\) \|.*?\|) *[^|]*? min \| *[^|]*? h \|", re.M)
NOT_READ = re.compile(r"^## (?:Symbols|From equation to function to test|Exercises|Books and papers|Papers)\b")
KINDS = ("Predict", "Derive", "Implement", "Find the bug", "Explore")
KINDS_ROW = re.compile(r"^(\| \[.*?\]\((\S+\.ipynb)\) \|)((?: \d+ \|){5})$", re.M)
BLOCK = re.compile(r"^(`{3,})\{(?:exercise|solution)\}.*?^\1$", re.M | re.S)
DISPLAYED = re.compile(r"\$\$[^$]+\$\$(?: \([\w-]+\))?")


class Count(NamedTuple):
    """What there is to read in a chapter."""

    words: int
    equations: int
    code: int  # lines
    pictures: int
    predictions: int
    exercises: tuple[int, ...]  # stars

    @property
    def reading(self) -> float:
        """Minutes, exercises left out."""
        return (
            self.words / WORDS_A_MINUTE
            + self.equations * EQUATION
            + self.code * CODE_LINE
            + self.pictures * PICTURE
            + self.predictions * PREDICTION
        )

    @property
    def exercising(self) -> float:
        """Minutes."""
        return float(sum(EXERCISE[stars] for stars in self.exercises))


def words_of(text: str) -> int:
    """Words of Markdown without its displayed equations; a formula counts as three, a link by what it shows."""
    text = re.sub(r"\]\([^)]*\)|\{[\w:]+\}`[^`<]*<[^>]*>`|^:[\w-]+:.*$|^[`:]{3,}.*$", " ", text, flags=re.M)
    text, formulas = re.subn(r"\$[^$]+\$", " ", text)
    text, names = re.subn(r"`[^`]*`", " ", text)
    return len(re.findall(r"[^\W_]+(?:['’.,-][^\W_]+)*", text)) + 3 * formulas + names


def count(path: Path) -> Count:
    """Count a chapter's notebook."""
    words = equations = code = pictures = predictions = 0
    stars = []
    for cell in json.loads(path.read_text("utf8"))["cells"]:
        source, tags = "".join(cell["source"]), set(cell["metadata"].get("tags", []))
        if cell["cell_type"] == "markdown":
            stars += [title.count("★") for title in re.findall(r"^```\{exercise\} (.*)$", source, re.M)]
            parts = re.split(r"^(?=## )", BLOCK.sub("", source), flags=re.M)
            read = "\n".join(part for part in parts if not NOT_READ.match(part))
            equations += len(DISPLAYED.findall(read))
            words += words_of(DISPLAYED.sub(" ", read))
            predictions += source.count(":class: predict")
        elif "remove-cell" not in tags:
            pictures += "plt.show()" in source or bool(re.search(r"^explore_\w+\(", source, re.M))
            if not tags & {"hide-cell", "hide-input"}:
                code += sum(bool(line.strip()) for line in source.splitlines())
    return Count(words, equations, code, pictures, predictions, tuple(stars))


def kinds(path: Path) -> list[int]:
    """How many exercises of each kind a chapter has."""
    cells = json.loads(path.read_text("utf8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return [len(re.findall(rf"^```\{{exercise\}} {kind}: ", text, re.M)) for kind in KINDS]


def write_kinds(page: str) -> str:
    """The instructors' page with the exercises of every chapter as counted."""
    return KINDS_ROW.sub(lambda row: f"{row[1]}{''.join(f' {each} |' for each in kinds(BOOK / row[2]))}", page)


def rounded(minutes: float) -> int:
    """To five minutes."""
    return 5 * round(minutes / 5)


def hours(minutes: float) -> str:
    """To half hours, as the front page writes them."""
    return f"{round(minutes / 30) / 2:g}"


def stated(index: str) -> dict[str, tuple[int, str]]:
    """The front page's minutes of reading and hours of exercises of each chapter."""
    found = re.findall(r"^\| \[.*?\]\((\S+\.ipynb)\) \|.*\| (\d+) min \| ([\d.]+) h \|", index, re.M)
    return {name: (int(minutes), exercises) for name, minutes, exercises in found}


def write(index: str) -> str:
    """The front page with every chapter's minutes, and their sums, as counted."""
    counts = {name: count(BOOK / name) for _, name in INDEX_ROW.findall(index)}
    index = INDEX_ROW.sub(
        lambda row: f"{row[1]} {rounded(counts[row[2]].reading)} min | {hours(counts[row[2]].exercising)} h |", index
    )
    each = stated(index).values()
    told = (f"{round(sum(minutes for minutes, _ in each) / 60)} hours of reading and "
            f"{sum(float(exercises) for _, exercises in each):.0f} of exercises")  # fmt: skip
    return re.sub(r"\d+\s+hours\s+of\s+reading\s+and\s+\d+\s+of\s+exercises", told, index)


if __name__ == "__main__":
    page = BOOK / "index.md"
    if "--write" in sys.argv[1:]:
        page.write_text(write(page.read_text("utf8")), "utf8")
        teachers = BOOK / "instructors.md"
        teachers.write_text(write_kinds(teachers.read_text("utf8")), "utf8")
    for name in stated(page.read_text("utf8")):
        chapter = count(BOOK / name)
        print(f"{name:28} {chapter.reading:4.0f} min reading, {chapter.exercising:4.0f} min exercises; {chapter}")
