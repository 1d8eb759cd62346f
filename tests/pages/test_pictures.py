"""Pictures in the page: letters that a phone shows large enough, colors that stand out in light and in dark."""

import re

import pytest

from tests.pages.test_pages import CHAPTERS, by_name, quick_or_slow, rendered

pytestmark = pytest.mark.page

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
LEAST = 9  # pixels of a letter, and no less than that many points, as it was drawn
CONTRAST = 3  # of what is drawn, with the page
SCROLLED = ["07c_relatives"]  # a tree of methods with their settings, in words
NAMES = ("ink", "blue", "orange", "green", "red", "gray", "pink", "sky")

# Of each picture: its panels, the pixels of its smallest letters (each word's outlines are 100 units high and scaled;
# sub- and superscripts are scaled once more, within) and by how much it is wider than its place.
LETTERS = r"""() => [...document.querySelectorAll('.panels')].map(picture => {
  for (let up = picture; up; up = up.parentElement) if (up.tagName == 'DETAILS') up.open = true;
  const words = [...picture.querySelectorAll('g[transform]')].filter(
    each => /scale\([\d.]+ -[\d.]+\)/.test(each.getAttribute('transform')) && each.checkVisibility());
  const sizes = words.map(each => { const to = each.getScreenCTM(); return 100 * Math.hypot(to.a, to.b) });
  return [picture.children.length, Math.min(...sizes), picture.scrollWidth - picture.clientWidth];
})"""
# What a picture refers to and a browser does not find, or would not cut curves off by.
LOST = """() => [...document.querySelectorAll('.panels use, .panels [clip-path]')]
    .map(each => each.getAttribute('href') ?? each.getAttribute('clip-path').slice(4, -1))
    .filter(name => document.querySelectorAll(`[id="${name.slice(1)}"]`).length !== 1
                    || !document.getElementById(name.slice(1)).closest('svg').checkVisibility())"""
COLORS = """names => [getComputedStyle(document.body).backgroundColor,
    ...names.map(name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim())]"""


@quick_or_slow(CHAPTERS, {"05_ppo.ipynb"})
def test_a_phone_shows_a_pictures_letters_large_enough(site, open_page, source):
    page, faults, _ = open_page(rendered(site, source), **PHONE)
    pictures = page.evaluate(LETTERS)
    assert pictures and min(size for _, size, _ in pictures) >= LEAST, pictures
    assert sum(over > 0 for _, _, over in pictures) == SCROLLED.count(source.stem) and faults == []
    assert page.evaluate(LOST) == []


@by_name(CHAPTERS)
def test_every_picture_follows_the_page(site, source):
    """None of a chapter's stored vector pictures is left outside of the page, and each says what it shows."""
    text = rendered(site, source).read_text("utf8")
    assert not re.findall(r"<img\b[^>]*_images/[^>]*\.svg", text)
    said = re.findall(r'<span class="panels[^"]*" role="img" aria-label="([^"]*)"', text)
    assert said and min(map(len, said)) >= 20
    assert not re.findall(r"(?:fill|stroke):#", "".join(re.findall(r'<span class="panels.*?</span>', text, re.S)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colors_stand_out(site, open_page, scheme):
    page, _, _ = open_page(rendered(site, CHAPTERS[0]), color_scheme=scheme)
    paper, *colors = page.evaluate(COLORS, NAMES)
    against = brightness([int(each) for each in re.findall(r"\d+", paper)[:3]])
    assert (against > 0.5) == (scheme == "light")
    for name, color in zip(NAMES, colors, strict=True):
        here = brightness([int(color[at : at + 2], 16) for at in (1, 3, 5)])
        low, high = sorted((here, against))
        assert (high + 0.05) / (low + 0.05) >= CONTRAST, name


def brightness(channels):
    """Luminance relative to white, of channels from 0 to 255."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (each / 255 for each in channels)]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
