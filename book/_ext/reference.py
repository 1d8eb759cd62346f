"""Reference pages made from the source: what the package offers, and which symbol is which name.

    ```{api} minerva_lite.formulas.objectives
    ```
    ```{symbols-of-code}
    ```
    ```{symbols-of-book}
    ```

The first shows each public function and class of a module with its signature as it stands in the file, since the
comments there say shapes and units, and its docstring, read as Markdown. The second gives, function by function, the
table that the formula checks evaluate (tests/markers/symbols.py); the third, for each symbol of the notation, the
chapters that lean on it (where none does, those that hold it) and the functions that compute with it.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
import textwrap
from functools import cache

from annotated import EQUATION, HOME, former, reference, rest_of
from docutils import nodes
from docutils.statemachine import StringList
from numbering import chapter_name
from pybtex.plugin import find_plugin, register_plugin
from pybtex.style import template
from pybtex.style.formatting.alpha import Style
from pybtex.style.labels.alpha import LabelStyle
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
SYMBOLS_TABLE = re.compile(r"^## Symbols.*?$(.*?)(?=^## |\Z)", re.M | re.S)
ROW = re.compile(r"^\| ((?:\$|\\\|)[^\n]*?) \| ([^\n]+?) \|(?: ([^\n]*?))? \|$", re.M)  # the last cell may be empty
MATH = re.compile(r"\$\$.*?\$\$|\$[^$]+\$|^```\{math\}.*?^```", re.M | re.S)
# Where a function's letter is not the notation's although letter and name agree, or is although they do not: which
# symbol of the notation it is, "" for none.
MEANT = {
    ("agents.mpo.MPOAgent.candidates", "Q'_{ib}"): "Q'",
    ("agents.mpo.MPOAgent.estep", "g"): r"g(\eta)",
    ("agents.mpo.MPOAgent.expected_value", "Q'(s, a_i)"): "Q'",
    ("agents.mpo.MPOAgent.policy_loss", r"\mu_b"): r"\mu",
    ("agents.mpo.MPOAgent.policy_loss", r"\mu^{\mathrm{old}}_b"): r"\mu_{\mathrm{old}}",
    ("agents.mpo.MPOAgent.policy_loss", r"\sigma_b"): r"\sigma",
    ("agents.mpo.MPOAgent.policy_loss", r"\sigma^{\mathrm{old}}_b"): r"\sigma_{\mathrm{old}}",
    ("agents.reinforce.REINFORCEAgent.state_weight", "r_t"): "",  # only its shape counts
    ("agents.vmpo.VMPOAgent.estep", r"\log w_t"): r"w^{\mathrm{imp}}",
    ("agents.vmpo.VMPOAgent.loss", "g"): r"g(\eta)",
    ("formulas.bounds.average_kl_bound", r"\varepsilon'"): r"\varepsilon'_\pi",
    ("formulas.bounds.cpi_bound", r"\varepsilon'"): r"\varepsilon'_\pi",
    ("formulas.diagnostics.explained_variance", "R_t"): "R_t",
    (
        "formulas.distributions.gaussian_kl",
        r"\mathrm{KL}_i",
    ): r"\mathrm{KL}(\pi_{\mathrm{old}} \Vert \pi_{\mathrm{new}})",
    ("formulas.distributions.gaussian_kl", r"\mu^{\mathrm{old}}_i"): r"\mu_{\mathrm{old}}",
    ("formulas.distributions.gaussian_kl", r"\sigma^{\mathrm{old}}_i"): r"\sigma_{\mathrm{old}}",
    ("formulas.distributions.gaussian_kl_mean_std", r"\mathrm{KL}^\mu_i"): r"\mathrm{KL}^\mu",
    ("formulas.distributions.gaussian_kl_mean_std", r"\mathrm{KL}^\sigma_i"): r"\mathrm{KL}^\sigma",
    ("formulas.distributions.gaussian_kl_mean_std", r"\mu^{\mathrm{old}}_i"): r"\mu_{\mathrm{old}}",
    ("formulas.distributions.gaussian_kl_mean_std", r"\sigma^{\mathrm{old}}_i"): r"\sigma_{\mathrm{old}}",
    ("formulas.duals._kept_logits", "c"): "",
    ("formulas.duals._kept_logits", r"\log w_t"): r"w^{\mathrm{imp}}",
    ("formulas.duals.estep_weights", "Q_{ib}"): "Q(s_t, a_t)",
    ("formulas.duals.positive", r"\tilde{\eta}"): r"\tilde\eta",
    ("formulas.duals.project_raw", r"\tilde{\eta}"): r"\tilde\eta",
    ("formulas.duals.raw_of", r"\eta"): r"\eta",
    ("formulas.duals.temperature_loss", "Q_{ib}"): "Q(s_t, a_t)",
    ("formulas.duals.temperature_loss", "g"): r"g(\eta)",
    ("formulas.duals.vmpo_temperature_loss", "c"): "",
    ("formulas.duals.vmpo_temperature_loss", "g"): r"g(\eta)",
    ("formulas.duals.vmpo_temperature_loss", r"\log w_t"): r"w^{\mathrm{imp}}",
    ("experience.normalizer.Normalizer.absorb", r"\mu"): "",
    ("experience.normalizer.Normalizer.normalize", r"\mu"): "",
    ("formulas.objectives.adapt_kl_penalty", r"\delta_{\mathrm{KL}}"): r"\delta_{\mathrm{KL}}",
    ("formulas.objectives.adapt_kl_penalty", "n"): "",
    ("formulas.objectives.clipped_value_loss", "m_t"): "",
    ("formulas.objectives.normalize_advantage", "c_t"): "",
    ("formulas.objectives.weighted_nll", r"\log \pi_{ib}"): r"\pi_\theta",
    ("agents.ppo.PPOAgent.loss", r"\log \rho_t"): r"\log\rho_t",
    ("formulas.returns.leave_one_out_baseline", "b_{ti}"): "b",
    ("formulas.returns.leave_one_out_baseline", "m_{ti}"): "",
    ("formulas.trust_region.conjugate_gradient", "x_k"): "x",
    ("formulas.trust_region.fisher_vector_product", "F"): "F",
    ("formulas.trust_region.fisher_vector_product", r"(F + \omega I) v"): "F v",
    ("formulas.trust_region.line_search", r"c_{\mathrm{accept}}"): "c",
    ("formulas.trust_region.predicted_gain", "s"): r"\Delta\theta",
}
# Symbols that stand for much else too: the chapters where they mean what the notation says.
SAID = {"N": ["6", "6b"], "W": ["7"], "Z": ["7"], "r_k": ["4b"], "w": ["4b"]}


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
        section = nodes.section(ids=[f"api-{each}" for each in (name, *former(name))], names=[])
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


def rows_of(text: str) -> list[tuple[list[str], str, str]]:
    """(symbols, meaning, names) of each row of the tables in this Markdown.

    A row whose symbols and names have as many groups, parted by semicolons, is as many rows.
    """
    found = []
    for symbols, meaning, names in ROW.findall(text):
        groups, owned = re.split(r"; (?=\$)", symbols), (names or "").split("; ")
        if len(groups) != len(owned):
            groups, owned = [symbols], [names or ""]
        for group, own in zip(groups, owned, strict=True):
            listed = []
            for each in re.findall(r"\$([^$]+)\$", group):
                # A comma within parentheses parts arguments, and `\\,` is a space.
                listed += [part.strip() for part in re.split(r"(?<!\\)[,;]\s*(?:\\ )?(?![^()]*\))", each)]
            found.append((listed, meaning, own))
    return found


def own_names(symbols: list[str], names: str) -> list[str]:
    """The names of each symbol of a row: its own where there are as many, else all of them."""
    own = re.findall(r"`[^`]+`", names) if re.fullmatch(r"`[^`]+`(, `[^`]+`)*", names) else []
    return own if len(own) == len(symbols) else [names] * len(symbols)


def named(rows: list[tuple[list[str], str, str]]) -> list[tuple[str, str]]:
    """Each symbol of the rows with its names."""
    return [pair for symbols, _, names in rows for pair in zip(symbols, own_names(symbols, names), strict=True)]


@cache
def squeezed(text: str) -> str:
    """LaTeX without what does not tell symbols apart: spaces, braces, the two ways to write a maximum."""
    return re.sub(r"\\[,!;]|[\s{}]", "", re.sub(r"\\mathrm\{(max|min)\}", r"\\\1", text))


@cache  # each symbol is compared with every other
def plain(symbol: str) -> str:
    """A symbol squeezed, without a definition and a divergence's two sides."""
    return squeezed(re.sub(r"\s*=.*|\([^()]*\\Vert[^()]*\)", "", symbol))


@cache
def bare(symbol: str) -> str:
    """A symbol without its arguments."""
    return re.sub(r"\([^()]*\)", "", plain(symbol))


@cache
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
    indexed = stem(symbol) != symbol and stem(other) != other
    return int(indexed and plain(stem(symbol)) == plain(stem(other)))


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


def holding(pages: dict[str, tuple[str, str]], symbol: str, names: str) -> list[str]:
    """The chapters whose formulas hold this symbol: those whose code has its name, or all if it is no mere letter."""
    letter = plain(symbol)
    alone = re.compile(rf"(?<![A-Za-z\\]){re.escape(letter)}(?![A-Za-z_^'])")
    found = [link for link, (formulas, _) in pages.items() if alone.search(formulas)]
    if symbol in SAID:
        return [link for link in found if re.match(r"\[(\w+)\]", link)[1] in SAID[symbol]]
    own = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in re.findall(r"`([^`]+)`", names)) or "$^")
    called = [link for link in found if own.search(pages[link][1])]
    return called or ([] if re.fullmatch(r"\\?[A-Za-z]+", letter) else found)


def declared(spec: str) -> tuple[str, str, str]:
    """(name, kind, axes) of a symbol in the table of the formula checks; kind is "#" for a count, "@" for a map."""
    name, kind, axes = re.fullmatch(r"(.*?)\s*([#@]?)(?:\[([a-z ]*)\])?", spec).groups()
    name = re.sub(r"\[[:,]+\]$", "", name)  # such a slice only asks for so many axes
    return name.partition(".")[0] if kind == "@" else name, kind, axes or ""


def computes(function: str, symbols: dict[str, str], symbol: str, names: str) -> bool:
    """Whether a function's formulas hold this symbol of the notation, or its logarithm.

    One letter means different things in different places, so what has a name in the code must have the notation's,
    and what a line computes must be the same to the index. ``MEANT`` says where that is not enough.
    """
    for latex, spec in symbols.items():
        if (function, latex) in MEANT:
            if MEANT[function, latex] == symbol:
                return True
            continue
        name = (re.findall(r"[A-Za-z_]\w*", declared(spec)[0]) or [""])[-1]  # `psi` of `batch['psi']`
        for form in (latex, latex.removeprefix(r"\log ")):
            if not name and plain(form) == plain(symbol):
                return True
            # A policy and a value stand with their arguments here, and without there.
            alike = plain(stem(symbol)) in (plain(stem(form)), bare(stem(form)))
            if name and alike and f"`{name}`" in names:
                return True
    return False


class Symbols(SphinxDirective):
    """Tables of symbols, written as Markdown and parsed as if they stood on the page."""

    def run(self) -> list[nodes.Node]:
        if str(HOME) not in sys.path:
            sys.path.insert(0, str(HOME))
        from tests.markers.symbols import TABLES

        for path in ("tests/markers/symbols.py", "book/notation.md"):
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
                name, kind, axes = declared(spec)
                called = f"`{name}`" if name else f"count of `[{axes}]`" if kind == "#" else "computed here"
                shape = "a number" if kind == "#" or not axes else f"{'a map on ' if kind == '@' else ''}`[{axes}]`"
                lines.append(f"| ${latex}$ | {called} | {shape} |")
            lines.append("")
        return lines

    def of_book(self, tables: dict) -> list[str]:
        chapters, pages = {}, {}
        for path in sorted((HOME / "book").glob("[0-9]*.ipynb")) + [HOME / "book" / "a_prerequisites.ipynb"]:
            self.env.note_dependency(str(path))
            cells = json.loads(path.read_text("utf8"))["cells"]
            text, code = ("\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == kind)
                          for kind in ("markdown", "code"))  # fmt: skip
            link = f"[{chapter_name(f'book/{path.name}')}]({path.name})"
            chapters[link] = named(rows_of("\n".join(SYMBOLS_TABLE.findall(text))))
            pages[link] = squeezed("\n".join(MATH.findall(text))), code
        law = named(rows_of((HOME / "book" / "notation.md").read_text("utf8")))
        known = {"", *(symbol for symbol, _ in law)}
        stale = [(name, latex) for (name, latex), symbol in MEANT.items()
                 if latex not in tables[name].symbols or symbol not in known]  # fmt: skip
        if stale or SAID.keys() - known:
            raise self.error(f"{stale} or {SAID.keys() - known}: not in the function's table, or not in the notation")
        lines = ["| symbol | name | chapters | functions |", "|---|---|---|---|"]
        for symbol, names in law:
            used = [link for link, table in chapters.items() if leans_on(table, symbol, names, law)]
            used = used or holding(pages, symbol, names)
            computing = [each for each, table in tables.items() if computes(each, table.symbols, symbol, names)]
            computed = [f"{{src}}`{short(each)} <minerva_lite.{each}>`" for each in computing]
            if used or computed:
                shown = re.sub(r"\s*=.*", "", symbol)  # a definition would make the column as wide
                lines.append(f"| ${shown}$ | {names} | {', '.join(used)} | {', '.join(computed)} |")
        return lines


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
    app.add_directive("symbols-of-code", Symbols)
    app.add_directive("symbols-of-book", Symbols)
    app.connect("builder-inited", find_shown)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
