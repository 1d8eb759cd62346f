"""What a reader may open stands where it belongs, and is folded before any script runs.

A folded cell that checks an equation (its tag is ``checks:label``) opens from a ✓ beside the equation's number. The
code of a picture, with the cells before it that only define what it uses, opens from the end of the caption. The
output of a *Predict* box and the block ``{answer}`` below it, which holds the words that tell it, open together. A
solution, and each admonition of the class ``dropdown``, is a ``<details>`` as these are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from numbering import chapter_name
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx_design.dropdown import dropdown_main
from sphinx_exercise.nodes import solution_node

CHECKS = "tag_checks:"
PREDICTION = "tag_hide-output"
RUN = "The book's tests execute this check and compare what it prints."


class fold(nodes.General, nodes.Element):
    """What stands on the page, a `summary`, and what it opens."""


class summary(nodes.General, nodes.TextElement):
    """It has a ``name`` where its text is a sign."""


class answer(nodes.General, nodes.Element):
    """The words that tell a prediction's answer."""


class Answer(SphinxDirective):
    has_content = True

    def run(self) -> list[nodes.Node]:
        node = answer()
        self.set_source_info(node)
        node += self.parse_content_to_nodes()
        return [node]


def folded(kind: str, title: summary, *content: nodes.Node, ids: Iterable[str] = ()) -> fold:
    return fold("", title, *content, classes=[kind], ids=[*ids])


def is_cell(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def is_folded(cell: nodes.container) -> bool:
    """Its code is; the output may be shown."""
    return isinstance(cell.children[0], HideCodeCellNode) and "above-input" in cell.children[0]["classes"]


def opened(cell: nodes.container) -> list[nodes.Node]:
    """A cell's code and output, without the bar that folds them."""
    bars = [each if isinstance(each, HideCodeCellNode) else [each] for each in cell.children]
    return [part for bar in bars for part in bar]


def labels(cell: nodes.container) -> list[str]:
    return [each.removeprefix(CHECKS) for each in cell["classes"] if each.startswith(CHECKS)]


def described(cell: nodes.container) -> str:
    """A cell by the first line of its code, for messages."""
    code = next(iter(cell.findall(nodes.literal_block)), None)
    return repr(code.astext().split("\n")[0]) if code else "one without code"


class Page:
    """A chapter whose cells are put in their places."""

    def __init__(self, doctree: nodes.document, docname: str, numbers: dict[str, tuple]):
        self.docname, self.numbers = docname, numbers
        self.cells = [*doctree.findall(is_cell)]
        self.equations = {each["label"]: each for each in doctree.findall(nodes.math_block) if each.get("label")}
        self.tests = dict(tests(doctree))

    def wrong(self, cell: nodes.container, what: str) -> ExtensionError:
        return ExtensionError(f"{self.docname}: the cell that begins {described(cell)}: {what}")

    def arrange(self) -> None:
        helpers: list[nodes.container] = []
        for cell in self.cells:
            pictured = any(cell.findall(nodes.image))
            if labels(cell):
                self.check(cell, stays=pictured or not is_folded(cell))
            elif is_folded(cell) and len(opened(cell)) == 1:  # it only defines
                helpers.append(cell)
                continue
            if pictured and is_folded(cell):
                self.picture(cell, helpers)
            if PREDICTION in cell["classes"]:
                self.predict(cell)
            helpers = []

    def check(self, cell: nodes.container, stays: bool) -> None:
        """Put a cell beside the first of its equations; the others link to it. One that stays is linked by all."""
        name = f"check-{labels(cell)[0]}"
        for label in labels(cell):
            if label not in self.equations:
                raise self.wrong(cell, f"wanted an equation of this page to check; got {label}")
        if stays:
            cell["ids"].append(name)
            linking = labels(cell)
        else:
            first, *linking = labels(cell)
            cell.parent.remove(cell)
            content = nodes.container("", *opened(cell), classes=["cell"], ids=[name])  # a link into a fold opens it
            self.beside(first, folded("check", self.sign(first), content, *self.held(labels(cell))))
        for label in linking:
            link = nodes.reference("", "✓", internal=True, refid=name, classes=["check"], reftitle="To its check")
            self.beside(label, nodes.paragraph("", "", link, classes=["check"]))

    def sign(self, label: str) -> summary:
        number = ".".join(map(str, self.numbers[self.equations[label]["ids"][0]]))
        return summary("", "✓", name=f"Check of equation ({number})")

    def held(self, checked: list[str]) -> Iterator[nodes.paragraph]:
        """Which tests hold the check."""
        yield nodes.paragraph("", RUN, classes=["held"])
        for label in checked:
            if label in self.tests:
                function, test = (entry.deepcopy().children[0].children for entry in self.tests[label])
                yield nodes.paragraph("", "", *function, nodes.Text(" computes it, held by "), *test, classes=["held"])

    def beside(self, label: str, check: nodes.Element) -> None:
        """Put a check behind those that the equation has."""
        equation = self.equations[label]
        if "checked" not in equation.parent.get("classes", []):
            holder = nodes.container(classes=["checked"])
            equation.replace_self(holder)
            holder += equation
        holder = equation.parent
        before = [each for each in holder.children if isinstance(each, fold)]
        if before and isinstance(check, fold):
            before[0] += check.children[1:]
        elif len(holder.children) == 1:
            holder += check

    def picture(self, cell: nodes.container, helpers: list[nodes.container]) -> None:
        """Let a picture's caption end in its code."""
        figure = next(iter(cell.findall(nodes.figure)), None)
        if figure is None or not any(isinstance(each, nodes.caption) for each in figure.children):
            raise self.wrong(cell, "wanted a caption for its picture")
        for helper in helpers:
            helper.parent.remove(helper)
        bar = cell.children[0]
        cell.remove(bar)
        code = [part for each in (*helpers, bar) for part in (opened(each) if is_cell(each) else each.children)]
        figure += nodes.legend("", folded("code", summary("", "code"), nodes.container("", *code, classes=["cell"])))

    def predict(self, cell: nodes.container) -> None:
        """Fold a prediction's output and the words that tell its answer together; last, its code, if that is folded."""
        below = cell.next_node(descend=False, siblings=True)
        if not isinstance(below, answer):
            raise self.wrong(cell, "wanted an {answer} below its output")
        below.parent.remove(below)
        *code, output = (each for each in cell.children if isinstance(each, HideCodeCellNode))
        content = [*output.children, *below.children]
        content += [folded("code", summary("", "code"), *bar.children) for bar in code]
        for bar in (*code, output):
            cell.remove(bar)
        cell += folded("answer", summary("", "Answer"), *content)


def tests(doctree: nodes.document) -> Iterator[tuple[str, tuple[nodes.entry, nodes.entry]]]:
    """Of the equations that a function computes: the function and its test, from the chapter's table."""
    for row in doctree.findall(nodes.row):
        entries = row.children
        if len(entries) == 4 and entries[1].astext() == "computed":
            for link in entries[0].findall(nodes.reference):
                yield link.get("refid", "").removeprefix("equation-"), (entries[2], entries[3])


def arrange(app, doctree: nodes.document, docname: str) -> None:
    if chapter_name(docname) and app.builder.format == "html":
        Page(doctree, docname, app.env.toc_fignumbers.get(docname, {}).get("displaymath", {})).arrange()
        if lost := next(iter(doctree.findall(answer)), None):
            raise ExtensionError(f"{docname}: an {{answer}} that stands below no prediction: {lost.astext()[:60]!r}")


def fold_dropdowns(app, doctree: nodes.document, docname: str) -> None:
    """Where the theme's script would fold them later."""
    if app.builder.format != "html":
        return
    for node in [*doctree.findall(nodes.Admonition), *doctree.findall(dropdown_main)]:
        if isinstance(node, dropdown_main) or "dropdown" in node["classes"]:
            title, *content = node.children
            kind = "solution" if isinstance(node, solution_node) else "aside"
            for link in [*title.findall(nodes.reference)]:  # what opens and closes can hold nothing else to press
                link.replace_self(link.children)
            node.replace_self(folded(kind, summary("", "", *title.children), *content, ids=node["ids"]))


def visit_fold(self, node: fold) -> None:
    self.body.append(self.starttag(node, "details"))


def depart_fold(self, node: fold) -> None:
    self.body.append("</details>\n")


def visit_summary(self, node: summary) -> None:
    sign = {"aria-label": node["name"], "title": "How this is checked"} if "name" in node else {}
    self.body.append(self.starttag(node, "summary", "", **sign))


def depart_summary(self, node: summary) -> None:
    self.body.append("</summary>\n")


def setup(app) -> dict:
    app.add_node(fold, html=(visit_fold, depart_fold))
    app.add_node(summary, html=(visit_summary, depart_summary))
    app.add_directive("answer", Answer)
    app.connect("doctree-resolved", arrange, priority=950)  # the runnable copies are written before
    app.connect("doctree-resolved", fold_dropdowns, priority=960)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
