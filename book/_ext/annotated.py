r"""Annotated source: code in which each ``# LaTeX:`` comment is its typeset formula.

    ```{annotated} minerva_lite.formulas.objectives.ppo_clip_loss
    ```
    ```{annotated} minerva_lite.agents.ppo
    :fold: imports, PPOConfig, PPOAgent.setup
    ```
    ```{annotated} minerva_lite.agents.*
    ```
    {src}`minerva_lite.formulas.objectives.ppo_clip_loss:ratio`
    {src}`clip the ratio <minerva_lite.formulas.objectives.ppo_clip_loss:ratio>`

Its lines are the anchors that the role ``src`` links to; what ``fold`` names shows
its first line only, until a click opens it. A call of a function that is shown on
whatever page is a link to it.
``room.*`` is every file of a room of which no other directive shows any part, each with its name above it.
A marker that cannot be placed or typeset, anywhere in the packages named by
``annotated_packages``, is a warning, so that a build with warnings as errors fails.
"""

from __future__ import annotations

import html
import itertools
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from called import Call, Package, linked
from docutils import nodes
from marked_source import MarkedSource, Marker, find_modules, others, parse_source
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx import addnodes
from sphinx.domains import Domain, ObjType
from sphinx.roles import XRefRole
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode
from typeset import find_mathjax, typeset

logger = logging.getLogger(__name__)
Folds = list[tuple[int, int, int]]  # of each: its first line, the last one that is always seen, its last line
HOME = Path(__file__).resolve().parents[2]  # the folder that holds book/ and minerva_lite
DEFINITION = re.compile(r"\s*(async def|def|class)\s")
# The label after "eq." in a docstring; "eq. 7" of a paper is a number and stays text.
EQUATION = re.compile(r"(?<=\beq\. )[a-z][\w:-]*\w")


@dataclass(frozen=True)
class Module:
    """One file of the annotated packages."""

    name: str
    path: Path
    location: str  # relative to the root, for messages
    source: MarkedSource
    html_lines: list[str]  # highlighted, without the markers

    def markers_between(self, first: int, last: int) -> list[Marker]:
        return [each for each in self.source.markers if first <= each.line <= last]

    def target(self, marker: Marker) -> str:
        return ".".join(filter(None, [self.name, marker.scope])) + f":{marker.name}"


def load_module(name: str, path: Path, root: Path) -> Module:
    source = parse_source(path.read_text(encoding="utf-8"))
    lines = source.text.split("\n")
    for marker in source.markers:
        lines[marker.line - 1] = lines[marker.line - 1][: marker.column].rstrip()
    # The whole file goes through the lexer at once, or a docstring's second line would be code.
    colored = highlight("\n".join(lines), PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return Module(name, path, path.relative_to(root).as_posix(), source, colored.split("\n"))


def load_library(app) -> None:
    """Read every file of the annotated packages and check all of their markers."""
    root = Path(app.config.annotated_root or HOME).resolve()
    library = {
        name: load_module(name, path, root)
        for package in app.config.annotated_packages
        for name, path in find_modules(root, package).items()
    }
    app.annotated_library = library
    app.annotated_calls = Package({name: module.path for name, module in library.items()}).calls
    for module in library.values():
        for problem in module.source.problems:
            logger.warning("marker: %s", problem.message, location=f"{module.location}:{problem.line}")
    warn_of_untypesettable(app, root, library)


def warn_of_untypesettable(app, root: Path, library: dict[str, Module]) -> None:
    found = [(module, marker) for module in library.values() for marker in module.source.markers]
    node_main = find_mathjax(root / app.config.annotated_mathjax)
    if node_main is None:
        logger.info("annotated source: no MathJax for node, nobody asks whether formulas can be typeset")
        return
    macros = (app.config.mathjax3_config or {}).get("tex", {}).get("macros", {})
    faults = typeset([(marker.formula, True) for _, marker in found], macros, node_main).faults
    for (module, marker), fault in zip(found, faults, strict=True):
        if fault:
            logger.warning("formula: %s in %s", fault, marker.formula, location=f"{module.location}:{marker.line}")


def rest_of(app, name: str, directive: str) -> list[str]:
    """The modules that ``room.*`` stands for; the pages of a directive lie in the folder of its name."""
    texts = [page.read_text(encoding="utf-8") for page in (HOME / "book" / directive).glob("*.md")]
    return others(name.removesuffix(".*"), app.annotated_library, texts, directive)


def anchor(target: str) -> str:
    return "src-" + target.replace(":", "-")


class Annotated(SphinxDirective):
    """``annotated``: a function, class, method or module of an annotated package, or the other modules of a room."""

    required_arguments = 1
    option_spec = {
        "fold": lambda value: [name.strip() for name in value.split(",")],
    }

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name.endswith(".*"):
            self.env.note_reread()  # a new file belongs here, too
            return [self.section(module) for module in rest_of(self.env.app, name, "annotated")]
        return self.show(name)

    def section(self, module: str) -> nodes.section:
        section = nodes.section(ids=[nodes.make_id(f"file-{module}")], names=[])
        short = module.partition(".")[2]
        section += nodes.title("", "", nodes.literal("", short))
        section += self.show(module)
        return section

    def show(self, name: str) -> list[nodes.Node]:
        if not (found := self.find(name)):
            logger.warning("annotated: no %r in the annotated packages", name, location=self.get_location())
            return []
        module, first, last = found
        self.env.note_dependency(str(module.path))
        is_first = self.register(name, module, first, last)
        top = f'<span id="{anchor(module.name)}"></span>' if is_first else ""
        named = {span[0]: f"{module.name}.{inner}" for inner, span in reversed(module.source.objects.items())}
        calls = [call for call in self.env.app.annotated_calls(module.name) if first <= call.line <= last]
        library = self.env.app.annotated_library
        for call in calls:  # a function that moves takes its links along
            holder = max((each for each in library if call.target.startswith(f"{each}.")), key=len)
            self.env.note_dependency(str(library[holder].path))
        return [continuous_block(module, first, last, self.folds(module, first, last), calls, named=named, top=top)]

    def find(self, name: str) -> tuple[Module, int, int] | None:
        """Return the module that holds ``name``, and its first and last line there."""
        library = self.env.app.annotated_library
        if name in library:
            return library[name], 1, len(library[name].source.text.splitlines())
        for module in library.values():
            if name.startswith(module.name + ".") and (span := module.source.objects.get(name[len(module.name) + 1 :])):
                return module, *span
        return None

    def folds(self, module: Module, first: int, last: int) -> Folds:
        """The parts to fold, in the order of the file, each with the empty lines that follow it."""
        found, lines = [], module.source.text.split("\n")
        for name in self.options.get("fold", ()):
            span = module.source.imports if name == "imports" else module.source.objects.get(name)
            if not span or not first <= span[0] <= span[1] <= last:
                logger.warning("annotated: no %r to fold in %s", name, module.name, location=self.get_location())
                continue
            head = next((line for line in range(*span) if DEFINITION.match(lines[line - 1])), span[0])
            end = next((line for line in range(span[1], last) if lines[line].strip()), last)
            found.append((span[0], head, end))
        found.sort()
        for (_, _, end), (start, _, _) in itertools.pairwise(found):
            if start <= end:
                logger.warning("annotated: folds overlap at line %s", start, location=self.get_location())
                return []
        return found

    def register(self, name: str, module: Module, first: int, last: int) -> bool:
        """Make these lines known to the role; return whether they are the first of their module."""
        targets = {name, *(module.target(each) for each in module.markers_between(first, last))}
        inside = [inner for inner, span in module.source.objects.items() if first <= span[0] <= last]
        targets.update(f"{module.name}.{inner}" for inner in inside)
        domain = self.env.get_domain("annotated")
        if is_first := module.name not in domain.objects:
            targets.add(module.name)
        for target in sorted(targets):
            if known := domain.objects.get(target):
                logger.warning("annotated: %s already stands on page %s", target, known, location=self.get_location())
            domain.objects[target] = self.env.docname
        return is_first


def continuous_block(
    module: Module, first: int, last: int, folds: Folds, calls: list[Call], *, named: dict[int, str] | None = None,
    top: str = "", identify: Callable[[str], str] = anchor,
    link: Callable[[str, nodes.Node], nodes.Node] | None = None,
) -> nodes.container:  # fmt: skip
    """Raw HTML and real math nodes alternate, so that Sphinx itself handles the math.

    named: lines that have an anchor of their own, with its target. top: HTML above the first line. identify: a target's
    anchor. link: what a name that is called becomes; `reference` if none is given.
    """
    markers = module.markers_between(first, last)
    opening = {m.line if m.stands_above else m.first: m for m in markers}
    formulas, closing = {marker.line: marker for marker in markers}, Counter(marker.last for marker in markers)
    opened, ends = Counter(fold[0] for fold in folds), Counter(fold[2] for fold in folds)
    heads = {head: end for _, head, end in folds}
    # The seen lines of a fold open it, and so hold no link of their own.
    seen = {line for start, head, _ in folds for line in range(start, head + 1)}
    block = nodes.container(classes=["annotated"])
    # MathJax enters a <pre> of this class only, and within it passes over the code.
    raw(block, '<div class="highlight-python notranslate"><div class="highlight">')
    raw(block, f'<pre class="mathjax_process tex2jax_process">{top}')
    for line in range(first, last + 1):
        raw(block, '<details class="src-fold"><summary>' * opened[line])
        here = ""
        if marker := opening.get(line):
            here = identify(module.target(marker))
            raw(block, f'<span class="src-marked" id="{here}">')
        identity = f' id="{identify(named[line])}"' if named and line in named else ""
        # The gutter; `linenos` keeps it out of what the copy button takes. A marked line links to itself.
        tag, address = ("a", f' href="#{here}"') if here else ("span", "")
        number = f'<{tag} class="src-number linenos"{address}>{line:4d}</{tag}>'
        raw(block, f'<span class="src-line"{identity}>{number}')
        called = [call for call in calls if call.line == line and line not in seen]
        add_code(block, module.html_lines[line - 1], called, link or reference)
        if marker := formulas.get(line):
            add_formula(block, marker)
        if line in heads:
            raw(block, fold_label(module, line, heads[line]))
        raw(block, "\n</span>" + "</span>" * closing[line])
        if line in heads:
            raw(block, "</summary>")
        raw(block, "</details>" * ends[line])
    raw(block, "</pre></div></div>")
    return block


def fold_label(module: Module, head: int, last: int) -> str:
    """How much a fold hides; like the gutter, no part of what is copied."""
    hidden = len(source_lines(module, head + 1, last).rstrip().split("\n"))
    return f'<span class="src-folded linenos">{hidden} more line{"s" if hidden > 1 else ""}</span>'


def add_code(block: nodes.container, line: str, calls: list[Call], link: Callable) -> None:
    """Append one highlighted line; calls are links, and so is in a docstring the label after "eq.", with its number."""
    if calls:
        code = nodes.inline(classes=["mathjax_ignore", "tex2jax_ignore"])
        for text, target in linked(line, calls):
            piece = nodes.raw("", text, format="html")
            code += link(target, piece) if target else piece
        block += code
        return
    match = EQUATION.search(line) if 'class="sd"' in line else None
    before, label, after = (line[: match.start()], match[0], line[match.end() :]) if match else (line, "", "")
    raw(block, f'<span class="mathjax_ignore tex2jax_ignore">{before}')
    if match:
        block += nodes.inline("", "", reference(label, nodes.inline(label, label), "equation"))
    raw(block, f"{after}</span>")


def reference(target: str, text: nodes.Node, kind: str = "src") -> addnodes.pending_xref:
    """A link if the target stands on some page, and else the text alone."""
    return addnodes.pending_xref("", text, refdomain="annotated", reftype=kind, reftarget=target, refwarn=False)


def add_formula(block: nodes.container, marker: Marker) -> None:
    indent = " " * (marker.column if marker.stands_above else 2)
    # The hidden comment is for the copy button, which takes the text and leaves out `.linenos`.
    comment = html.escape(f"# LaTeX: {marker.formula}")
    raw(block, f'{indent}<span class="src-comment mathjax_ignore tex2jax_ignore">{comment}</span>')
    raw(block, '<span class="src-formula linenos">')
    block += nodes.math("", rf"\displaystyle {marker.formula}")
    raw(block, "</span>")


def raw(block: nodes.container, text: str) -> None:
    block += nodes.raw("", text, format="html")


def source_lines(module: Module, first: int, last: int) -> str:
    return "\n".join(module.source.text.split("\n")[first - 1 : last])


class SourceRole(XRefRole):
    """``src``: code style for a bare target, ordinary text for a title given by the author."""

    def create_xref_node(self):
        self.innernodeclass = nodes.inline if self.has_explicit_title else nodes.literal
        return super().create_xref_node()

    def process_link(self, env, refnode, has_explicit_title, title, target):
        refnode["refdomain"] = "annotated"  # the role is global; its targets are the domain's
        short = re.sub(r"^.*\.(?=[^.:]+(:|$))", "", title)
        return (title if has_explicit_title else short), target


class AnnotatedDomain(Domain):
    """Where each object and each marked line stands: target -> page."""

    name = "annotated"
    label = "annotated source"
    object_types = {"src": ObjType("annotated source", "src")}
    roles = {"src": SourceRole(warn_dangling=True)}
    dangling_warnings = {"src": "no annotated source shows %(target)s"}
    initial_data = {"objects": {}}
    data_version = 1

    @property
    def objects(self) -> dict[str, str]:
        return self.data["objects"]

    def get_type_name(self, type, primary=False):
        return type.lname  # what search says of a hit; with the domain's label it would say the same thing twice

    def clear_doc(self, docname):
        for target in [key for key, page in self.objects.items() if page == docname]:
            del self.objects[target]

    def resolve_xref(self, env, fromdocname, builder, typ, target, node, contnode):
        if typ == "equation":
            math = env.get_domain("math")
            label = next((each for each in (target, f"eq:{target}") if each in math.equations), None)
            if label is None:
                return None
            # The number follows the label. The copy button leaves `.linenos` out.
            link = math.resolve_xref(env, fromdocname, builder, "eq", label, node, contnode)
            number = nodes.inline("", f" {link.astext()}", classes=["src-equation", "linenos"])
            link.children = []
            link += [contnode, number]
            return link
        page = self.objects.get(target)
        return page and make_refnode(builder, fromdocname, page, anchor(target), contnode)

    def resolve_any_xref(self, env, fromdocname, builder, target, node, contnode):
        return []

    def get_objects(self):
        for target, page in self.objects.items():
            yield target, target, "src", page, anchor(target), 1


def setup(app) -> dict:
    app.add_config_value("annotated_packages", ["minerva_lite", "minerva_book"], "env")
    app.add_config_value("annotated_root", "", "env", str)  # absolute; empty: the repository
    app.add_config_value("annotated_mathjax", ".assets/node_modules/mathjax/es5/node-main.js", "env")
    app.add_directive("annotated", Annotated)
    app.add_domain(AnnotatedDomain)
    app.add_role("src", SourceRole(warn_dangling=True))
    app.add_css_file("annotated.css")
    app.connect("builder-inited", load_library)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
