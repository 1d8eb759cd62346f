"""Reference pages made from the source: what the package offers, and which symbol is which name.

    ```{api} minerva_lite.formulas.objectives
    ```
    ```{symbols} function
    ```

The first shows each public function and class of a module with its signature as it stands in the file, since the
comments there say shapes and units, and its docstring, read as Markdown. The second gives, function by function, the
table that the formula checks evaluate (tests/markers/symbols.py); with ``symbol`` in the place of ``function`` it tells
of each symbol in which functions it stands.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap

from annotated import EQUATION, HOME, reference, rest_of
from docutils import nodes
from docutils.statemachine import StringList
from pybtex.plugin import find_plugin, register_plugin
from pybtex.style import template
from pybtex.style.formatting.alpha import Style
from pybtex.style.labels.alpha import LabelStyle
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


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
    """``api``: the public names of a module, or (``room.*``) of each module of a room that no directive names."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name.endswith(".*"):
            self.env.note_reread()  # a new file belongs here, too
            return [self.module(each) for each in rest_of(self.env.app, name, "api")]
        return [self.module(name)]

    def module(self, name: str) -> nodes.section:
        module = self.env.app.annotated_library[name]
        self.env.note_dependency(str(module.path))
        tree, lines = ast.parse(module.source.text), module.source.text.split("\n")
        section = self.section(name, name.split(".", 1)[-1], "module")
        self.document(section, tree)  # the module's own
        for node in public(tree.body):
            section += self.describe(node, f"{name}.{node.name}", lines)
        return section

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
            parent += nodes.paragraph("", "", reference(name, nodes.inline("", "Annotated source")))

    def document(self, parent: nodes.Element, node: ast.AST) -> None:
        """Append the docstring; the label after "eq." becomes the number of its equation, and leads there."""
        text = inspect.cleandoc(ast.get_docstring(node) or "")
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


def declared(spec: str) -> tuple[str, str, str]:
    """(name, kind, axes) of a symbol in the table of the formula checks; kind is "#" for a count, "@" for a map."""
    name, kind, axes = re.fullmatch(r"(.*?)\s*([#@]?)(?:\[([a-z ]*)\])?", spec).groups()
    name = re.sub(r"\[[:,]+\]$", "", name)  # such a slice only asks for so many axes
    return name.partition(".")[0] if kind == "@" else name, kind, axes or ""


class Symbols(SphinxDirective):
    """Tables of symbols, written as Markdown and parsed as if they stood on the page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        if str(HOME) not in sys.path:
            sys.path.insert(0, str(HOME))
        from tests.markers.symbols import TABLES

        self.env.note_dependency(str(HOME / "tests/markers/symbols.py"))
        block = nodes.container(classes=["symbols"])
        text = getattr(self, f"by_{self.arguments[0]}")(TABLES)
        self.state.nested_parse(StringList(text, source=self.get_location()), 0, block)
        return [block]

    def by_function(self, tables: dict) -> list[str]:
        lines = []
        for function, table in tables.items():
            lines += [f"{{src}}`{function} <minerva_lite.{function}>`", "", "| symbol | name | axes |", "|---|---|---|"]
            for latex, spec in table.symbols.items():
                name, kind, axes = declared(spec)
                called = f"`{name}`" if name else f"count of `[{axes}]`" if kind == "#" else "computed here"
                shape = "a number" if kind == "#" or not axes else f"{'a map on ' if kind == '@' else ''}`[{axes}]`"
                lines.append(f"| ${latex}$ | {called} | {shape} |")
            lines.append("")
        return lines

    def by_symbol(self, tables: dict) -> list[str]:
        rows: dict[str, list[str]] = {}
        for function, table in tables.items():
            name = re.sub(r"^.*\.(?=[A-Z]|[^.]*$)", "", function)  # a method by its class's, too
            for latex in table.symbols:
                rows.setdefault(latex, []).append(f"{{src}}`{name} <minerva_lite.{function}>`")
        letters = {latex: re.sub(r"\\(?:mathrm|log|tilde|hat|bar)\b|[^A-Za-z]", "", latex).lower() for latex in rows}
        listed = [f"| ${latex}$ | {', '.join(rows[latex])} |" for latex in sorted(rows, key=letters.__getitem__)]
        return ["| symbol | functions |", "|---|---|", *listed]


def find_shown(app) -> None:
    """The modules and objects that the pages of annotated source show."""
    pages = (HOME / "book" / "annotated").glob("*.md")
    found = [name for page in pages for name in re.findall(r"^```\{annotated\} (\S+)$", page.read_text("utf8"), re.M)]
    rest = [each for name in found if name.endswith(".*") for each in rest_of(app, name, "annotated")]
    app.shown_source = {*found, *rest}


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
    for backend in ("docutils", "plaintext"):  # each citation asks for both, and would search all that is installed
        register_plugin("pybtex.backends", backend, find_plugin("pybtex.backends", backend), force=True)
    app.add_directive("api", Api)
    app.add_directive("symbols", Symbols)
    app.connect("builder-inited", find_shown)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
