"""Render the stored outputs once, and open the pages from disk with the network off."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def site() -> Path:
    """Folder of the rendered pages: warnings are errors, nothing is executed."""
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    folder = Path(".build/stored") / os.environ.get("PYTEST_XDIST_WORKER", "")  # each process of the tests its own
    command = [jupyter_book, "build", ".", "--path-output", folder]
    env = {key: value for key, value in os.environ.items() if not key.startswith("BOOK_")}
    done = subprocess.run([*command, "-W", "--keep-going", "-q"], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return ROOT / folder / "_build" / "html"


@pytest.fixture(scope="session")
def browser():
    if find_chromium() is None:
        pytest.skip("no Chromium on this machine (.ci/run installs it)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """open_page(path) -> (page, faults, files): the settled page, what went wrong, the files it loaded."""
    contexts = []

    def open_page(path: Path, **options):
        context = browser.new_context(**{"offline": True, "viewport": {"width": 1280, "height": 1000}} | options)
        contexts.append(context)
        page, faults, files = context.new_page(), [], set()
        page.on("console", lambda m: faults.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("requestfailed", lambda request: faults.append(f"request failed: {request.url[:200]}"))
        page.on("requestfinished", lambda request: files.add(request.url))
        page.goto(path.as_uri(), wait_until="load")
        if options.get("java_script_enabled", True):
            page.evaluate("window.MathJax?.startup?.promise")
            count = page.locator("script[type='application/vnd.jupyter.widget-view+json']").count()
            if count:
                page.wait_for_function(
                    "n => document.querySelectorAll('.frames-figure svg[role=img]').length >= n", arg=count
                )
            page.wait_for_timeout(300)  # fonts asked for by what was just drawn
        return page, faults, files

    yield open_page
    for context in contexts:
        context.close()
