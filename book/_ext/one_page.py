r"""An algorithm on one page: every function that it runs, in calling order, with its formulas in place.

    ```{one_page} minerva_lite.agents.ppo.PPOAgent
    :last: check, diagnose
    :parts: improve
    :with: epochs=4, normalize_obs=True
    :without: minerva_lite.checks, minerva_lite.worlds

    collect: The policy acts, and what it saw and did is kept.
    ```

While the page is built an agent is made, collects and updates (`traced.py`). A function stands where it was first
called, once; what makes the agent comes after the update. ``last`` names methods that come after all others, and are
folded. ``with`` gives the settings that differ from the defaults: lines that did not run under them are folded.
``without`` says which modules are not entered. Each line of the content introduces a function, and stands above its
code. The outermost functions want one, and so does each that a function named by ``parts`` is the first to call. A
class stands before a name that several functions have.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable

from annotated import Module, anchor, continuous_block, reference
from called import Call
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from traced import WORLD, Span, Traced, Visit

logger = logging.getLogger(__name__)
MOST_LEVELS = 4  # that a number tells


def named(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def values(text: str) -> dict[str, object]:
    """Python's keyword arguments, all of them literals."""
    return {each.arg: ast.literal_eval(each.value) for each in ast.parse(f"f({text})", mode="eval").body.keywords}


def anchor_here(target: str) -> str:
    """Where a function or a marked line stands on a page of this kind."""
    return anchor(target).replace("src-", "one-", 1)


class OnePage(SphinxDirective):
    """``one_page``: the class of an agent."""

    required_arguments = 1
    has_content = True
    option_spec = {"last": named, "parts": named, "with": values, "without": named}

    def run(self) -> list[nodes.Node]:
        app, options = self.env.app, self.options
        for module in app.annotated_library.values():  # what is called may be anywhere
            self.env.note_dependency(str(module.path))
        sources = {name: module.source.text for name, module in app.annotated_library.items()}
        settings, without = options.get("with", {}), options.get("without", [])
        try:
            traced = Traced(sources, self.arguments[0], settings, last=options.get("last", []), without=without)
        except (AttributeError, TypeError, ValueError) as error:
            logger.warning("one_page: %s", error, location=self.get_location())
            return []
        page = Page(app.annotated_library, app.annotated_calls, traced)
        self.introduce(page)
        return [page.configuration(settings, without), page.contents(), page.settings(settings), *page.sections()]

    def introduce(self, page: Page) -> None:
        """Give each function its sentences; those that have none and want one are a warning."""
        parts, where = self.options.get("parts", []), self.get_location()
        lines = [(line, *text.partition(": ")[::2]) for line, text in enumerate(self.content) if text]
        for name in [*(name for _, name, _ in lines), *parts]:
            if not page.find(name):
                logger.warning("one_page: wanted the name of one function that ran; got %s", name, location=where)
        for line, name, sentences in lines:
            page.stages[page.find(name)] = holder = nodes.container(classes=["one-stage"])
            self.state.nested_parse([sentences], self.content_offset + line, holder)
        for name in page.wanting(parts):
            logger.warning("one_page: wanted a sentence on %s; got none", name, location=where)


def titled(name: str, title: str, *content: nodes.Node) -> nodes.section:
    return nodes.section("", nodes.title("", title), *content, ids=[name], names=[])


class Page:
    """The functions of one algorithm, numbered in calling order."""

    def __init__(self, library: dict[str, Module], calls: Callable[[str], list[Call]], traced: Traced):
        self.library, self.calls, self.traced, self.last = library, calls, traced, traced.last
        self.visits = traced.visits()
        self.stages: dict[str, nodes.container] = {}  # what introduces a function
        self.numbers: dict[str, str] = {}
        self.inner: dict[str, list[str]] = {"": []}  # the functions that each is the first to call
        for target, visit in self.visits.items():
            self.inner[visit.caller].append(target)
            self.inner[target] = []
            self.numbers[target] = self.number(visit.caller)

    def number(self, caller: str) -> str:
        """Of the function that was added last to those that this one calls; "" where it would be too long."""
        count, above = len(self.inner[caller]), self.numbers.get(caller, "")
        if not caller:
            return str(count)
        return f"{above}.{count}" if above and above.count(".") < MOST_LEVELS - 1 else ""

    def named(self, target: str) -> str:
        return f"{self.numbers[target]} {self.visits[target].name}".lstrip()

    def find(self, name: str) -> str:
        """The outermost function of that name, or else the only one; "" for none. A class may stand before the name."""
        found = [each for each in self.visits if each.endswith(f".{name}")]
        outermost = [each for each in found if each in self.inner[""]]
        return next(iter(outermost), found[0] if len(found) == 1 else "")

    def wanting(self, parts: list[str]) -> list[str]:
        """The functions that have no sentence and want one; a property tells a number, and wants none."""
        wanted = list(self.inner[""])
        for name in parts:
            wanted += self.inner[self.find(name)] if self.find(name) else []
        missing = [self.visits[each] for each in wanted if each not in self.stages]
        return [each.name for each in missing if "property" not in map(ast.unparse, each.node.decorator_list)]

    def formulas(self, target: str) -> int:
        visit = self.visits[target]
        return len(self.library[visit.module].markers_between(*visit.lines))

    # Above the functions

    def configuration(self, settings: dict[str, object], without: list[str]) -> nodes.paragraph:
        """What the page shows, in words."""
        text = nodes.paragraph("", "The page shows what ran while an agent was made, acted and learned on ")
        text += [nodes.literal("", WORLD), nodes.Text(", until an update had moved its policy. It had ")]
        if settings:
            joined(text, [f"{name} = {value!r}" for name, value in settings.items()])
            text += nodes.Text(", and otherwise ")
        text += nodes.Text("the defaults of ")
        config = self.traced.config_class
        text += reference(dotted(config), nodes.literal("", config.__name__))
        text += nodes.Text(". ")
        for name, network in self.traced.agent.modules.items():
            if f"{dotted(type(network))}.forward" in self.visits:
                kind = self.linked(dotted(type(network)), nodes.literal("", type(network).__name__))
                text += [nodes.literal("", name), nodes.Text(" is a "), kind, nodes.Text(". ")]
        text += nodes.Text("What did not run is folded, if it is more than a line. ")
        if without:
            text += nodes.Text("What lies in ")
            joined(text, [each.partition(".")[2] for each in without])
            text += nodes.Text(" is called and not shown. ")
        if self.last:
            text += nodes.Text("What only ")
            joined(text, [each.rpartition(".")[2] for each in self.numbers if each in self.last])
            text += nodes.Text(f" call{'s' * (len(self.last) == 1)} stands at the end, folded.")
        return text

    def contents(self) -> nodes.section:
        """The tree of first calls, with the number of formulas in each function."""
        total = sum(map(self.formulas, self.visits))
        lines = sum(visit.lines[1] - visit.lines[0] + 1 for visit in self.visits.values())
        text = f"The page holds {len(self.visits)} functions with {total} formulas in {lines} lines. "
        text += "Those in bold are introduced by a sentence, and those in small type hold no formula."
        tree = nodes.container("", self.tree(""), classes=["one-contents"])
        return titled("one-calls", "What calls what", nodes.paragraph("", text), tree)

    def tree(self, target: str) -> nodes.bullet_list:
        listing = nodes.bullet_list()
        for each in self.inner[target]:
            count = self.formulas(each)
            kind = "one-bold" if each in self.stages else "one-named" if count else "one-small"
            line = nodes.paragraph("", f"{self.numbers[each]} ".lstrip(), classes=[kind])
            line += self.link(each, nodes.literal("", self.visits[each].name))
            if count:
                line += nodes.Text(f" — {count} formula{'s' if count > 1 else ''}")
            item = nodes.list_item("", line)
            if self.inner[each]:
                item += self.tree(each)
            listing += item
        return listing

    def settings(self, given: dict[str, object]) -> nodes.section:
        """The fields of the config that the page reads, with their values and what the source says of them."""
        listing = nodes.bullet_list(classes=["one-settings"])
        config = self.traced.config_class(**given)
        text = "".join(map(inspect.getsource, reversed(type(config).__mro__[:-1])))
        comments = dict(re.findall(r"^    (\w+): .*  # (.*)$", text, re.M))
        for name in dict.fromkeys(name for visit in self.visits.values() for name in visit.settings):
            line = nodes.paragraph("", "", nodes.literal("", f"{name} = {getattr(config, name)!r}"))
            line += nodes.Text(f" — {comments[name]}" if name in comments else "")
            listing += nodes.list_item("", line)
        return titled("one-settings", "The settings it reads", listing)

    # The functions

    def sections(self, target: str = "") -> list[nodes.section]:
        found = []
        for each in self.inner[target]:
            section = nodes.section(ids=[anchor_here(each)], names=[], classes=["one-function"])
            about = "What it is made of: " if each == self.traced.made else ""
            title = nodes.title("", f"{self.numbers[each]} {about}".lstrip())
            title += nodes.literal("", self.visits[each].name)
            stage = [self.stages[each]] if each in self.stages else []
            section += [title, *stage, self.place(each), self.block(each), *self.sections(each)]
            found.append(section)
        return found

    def place(self, target: str) -> nodes.paragraph:
        """Where the function stands in the package, and who calls it first."""
        visit = self.visits[target]
        module = self.library[visit.module]
        text = nodes.paragraph(classes=["one-place"])
        where = f"{module.location.partition('/')[2]}, line {visit.lines[0]}"
        text += reference(target, nodes.inline("", where))
        if visit.caller:
            text += nodes.Text(", called by ")
            text += self.link(visit.caller, nodes.inline("", f"{self.numbers[visit.caller]} ".lstrip()))
            text[-1] += nodes.literal("", visit.caller.rpartition(".")[2])
        return text

    def link(self, target: str, content: nodes.Node) -> nodes.reference:
        where = anchor_here(target)
        return nodes.reference("", "", content, internal=True, refid=where, reftitle=self.named(target))

    def linked(self, target: str, content: nodes.Node) -> nodes.Node:
        """A link to this page where it shows the function, or what makes an object of the class; else to the source."""
        here = next((each for each in (target, f"{target}.__init__") if each in self.visits), "")
        return self.link(here, content) if here else reference(target, content)

    def is_last(self, target: str) -> bool:
        return target in self.last or bool(target and self.is_last(self.visits[target].caller))

    def block(self, target: str) -> nodes.container:
        """A function's lines as `annotated` has them, with links where it calls others."""
        visit = self.visits[target]
        folds = folds_of(visit)
        if self.is_last(target):
            folds.insert(0, (visit.lines[0], visit.node.lineno, visit.lines[1]))
        return continuous_block(
            self.library[visit.module], *visit.lines, folds, self.links(visit),
            identify=anchor_here, link=self.linked,
        )  # fmt: skip

    def links(self, visit: Visit) -> list[Call]:
        """What the names in a function stood for, and where it did not get to them, what the sources tell."""
        first, last = visit.lines
        told = [call for call in self.calls(visit.module) if first < call.line <= last]
        return [*{(call.line, call.column): call for call in [*told, *reversed(visit.calls)]}.values()]


def dotted(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def joined(text: nodes.paragraph, names: list[str]) -> None:
    """Append names as code: a, b and c."""
    for i, name in enumerate(names):
        if i:
            text += nodes.Text(" and " if i == len(names) - 1 else ", ")
        text += nodes.literal("", name)


def folds_of(visit: Visit) -> list[Span]:
    """What is folded in a function: its docstring after the first line, and what does not run; never a single line."""
    folds = list(visit.unreached)
    first = visit.node.body[0]
    if ast.get_docstring(visit.node, clean=False) is not None:
        folds.append((first.lineno, first.lineno, first.end_lineno))
    return sorted(fold for fold in folds if fold[2] - fold[1] > 1)


def setup(app) -> dict:
    app.setup_extension("annotated")
    app.add_directive("one_page", OnePage)
    app.add_css_file("one_page.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
