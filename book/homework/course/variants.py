"""An assignment as students get it, made without nbgrader's gradebook."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import SaveCells
from traitlets.config.loader import Config, PyFileConfigLoader

from .isolation import HOMEWORK, Limits
from .notebook import notebook
from .question import Assignment


def settings(term: Path) -> Config:
    """nbgrader's settings in a term's folder."""
    return PyFileConfigLoader("nbgrader_config.py", path=str(term)).load_config()


def cleared(made: Assignment, config: Config | None = None) -> nbformat.NotebookNode:
    """The notebook that students get, by the steps by which nbgrader releases, but for its record in the gradebook."""
    config = config or settings(HOMEWORK)
    found = notebook(made, seconds=Limits().case_seconds)
    resources = {"nbgrader": {"assignment": made.name, "notebook": made.name, "student": "."}}
    for step in GenerateAssignment(config=config).preprocessors:
        if step is not SaveCells:
            found, resources = step(config=config).preprocess(found, resources)
    return found
