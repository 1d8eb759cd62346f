"""The rendered pages in a real browser, opened from disk with the network off."""

import gzip
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.book.test_numbering import numbers_of

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

# Formulas that MathJax was meant to typeset and did not, and formulas it could not typeset.
# Displayed formulas that have to be scrolled on a small laptop's screen.
TOO_WIDE = """() => [...document.querySelectorAll('div.math mjx-container')]
    .filter(math => Math.max(math.scrollWidth - math.clientWidth,
                             math.parentElement.scrollWidth - math.parentElement.clientWidth) > 1)
    .map(math => math.closest('[id]').id)"""
BAD_MATH = """() => {
  const bad = [...document.querySelectorAll('mjx-merror, .math:not(:has(mjx-container))')].map(e => e.textContent);
  const walker = document.createTreeWalker(document.querySelector('article, body'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (/\\\\\\(|\\\\\\[|\\$\\$/.test(node.data) && !node.parentElement.closest('script, style, pre, code, noscript'))
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
    loads_require = any("require.js" in url for url in files)
    assert loads_require == (source in WITH_FIGURE), "require.js belongs to the pages that hold a figure"


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
    for still in page.locator("noscript img").all():
        assert still.is_visible() and still.bounding_box()["width"] > 300 and len(still.get_attribute("alt")) > 40
    assert page.locator("noscript img").count() >= 1


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
    assert sum(map(gzipped, files)) <= 2_500_000


# Size and TeX of each formula; none where it is wider than its line and scrolls. What is folded has no height.
PLACES = """() => [...document.querySelectorAll('article .math')].map(each => {
  const box = each.getBoundingClientRect();
  return each.querySelector('.wide-inline') ? null : [box.width, box.height, each.textContent];
})"""


@quick_or_slow(SOURCES, {"04_trpo.ipynb", "ppo.md"})
def test_a_formula_takes_the_place_that_was_kept_for_it(site, open_page, browser, source):
    page, _, _ = open_page(rendered(site, source))
    page.wait_for_selector("html:not(.untypeset)")
    drawn, height = page.evaluate(PLACES), page.evaluate("document.documentElement.scrollHeight")
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 1000})
    page = context.new_page()
    for script in ("tex-mml-chtml.js", "book.js"):  # as long as neither has arrived
        page.route(f"**/{script}*", lambda route: route.abort())
    page.goto(rendered(site, source).as_uri(), wait_until="load")
    page.wait_for_timeout(300)
    kept, kept_height = page.evaluate(PLACES), page.evaluate("document.documentElement.scrollHeight")
    context.close()
    far = [
        (before[2].strip()[:60], before[:2], after[:2])
        for before, after in zip(kept, drawn, strict=True)
        if after and after[1] and max(abs(before[0] - after[0]), abs(before[1] - after[1])) > 2
    ]
    assert far == []
    assert abs(height - kept_height) <= 0.002 * height


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_first_visit_has_its_colors_before_the_scripts(site, open_page, scheme):
    page, _, _ = open_page(rendered(site, SOURCES[0]), color_scheme=scheme)
    assert page.evaluate("localStorage.getItem('theme')") == scheme  # what the theme's script chose
    written = re.search(r'dataset.theme = localStorage.getItem\("theme"\) \|\| (.*);', page.content())[1]
    assert page.evaluate(written) == scheme
