r"""From a LaTeX string to canonical tokens, so that two spellings of one symbol are one list.

What only decorates is dropped (`\left`, `\,`), synonyms are renamed (`\tfrac` is `\frac`), every script and argument
gets its braces, a prime stands before a subscript, and a subscript before a superscript: `g_t'` is `g'_t`.
"""

from __future__ import annotations

import re

TOKEN = re.compile(r"\\(?:mathrm|operatorname|text)\s*\{\s*([A-Za-z0-9\- ]+?)\s*\}|\\[A-Za-z]+|\\.|\d+(?:\.\d+)?|\S")
DECORATION = {r"\left", r"\right", r"\,", r"\;", r"\!", r"\quad"}
SYNONYM = {r"\tfrac": r"\frac", r"\dfrac": r"\frac", r"\times": r"\cdot", r"\mathbf": r"\mathbb"}
ONE_ARGUMENT = {r"\hat", r"\bar", r"\tilde", r"\overline", r"\mathbb", r"\mathcal", r"\sqrt"}


class FormulaError(Exception):
    """A formula that is outside the language, or that does not hold."""


def tokens_of(latex: str) -> list[str]:
    """Canonical tokens of a formula or a symbol."""
    raw = []
    for match in TOKEN.finditer(latex):
        token = rf"\mathrm{{{match[1]}}}" if match[1] else match[0]
        if token not in DECORATION:
            raw.append(SYNONYM.get(token, token))
    return _canonical(raw)


def closing(tokens: list[str], start: int) -> int:
    """Position of the brace that closes the one at `start`."""
    depth = 0
    for i in range(start, len(tokens)):
        depth += {"{": 1, "}": -1}.get(tokens[i], 0)
        if depth == 0:
            return i
    raise FormulaError(f"unbalanced braces in {' '.join(tokens)}")


def _argument(tokens: list[str], i: int) -> tuple[list[str], int]:
    """The argument that starts at i, without braces, and the position after it. `\\frac12` takes single digits."""
    if tokens[i] == "{":
        end = closing(tokens, i)
        return _canonical(tokens[i + 1 : end]), end + 1
    if tokens[i][0].isdigit() and len(tokens[i]) > 1:
        tokens[i], digit = tokens[i][1:], tokens[i][0]
        return [digit], i
    return [tokens[i]], i + 1


def _canonical(tokens: list[str]) -> list[str]:
    tokens, out, i = list(tokens), [], 0
    while i < len(tokens):
        token = tokens[i]
        if token in ("_", "^", "'"):
            primes, scripts = 0, {"_": [], "^": []}
            while i < len(tokens) and tokens[i] in ("_", "^", "'"):
                if tokens[i] == "'":
                    primes, i = primes + 1, i + 1
                else:
                    kind = tokens[i]
                    if scripts[kind]:
                        raise FormulaError(f"two {kind} at one base in {' '.join(tokens)}")
                    scripts[kind], i = _argument(tokens, i + 1)
            out += ["'"] * primes
            for kind, argument in scripts.items():
                out += [kind, "{", *argument, "}"] if argument else []
        elif token in ONE_ARGUMENT or token == r"\frac":
            out.append(token)
            i += 1
            for _ in range(2 if token == r"\frac" else 1):
                argument, i = _argument(tokens, i)
                out += ["{", *argument, "}"]
        else:
            out.append(token)
            i += 1
    return out
