"""Finding one's way: by the sidebars, the doors of a chapter, the search, and what a link stands for."""

import gzip
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from lxml import html

from tests.pages.test_pages import CHAPTERS, ROOT, by_name, rendered
from tests.pages.test_reading import AXE, SERIOUS

PPO = Path("book/05_ppo.html")
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
CURRENT = ".bd-docs-nav a.current"
pytestmark = pytest.mark.page

# What is searched for, and the place that must come first of its kind: the kind, and the end of its address.
WANTED = {
    "GAE": ("Glossary", "glossary.html#term-GAE"),
    "gae": ("Source", "#src-minerva_lite.formulas.returns.gae"),
    "clip": ("Glossary", "#term-clip-fraction"),
    "clipping bound": ("Chapters", "05_ppo.html#what-clipping-does-bound"),
    "eta": ("Notation", "notation.html#losses-and-steps"),
    "η": ("Notation", "notation.html#losses-and-steps"),
    "λ": ("Notation", "notation.html#data"),
    "lambda": ("Notation", "notation.html#data"),
    "V-MPO": ("Glossary", "#term-V-MPO"),
    "vmpo": ("Chapters", "07b_vmpo_agent.html#v-mpo-in-45-lines"),
    "time limit": ("Chapters", "#what-breaks-the-wrong-side-of-a-time-limit"),
    "conjugat gradiant": ("Glossary", "#term-conjugate-gradient"),  # misspelled
}


def inside(page, selector: str, frame: str) -> bool:
    """Whether an element stands wholly within what its frame shows."""
    return page.evaluate(
        """([selector, frame]) => {
        const [a, b] = [[...document.querySelectorAll(selector)].pop(), document.querySelector(frame)]
            .map(each => each.getBoundingClientRect());
        return a.height > 0 && a.top >= b.top && a.bottom <= Math.min(b.bottom, innerHeight);
    }""",
        [selector, frame],
    )


def searched(page, query: str) -> dict[str, list[str]]:
    """The places that a query finds, by kind."""
    page.locator("#pst-search-dialog input").fill(query)
    page.wait_for_function("q => document.querySelector('#search-results').dataset.query === q", arg=query)
    return page.evaluate("""() => Object.fromEntries([...document.querySelectorAll('#search-results section')].map(
        part => [part.querySelector('h2').textContent, [...part.querySelectorAll('a')].map(link => link.href)]))""")


def equations(site: Path) -> dict[str, str]:
    """The place of each numbered equation of chapter 5, by its number."""
    page = html.document_fromstring((site / PPO).read_text("utf8"))
    found = page.xpath("//div[starts-with(@id, 'equation-')]")
    return {part.find_class("eqno")[0].text: part.get("id") for part in found}


def test_the_search_finds_sections_terms_equations_symbols_and_functions(site, open_page):
    page, faults, files = open_page(site / PPO)
    assert not [each for each in files if "search_index" in each or "minisearch" in each], "loaded before it is wanted"
    page.keyboard.press("Control+k")
    for query, (kind, place) in WANTED.items():
        first = searched(page, query)[kind][0]
        assert unquote(first).endswith(place), (query, first)
    number, place = list(equations(site).items())[9]
    assert searched(page, number)["Equations"][0].endswith(f"05_ppo.html#{place}")
    assert searched(page, "GAE") and "GAE" in page.locator("#search-results mark").first.inner_text()
    page.evaluate(AXE.read_text("utf8"))
    assert page.evaluate(SERIOUS) == []
    assert searched(page, "xyzzy") == {} and "No place" in page.locator("#search-results").inner_text()
    assert faults == []


def test_the_search_needs_no_pointer_and_opens_at_the_section(site, open_page):
    page, _, _ = open_page(site / PPO)
    page.keyboard.press("Control+k")
    wanted = searched(page, "what clipping does not bound")["Chapters"][0]
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.href") == wanted
    page.keyboard.press("Enter")
    page.wait_for_url(wanted)
    place = page.locator(f"[id='{urlsplit(wanted).fragment}']")
    assert 0 <= place.evaluate("each => each.getBoundingClientRect().top") < 200
    page.keyboard.press("Control+k")
    searched(page, "what clipping does bound")
    page.locator("#search-results a").first.click()
    assert "what-clipping-does-bound" in page.url and not page.locator("dialog[open]").count()


def test_the_page_of_the_search_shows_what_its_address_asks_for(site, open_page):
    page, _, _ = open_page(site / "index.html")
    page.goto((site / "search.html").as_uri() + "?q=time+limit")
    page.locator("#search-results li a").first.wait_for()
    assert page.locator("#search-results h2", has_text="Chapters").is_visible()
    assert page.locator("form.bd-search input").last.input_value() == "time limit"


def test_what_the_search_and_the_meanings_weigh(site):
    index, meanings = (
        len(gzip.compress((site / "_static" / name).read_bytes(), 6)) for name in ("search_index.js", "meanings.js")
    )
    assert 50_000 < index <= 250_000 and 10_000 < meanings <= 80_000
    assert not (site / "searchindex.js").exists(), "Sphinx's own, which nothing reads"


@pytest.mark.parametrize("name", ["05_ppo", "notation", "errata"])
def test_the_contents_show_where_one_is_after_any_jump(site, open_page, name):
    page, _, _ = open_page(site / "book" / f"{name}.html")
    # Twelve sections, and twelve of what stands within one and can be linked, if there is any.
    hashes = page.evaluate("""() => {
        const twelfths = [...Array(12).keys()].map(i => i / 11);
        const spread = all => all.length ? twelfths.map(part => all[Math.floor(part * (all.length - 1))]) : [];
        const places = [...document.querySelectorAll('article section section :is(dt, div, tr, p, span)[id]')];
        return [...spread([...document.querySelectorAll('.page-toc a')].map(a => a.hash)),
                ...spread(places.filter(each => each.checkVisibility()).map(each => '#' + each.id))];
    }""")
    wrong = []
    for hash in hashes:
        page.evaluate("hash => { location.hash = hash; }", hash)
        page.wait_for_timeout(100)
        found = page.evaluate("""() => {
            const named = hash => document.getElementById(decodeURIComponent(hash.slice(1)));
            const links = [...document.querySelectorAll('.page-toc a')];
            const wanted = links.filter(a => named(a.hash).contains(named(location.hash))).pop();
            return [wanted?.hash, ...links.filter(a => a.matches('.active[aria-current=true]')).map(a => a.hash)];
        }""")
        wrong += [] if len(found) == 2 and found[0] == found[1] else [(hash, found)]
    assert len(hashes) >= 12 and wrong == []


def test_the_contents_follow_the_wheel(site, open_page):
    page, _, _ = open_page(site / "book" / "instructors.html")  # its last sections are short
    page.mouse.move(600, 500)
    seen = []
    while page.evaluate("scrollY + innerHeight < document.documentElement.scrollHeight - 2"):
        page.mouse.wheel(0, 400)
        page.wait_for_timeout(60)
        seen += page.evaluate("[...document.querySelectorAll('.page-toc a.active')].map(a => a.hash)")
    in_order = page.evaluate("[...document.querySelectorAll('.page-toc a')].map(a => a.hash)")
    assert [each for each in in_order if each in seen] == list(dict.fromkeys(seen)) and seen[-1] == in_order[-1]
    assert len(set(seen)) > 0.8 * len(in_order)  # a short section may pass within one turn of the wheel
    assert inside(page, ".page-toc a.active", ".bd-sidebar-secondary")


@pytest.mark.parametrize("name", ["01_mdp", "09b_preferences", "annotated/tabular", "api/checks", "changelog"])
def test_the_sidebar_shows_the_page_beside_title_and_search(site, open_page, name):
    page, _, _ = open_page(site / "book" / "index.html")
    page.goto((site / "book" / f"{name}.html").as_uri())  # the theme would keep the front page's position
    for selector in (CURRENT, ".navbar-brand", ".bd-sidebar-primary .search-button-field"):
        assert inside(page, selector, ".bd-sidebar-primary"), selector
    parts = page.evaluate("""() => [...document.querySelectorAll('.list-caption > li > details')].map(
        part => [part.querySelector('p').textContent, part.open, !!part.querySelector('a.current')])""")
    assert len(parts) == 4 and parts[0][0] == "Chapters"
    assert [name for name, is_open, own in parts if is_open != (name == "Chapters" or own)] == []


def test_a_phone_opens_its_drawer_at_the_page(site, open_page):
    page, _, _ = open_page(site / "book" / "annotated" / "tabular.html", **PHONE)
    page.locator(".primary-toggle").tap()
    page.wait_for_timeout(400)
    for selector in (CURRENT, ".navbar-brand", ".bd-sidebar-primary .search-button__default-text"):
        assert inside(page, selector, "#pst-primary-sidebar-modal"), selector


@by_name(CHAPTERS)
def test_a_chapter_leads_to_its_neighbors_exercises_source_and_homework(site, source):
    page = html.document_fromstring(rendered(site, source).read_text("utf8"))
    head, foot = page.find_class("chapter-doors")
    number = re.match(r"0*(\w+?)_", source.name)[1]
    course = "".join(path.read_text("utf8") for path in (ROOT / "book" / "homework" / "course").glob("hw*.py"))
    named = re.findall(r'chapters="chapters? ([^"]*)"', course)
    assigned = sum(number in re.findall(r"\d+\w?", each) for each in named)
    for doors in (head, foot):
        links = [link.get("href") for link in doors.iter("a")]
        assert "#exercises" in links and page.get_element_by_id("exercises") is not None
        assert sum("annotated/" in link for link in links) >= 1
        assert sum("instructors.html#hw" in link for link in links) == assigned
    order = page.xpath("//nav[@aria-label='Main']//a/@href")
    here = order.index("#")
    neighbors = {"‹ Previous": order[here - 1] if here else "index.html", "Next ›": order[here + 1]}
    assert {link.text: link.get("href") for link in head.iter("a") if link.text in neighbors} == neighbors


def shown(page) -> str:
    card = page.locator("#meaning")
    card.wait_for(state="visible", timeout=3000)
    return card.inner_text()


def test_a_term_and_an_equations_number_show_what_they_stand_for(site, open_page):
    page, faults, files = open_page(site / PPO)
    near = page.locator("article p > a.reference[href^='#equation-']").first
    near.hover()
    formula = page.locator(f"[id='{near.get_attribute('href')[1:]}'] mjx-container annotation").first
    shown(page)
    assert page.locator("#meaning annotation").first.text_content() == formula.text_content()
    assert not [each for each in files if "meanings.js" in each], "loaded for what stands on the page"
    page.keyboard.press("Escape")
    page.locator("#meaning").wait_for(state="hidden")
    far = page.locator("article p > a.reference[href*='.html#equation-']").first
    far.hover()
    assert far.inner_text() in shown(page) and page.locator("#meaning mjx-container").is_visible()
    page.mouse.move(5, 5)
    page.locator("#meaning").wait_for(state="hidden")
    term = page.locator("article p > a.reference:has(> .std-term)").first
    term.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert len(shown(page).split()) > 8 and term.get_attribute("aria-describedby") == "meaning"
    page.evaluate(AXE.read_text("utf8"))
    assert page.evaluate(SERIOUS) == []
    page.keyboard.press("Tab")
    page.locator("#meaning").wait_for(state="hidden")
    assert faults == []


def test_a_first_touch_shows_and_a_second_one_leads(site, open_page):
    page, _, _ = open_page(site / PPO, **PHONE)
    term = page.locator("article p > a.reference:has(> .std-term)").first
    term.tap()
    assert len(shown(page).split()) > 8 and "05_ppo" in page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    term.tap()
    page.wait_for_url("**/glossary.html#term-*")


def test_all_that_is_cited_elsewhere_has_a_meaning(site):
    text = (site / "_static" / "meanings.js").read_text("utf8")
    pages = [html.document_fromstring(path.read_text("utf8")) for path in (site / "book").rglob("*.html")]
    links = {href for page in pages for href in page.xpath("//article//a[contains(@class, 'reference')]/@href")}
    cited = {unquote(urlsplit(href).fragment) for href in links if re.search(r".#(?:term|equation)-", href)}
    assert len(cited) > 100 and [each for each in sorted(cited) if f'"{each}":' not in text] == []
