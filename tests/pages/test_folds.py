"""What is folded stands where it belongs: checks at their equations, code in captions, answers below the questions."""

import re
from functools import cache

import nbformat
import pytest
from docutils import nodes
from lxml import html

from tests.pages.test_pages import CHAPTERS, ROOT, by_name, quick_or_slow, rendered

import folds  # isort: skip  # found by tests.book.conftest

pytestmark = pytest.mark.page
BARS = 242  # folded elements before the exercises of all chapters together; checks, captions' and answers' apart


@cache
def page_of(site, source):
    return html.parse(rendered(site, source)).getroot()


def some(node, tag: str, *names: str) -> list:
    """Elements within a node by their tag and classes."""
    return [each for each in node.iterdescendants(tag) if each.classes >= {*names}]


def checks_of(source) -> set[str]:
    """The labels that cells check."""
    cells = nbformat.read(ROOT / source, as_version=4).cells
    tags = [tag for cell in cells for tag in cell.metadata.get("tags", [])]
    return {tag.removeprefix("checks:") for tag in tags if tag.startswith("checks:")}


@by_name(CHAPTERS)
def test_each_check_opens_at_its_equation_and_takes_no_line(site, source):
    page = page_of(site, source)
    signs = {}
    for holder in some(page, "div", "checked"):
        (equation,) = some(holder, "div", "math")
        signs[equation.get("id").removeprefix("equation-")] = holder
    assert signs.keys() == checks_of(source), "an equation has a sign if and only if a cell checks it"
    for label, holder in signs.items():
        links, checks = some(holder, "p", "check"), some(holder, "details", "check")
        assert len(links) + len(checks) == 1, label
        target = checks[0] if checks else page.get_element_by_id(next(links[0].iterdescendants("a")).get("href")[1:])
        assert some(target, "div", "cell_input"), f"{label}: no code"
        assert not checks or ("open" not in checks[0].attrib and some(checks[0], "p", "held")), label
    for cell in some(page, "div", "cell"):
        if any(name.startswith("tag_checks:") for name in cell.classes):
            bars = some(cell, "details", "hide", "above-input")
            assert not bars or next(cell.iterdescendants("figure"), None) is not None, "a folded check takes a line"


def test_a_check_opens_by_a_click_and_by_the_keyboard_without_a_script(site, open_page):
    page, _, _ = open_page(rendered(site, CHAPTERS[0]), java_script_enabled=False)
    fold = page.locator("details.check").first
    sign, code = fold.locator("summary"), fold.locator(".cell_input")
    number = page.locator(".checked:has(details.check) .eqno").first
    assert not code.is_visible()
    across = abs(sign.bounding_box()["y"] + sign.bounding_box()["height"] / 2
                 - number.bounding_box()["y"] - number.bounding_box()["height"] / 2)  # fmt: skip
    assert across < 4 and 0 < sign.bounding_box()["x"] - number.bounding_box()["x"] < 80, "it stands beside the number"
    sign.click()
    assert code.is_visible() and code.bounding_box()["y"] > number.bounding_box()["y"]
    sign.press("Enter")
    assert not code.is_visible()


@by_name(CHAPTERS)
def test_the_code_of_a_picture_opens_from_its_caption(site, source):
    count = 0
    for cell in some(page_of(site, source), "div", "cell"):
        for figure in cell.iterdescendants("figure"):
            if {"tag_hide-input", "tag_hide-cell"} & set(cell.classes):
                (code,) = some(next(figure.iterdescendants("figcaption")), "details", "code")
                assert some(code, "div", "cell_input") and not some(cell, "details", "hide")
                count += 1
    assert count >= 2


def test_bars_are_what_a_reader_is_to_open(site):
    counts = {}
    for source in CHAPTERS:
        page = page_of(site, source)
        after = {*page.get_element_by_id("exercises").iterdescendants("details")}
        bars = some(page, "details", "hide") + some(page, "details", "aside")
        counts[source.stem] = sum(each not in after for each in bars)
    print(counts)
    assert sum(counts.values()) <= BARS


def document(*cells: nodes.Node) -> nodes.document:
    tree = nodes.document(None, None)
    tree += cells
    return tree


def cell(*inside: nodes.Node, classes=()) -> nodes.container:
    code = nodes.container("", nodes.literal_block("x = 1", "x = 1"), nb_element="cell_code_source")
    bar = folds.HideCodeCellNode("", code, prompt_show="Show", prompt_hide="Hide", classes=["above-input"])
    return nodes.container("", bar, *inside, nb_element="cell_code", classes=[*classes])


@pytest.mark.parametrize(("tree", "word"), [
    (lambda: document(cell(classes=["tag_checks:nowhere"])), "an equation of this page to check; got nowhere"),
    (lambda: document(cell(nodes.container("", nodes.image()))), "a caption for its picture"),
    (lambda: document(cell(nodes.container(), classes=[folds.PREDICTION])), "an {answer} below its output"),
    (lambda: document(nodes.paragraph("", "", folds.answer("", nodes.Text("42")))), "stands below no prediction: '42'"),
])  # fmt: skip
def test_what_has_no_place_stops_the_build_and_names_the_cell(tree, word):
    class App:
        class builder:
            format = "html"

        class env:
            toc_fignumbers: dict = {}

    with pytest.raises(folds.ExtensionError, match=re.escape(word)) as stopped:
        folds.arrange(App, tree(), "book/05_ppo")
    assert "book/05_ppo" in str(stopped.value) and ("42" in word or "'x = 1'" in str(stopped.value))


@quick_or_slow(CHAPTERS)
def test_answers_and_solutions_are_folded_before_any_script(site, open_page, source):
    page, _, _ = open_page(rendered(site, source), java_script_enabled=False)
    for fold in page.locator("details.answer, details.solution").all():
        assert not fold.locator(":scope > :not(summary)").first.is_visible()
    assert page.locator("details.solution").count() >= 1
