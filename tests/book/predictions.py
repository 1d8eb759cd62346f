"""What the words below a prediction tell of its answer; `python -m tests.book.predictions` shortens the list of them.

A number tells the answer if it has two or more significant digits, the output prints it, exactly or with more
decimals, neither the question nor the code that stands open below it has it, and it stands in the text or in a caption
before the next heading or prediction, outside the block `{answer}`. Those that still do are in `predictions.json`, by
the id of the prediction's cell. That list only gets shorter.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.book.test_chapters import cells_of, figure_of, tags
from tests.equations import CHAPTERS

STILL = Path(__file__).with_name("predictions.json")
QUESTION = re.compile(r"^(`{3,})\{admonition\}[^\n]*\n:class: predict$.*?^\1\s*\Z", re.M | re.S)
ANSWER = re.compile(r"^(`{3,})\{answer\}$.*?^\1$", re.M | re.S)
END = re.compile(r"^(?:#{1,6} |:class: predict$)", re.M)
MARKUP = re.compile(r"\{[\w:]+\}`[^`]*`|(?<=\])\([^)]*\)|`[^`\n]*`")  # roles, where links lead, code
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")


def numbers(text: str) -> list[str]:
    """The numbers of a text without their signs."""
    return [found.replace(",", "") for found in NUMBER.findall(text.replace("{,}", ","))]


def digits(number: str) -> int:
    """How many are significant; the zeros that end a whole number are not."""
    return len((number.replace(".", "") if "." in number else number.rstrip("0")).lstrip("0"))


def is_printed(number: str, printed: list[str]) -> bool:
    decimals = len(number.partition(".")[2])
    return any(f"{float(each):.{decimals}f}" == number for each in printed)


def output(cell: dict) -> str:
    """What a cell prints or shows as its value."""
    texts = [each.get("text") or each.get("data", {}).get("text/plain", "") for each in cell["outputs"]]
    return "\n".join("".join(text) for text in texts)


def below(cells: list[dict]) -> str:
    """The words of cells up to the next heading or prediction, with captions and without answers."""
    texts = []
    for cell in cells:
        if cell["cell_type"] == "code":
            texts.append(figure_of(cell).get("caption", ""))
        else:
            text, *more = END.split(cell["source"], 1)
            texts.append(ANSWER.sub("", text))
            if more:
                break
    return MARKUP.sub(" ", "\n".join(texts))


def told(cells: list[dict]) -> dict[str, list[str]]:
    """The numbers that tell an answer, by the id of the prediction's cell; cells: a chapter's."""
    found = {}
    for place, cell in enumerate(cells):
        if "hide-output" not in tags(cell):
            continue
        question = QUESTION.search(cells[place - 1]["source"])
        asked = [question[0] if question else "", "" if "hide-input" in tags(cell) else cell["source"]]
        known, printed = {float(each) for each in numbers("\n".join(asked))}, numbers(output(cell))
        said = dict.fromkeys(numbers(below(cells[place + 1 :])))
        if tell := [n for n in said if digits(n) >= 2 and float(n) not in known and is_printed(n, printed)]:
            found[cell["id"]] = tell
    return found


def all_told() -> dict[str, list[str]]:
    return {name: each for path in CHAPTERS for name, each in told(cells_of(path)).items()}


if __name__ == "__main__":
    now, before = all_told(), json.loads(STILL.read_text("utf8"))
    both = {name: [n for n in each if n in now.get(name, [])] for name, each in before.items()}
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(each)}" for name, each in both.items() if each)
    STILL.write_text(f"{{\n{lines}\n}}\n", "utf8")
