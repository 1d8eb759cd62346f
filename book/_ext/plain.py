"""A page's resolved tree as plain Markdown: what a notebook shows without any extension.

Names and numbers are the page's own: theorems, exercises and solutions under their names, equations with a ``\\tag``,
references as links. What can be folded is ``<details>``, what is set apart is a quotation. A node that is not known
here is an error, so that nothing can be left raw.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from textwrap import indent

from docutils import nodes
from sphinx.addnodes import number_reference

SPECIAL = re.compile(r"[\\`*_$\[\]<>|~]")
AT_THE_START = re.compile(r"^\s*(?:(?=[#+-])|\d+(?=[.)](?:\s|$)))", re.MULTILINE)  # of a heading's or a list's mark
FOLDED = "dropdown"


class Unknown(Exception):
    """No plain form of a node."""


class Plain:
    """The writer of a page.

    numbers: of equations ("displaymath") and of what else is counted, by kind and identifier, as Sphinx has them.
    link: where a reference of the page leads in a notebook; "" where it leads nowhere and only its text stays.
    """

    def __init__(self, numbers: dict[str, dict[str, tuple]], link: Callable[[nodes.Element], str]):
        self.numbers, self.link = numbers, link
        self.level = 0  # of the section we are in
        self.quoted = self.tabular = False

    def number(self, kind: str, node: nodes.Element) -> str:
        return ".".join(map(str, self.numbers[kind][node["ids"][0]]))

    # Lines of text

    def inline(self, node: nodes.Element) -> str:
        return "".join(self.phrase(child) for child in node.children)

    def phrase(self, node: nodes.Node) -> str:
        match node:
            case nodes.Text():
                return SPECIAL.sub(r"\\\g<0>", node.astext())
            case nodes.math():
                return f"${self.formula(node)}$"
            case nodes.emphasis():
                return f"*{self.inline(node)}*"
            case nodes.strong():
                return f"**{self.inline(node)}**"
            case nodes.literal():
                return code(node.astext())
            case nodes.reference() | number_reference():
                text, where = self.inline(node), self.link(node)
                if where and text.startswith("`"):  # code is as black in a link as outside of one
                    text = SPECIAL.sub(r"\\\g<0>", node.astext())
                return f"[{text}]({where})" if where else text
            case nodes.inline():  # of the source: by its name, or by words
                named = node.parent.get("refuri", "").endswith(f".{node.astext()}")
                return code(node.astext()) if named else self.inline(node)
            case nodes.target():
                return ""
        raise Unknown(type(node).__name__)

    def formula(self, node: nodes.Element) -> str:
        text = " ".join(node.astext().split())
        # A bar would end the cell of a table.
        return text.replace(r"\|", r"\Vert ").replace("|", r"\vert ") if self.tabular else text

    # Blocks

    def blocks(self, children: list[nodes.Node]) -> str:
        return "\n\n".join(text for child in children if (text := self.block(child)))

    def block(self, node: nodes.Node) -> str:
        match node:
            case nodes.paragraph():
                return AT_THE_START.sub(r"\g<0>\\", self.inline(node))
            case nodes.title():
                return f"{'#' * self.level} {self.inline(node)}"
            case nodes.section():
                self.level += 1
                text = self.blocks(node.children)
                self.level -= 1
                return text
            case nodes.math_block():
                return self.display(node)
            case nodes.bullet_list():
                return self.listed(node, lambda place: "-")
            case nodes.enumerated_list():
                return self.listed(node, lambda place: f"{node.get('start', 1) + place}.")
            case nodes.table():
                return self.table(node)
            case nodes.literal_block():
                language = node.get("language", "")
                return f"```{'' if language in ('default', 'none') else language}\n{node.astext()}\n```"
            case nodes.block_quote():
                return self.quote(lambda: self.blocks(node.children))
            case nodes.admonition():
                return self.admonition(node)
            case nodes.target() | nodes.comment():
                return ""
            case nodes.raw() if node.astext().startswith("<!--"):
                return ""
        own = getattr(self, f"block_{type(node).__name__}", None)
        if own is None:
            raise Unknown(type(node).__name__)
        return own(node)

    def display(self, node: nodes.math_block) -> str:
        number = self.number("displaymath", node) if node.get("number") is not None else ""
        lines = [*node.astext().strip().splitlines(), *([rf"\tag{{{number}}}"] if number else [])]
        if self.quoted:  # of a quotation's lines each begins with a sign, and the formula would hold them
            return f"$${' '.join(line.strip() for line in lines)}$$"
        return "\n".join(["$$", *lines, "$$"])

    def listed(self, node: nodes.Element, bullet: Callable[[int], str]) -> str:
        items, loose = [], any(len(item.children) > 1 for item in node.children)
        for place, item in enumerate(node.children):
            mark = f"{bullet(place)} "
            items.append(mark + indent(self.blocks(item.children), " " * len(mark)).lstrip())
        return ("\n\n" if loose else "\n").join(items)

    def table(self, node: nodes.table) -> str:
        self.tabular = True
        rows = [
            [" ".join(map(self.inline, entry.children)) for entry in row.children] for row in node.findall(nodes.row)
        ]
        self.tabular = False
        head = rows.pop(0) if any(True for _ in node.findall(nodes.thead)) else [""] * len(rows[0])
        return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])

    def quote(self, content: Callable[[], str]) -> str:
        outside, self.quoted = self.quoted, True
        text = content()
        self.quoted = outside
        return indent(text, "> ", lambda line: True).replace("> \n", ">\n").removesuffix("> ")

    def folded(self, title: str, content: list[nodes.Node]) -> str:
        text = self.quote(lambda: self.blocks(content))  # whose end can be seen
        return f"<details>\n<summary><b>{title}</b></summary>\n\n{text}\n\n</details>"

    def named(self, title: str, content: list[nodes.Node], end: str = "") -> str:
        return self.quote(lambda: f"**{title}**\n\n{self.blocks(content)}{end}")

    def admonition(self, node: nodes.admonition) -> str:
        title, *content = node.children
        if FOLDED in node["classes"]:
            return self.folded(self.summary(title), content)
        return self.named(self.inline(title), content)

    def summary(self, title: nodes.Element) -> str:
        """A title as HTML, in which Markdown is not read but formulas are."""
        texts = [
            f"${self.formula(part)}$" if isinstance(part, nodes.math) else html.escape(part.astext(), quote=False)
            for part in title.findall(lambda part: isinstance(part, nodes.math | nodes.Text))
            if not isinstance(part.parent, nodes.math | nodes.raw)  # a sign that the page draws
        ]
        return " ".join("".join(texts).split())

    def block_proof_node(self, node: nodes.Element) -> str:
        def content() -> str:
            text = self.blocks(node.children[0].children)
            assert text.startswith("Proof. "), text
            return text.replace("Proof.", "*Proof.*", 1) + " $\\square$"

        return self.quote(content)

    def block_theorem_node(self, node: nodes.Element) -> str:
        title, content = node.children
        name = f"{node['realtype'].title()} {self.number(node['countertype'], node)}{self.inline(title)}"
        return self.named(name, content.children)

    block_lemma_node = block_algorithm_node = block_theorem_node

    def block_exercise_enumerable_node(self, node: nodes.Element) -> str:
        title, content = node.children
        return self.named(f"Exercise {self.number('exercise', node)}{self.inline(title)}", content.children)

    def block_solution_node(self, node: nodes.Element) -> str:
        title, content = node.children
        return self.folded(self.summary(title), content.children)

    def block_answer(self, node: nodes.Element) -> str:
        return self.folded("Answer", node.children)

    def block_dropdown_main(self, node: nodes.Element) -> str:
        title, body = node.children
        return self.folded(self.summary(title), body.children)


def code(text: str) -> str:
    mark = "``" if "`" in text else "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{mark}{pad}{text}{pad}{mark}"
