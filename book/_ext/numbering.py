"""Numbers that tell their chapter: (5.9), Figure 4b.2, Exercise A.3.

A chapter's name comes from its file: `05_ppo` is 5, `04b_trpo_step` is 4b, `a_prerequisites` is A. Equations, figures,
theorems, algorithms and exercises are counted within their chapter, each kind for itself, in the order of the page. The
place of a chapter in the table of contents has no influence. The other pages have no name: what they number is counted
through all of them, in the order of the contents, without a name in front (Figure 1).

Sphinx already counts within numbered chapters, and all who print a number ask it, but it takes a chapter's number from
the table of contents. Here it gets the names instead.
"""

from __future__ import annotations

import re
from functools import cache

from sphinx.domains.std import StandardDomain
from sphinx.environment.collectors.toctree import TocTreeCollector
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles

CHAPTER = re.compile(r"book/(?:0*(\d+[a-z]?)|([a-z]))_[^/]+")


def chapter_name(page: str) -> str:
    """The name of the chapter in this file of the book, "" for a page that is no chapter."""
    match = CHAPTER.fullmatch(page)
    return (match[1] or match[2].upper()) if match else ""


class ChapterNumbers(TocTreeCollectorWithStyles):
    def assign_figure_numbers(self, env) -> list[str]:
        """Number what is numbered; return the pages to write again."""
        sections = env.toc_secnumbers
        env.toc_secnumbers = {page: {"": (name,)} for page in env.all_docs if (name := chapter_name(page))}
        super().assign_figure_numbers(env)
        env.toc_secnumbers = sections  # headings get no numbers
        # Any page may refer to a number that has changed. Sphinx would write only the page that holds it. A copy is
        # compared, since Sphinx takes a page's numbers out when it reads the page again.
        before, env.last_numbers = getattr(env, "last_numbers", None), dict(env.toc_fignumbers)
        return [] if env.last_numbers == before else list(env.all_docs)


class Once:
    """An environment that unpacks a page's tree once, and not for each reference that leads there."""

    def __init__(self, env):
        self._env, self.get_doctree = env, cache(env.get_doctree)

    def __getattr__(self, name: str):
        return getattr(self._env, name)


class References(StandardDomain):
    once = None

    def _resolve_numref_xref(self, env, *rest):
        if self.once is None or self.once._env is not env:
            self.once = Once(env)
        return super()._resolve_numref_xref(self.once, *rest)


def setup(app) -> dict:
    app.add_domain(References, override=True)
    app.setup_extension("sphinx_external_toc")
    for listener in list(app.events.listeners["env-get-updated"]):
        collector = getattr(listener.handler, "__self__", None)
        if isinstance(collector, TocTreeCollector):  # ChapterNumbers does its work too
            collector.disable(app)
    app.add_env_collector(ChapterNumbers)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
