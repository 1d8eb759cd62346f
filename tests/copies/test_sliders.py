"""By the clock: from a key that moves a figure's slider, in JupyterLab, to the pixels that changed.

Alone it prints a table: `pytest -s -k by_the_clock tests/copies/test_sliders.py`.
"""

import re
from statistics import median

import nbformat
import pytest

from tests.copies.server import LAB, served
from tests.equations import CHAPTERS

MEDIAN, WORST = 200, 400  # milliseconds
EVENTS = 8
FIGURE = re.compile(r"^(?:figures\.)?(?:explore_\w+|frames_figure)\(", re.M)
NEEDED = re.compile(r"^(FLAG|holds|drives|def (drive|arrive|plot_drive|described))\b")  # by the figure of the hill
BEGIN = """import math
import itertools
import torch
from minerva_book import figures
from minerva_book.figures import *
from minerva_book.figures.widgets import *
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
generator = torch.Generator().manual_seed(0)"""
READY = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status == 'idle'"
DRAWN = "n => document.querySelectorAll('.frames-figure img').length == n"
# Toward the middle. Then the picture's next change: milliseconds since the key, once it is decoded and a frame passed.
NEXT = """([i, bar]) => {
    const figure = document.querySelectorAll('.frames-figure')[i]
    const slider = figure.querySelectorAll('[role=slider]')[bar]
    let began
    slider.addEventListener('keydown', () => began = performance.now(), {capture: true, once: true})
    window.changed = new Promise((done, never) => {
        setTimeout(() => never('no change'), 5000)
        new MutationObserver(async (_, watch) => {
            watch.disconnect()
            await figure.querySelector('img').decode()
            requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)))
        }).observe(figure.querySelector('.widget-html-content'), {childList: true})
    })
    slider.focus()
    const [low, now, high] = ['min', 'now', 'max'].map(name => +slider.getAttribute('aria-value' + name))
    return now < (low + high) / 2 ? 'ArrowRight' : 'ArrowLeft'
}"""


def figures() -> dict[str, list[str]]:
    """By chapter and name: the cells of each figure."""
    found = {}
    for path in CHAPTERS:
        code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        for source in code:
            if name := FIGURE.search(source):
                before = [each for each in code if NEEDED.match(each)] if "plot_drive" in source else []
                found[f"{path.stem} {name[0].strip('(')}"] = [*before, source]
    return found


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab's address, with a notebook of all figures."""
    folder = tmp_path_factory.mktemp("lab")
    cells = [BEGIN, *(cell for each in figures().values() for cell in each)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata=kernel)
    nbformat.write(notebook, folder / "all.ipynb")
    tracker = folder / "config/lab/user-settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
    tracker.parent.mkdir(parents=True)
    tracker.write_text('{"windowingMode": "none"}')
    with served(folder, folder) as address:
        yield address(LAB, "all")


@pytest.mark.slow
def test_a_picture_follows_its_slider_by_the_clock(lab, browser):
    names = list(figures())
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.goto(lab)
    page.wait_for_function(READY, timeout=60_000)
    page.evaluate("jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_function(DRAWN, arg=len(names), timeout=180_000)
    page.wait_for_timeout(2000)  # while JupyterLab looks through what has run
    took = {}
    for i, name in enumerate(names):
        bars = page.locator(".frames-figure").nth(i).locator("[role=slider]").count()
        for event in range(EVENTS * bars):
            page.keyboard.press(page.evaluate(NEXT, [i, event // EVENTS]))
            took.setdefault(name, []).append(page.evaluate("changed"))
            page.wait_for_timeout(200)
    for name, each in took.items():
        print(f"{name:45} {median(each):4.0f} {max(each):4.0f}")
    page.close()
    late = {name: each for name, each in took.items() if median(each) > MEDIAN or max(each) > WORST}
    assert len(took) == 16 and late == {}
