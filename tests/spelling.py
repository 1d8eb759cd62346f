"""Spell the prose of the book: `python -m tests.spelling` lists the words that no list knows.

Prose is what a reader reads as words: Markdown without code, formulas, links' addresses and roles; docstrings and
comments without what stands in backticks. cspell, with American spelling, does the looking up. The book's own words
stand in words.txt, one a line.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = Path(__file__).with_name("words.txt")
CSPELL = ROOT / ".assets" / "node_modules" / "cspell" / "bin.mjs"
WITH_WORDS = re.compile(r"\{(?!raw|annotated|api|bibliography|button-ref|settings)")  # a fence that is no code
NOT_PROSE = [
    re.compile(r"^:[\w-]+:.*$", re.M),  # options of directives
    re.compile(r"^`{3,}\{solution\}.*$|^`{3,}\{[\w:-]+\}", re.M),
    re.compile(r"\$\$.*?\$\$(?: \([\w:-]+\))?", re.S),
    re.compile(r"\$[^$\n]+(?:\n[^$\n]+)?\$"),
    re.compile(r"\{[\w:]+\}`[^`<]*(?:<[^>]*>)?`"),
    re.compile(r"`[^`\n]+`"),
    re.compile(r"\]\([^)]*\)|<https?:[^>]*>|https?://\S+"),
    re.compile(r"<[^>\n]+>"),
    re.compile(r"\beqs?\. [a-z][\w:-]+"),  # labels of equations in docstrings
    re.compile(r"^\([\w:-]+\)=$", re.M),
    re.compile(r"\{\{.*?\}\}"),
]


def without_code(markdown: str) -> str:
    """Markdown without blocks of code, on its lines; of directives with words only the end goes.

    cspell skips what stands between two ends.
    """
    lines, fences, code = [], [], False
    for line in markdown.split("\n"):
        mark, rest = re.match(r"(`{3,}|~{3,}|)(.*)", line).groups()
        ends = bool(mark and fences) and not rest.strip() and mark.startswith(fences[-1])
        if ends:
            fences.pop()
        elif mark and not code:
            fences.append(mark)
            code = not WITH_WORDS.match(rest)
        lines.append("" if code or ends else line)
        code = code and not ends
    return "\n".join(lines)


def prose(markdown: str) -> str:
    """Markdown's words alone, on their lines."""
    markdown = without_code(markdown)
    for pattern in NOT_PROSE:
        markdown = pattern.sub(lambda found: "\n" * found[0].count("\n") + " ", markdown)
    return markdown


def prose_of_code(source: str) -> str:
    """Docstrings and comments, on their lines."""
    lines = [""] * (source.count("\n") + 2)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            text = node.body[0]
            for number, line in enumerate(prose(text.value.value).split("\n")):
                lines[text.lineno - 1 + number] += line
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# LaTeX:"):
            words = re.sub(r"(noqa|isort|fmt|type): .*", "", token.string)
            # What a comment says of shapes is a formula in all but name.
            lines[token.start[0] - 1] += " " + re.sub(r"`[^`]*`|\[[^\]]*\]|\w*[_({^\\]\S*", " ", words)
    return "\n".join(lines)


def texts() -> dict[str, str]:
    """Prose of every file that people read, by its name."""
    found = {}
    for path in [*ROOT.glob("*.md"), *(ROOT / "book").rglob("*.md"), *(ROOT / "tests").rglob("*.md")]:
        found[path.relative_to(ROOT).as_posix()] = prose(path.read_text("utf8"))
    for path in (ROOT / "book").rglob("*.ipynb"):
        if ".ipynb_checkpoints" not in path.parts:
            cells = json.loads(path.read_text("utf8"))["cells"]
            words = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
            found[path.relative_to(ROOT).as_posix()] = prose("\n\n".join(words))
    for folder in ("minerva_lite", "book/minerva_book", "book/_ext", "book/homework/course", "book/results", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            found[path.relative_to(ROOT).as_posix()] = prose_of_code(path.read_text("utf8"))
    return found


def unknown(found: dict[str, str], words: Path = WORDS) -> list[str]:
    """`file:line word` of each word that no list knows."""
    if not CSPELL.exists():
        raise FileNotFoundError("cspell: wanted it in .assets/node_modules; `make setup` installs it where npm is")
    with tempfile.TemporaryDirectory() as folder:
        names = {}
        for number, (name, text) in enumerate(found.items()):
            Path(folder, f"{number}.txt").write_text(text, "utf8")
            names[f"{number}.txt"] = name
        settings = {
            "version": "0.2", "language": "en-US", "allowCompoundWords": False, "dictionaries": ["ours"],
            "dictionaryDefinitions": [{"name": "ours", "path": str(words)}], "minWordLength": 4,
        }  # fmt: skip
        Path(folder, "cspell.json").write_text(json.dumps(settings))
        command = ["node", CSPELL, "--no-progress", "--no-summary", "--config", "cspell.json", "*.txt"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 1) or "Error" in done.stderr:
        raise RuntimeError(done.stderr[-2000:])
    told = re.findall(r"^(?:\./)?(\S+?\.txt):(\d+):\d+ - Unknown word \((.*?)\)", done.stdout, re.M)
    return [f"{names[file]}:{line} {word}" for file, line, word in told]


if __name__ == "__main__":
    for line in unknown(texts()):
        print(line)
    sys.exit(0)
