"""The pages, opened from disk with the network off."""

from pathlib import Path

import pytest

import tests.book.conftest  # noqa: F401 - test_pages.py asks test_numbering.py, which imports an extension
from tests.pages import build


@pytest.fixture(scope="session")
def site() -> Path:
    """Folder of the rendered pages."""
    return build.site()


@pytest.fixture(scope="session")
def visits(browser):
    """visits(path, **options) -> (context, page, faults, files)."""

    def visit(path: Path, **options):
        context = browser.new_context(**{"offline": True, "viewport": {"width": 1280, "height": 1000}} | options)
        page, faults, files = context.new_page(), [], set()
        page.on("console", lambda m: faults.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("requestfailed", lambda request: faults.append(f"request failed: {request.url[:200]}"))
        page.on("requestfinished", lambda request: files.add(request.url))
        page.goto(path.as_uri(), wait_until="load")
        if options.get("java_script_enabled", True):
            if stills := page.locator(".widget-still").count():  # figures come when they are about to be seen
                page.evaluate("document.querySelector('.widget-still').scrollIntoView()")  # the driver's way draws none
                drawn = "n => document.querySelectorAll('.frames-figure svg[role=img]').length >= n"
                page.wait_for_function(drawn, arg=stills)
                page.evaluate("scrollTo(0, 0)")
            page.wait_for_timeout(300)  # fonts asked for by what was just drawn
        return context, page, faults, files

    return visit


@pytest.fixture
def open_page(visits):
    """open_page(path) -> (page, faults, files): the settled page, what went wrong, the files it loaded."""
    contexts = []

    def open_page(path: Path, **options):
        context, *found = visits(path, **options)
        contexts.append(context)
        return tuple(found)

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def one_visit(visits):
    """As `open_page`, but the tests of a page share one visit, and find what the ones before have moved."""
    last: dict[Path, tuple] = {}

    def one_visit(path: Path):
        if path not in last:
            for context, *_ in last.values():
                context.close()
            last.clear()
            last[path] = visits(path)
        return tuple(last[path][1:])

    return one_visit
