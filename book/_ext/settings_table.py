"""Tables of an agent's settings beside those of other libraries. Names and defaults come from the code:

    ```{settings} trpo
    :against: ppo
    this book | sb3-contrib
    kl_bound | `target_kl = 0.01`
    ```

The first line heads the columns, each further one says what a setting is called elsewhere; where none does, a dash
stands. The rows are the settings of the agent in the order of its configuration: with `against` those alone that the
agent named there lacks, or has with another default, and those that a line names; with `shared` those alone that all
agents named there have, too; with `beyond` those alone that the agent named there lacks.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from minerva_lite.agents import AGENTS


def written(value: Any) -> str:
    """A default as a reader would type it."""
    if isinstance(value, str):
        return json.dumps(value)
    if type(value) is float and 0.0 < value < 0.01:
        digits, power = f"{value:e}".split("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{value:_}" if type(value) is int else repr(value)


def defaults(agent: str) -> dict[str, Any]:
    """The settings of an agent, with their defaults. Raises KeyError: there is no such agent."""
    return {field.name: field.default for field in fields(AGENTS[agent][1])}


def table(agent: str, lines: list[str], *, against: str = "", shared: str = "", beyond: str = "") -> list[str]:
    """The lines of a Markdown table. Raises ValueError: a line names no setting, or has another number of columns."""
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines if line.strip()]
    head, named = cells[0], {name: others for name, *others in cells[1:]}
    settings, base = defaults(agent), defaults(against) if against else {}
    chosen = [name for name in settings if name not in base or settings[name] != base[name] or name in named]
    chosen = [name for name in chosen if all(name in defaults(other) for other in shared.split())]
    chosen = [name for name in chosen if not beyond or name not in defaults(beyond)]
    for name, others in named.items():
        if name not in chosen or len(others) != len(head) - 1:
            raise ValueError(f"{agent}: {name} is no setting of this table, or has not {len(head) - 1} columns")
    dashes = ["—"] * (len(head) - 1)
    rows = [[f"`{name} = {written(settings[name])}`", *named.get(name, dashes)] for name in chosen]
    return ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]


class Settings(SphinxDirective):
    required_arguments = 1
    option_spec = dict.fromkeys(("against", "shared", "beyond", "class"), str)
    has_content = True

    def run(self) -> list[nodes.Node]:
        options = {name: value for name, value in self.options.items() if name != "class"}
        try:
            lines = table(self.arguments[0], list(self.content), **options)
        except (KeyError, ValueError) as error:
            raise self.error(str(error)) from error
        parsed = nodes.Element()
        self.state.nested_parse(StringList(lines, self.env.docname), self.content_offset, parsed)
        for each in parsed.findall(nodes.table):
            each["classes"] += self.options.get("class", "").split()
        return parsed.children


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("settings", Settings)
    return {"parallel_read_safe": True}
