"""The copies as `make lab` serves them, in JupyterLab and Notebook 7: opened, run and moved by a headless Chromium."""

from __future__ import annotations

import json
import statistics
import time

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

from minerva_book.figures.widgets import RUN
from tests.copies.second_pass import texts
from tests.copies.server import LAB, NOTEBOOK, copies, environment, served

KNOWN = "reading 'schema'", "filebrowser:open-path"  # what Notebook 7 says of itself, on any notebook
READY = "window.jupyterapp?.shell.currentWidget?.content?.widgets?.length && document.querySelector('.jp-Notebook h1')"
KERNEL = "jupyterapp.shell.currentWidget.sessionContext.kernelDisplayStatus === 'idle'"  # before it, a run is ignored
CODE = "jupyterapp.shell.currentWidget.content.widgets.filter(cell => cell.model.type === 'code')"
RAN = f"""n => {CODE}.slice(0, n).every(
  ({{model}}, at) => model.executionCount === at + 1 && model.executionState !== 'running')"""  # by this kernel
PICTURES = """[...document.querySelectorAll('.jp-RenderedImage img')].map(image => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d');
  canvas.drawImage(image, 0, 0);
  return [image.naturalWidth, ...canvas.getImageData(0, 0, 1, 1).data];
})"""
WIDTHS = "[...document.querySelectorAll('.jp-RenderedImage img')].map(image => image.clientWidth)"
LOOK = """element => { const {outlineStyle, outlineWidth, boxShadow, backgroundColor} = getComputedStyle(element);
  return [outlineStyle === 'none' ? '' : outlineWidth, boxShadow, backgroundColor].join(); }"""


def cut(chapter: str, *names: str) -> nbformat.NotebookNode:
    """A chapter's copy with some of its cells; the title and the cell that finds the package are always there."""
    notebook = nbformat.read(copies() / f"{chapter}.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.id in (notebook.cells[0].id, "the-package", *names)]
    assert len(notebook.cells) == 2 + len(names)
    return notebook


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder, settings = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("settings")
    short = cut("05_ppo", "device", "ppo-01", "ppo-lies", "ppo-question", "ppo-16", "ppo-27c")
    for front in (LAB, NOTEBOOK):
        for theme in ("Light", "Dark"):  # of one file all would share a kernel
            nbformat.write(short, folder / f"{front[:3]}{theme}.ipynb")
    with served(folder, settings) as address:
        yield address


@pytest.fixture
def opened(browser, address):
    """opened(front end, theme, name) -> (page, faults)"""
    context = browser.new_context(viewport={"width": 1280, "height": 1000})

    def opened(front: str, theme: str, name: str):
        page, faults = context.new_page(), []
        page.on("console", lambda m: faults.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda e: None if any(word in str(e) for word in KNOWN) else faults.append(str(e)))
        page.on("response", lambda r: faults.append(f"{r.status} {r.url}") if r.status >= 400 else None)
        themes = address("lab/api/settings/@jupyterlab/apputils-extension:themes")
        assert context.request.put(themes, data={"raw": json.dumps({"theme": f"JupyterLab {theme}"})}).ok
        page.goto(address(front, name))
        page.wait_for_function(READY, timeout=60_000)
        assert page.evaluate("document.body.dataset.jpThemeLight") == str(theme == "Light").lower()
        return page, faults

    yield opened
    context.close()


by_front_end = pytest.mark.parametrize(("front", "theme"), [
    (LAB, "Light"), (NOTEBOOK, "Dark"),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in ((LAB, "Dark"), (NOTEBOOK, "Light"))),
], ids=lambda word: word.partition("/")[0])  # fmt: skip


@pytest.mark.page
@by_front_end
def test_formulas_and_pictures_are_there_before_anything_runs(opened, front, theme):
    page, faults = opened(front, theme, "05_ppo")
    stored = nbformat.read(copies() / "05_ppo.ipynb", as_version=4).cells
    seen = [cell for cell in stored if not cell.metadata.get("jupyter", {}).get("outputs_hidden")]
    count = sum("image/png" in output.get("data", {}) for cell in seen for output in cell.get("outputs", []))
    page.wait_for_function("n => document.querySelectorAll('.jp-RenderedImage img').length >= n", arg=count)
    page.wait_for_function("document.querySelectorAll('mjx-container').length > 300")
    page.wait_for_function("document.fonts.status === 'loaded' && [...document.images].every(each => each.complete)")
    fonts = dict(page.evaluate("[...document.fonts].map(font => [font.family, font.status])"))
    assert fonts["MJXTEX"] == fonts["MJXTEX-I"] == "loaded" and "error" not in fonts.values()
    assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    assert "$" not in "".join(page.locator(".jp-RenderedMarkdown").all_inner_texts())
    for width, *corner in page.evaluate(PICTURES):
        assert width >= 600 and corner == [255] * 4  # opaque, also where the page is dark
    assert page.get_by_text("Jupyter news").count() == 0 and faults == []
    page.wait_for_function(KERNEL, timeout=60_000)
    assert not page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty"), "nobody has changed it"


@pytest.mark.page
@pytest.mark.parametrize("front", [LAB, NOTEBOOK], ids=lambda word: word.partition("/")[0])
def test_the_start_page_is_what_the_root_shows_and_leads_on(opened, address, front):
    page, faults = opened(front, "Light", "start")
    page.wait_for_function(KERNEL, timeout=60_000)
    assert not page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty"), "nobody has changed it"
    assert page.request.get(address("")).url.split("?")[0].endswith("/lab/tree/start.ipynb")
    page.goto(address(front, "05_ppo"))
    with page.expect_popup() as pages:  # Algorithm 5.1 links to it
        page.locator(".jp-RenderedMarkdown a:has-text('one page')").click(timeout=60_000)
    assert "PPO on one page" in pages.value.title() and faults == []


@pytest.mark.page
@by_front_end
def test_a_copy_runs_and_moves_and_works_by_keyboard(opened, front, theme):
    page, faults = opened(front, theme, f"{front[:3]}{theme}")
    summary = page.locator("summary").first
    page.locator(".jp-Notebook h1").click()
    for _ in range(20):
        page.keyboard.press("Tab")
        if summary.evaluate("element => element === document.activeElement"):
            break
    assert summary.evaluate(LOOK) != summary.evaluate(f"element => {{ element.blur(); return ({LOOK})(element); }}")
    summary.focus()
    for key, wanted in (("Enter", True), ("Space", False)):
        page.keyboard.press(key)
        assert summary.evaluate("element => element.parentElement.open") == wanted
    answer = page.locator(".jp-OutputPlaceholder")
    assert answer.count() == 1 and "k1" not in answer.inner_text()  # by its first line it would be known
    (wide, _), note = page.evaluate(WIDTHS), page.get_by_text(RUN)
    assert note.count() == 1
    page.locator(".jp-Notebook h1").click()
    page.wait_for_function(KERNEL, timeout=60_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    page.wait_for_function(RAN, arg=6, timeout=60_000)
    assert "k1\t0.0" in page.locator(".jp-OutputArea").last.inner_text()  # and now it is shown
    assert "error" not in page.evaluate(f"{CODE}.flatMap(cell => cell.model.outputs.toJSON().map(o => o.output_type))")
    handle, picture = page.locator(".noUi-handle").first, page.locator(".frames-figure img").first
    assert (picture.evaluate("image => getComputedStyle(image).filter") == "none") == (theme == "Light")
    before, plain = picture.get_attribute("src"), handle.evaluate(LOOK)
    handle.focus()
    assert handle.evaluate(LOOK) != plain
    page.keyboard.press("ArrowRight")
    page.wait_for_function("src => document.querySelector('.frames-figure img').src !== src", arg=before, timeout=5000)
    assert page.evaluate(WIDTHS) == [pytest.approx(wide, abs=2)] and not note.is_visible()
    page.set_viewport_size({"width": 1000, "height": 700})
    assert page.locator(".frames-figure").evaluate("figure => figure.scrollWidth <= figure.clientWidth")
    assert faults == []
    # Opened again with another kernel, the figure is its picture.
    page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    page.wait_for_function("!jupyterapp.shell.currentWidget.context.model.dirty")
    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.reload()
    note.wait_for(timeout=60_000)
    lost = page.get_by_text("model not found")
    lost.wait_for(state="attached", timeout=60_000)
    assert not lost.is_visible() and note.is_visible() and page.locator(".figure-still img").is_visible()


@pytest.fixture
def kernel(tmp_path):
    manager, client = start_new_kernel(cwd=str(tmp_path), env=environment())
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_training_that_is_stopped_leaves_its_agent_and_its_curve(kernel):
    manager, client = kernel
    *cells, training, curve = [
        cell.source for cell in cut("05_ppo", "device", "ppo-01", "ppo-mid", "ppo-47", "ppo-short").cells[1:]
    ]
    for source in (*cells, "history = None"):
        assert client.execute(source, reply=True, timeout=60)["content"]["status"] == "ok"
    begun = "agent = forgetful\nprint('begun', flush=True)\nshorter, "
    asked = [client.execute(training.partition("for name, told")[0].replace("shorter, ", begun))]
    asked += [client.execute(waiting) for waiting in ("history = 1", "history = 2")]  # as in Run All
    while client.get_iopub_msg(timeout=60)["content"].get("text") != "begun\n":
        pass
    time.sleep(3)
    manager.interrupt_kernel()
    replies = {}
    while len(replies) < len(asked):
        reply = client.get_shell_msg(timeout=60)
        replies[reply["parent_header"]["msg_id"]] = reply["content"]["status"]
    assert [replies[each] for each in asked] == ["error", "aborted", "aborted"]
    asks = "assert history is None and 0 < shorter.updates[-1]['steps'] < 100_000 and evaluate(agent, episodes=1)"
    for source in (asks, curve):
        said = client.execute(source, reply=True, timeout=60)["content"]
        assert said["status"] == "ok", said


@pytest.mark.slow
def test_a_saved_copy_that_is_run_again_prints_the_same(tmp_path):
    notebook, said = nbformat.read(copies() / "a_prerequisites.ipynb", as_version=4), []
    for _ in range(2):
        NotebookClient(notebook, resources={"metadata": {"path": tmp_path}}).execute(env=environment())
        said.append([texts(cell.outputs) for cell in notebook.cells if cell.cell_type == "code"])
        nbformat.write(notebook, tmp_path / "saved.ipynb")
        notebook = nbformat.read(tmp_path / "saved.ipynb", as_version=4)
    assert said[0] == said[1] and sum(map(bool, said[0])) > 10


@pytest.mark.slow
@pytest.mark.page
def test_the_front_door_opens_by_the_clock(browser, tmp_path):
    """With copies there: the start page 8 s after the command, two cells of chapter 1 have run 8 s after its link."""
    seen = {"start page": [], "two cells": []}
    kinds = [cell.cell_type for cell in nbformat.read(copies() / "01_mdp.ipynb", as_version=4).cells]
    presses = kinds.index("code", kinds.index("code") + 1) + 1
    for visit in range(4):
        begun = time.perf_counter()
        with served(tmp_path / "notebooks", tmp_path) as address:
            page = browser.new_page()
            page.goto(address(LAB, "start"))
            page.wait_for_selector(".jp-RenderedMarkdown h1:has-text('the chapters, to run')", timeout=60_000)
            drawn = time.perf_counter()
            page.locator(".jp-RenderedMarkdown a:has-text('chapter 1')").first.click()
            page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) h1:has-text('1. ')", timeout=60_000)
            page.wait_for_function(KERNEL, timeout=60_000, polling=50)
            for _ in range(presses):
                page.keyboard.press("Shift+Enter")
            page.wait_for_function(RAN, arg=2, timeout=60_000, polling=50)
            ran = time.perf_counter()
            page.close()
        if visit:  # the first one writes the copies
            seen["start page"].append(drawn - begun)
            seen["two cells"].append(ran - drawn)
    medians = {name: round(statistics.median(values), 1) for name, values in seen.items()}
    print(medians)
    assert max(medians.values()) < 8
