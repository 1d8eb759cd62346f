"""The rendered pages in a real browser, opened from disk with the network off."""

import gzip
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.book.test_numbering import numbers_of
from tests.pages.speed import LIMITS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "[0-9]*.ipynb", "[a-z]_*.ipynb", "annotated/*.md", "api/*.md")
    for path in (ROOT / "book").glob(pattern)
)
CHAPTERS = [path for path in SOURCES if path.suffix == ".ipynb"]
WITH_FIGURE = [path for path in CHAPTERS if "widget-view+json" in (ROOT / path).read_text("utf8")]
# One page of each kind stands for the others in the quick tier.
KINDS = {"index.md", "05_ppo.ipynb", "ppo.md", "functions.md", "symbols.md", "glossary.md", "errata.md"}
pytestmark = pytest.mark.page

# Displayed formulas that have to be scrolled on a small laptop's screen.
TOO_WIDE = """() => [...document.querySelectorAll('div.math mjx-container')]
    .filter(math => Math.max(math.scrollWidth - math.clientWidth,
                             math.parentElement.scrollWidth - math.parentElement.clientWidth) > 1)
    .map(math => math.closest('[id]').id)"""
# Formulas that MathJax was meant to draw and did not, and formulas it could not draw.
BAD_MATH = """() => {
  const bad = [...document.querySelectorAll('mjx-merror, .math:not(:has(mjx-container))')].map(e => e.textContent);
  const walker = document.createTreeWalker(document.querySelector('article, body'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const silent = node.parentElement.closest('script, style, pre, code, noscript, annotation');
    if (/\\\\\\(|\\\\\\[|\\$\\$/.test(node.data) && !silent)
      bad.push(node.data);
  }
  return bad.map(text => 'math: ' + text.trim().slice(0, 200));
}"""


# What a figure's pictures refer to and a browser does not find, or would not cut curves off by.
LOST = """() => [...document.querySelectorAll('.frames-figure use, .frames-figure [clip-path]')]
    .map(each => each.getAttribute('href') ?? each.getAttribute('clip-path').slice(4, -1))
    .filter(name => document.querySelectorAll(`[id="${name.slice(1)}"]`).length !== 1
                    || !document.getElementById(name.slice(1)).closest('svg').checkVisibility())"""


def rendered(site: Path, source: Path) -> Path:
    return site / source.with_suffix(".html")


def by_name(paths):
    return pytest.mark.parametrize("source", paths, ids=str)


def quick_or_slow(paths, quick=KINDS):
    return by_name([
        path if path.name in quick else pytest.param(path, marks=pytest.mark.slow, id=str(path)) for path in paths
    ])  # fmt: skip


def test_every_page_is_looked_at(site):
    pages = {path.relative_to(site).with_suffix("") for path in (site / "book").rglob("*.html")}
    assert pages == {source.with_suffix("") for source in SOURCES} and WITH_FIGURE


@quick_or_slow(SOURCES, KINDS | {path.name for path in CHAPTERS})
def test_page_is_sound(site, one_visit, source):
    page, faults, files = one_visit(rendered(site, source))
    assert faults + page.evaluate(BAD_MATH) == []
    if source in CHAPTERS:
        assert page.locator("mjx-container").count() >= 1
        assert page.evaluate(TOO_WIDE) == []
    loads_manager = any("embed-amd.js" in url for url in files)
    assert loads_manager == (source in WITH_FIGURE), "the manager belongs to the pages that hold a figure"


def test_numbers_tell_their_chapter_and_references_their_targets(site):
    _, wrong, compared = numbers_of(site)
    assert wrong == [] and compared > 700


def test_the_front_door_leads_to_the_book(site):
    target = re.search(r'url=([^"]+)"', (site / "index.html").read_text("utf8")).group(1)
    assert (site / target).resolve() == (site / "book" / "index.html").resolve()


@pytest.mark.parametrize("name", ["search.html?q=ratio", "genindex.html"])
def test_other_pages_are_sound(site, open_page, name):
    path, _, query = name.partition("?")
    page, faults, _ = open_page(site / path)
    if query:
        page.goto((site / path).as_uri() + "?" + query)
        page.locator("#search-results li").first.wait_for()
        page.wait_for_timeout(500)
    assert faults == []


@quick_or_slow(CHAPTERS)
def test_dark_theme_is_dark(site, one_visit, open_page, source):
    def background(page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")

    light, _, _ = one_visit(rendered(site, source))
    dark, _, _ = open_page(rendered(site, source), color_scheme="dark")
    assert background(dark) < 60 < 200 < background(light)


@by_name(WITH_FIGURE)
def test_figures_move_without_a_kernel(site, one_visit, source):
    page, faults, _ = one_visit(rendered(site, source))
    views = page.locator("script[type='application/vnd.jupyter.widget-view+json']").count()
    assert page.locator(".frames-figure svg[role=img]").count() == views, "each figure is drawn once"
    assert page.locator(".frames-figure svg[role=img] use").count() >= 10 * views and page.evaluate(LOST) == []
    for box in page.locator(".frames-figure").all():
        picture = box.locator("svg[role=img]")
        seen = {}

        def look(what, picture=picture, seen=seen):
            page.wait_for_timeout(250)
            seen[what] = (picture.screenshot(), picture.get_attribute("aria-label"))

        look("start")
        handle = box.locator(".noUi-handle").first
        handle.focus()
        page.keyboard.press("ArrowRight")
        look("slider moved")
        page.keyboard.press("ArrowLeft")
        look("slider back")
        assert seen["slider moved"][0] != seen["start"][0], "the slider does not move the picture"
        assert seen["slider moved"][1] != seen["start"][1], "the description does not follow the slider"
        assert seen["slider back"] == seen["start"]
        for button in box.locator(".widget-toggle-button:not(.mod-active)").all()[:1]:
            button.focus()
            page.keyboard.press("Space")
            look("toggled")
            assert seen["toggled"][0] != seen["start"][0], "the toggle does not move the picture"
            handle.focus()
            page.keyboard.press("ArrowRight")
            look("toggled and moved")
            del seen["slider back"]
            assert len(set(seen.values())) == len(seen), "every choice has a picture and a description of its own"
    assert faults + page.evaluate(LOST) == []


@quick_or_slow(WITH_FIGURE)
def test_a_still_stands_in_without_javascript(site, open_page, source):
    page, _, _ = open_page(rendered(site, source), java_script_enabled=False)
    for still in page.locator(".widget-still").all():
        assert still.is_visible() and still.bounding_box()["width"] > 300 and len(still.get_attribute("alt")) > 40
    assert page.locator(".widget-still").count() >= 1


@cache  # most files belong to every page
def gzipped(file: Path) -> int:
    return len(gzip.compress(file.read_bytes(), 6))


@by_name(CHAPTERS)
def test_sizes(site, one_visit, source):
    """Frames and bytes of a page; what a notebook's pictures weigh, tests/book/test_budgets.py says."""
    path = rendered(site, source)
    _, _, urls = one_visit(path)
    files = [Path(unquote(urlsplit(url).path)) for url in urls if url.startswith("file:")]
    states = r'<script type="application/vnd.jupyter.widget-state\+json">(.*?)</script>'
    widgets = "".join(re.findall(states, path.read_text("utf8"), re.S))
    assert path in files and bool(widgets) == (source in WITH_FIGURE)
    assert widgets.count("role='img'") <= 24
    at_once = [file for file in files if (site / "vendor") not in file.parents]  # not what comes with a moving figure
    assert sum(map(gzipped, at_once)) <= 1000 * LIMITS["kB"]


SIZES = """() => [...document.querySelectorAll('article .math mjx-math')].map(each => {
  const {width, height} = each.getBoundingClientRect();
  return [Math.round(width), Math.round(height), each.textContent];
})"""


@quick_or_slow(CHAPTERS, {"04_trpo.ipynb"})
def test_formulas_are_there_without_a_script(site, open_page, source):
    """Drawn as with scripts, each with its TeX, for a reader who copies it."""
    page, _, _ = open_page(rendered(site, source), java_script_enabled=False)
    here, _, _ = open_page(rendered(site, source))
    without, with_scripts = page.evaluate(SIZES), here.evaluate(SIZES)
    assert [each for each in zip(without, with_scripts, strict=True) if each[0] != each[1]] == []
    count = page.locator(".math.notranslate").count()
    assert (
        count
        == page.locator("mjx-container > mjx-math").count()
        == page.locator("mjx-container annotation").count()
        > 50
    )


def test_what_is_copied_has_the_formulas_as_tex(site, open_page):
    page, _, _ = open_page(rendered(site, Path("book/05_ppo.ipynb")))
    copied = page.evaluate("""() => {
      const formula = document.querySelector('p mjx-container');
      getSelection().selectAllChildren(formula.closest('p'));
      const data = new DataTransfer();
      document.dispatchEvent(new ClipboardEvent('copy', {clipboardData: data, bubbles: true, cancelable: true}));
      return [data.getData('text/plain'), formula.querySelector('annotation').textContent.trim()];
    }""")
    assert f"${copied[1]}$" in copied[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_first_visit_has_its_colors_before_the_scripts(site, open_page, scheme):
    page, _, _ = open_page(rendered(site, SOURCES[0]), color_scheme=scheme)
    assert page.evaluate("localStorage.getItem('theme')") == scheme  # what the theme's script chose
    written = re.search(r'dataset.theme = localStorage.getItem\("theme"\) \|\| (.*);', page.content())[1]
    assert page.evaluate(written) == scheme
