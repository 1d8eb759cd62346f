"""Answers that are more alike than answers by two people are: a reason to look, and no proof.

Code is compared without names, numbers, comments and the order of lines, text by its words; what stands in the
question, in the code as given or in the reference solution does not count, and what many have in common counts little.
"""

from __future__ import annotations

import ast
import builtins
import csv
import io
import itertools
import json
import keyword
import math
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import assignment as drawn
from . import pack_of
from .graders import about
from .marks import Work
from .question import Code, Experiment, Written
from .words import counted

CODE_RUN, TEXT_RUN = 4, 5  # tokens or words that make a piece
LEAST = {"code": 14, "text": 30, "table": 20}  # pieces of its own that an answer needs to be compared
ALIKE = {"code": 0.5, "text": 0.35, "table": 0.6}  # of the pieces in common, by weight, from which a pair is told
CALLED = {"add": ast.Add, "sub": ast.Sub, "subtract": ast.Sub, "mul": ast.Mult, "multiply": ast.Mult}
CALLED |= {"div": ast.Div, "divide": ast.Div, "true_divide": ast.Div}
CALLED |= {"matmul": ast.MatMult, "mm": ast.MatMult, "pow": ast.Pow}
KEPT = {*dir(builtins), *keyword.kwlist, "torch", "math", "np", "numpy", "plt"}  # names that are not the student's


@dataclass(frozen=True)
class Pair:
    """Two answers to a question that are alike."""

    assignment: str
    question: str
    part: str  # "code", "text", or "table" for code whose numbers are the answer
    student: str
    other: str
    kind: str  # "the same text", "the same but for names, numbers and order", "alike"
    similarity: float


class Anonymous(ast.NodeTransformer):
    """Takes a student's names, numbers, types and docstrings out of code; `torch.mul(a, b)` becomes `a * b`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        operator = CALLED.get(node.func.attr) if isinstance(node.func, ast.Attribute) else None
        if operator and not node.keywords:
            module = isinstance(node.func.value, ast.Name) and node.func.value.id in KEPT
            operands = node.args if module else [node.func.value, *node.args]
            if len(operands) == 2:
                return self.generic_visit(ast.BinOp(operands[0], operator(), operands[1]))
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return node if node.id in KEPT else ast.Name("n", node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg("n")

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Name("c", ast.Load())

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Name("c", ast.Load())

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        plain = ast.Assign([node.target], node.value, lineno=0) if node.value else None
        return plain and self.generic_visit(plain)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.name, node.returns = "n", None
        return node


def plain(source: str) -> str:
    """Code without IPython's own lines."""
    return "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())


def reached(cells: list[str], function: str) -> str:
    """Of the code in all cells what a function is made of: its definitions, and those of the names in them.

    Code in a text, for `exec`, counts as code. "" where nothing defines the function.
    """
    defined: dict[str, list[ast.stmt]] = defaultdict(list)
    left = [plain(cell) for cell in cells]
    while left:
        try:
            tree = ast.parse(left.pop())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for statement in tree.body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value.strip():
                    left.append(node.value)
            inner = [statement]
            if not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):  # an `if`, a loop, an assignment
                inner = [*ast.walk(statement)]
            for node in inner:
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    defined[node.name].append(statement)
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    defined[node.id].append(statement)
    found: dict[int, ast.stmt] = {}
    names, seen = [function], set()
    while names:
        seen.add(name := names.pop())
        for statement in defined.get(name, ()):
            found[id(statement)] = statement
            used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            names += used - seen
            seen |= used
    try:
        return "\n".join(map(ast.unparse, found.values()))
    except RecursionError:  # an expression of hundreds of terms
        return ""


def lines_of(source: str) -> list[list[str]]:
    """Code as lines of tokens, without the student's names and numbers; a line that is no Python as its words."""
    source = plain(source)
    try:
        tree = Anonymous().visit(ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [words(line) for line in source.splitlines() if line.strip()]
    found: list[list[str]] = []

    def walk(body: Iterable[ast.AST]) -> None:
        for statement in body:
            parts = [getattr(statement, name, None) or [] for name in ("body", "orelse", "finalbody", "handlers")]
            for name in ("body", "orelse", "finalbody", "handlers"):
                if hasattr(statement, name):
                    setattr(statement, name, [])
            text = ast.unparse(statement)
            found.append(re.findall(r"\w+|[^\w\s]", text))
            for part in parts:
                walk(part)

    try:
        walk(tree.body)
    except RecursionError:  # an expression of hundreds of terms
        return [words(line) for line in source.splitlines() if line.strip()]
    return [line for line in found if line]


def pieces(source: str, part: str) -> frozenset[tuple[str, ...]]:
    """The runs of tokens within each line of code, or the runs of words of a text."""
    if part == "code":
        lines, length = [["<", *line, ">"] for line in lines_of(source)], CODE_RUN
    else:
        lines, length = [words(source)], TEXT_RUN
    return frozenset(
        tuple(line[place : place + length]) for line in lines for place in range(max(1, len(line) - length + 1))
    )


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def bare(source: str, part: str) -> str:
    """A text without spaces and, of code, without comments: what stays the same when it is only laid out anew."""
    if part == "code":
        try:
            tokens = tokenize.generate_tokens(io.StringIO(source).readline)
            return " ".join(token.string for token in tokens if token.type != tokenize.COMMENT and token.string.strip())
        except (tokenize.TokenError, SyntaxError):
            pass
    return " ".join(words(source))


def given_with(question: Any) -> dict[str, str]:
    """By part: what was handed out, and the reference solution, which everybody may come to."""
    if isinstance(question, Code):
        faulty = question.faulty if question.fault else ""
        texts = [question.solution, question.setup, faulty, question.header + "\n    pass"]
        return {"table" if question.judge else "code": "\n\n".join(texts)}
    text = "\n".join([question.text, question.solution, question.rubric])
    return {"text": text, "code": question.code} if isinstance(question, Experiment) else {"text": text}


def answers_of(question: Code | Written | Experiment, notebook: dict[str, Any]) -> dict[str, str]:
    """By part, what a student wrote for a question: in its cells, and in those that were added to its section.

    A function is looked for in the code of the whole notebook, as it is where it is marked.
    """
    table = isinstance(question, Code) and question.judge
    part_of = {"code": "table" if table else "code", "run": "code", "answer": "text"}
    found: dict[str, list[str]] = {}
    everything, at = [], ""
    for cell in notebook["cells"]:
        name, source = about(cell).get("grade_id", ""), "".join(cell["source"])
        at = name.partition("-")[0] if name else at
        kind = name.partition("-")[2] if name else {"code": "code", "markdown": "answer"}.get(cell["cell_type"], "")
        if not name or kind == "code":
            everything += [source] * (cell["cell_type"] == "code")
        if at == question.name and kind in part_of:
            found.setdefault(part_of[kind], []).append(source)
    wanted = given_with(question)
    answers = {part: "\n\n".join(sources) for part, sources in found.items() if part in wanted}
    if "code" in answers and isinstance(question, Code):
        answers["code"] = reached(everything, question.function) or answers["code"]
    return answers


def alike(answers: dict[str, str], given: str, part: str) -> list[tuple[str, str, str, float]]:
    """The pairs among a question's answers that are told: two students, the kind, the similarity.

    answers: by student. given: what does not count.
    """
    common = pieces(given, part)
    own = {student: pieces(source, part) - common for student, source in answers.items()}
    own = {student: found for student, found in own.items() if len(found) >= LEAST[part]}
    often = Counter(itertools.chain.from_iterable(own.values()))
    weight = {piece: math.log(1.0 + len(own) / count) for piece, count in often.items()}
    found = []
    for one, other in itertools.combinations(sorted(own), 2):
        shared, either = own[one] & own[other], own[one] | own[other]
        if len(shared) < ALIKE[part] / 3 * len(either):  # too few, whatever they weigh
            continue
        similarity = sum(weight[piece] for piece in shared) / sum(weight[piece] for piece in either)
        if similarity >= ALIKE[part]:
            kind = "alike"
            if own[one] == own[other] and part == "code":
                kind = "the same but for names, numbers and order"
            if bare(answers[one], part) == bare(answers[other], part):
                kind = "the same text"
            found.append((one, other, kind, round(similarity, 3)))
    return found


def pairs_of(term: Path, found: Iterable[Work], seed: str) -> tuple[list[Pair], dict[tuple[str, str, str, str], str]]:
    """Every pair that is told, the most questions in common first; and the answers, by assignment, question, part and
    student."""
    texts: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for work in found:
        if not work.file(term).exists():
            continue
        notebook = json.loads(work.file(term).read_text())
        for question in drawn(work.assignment, seed, pack_of(term)).questions:
            for part, source in answers_of(question, notebook).items():
                texts[work.assignment, question.name, part][work.student] = source
    pairs = []
    for (name, question, part), answers in texts.items():
        given = given_with(drawn(name, seed, pack_of(term)).question(question))[part]
        pairs += [Pair(name, question, part, *each) for each in alike(answers, given, part)]
    often = Counter((pair.student, pair.other) for pair in pairs)
    pairs.sort(key=lambda p: (-often[p.student, p.other], p.student, p.other, p.assignment, p.question, p.part))
    return pairs, {(*key, student): text for key, answers in texts.items() for student, text in answers.items()}


def write_similar(term: Path, found: Iterable[Work], seed: str) -> str:
    """Write `similar.csv` and `similar.md` into the term's folder; a line for the public, that names nobody."""
    pairs, texts = pairs_of(term, found, seed)
    with (term / "similar.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(Pair.__dataclass_fields__)
        table.writerows([*pair.__dict__.values()] for pair in pairs)
    lines = [
        "# Answers that are alike",
        "",
        "A reason to look, and no proof. The pairs with most in common come first.",
    ]
    for (one, other), group in itertools.groupby(pairs, key=lambda pair: (pair.student, pair.other)):
        lines += ["", f"## {one} and {other}"]
        for pair in group:
            lines += ["", f"{pair.assignment} {pair.question}, {pair.part}: {pair.kind} ({pair.similarity:.2f})", ""]
            for student in (one, other):
                text = texts[pair.assignment, pair.question, pair.part, student].strip()
                lines += [f"{student}:", "", *(f"    {line}" for line in text.splitlines()[:60]), ""]
    (term / "similar.md").write_text("\n".join(lines) + "\n")
    people = {student for pair in pairs for student in (pair.student, pair.other)}
    what = counted(len(pairs), "pair of answers is", "pairs of answers are")
    return f"{what} alike, of {len(people)} students: similar.md" if pairs else "none alike"
