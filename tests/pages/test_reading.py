"""Who reads the pages, and how: by screen reader, on a phone, on paper, over a slow line, from link to link."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lxml import html

from tests.homework.test_release import COMMON, LINES, leaks
from tests.pages.speed import FRONT_PAGE, LIMITS, measure, served
from tests.pages.test_pages import BAD_MATH, CHAPTERS, ROOT, SOURCES, WITH_FIGURE, by_name, quick_or_slow, rendered

AXE = ROOT / ".assets" / "node_modules" / "axe-core" / "axe.min.js"
# The pages with most to load; `make measure` visits all.
HEAVY = {"01_mdp", "05_ppo", "06b_mpo_policy", "07_vmpo"}
pytestmark = pytest.mark.page

# Without `preload` it does not ask for the style sheets once more, which a page from disk may not.
SERIOUS = """() => axe.run({resultTypes: ['violations'], preload: false}).then(found => found.violations
    .filter(one => ['serious', 'critical'].includes(one.impact))
    .map(one => one.id + ': ' + one.nodes.slice(0, 4)
        .map(node => node.target.join(' ') + ' ' + node.html.slice(0, 90)).join(' | ')))"""
# What hangs out of the page, and what scrolls sideways and is neither code nor a formula.
SIDEWAYS = """() => {
  const root = document.scrollingElement, found = [];
  if (root.scrollWidth > root.clientWidth + 1) found.push('the page: ' + root.scrollWidth + ' px');
  for (const each of document.querySelectorAll('article *')) {
    if (each.closest('pre, .highlight, div.math, .output, mjx-container, svg, .sd-d-none, [hidden]')) continue;
    const box = each.getBoundingClientRect();
    const scrolls = ['auto', 'scroll'].includes(getComputedStyle(each).overflowX);
    const holds = each.matches('.panels.wide') || each.querySelector(':scope > mjx-container, :scope > pre');
    if (scrolls && each.scrollWidth > each.clientWidth + 1 && !holds)
      found.push('scrolls: ' + each.tagName + '.' + each.className + ' ' + each.textContent.trim().slice(0, 60));
    else if (box.width && box.right > root.clientWidth + 1 && !each.closest('.pst-scrollable-table-container'))
      found.push('hangs out: ' + each.tagName + '.' + each.className + ' ' + each.textContent.trim().slice(0, 60));
  }
  return found.slice(0, 8);
}"""


# Displayed formulas that a phone cuts off.
TOO_LONG = """() => [...document.querySelectorAll('article div.math')]
    .filter(each => each.checkVisibility({contentVisibilityAuto: true}) && each.scrollWidth > each.clientWidth + 1)
    .map(each => each.querySelector('annotation').textContent.trim())"""


# Formulas whose lines for a phone have not the signs that they have, in their order.
OTHER_SIGNS = """() => [...document.querySelectorAll('article mjx-container:has(> mjx-narrow)')]
    .filter(each => new Set([':scope > mjx-math', ':scope > mjx-narrow'].map(part =>
        [...each.querySelector(part).querySelectorAll('mjx-c')].map(sign => sign.classList[0]).join())).size > 1)
    .map(each => each.querySelector('annotation').textContent.trim())"""


# What fades at its right end and has no more there, or has more and does not fade.
FADED = """() => {
  const kinds = 'div.math, mjx-container.long, div.math mjx-container, .highlight pre';
  const room = each => each.scrollWidth - each.clientWidth;
  const fades = each => getComputedStyle(each).maskImage !== 'none';
  return [...document.querySelectorAll(`article :is(${kinds})`)]
    .filter(each => each.checkVisibility({contentVisibilityAuto: true}) && getComputedStyle(each).overflowX === 'auto')
    .filter(each => room(each) !== 1 && (room(each) > 1) !== fades(each))  // one may be half of one
    .map(each => each.parentElement.textContent.slice(0, 60));
}"""


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
@quick_or_slow(SOURCES)
def test_nothing_serious_stands_between_a_page_and_its_reader(site, one_visit, open_page, source, scheme):
    path = rendered(site, source)
    page, _, _ = one_visit(path) if scheme == "light" else open_page(path, color_scheme=scheme)
    page.evaluate(AXE.read_text("utf8"))
    assert page.evaluate(SERIOUS) == []


@quick_or_slow(SOURCES)
def test_a_phone_scrolls_down_and_not_sideways(site, one_visit, source):
    page, _, _ = one_visit(rendered(site, source))
    wide = page.viewport_size
    page.set_viewport_size({"width": 360, "height": 740})  # as when a tablet is turned
    assert page.evaluate(SIDEWAYS) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(TOO_LONG) == page.evaluate(OTHER_SIGNS) == []
    for size in (page.viewport_size, wide):
        page.set_viewport_size(size)
        page.wait_for_timeout(500)  # until styles that follow the scrolling have done so
        assert page.evaluate(FADED) == []


@quick_or_slow(CHAPTERS)
def test_formulas_have_the_letters_of_formulas_wherever_they_stand(site, one_visit, source):
    page, _, _ = one_visit(rendered(site, source))
    fonts = page.evaluate("""() => [...new Set([...document.querySelectorAll('mjx-mi > mjx-c')]
        .map(each => getComputedStyle(each).fontFamily))]""")
    assert fonts and all(each.startswith("MJX") for each in fonts)


@quick_or_slow(WITH_FIGURE)
def test_figures_answer_the_keyboard_alone(site, one_visit, source):
    """Tab reaches every control; test_pages.py moves them, by arrows and the space bar."""
    page, faults, _ = one_visit(rendered(site, source))
    for box in page.locator(".frames-figure").all():
        controls = box.locator(".noUi-handle, .widget-toggle-button")
        controls.first.focus()
        reached = set()
        for _ in range(3 * controls.count()):  # between two sliders stands a number that can be typed
            index = page.evaluate(
                "([box]) => [...box.querySelectorAll('.noUi-handle, .widget-toggle-button')]"
                ".indexOf(document.activeElement)", [box.element_handle()])  # fmt: skip
            reached.add(index)
            page.keyboard.press("Tab")
        assert reached - {-1} == set(range(controls.count())), "the Tab key passes a control by"
    assert faults == []


CUT = """() => [...document.querySelectorAll('article div.math, article pre')]
    .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent.trim().slice(0, 60))"""


def test_annotated_source_is_not_cut_on_paper(site, open_page):
    page, _, _ = open_page(site / "book" / "annotated" / "ppo.html", viewport={"width": 718, "height": 1000})
    page.emulate_media(media="print")
    assert page.evaluate(CUT) == []


@quick_or_slow(CHAPTERS)
def test_paper_shows_the_text_and_nothing_else(site, open_page, source):
    page, _, _ = open_page(rendered(site, source), viewport={"width": 718, "height": 1000})  # A4 within its margins
    page.emulate_media(media="print")
    for furniture in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article", "footer.bd-footer-content"):
        assert not any(each.is_visible() for each in page.locator(furniture).all()), f"{furniture} is printed"
    assert page.evaluate(CUT) == []
    solutions = page.locator("article details.solution")
    assert solutions.count() and all(
        each.locator(":scope > :not(summary)").first.is_visible() for each in solutions.all()
    )
    for machinery in ("details.check", "details.code", "details.hide.above-input"):
        assert not any(each.is_visible() for each in page.locator(f"{machinery} > summary").all()), machinery
    below = page.evaluate("""() => {
      const top = each => each.getBoundingClientRect().top;
      return Math.max(...[...document.querySelectorAll('.exercise')].map(top))
        < Math.min(...[...document.querySelectorAll('details.solution')].map(top));
    }""")
    assert below, "a sheet of problems, and the solutions behind it"


def test_a_sheet_of_problems_has_no_answers(site, open_page):
    page, faults, _ = open_page(rendered(site, Path("book/05_ppo.ipynb")))
    page.evaluate("window.print = () => { window.printed = document.documentElement.className }")
    page.locator(".btn__text-container", has_text="no solutions").evaluate("each => each.closest('button').click()")
    assert "without-solutions" in page.evaluate("printed") and faults == []
    page.emulate_media(media="print")
    for kind in ("solution", "answer"):
        assert not any(each.is_visible() for each in page.locator(f"details.{kind}").all())
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.solution").first.is_visible()


def test_the_list_of_contents_follows_the_reader(site, open_page):
    page, _, _ = open_page(site / "book" / "api" / "functions.html")
    links = page.locator(".bd-sidebar-secondary .nav-link")
    assert links.last.bounding_box()["y"] > 1000  # the list is longer than the window
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    active = page.locator(".bd-sidebar-secondary .nav-link.active").last
    page.wait_for_function("link => link.getBoundingClientRect().bottom < 1000", arg=active.element_handle())


@by_name(CHAPTERS)
def test_a_chapter_is_offered_as_its_notebook(site, source):
    page = html.document_fromstring(rendered(site, source).read_text("utf8"))
    offered = [
        link.get("href") for link in page.iterfind(".//a[@href]")
        if "btn-download-source-button" in link.classes
        or (link.get("href").endswith(".ipynb") and ("btn" in link.classes or "download" in link.attrib))
    ]  # fmt: skip
    assert offered, "no button offers the notebook"
    file = (rendered(site, source).parent / offered[0]).resolve()
    copy = site.parents[1] / "copies" / Path(source).name  # which can be run anywhere
    assert file.read_bytes() == copy.read_bytes() and "the-package" in file.read_text("utf8")


def test_no_link_leads_nowhere(site):
    """From page to page, and to places within them."""
    pages = {path.resolve(): html.document_fromstring(path.read_text("utf8")) for path in site.rglob("*.html")
             if "vendor" not in path.parts and "_static" not in path.parts}  # fmt: skip
    places = {path: set(page.xpath("//@id | //a/@name")) for path, page in pages.items()}
    broken, followed = [], 0

    @cache  # many links of a page lead to one file, and to ask the disk for each would take longer than to read them
    def leads_to(folder: Path, name: str) -> tuple[Path, bool]:
        target = (folder / unquote(name)).resolve()
        return target, target.exists()

    for path, page in pages.items():
        for address in page.xpath("//a/@href | //link/@href | //img/@src | //script/@src"):
            parts = urlsplit(address)
            if parts.scheme or parts.netloc or address.startswith("javascript") or address == "#":
                continue
            target, exists = leads_to(path.parent, parts.path) if parts.path else (path, True)
            place = unquote(parts.fragment)
            followed += bool(place)
            if not exists or (place and target in places and place not in places[target]):
                broken.append(f"{path.relative_to(site.resolve())}: {address}")
    assert broken == [] and followed > 5000


def test_the_pages_hold_no_homework(site):
    """Neither solutions nor hidden tests, in anything that is published."""
    files = [f for f in site.rglob("*") if f.suffix in (".html", ".js", ".ipynb", ".md", ".txt", ".py", ".svg")]
    assert len(files) > 100
    for file in files:
        text = file.read_text("utf8", "replace")
        assert "BEGIN SOLUTION" not in text and leaks(text, LINES["example"], COMMON) == [], file.name


def test_a_build_without_a_repository_shows_no_button_that_leads_there(site):
    for source in SOURCES:
        text = rendered(site, source).read_text("utf8")
        assert not re.search(r"colab\.research|mybinder\.org|codespaces\.new|btn-source-edit|/edit/main/", text), source


@pytest.mark.slow
@by_name([Path("book/index.md"), *(path for path in CHAPTERS if path.stem in HEAVY)])
def test_a_page_opens_fast_over_a_slow_line(site, browser, source):
    with served(site) as address:
        seen = measure(browser, f"{address}/{source.with_suffix('.html').as_posix()}")
    print(seen)
    limits = LIMITS | (FRONT_PAGE if source.stem == "index" else {})
    assert {name: value for name, value in seen.items() if value > limits[name]} == {}


@pytest.mark.parametrize(("body", "word"), [
    ("<script>console.error('oh')</script>", "console: oh"),
    ("<script>null.x</script>", "error: "),
    ("<script src='missing.js'></script>", "request failed"),
    ("<img src='https://example.org/x.png'>", "request failed"),
    ("<span class='math'>\\(x\\)</span>", "math: "),
    ("<p>left over: $$x$$</p>", "math: "),
    ("<mjx-merror>bad</mjx-merror>", "math: bad"),
    ("<p style='width: 600px'>wide</p>", "hangs out"),
    ("<div style='overflow-x: auto'><p style='width: 600px'>wide</p></div>", "scrolls"),
    ("<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "image-alt"),
    ("<p style='color: #ccc; background: #fff'>pale</p>", "color-contrast"),
    ("<button></button>", "button-name"),
])  # fmt: skip
def test_the_checks_can_fail(tmp_path, open_page, body, word):
    text = f"<!doctype html><html lang='en'><title>x</title><body><article><p>fine</p>{body}</article></body>"
    (tmp_path / "page.html").write_text(text, "utf8")
    page, faults, _ = open_page(tmp_path / "page.html", viewport={"width": 360, "height": 700})
    page.evaluate(AXE.read_text("utf8"))
    found = faults + page.evaluate(BAD_MATH) + page.evaluate(SIDEWAYS) + page.evaluate(SERIOUS)
    assert any(word in each for each in found), found
