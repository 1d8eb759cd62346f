"""Feedback pages as HTML, made by nbgrader's own template."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import nbformat
import nbgrader.server_extensions.formgrader
from nbconvert.exporters import HTMLExporter
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from traitlets.config import Config

from .graders import harmless


@dataclass(frozen=True)
class Request:
    """A page to make: the notebook's JSON with scores and comments in it, and what the template asks for beside it."""

    notebook: str
    resources: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """Why there is no page."""

    why: str


def pages(requests: list[Request], workers: int) -> list[str | Failed]:
    """The HTML of each request, in order."""
    folder = os.path.dirname(nbgrader.server_extensions.formgrader.__file__)
    config = Config()
    config.HTMLExporter.template_name = "feedback"
    config.HTMLExporter.extra_template_basedirs = [os.path.join(folder, "templates")]
    styles = os.path.join(folder, "static", "node_modules", "bootstrap", "dist", "css")
    config.HTMLExporter.extra_template_paths = [styles]
    config.HTMLExporter.filters = {"markdown2html": harmless}
    config.Exporter.default_preprocessors = []
    exporter = HTMLExporter(config=config)
    exporter.register_preprocessor(CSSHTMLHeaderPreprocessor, enabled=True)
    found: list[str | Failed] = []
    for request in requests:
        try:
            notebook = nbformat.reads(request.notebook, as_version=4)
            found.append(exporter.from_notebook_node(notebook, resources=dict(request.resources))[0])
        except Exception as error:
            found.append(Failed(f"{type(error).__name__}: {error}"))
    return found
