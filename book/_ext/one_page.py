r"""An algorithm on one page: every function that it runs, in calling order, with its formulas in place.

    ```{one_page} minerva_lite.agents.ppo.PPOAgent
    :from: collect, update
    :last: check, diagnose
    :with: epochs=4, normalize_obs=True
    :where: Policy=GaussianPolicy, critic=ValueNet
    :without: minerva_lite.checks, minerva_lite.worlds
    ```

The methods named by ``from`` are followed through all that they call (`calling.py`); a function stands where it is
first called, once. ``last`` names methods that are followed after all others, and are folded. ``with`` gives the
settings that differ from the defaults: lines that are not reached under them are folded. ``where`` says which class
stands behind an attribute or an abstract class, ``without`` which modules are not entered.
"""

from __future__ import annotations

import ast
from collections import Counter

from annotated import Module, add_code, add_formula, anchor, fold_label, raw, reference
from called import Call, linked
from calling import Followed
from definitions import Package
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from statements import Span, Visit

logger = logging.getLogger(__name__)


def named(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def pairs(text: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in named(text))


def values(text: str) -> dict[str, object]:
    """Python's keyword arguments, all of them literals."""
    return {each.arg: ast.literal_eval(each.value) for each in ast.parse(f"f({text})", mode="eval").body.keywords}


def package_of(app) -> Package:
    """The library of `annotated`, with its definitions; read once a build."""
    if not hasattr(app, "one_page_package"):
        library = app.annotated_library
        folders = {name for name, module in library.items() if module.path.name == "__init__.py"}
        app.one_page_package = Package({name: module.source.text for name, module in library.items()}, folders)
    return app.one_page_package


def anchor_here(target: str) -> str:
    """Where a function or a marked line stands on a page of this kind."""
    return anchor(target).replace("src-", "one-", 1)


class OnePage(SphinxDirective):
    """``one_page``: the class of an agent."""

    required_arguments = 1
    option_spec = {"from": named, "last": named, "with": values, "where": pairs, "without": named}

    def run(self) -> list[nodes.Node]:
        library = self.env.app.annotated_library
        for module in library.values():  # what is called may be anywhere
            self.env.note_dependency(str(module.path))
        try:
            followed = Followed(
                package_of(self.env.app), self.arguments[0], settings=self.options.get("with", {}),
                where=self.options.get("where", {}), without=self.options.get("without", []),
            )  # fmt: skip
            visits = followed.follow(self.options["from"], self.options.get("last", []))
        except (KeyError, ValueError) as error:
            logger.warning("one_page: %s", error, location=self.get_location())
            return []
        page = Page(library, followed, visits, {followed.start(each) for each in self.options.get("last", [])})
        return [page.configuration(), page.contents(), page.settings(), *page.sections()]


def titled(name: str, title: str, *content: nodes.Node) -> nodes.section:
    return nodes.section("", nodes.title("", title), *content, ids=[name], names=[])


class Page:
    """The functions of one algorithm, numbered in calling order."""

    def __init__(self, library: dict[str, Module], followed: Followed, visits: dict[str, Visit], last: set[str]):
        self.library, self.followed, self.visits, self.last = library, followed, visits, last
        self.numbers: dict[str, str] = {}
        self.inner: dict[str, list[str]] = {"": []}  # the functions that each is the first to call
        for target, visit in visits.items():
            caller = visit.caller.function.target if visit.caller else ""
            self.inner[caller].append(target)
            self.inner[target] = []
            number = str(len(self.inner[caller]))
            self.numbers[target] = f"{self.numbers[caller]}.{number}" if caller else number

    def formulas(self, target: str) -> int:
        function = self.visits[target].function
        return len(self.library[function.module].markers_between(*function.lines))

    # Above the functions

    def configuration(self) -> nodes.paragraph:
        """What the page shows, in words."""
        followed, text = self.followed, nodes.paragraph()
        config = followed.config.rpartition(".")[2]
        text += nodes.Text("The page follows the agent with ")
        if followed.settings:
            joined(text, [f"{name} = {value!r}" for name, value in followed.settings.items()])
            text += nodes.Text(", and otherwise ")
        text += nodes.Text("with the defaults of ")
        text += reference(followed.config, nodes.literal("", config))
        text += nodes.Text(". ")
        for name, target in followed.where.items():
            text += [nodes.literal("", name), nodes.Text(" is a ")]
            text += [reference(target, nodes.literal("", target.rpartition(".")[2])), nodes.Text(". ")]
        text += nodes.Text("What does not run in this configuration is folded, if it is more than a line. ")
        if followed.without:
            text += nodes.Text("What lies in ")
            joined(text, [each.partition(".")[2] for each in followed.without])
            text += nodes.Text(" is called and not shown. ")
        if self.last:
            text += nodes.Text("What only ")
            joined(text, [each.rpartition(".")[2] for each in self.numbers if each in self.last])
            text += nodes.Text(" call stands at the end, folded.")
        return text

    def contents(self) -> nodes.section:
        """The tree of first calls, with the number of formulas in each function."""
        total = sum(map(self.formulas, self.visits))
        lines = sum(visit.function.lines[1] - visit.function.lines[0] + 1 for visit in self.visits.values())
        text = f"The page holds {len(self.visits)} functions with {total} formulas in {lines} lines."
        tree = nodes.container("", self.tree(""), classes=["one-contents"])
        return titled("one-calls", "What calls what", nodes.paragraph("", text), tree)

    def tree(self, target: str) -> nodes.bullet_list:
        listing = nodes.bullet_list()
        for each in self.inner[target]:
            line = nodes.paragraph("", f"{self.numbers[each]} ")
            line += self.link(each, nodes.literal("", self.visits[each].function.name))
            if count := self.formulas(each):
                line += nodes.Text(f" — {count} formula{'s' if count > 1 else ''}")
            item = nodes.list_item("", line)
            if self.inner[each]:
                item += self.tree(each)
            listing += item
        return listing

    def settings(self) -> nodes.section:
        """The fields of the config that the page reads, with their values and what the source says of them."""
        listing = nodes.bullet_list(classes=["one-settings"])
        package, followed = self.library, self.followed
        for name in dict.fromkeys(name for visit in self.visits.values() for name in visit.settings):
            module, field = followed.field(name)
            given = name in followed.settings
            value = repr(followed.settings[name]) if given else ast.unparse(followed.default(name))
            text = nodes.paragraph("", "", nodes.literal("", f"{name} = {value}"))
            _, mark, comment = package[module].source.text.split("\n")[field.end_lineno - 1].partition("  # ")
            text += nodes.Text(f" — {comment}" if mark else "")
            listing += nodes.list_item("", text)
        return titled("one-settings", "The settings it reads", listing)

    # The functions

    def sections(self, target: str = "") -> list[nodes.section]:
        found = []
        for each in self.inner[target]:
            section = nodes.section(ids=[anchor_here(each)], names=[], classes=["one-function"])
            title = nodes.title("", f"{self.numbers[each]} ")
            title += nodes.literal("", self.visits[each].function.name)
            section += [title, self.place(each), self.block(each), *self.sections(each)]
            found.append(section)
        return found

    def place(self, target: str) -> nodes.paragraph:
        """Where the function stands in the package, and who calls it first."""
        visit = self.visits[target]
        module = self.library[visit.function.module]
        text = nodes.paragraph(classes=["one-place"])
        where = f"{module.location.partition('/')[2]}, line {visit.function.lines[0]}"
        text += reference(target, nodes.inline("", where))
        if visit.caller:
            caller = visit.caller.function
            text += nodes.Text(", called by ")
            text += self.link(caller.target, nodes.inline("", f"{self.numbers[caller.target]} "))
            text[-1] += nodes.literal("", caller.name.rpartition(".")[2])
        return text

    def link(self, target: str, content: nodes.Node) -> nodes.reference:
        title = f"{self.numbers[target]} {self.visits[target].function.name}"
        return nodes.reference("", "", content, internal=True, refid=anchor_here(target), reftitle=title)

    def is_last(self, target: str) -> bool:
        visit = self.visits[target]
        return target in self.last or bool(visit.caller and self.is_last(visit.caller.function.target))

    def block(self, target: str) -> nodes.container:
        """A function's lines as form A of `annotated` has them, with links where it calls others."""
        visit = self.visits[target]
        module, (first, last) = self.library[visit.function.module], visit.function.lines
        markers = module.markers_between(first, last)
        opening = {m.line if m.stands_above else m.first: m for m in markers}
        by_line = {marker.line: marker for marker in markers}
        folds = [*folds_of(visit)]
        if self.is_last(target):
            folds.insert(0, (first, visit.function.node.lineno, last))
        opened = Counter(fold[0] for fold in folds)
        heads, ends = {head: end for _, head, end in folds}, Counter(fold[2] for fold in folds)
        closing = Counter(marker.last for marker in markers)
        links: dict[int, list[Call]] = {}
        for each in visit.references:
            # The seen lines of a fold open it, and so hold no link. Of two that share a name the first one counts.
            if not any(start <= each.line <= head for start, head, _ in folds):
                links.setdefault(each.line, []).insert(0, each)

        block = nodes.container(classes=["annotated"])
        raw(block, '<div class="highlight-python notranslate"><div class="highlight">')
        raw(block, '<pre class="mathjax_process tex2jax_process">')
        for line in range(first, last + 1):
            raw(block, '<details class="src-fold"><summary>' * opened[line])
            here = ""
            if marker := opening.get(line):
                here = anchor_here(module.target(marker))
                raw(block, f'<span class="src-marked" id="{here}">')
            raw(block, f'<span class="src-line">{gutter(line, here)}')
            self.code(block, module.html_lines[line - 1], links.get(line, []))
            if marker := by_line.get(line):
                add_formula(block, marker)
            if line in heads:
                raw(block, fold_label(module, line, heads[line]))
            raw(block, "\n</span>" + "</span>" * closing[line])
            if line in heads:
                raw(block, "</summary>")
            raw(block, "</details>" * ends[line])
        raw(block, "</pre></div></div>")
        return block

    def code(self, block: nodes.container, line: str, calls: list[Call]) -> None:
        """One highlighted line; a name that stands for a function or class becomes a link to it."""
        if not calls:
            add_code(block, line, [])
            return
        code = nodes.inline(classes=["mathjax_ignore", "tex2jax_ignore"])
        for text, target in linked(line, calls):
            piece = nodes.raw("", text, format="html")
            if target:
                piece = self.link(target, piece) if target in self.visits else reference(target, piece)
            code += piece
        block += code


def joined(text: nodes.paragraph, names: list[str]) -> None:
    """Append names as code: a, b and c."""
    for i, name in enumerate(names):
        if i:
            text += nodes.Text(" and " if i == len(names) - 1 else ", ")
        text += nodes.literal("", name)


def gutter(line: int, here: str) -> str:
    """The line's number in its file; that of a formula links to itself, as on the annotated pages."""
    tag, link = ("a", f' href="#{here}"') if here else ("span", "")
    return f'<{tag} class="src-number linenos"{link}>{line:4d}</{tag}>'


def folds_of(visit: Visit) -> list[Span]:
    """What is folded in a function: its docstring after the first line, and what does not run; never a single line."""
    folds = list(visit.unreached)
    first = visit.function.node.body[0]
    if ast.get_docstring(visit.function.node, clean=False) is not None:
        folds.append((first.lineno, first.lineno, first.end_lineno))
    return sorted(fold for fold in folds if fold[2] - fold[1] > 1)


def setup(app) -> dict:
    app.setup_extension("annotated")
    app.add_directive("one_page", OnePage)
    app.add_css_file("one_page.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
