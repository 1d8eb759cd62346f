"""Reference pages made from the source: what the package offers, and which symbol is which name.

    ```{api} minerva_lite.objectives
    ```
    ```{symbols-of-code}
    ```
    ```{symbols-of-book}
    ```

The first shows each public function and class of a module with its signature as it stands in the file, since the
comments there say shapes and units, and its docstring, read as Markdown. The second gives, function by function, the
table that the formula checks evaluate (tests/formulas/symbols.py); the third, for each symbol of the notation, the
chapters that lean on it and the functions that compute with it.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from pathlib import Path

from annotated import EQUATION, HOME
from docutils import nodes
from docutils.statemachine import StringList
from pybtex.plugin import register_plugin
from pybtex.style import template
from pybtex.style.formatting.alpha import Style
from pybtex.style.labels.alpha import LabelStyle
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
SYMBOLS_TABLE = re.compile(r"^## Symbols.*?$(.*?)(?=^## |\Z)", re.M | re.S)
ROW = re.compile(r"^\| ((?:\$|\\\|)[^\n]*?) \| ([^\n]+?) \|(?: ([^\n]*?))? \|$", re.M)  # the last cell may be empty
# Where a function's letter is not the notation's although letter and name agree, or is although they do not: which
# symbol of the notation it is, "" for none.
MEANT = {
    ("agents.mpo.MPOAgent.estep", "g"): r"g(\eta)",
    ("duals._kept_logits", "c"): "",
    ("duals.temperature_loss", "g"): r"g(\eta)",
    ("duals.vmpo_temperature_loss", "c"): "",
    ("duals.vmpo_temperature_loss", "g"): r"g(\eta)",
    ("normalizer.Normalizer.absorb", r"\mu"): "",
    ("normalizer.Normalizer.normalize", r"\mu"): "",
    ("agents.ppo.PPOAgent.critic_loss", r"V_{\mathrm{old}}(s_t)"): r"V_{\mathrm{old}}",
    ("bounds.average_kl_bound", r"\varepsilon'"): r"\varepsilon'_\pi",
    ("bounds.cpi_bound", r"\varepsilon'"): r"\varepsilon'_\pi",
    ("objectives.adapt_kl_penalty", "n"): "",
    ("objectives.clipped_value_loss", r"V_{\mathrm{old}}(s_t)"): r"V_{\mathrm{old}}",
    ("objectives.clipped_value_loss", "m_t"): "",
    ("objectives.normalize_advantage", "c_t"): "",
    ("trust_region.line_search", r"c_{\mathrm{accept}}"): "c",
}


def public(body: list[ast.stmt]) -> list[ast.stmt]:
    return [each for each in body if isinstance(each, (*FUNCTION, ast.ClassDef)) and not each.name.startswith("_")]


def head(node: ast.stmt) -> tuple[int, int]:
    """First and last line of a definition before its docstring or its body."""
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return first, max(node.lineno, node.body[0].lineno - 1)


def signature(node: ast.stmt, lines: list[str]) -> str:
    """The definition as it stands in the file, comments included; of a class, its fields and its constructor too."""
    first, last = head(node)
    text = lines[first - 1 : last]
    if isinstance(node, ast.ClassDef):
        for field in node.body:
            if isinstance(field, ast.AnnAssign):
                text += lines[field.lineno - 1 : field.end_lineno]
        for method in node.body:
            if isinstance(method, FUNCTION) and method.name == "__init__" and ast.unparse(method.args) != "self":
                first, last = head(method)
                text += lines[first - 1 : last]
    return textwrap.dedent("\n".join(line for line in text if line.strip()))


class Api(SphinxDirective):
    """``api``: the public names of a module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        module = self.env.app.annotated_library[name]
        self.env.note_dependency(str(module.path))
        tree, lines = ast.parse(module.source.text), module.source.text.split("\n")
        section = self.section(name, name.removeprefix("minerva_lite."), "module")
        self.document(section, tree)  # the module's own
        for node in public(tree.body):
            section += self.describe(node, f"{name}.{node.name}", lines)
        return [section]

    def section(self, name: str, title: str, kind: str) -> nodes.section:
        section = nodes.section(ids=[f"api-{name}"], names=[])
        section += nodes.title(title, title)
        self.env.get_domain("py").note_object(name, kind, f"api-{name}", location=self.get_location())
        entry = f"{title.rpartition('.')[2]} ({name.rpartition('.')[0] or 'package'})"
        section += addnodes.index(entries=[("single", entry, f"api-{name}", "", None)])
        return section

    def describe(self, node: ast.stmt, name: str, lines: list[str]) -> nodes.section:
        is_class = isinstance(node, ast.ClassDef)
        section = self.section(name, node.name, "class" if is_class else "function")
        self.show(section, node, name, lines)
        if is_class:
            # A method without a docstring is one that the class before it documents.
            for method in filter(ast.get_docstring, public(node.body)):
                block = nodes.container(classes=["api-method"], ids=[f"api-{name}.{method.name}"])
                block += nodes.rubric("", "", nodes.literal("", f"{node.name}.{method.name}"))
                self.show(block, method, f"{name}.{method.name}", lines)
                section += block
        return section

    def show(self, parent: nodes.Element, node: ast.stmt, name: str, lines: list[str]) -> None:
        text = signature(node, lines)
        parent += nodes.literal_block(text, text, language="python")
        self.document(parent, node)
        if any(f"{name}.".startswith(f"{shown}.") for shown in self.env.app.shown_source):
            link = addnodes.pending_xref("", nodes.inline("", "Annotated source"), refdomain="annotated", reftype="src",
                                         reftarget=name, refwarn=False)  # fmt: skip
            parent += nodes.paragraph("", "", link)

    def document(self, parent: nodes.Element, node: ast.AST) -> None:
        """Append the docstring; the label after "eq." becomes the number of its equation, and leads there."""
        text = inspect.cleandoc(ast.get_docstring(node) or "")
        text = re.sub(r" \(floor \d+\)", "", text)  # of use to those who change the package
        text = re.sub(r"\n(?=Source: |Book: )|\s+(?=Raises \w+Error\b)", "\n\n", text)  # each a paragraph
        block = nodes.container(classes=["api-text"])
        self.state.nested_parse(StringList(text.splitlines(), source=self.get_location()), 0, block)
        for words in list(block.findall(nodes.Text)):
            if isinstance(words.parent, nodes.literal) or not (match := EQUATION.search(words)):
                continue
            link = addnodes.pending_xref("", nodes.inline("", match[0]), refdomain="math", reftype="eq",
                                         reftarget=match[0], refwarn=False)  # fmt: skip
            before, after = nodes.Text(words[: match.start()]), nodes.Text(words[match.end() :])
            words.parent.replace(words, [before, link, after])
        parent += block


def rows_of(text: str) -> list[tuple[list[str], str, str]]:
    """(symbols, meaning, names) of each row of the tables in this Markdown."""
    found = []
    for symbols, meaning, names in ROW.findall(text):
        # A comma within parentheses parts arguments, and `\\,` is a space.
        parts = [re.split(r"(?<!\\)[,;]\s*(?:\\ )?(?![^()]*\))", each) for each in re.findall(r"\$([^$]+)\$", symbols)]
        found.append(([part.strip() for group in parts for part in group], meaning, names or ""))
    return found


def own_names(symbols: list[str], names: str) -> list[str]:
    """The names of each symbol of a row: its own where there are as many, all separated alike, else all of them."""
    alike = re.fullmatch(r"`[^`]+`(, `[^`]+`)*|`[^`]+`(; `[^`]+`)*", names)
    own = re.findall(r"`[^`]+`", names) if alike else []
    return own if len(own) == len(symbols) else [names] * len(symbols)


def plain(symbol: str) -> str:
    """A symbol without what does not tell it apart: spaces, braces, a definition, a divergence's two sides."""
    symbol = re.sub(r"\s*=.*|\([^()]*\\Vert[^()]*\)", "", symbol)
    return re.sub(r"\\[,!;]|[\s{}]", "", symbol)


def bare(symbol: str) -> str:
    """A symbol without its arguments."""
    return re.sub(r"\([^()]*\)", "", plain(symbol))


def stem(symbol: str) -> str:
    """A symbol without its running index: what `x_t`, `x_i` and `x_{ib}` have in common."""
    return re.sub(r"_(?:[a-z]|\{[a-z ]{1,3}\})(?![A-Za-z])", "", symbol)


def short(name: str) -> str:
    """A function by its name, a method by its class's too."""
    return ".".join(part for part in name.split(".")[-2:] if part[0].isupper() or part == name.split(".")[-1])


def meets(symbol: str, other: str) -> int:
    """How alike two symbols are: to the letter, but for their arguments, but for their running index, or not at all."""
    if plain(symbol) == plain(other):
        return 3
    if bare(symbol) == bare(other):
        return 2
    indexed = stem(plain(symbol)) != plain(symbol) and stem(plain(other)) != plain(other)
    return int(indexed and stem(plain(symbol)) == stem(plain(other)))


def leans_on(table: list[tuple[str, str]], symbol: str, names: str, law: list[tuple[str, str]]) -> bool:
    """Whether a chapter's list of symbols holds this symbol of the notation, and not one that looks more like it.

    Where the notation has the letter more than once, the chapter's name for it decides.
    """
    for listed, listed_names in table:
        closeness = meets(listed, symbol)
        if not closeness or closeness < max(meets(listed, other) for other, _ in law):
            continue
        alone = sum(meets(listed, other) == closeness for other, _ in law) == 1
        if alone or set(re.findall(r"`[^`]+`", listed_names)) & set(re.findall(r"`[^`]+`", names)):
            return True
    return False


def computes(function: str, symbols: dict[str, str], symbol: str, names: str) -> bool:
    """Whether a function's formulas hold this symbol of the notation.

    One letter means different things in different places, so what has a name in the code must have the notation's,
    and what a line computes must be the same to the index. ``MEANT`` says where that is not enough.
    """
    for latex, spec in symbols.items():
        if (function, latex) in MEANT:
            if MEANT[function, latex] == symbol:
                return True
            continue
        name = re.split(r"[\s@]", re.sub(r"\[[^\]]*\]|^#", "", spec).strip())[0].rpartition(".")[2]
        if name and stem(plain(latex)) == stem(plain(symbol)) and f"`{name}`" in names:
            return True
        if not name and plain(latex) == plain(symbol):
            return True
    return False


class Symbols(SphinxDirective):
    """Tables of symbols, written as Markdown and parsed as if they stood on the page."""

    def run(self) -> list[nodes.Node]:
        if str(HOME) not in sys.path:
            sys.path.insert(0, str(HOME))
        from tests.formulas.symbols import TABLES

        for path in ("tests/formulas/symbols.py", "book/notation.md"):
            self.env.note_dependency(str(HOME / path))
        block = nodes.container(classes=["symbols"])
        text = self.of_code(TABLES) if self.name == "symbols-of-code" else self.of_book(TABLES)
        self.state.nested_parse(StringList(text, source=self.get_location()), 0, block)
        return [block]

    def of_code(self, tables: dict) -> list[str]:
        lines = []
        for function, table in tables.items():
            lines += [f"{{src}}`{function} <minerva_lite.{function}>`", "", "| symbol | name | axes |", "|---|---|---|"]
            for latex, spec in table.symbols.items():
                name, axes = re.fullmatch(r"(.*?)\s*@?(?:\[([^\]]*)\])?", spec).groups()
                named = f"`{name}`" if name and not name.startswith("#") else "computed here" if not name else "a count"
                lines.append(f"| ${latex}$ | {named} | {f'`[{axes}]`' if axes else 'a number'} |")
            lines.append("")
        return lines

    def of_book(self, tables: dict) -> list[str]:
        chapters = {}
        for path in sorted((HOME / "book").glob("[0-9]*.ipynb")) + [HOME / "book" / "a_prerequisites.ipynb"]:
            self.env.note_dependency(str(path))
            text = "\n\n".join(self.markdown(path))
            number = re.match(r"0?(\w+?)_", path.name)[1]
            chapters[path.name] = (
                number.upper() if number == "a" else number,
                [
                    pair
                    for table in SYMBOLS_TABLE.findall(text)
                    for listed, _, names in rows_of(table)
                    for pair in zip(listed, own_names(listed, names), strict=True)
                ],
            )
        lines = ["| symbol | name | chapters | functions |", "|---|---|---|---|"]
        notation = rows_of((HOME / "book" / "notation.md").read_text("utf8"))
        law = [pair for symbols, _, names in notation for pair in zip(symbols, own_names(symbols, names), strict=True)]
        if stale := [pair for pair in MEANT if pair[1] not in tables[pair[0]].symbols]:
            raise self.error(f"{stale}: no such symbol in the function's table")
        for symbol, names in law:
            used = [
                f"[{number}]({name})"
                for name, (number, table) in chapters.items()
                if leans_on(table, symbol, names, law)
            ]
            computing = [each for each, table in tables.items() if computes(each, table.symbols, symbol, names)]
            computed = [f"{{src}}`{short(each)} <minerva_lite.{each}>`" for each in computing]
            lines.append(f"| ${symbol}$ | {names} | {', '.join(used)} | {', '.join(computed)} |")
        return lines

    @staticmethod
    def markdown(path: Path) -> list[str]:
        cells = json.loads(path.read_text("utf8"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def find_shown(app) -> None:
    """The modules and objects that the pages of annotated source show."""
    pages = (HOME / "book" / "annotated").glob("*.md")
    app.shown_source = {
        name for page in pages for name in re.findall(r"^```\{annotated\} (\S+)$", page.read_text("utf8"), re.M)
    }


class Labels(LabelStyle):
    """Labels of the bibliography where two papers of one year are told apart: 2018a gives [AST+18a]."""

    def format_label(self, entry) -> str:
        year = entry.fields.get("year", "")
        letter = re.sub(r"^\d*", "", year)
        entry.fields["year"] = year.removesuffix(letter)
        label = super().format_label(entry) + letter
        entry.fields["year"] = year
        return label


@template.node
def listed(children, context, role: str):
    """The names of an entry, "and others" at their end as "et al."."""
    persons = context["entry"].persons.get(role, [])
    if not persons or str(persons[-1]) != "others":
        return template.names(role, sep=", ", sep2=" and ", last_sep=", and ").format_data(context)
    formatted = [context["style"].format_name(person, context["style"].abbreviate_names) for person in persons[:-1]]
    return template.words[template.join(sep=", ")[formatted], "et al."].format_data(context)


class Bibliography(Style):
    default_label_style = Labels

    def format_names(self, role: str, as_sentence: bool = True):
        return template.sentence[listed(role)] if as_sentence else listed(role)


def setup(app) -> dict:
    register_plugin("pybtex.style.formatting", "book", Bibliography)
    app.add_directive("api", Api)
    app.add_directive("symbols-of-code", Symbols)
    app.add_directive("symbols-of-book", Symbols)
    app.connect("builder-inited", find_shown)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
