"""The annotated source: where markers may stand, and what the pages make of them.

The builds here are real ones of a tiny book over a scratch package, in this process.
"""

import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from marked_source import find_modules, others, parse_source
from typeset import find_mathjax

from tests.equations import ROOT
from tests.house.test_layers import FLOORS

NODE_MAIN = find_mathjax(ROOT / ".assets/node_modules/mathjax/es5/node-main.js")

SCRATCH = '''"""A scratch module.

# LaTeX: this = \\text{is a docstring}
"""

import torch


def retrace(reward, q_value, log_ratio, *, gamma, lam):
    r"""Targets.

    # LaTeX: so = is this
    Book: eq. retrace-recursion.
    """
    # Why: no sample may count more than once.
    # LaTeX: c_t = \\lambda \\min\\left(1, \\rho_t\\right)
    trace = lam * log_ratio.clamp(
        max=0.0,
    ).exp()
    text = "# LaTeX: x < y & z"
    td_error = reward - q_value  # LaTeX: \\delta_t = r_t - Q_t
    for t in reversed(range(len(td_error))):
        # LaTeX: \\Delta_t = \\delta_t + \\gamma c_t \\Delta_{t+1}
        running = td_error[t] + gamma * trace[t] * text
        # LaTeX: \\Delta_t = 2 \\Delta_t [1 <i\\theta>]
        running *= 2
    # LaTeX: Q^{\\mathrm{ret}} = Q + \\Delta
    return q_value + running


class Agent:
    @property
    def temperature(self):
        # LaTeX: \\eta = \\mathrm{softplus}(x)
        self.eta, _ = torch.softplus(self.raw), None
        return self.eta

    def step(self, x):
        """low(1) is called."""
        y = self.other(low(x))  # low(x) again
        # LaTeX: z = y + 1
        z = low(y) + 1
        text = f"low(2) {low(z)}", "low(3)"
        return torch.relu(z), text

    def other(self, x): return low(x)


def low(x):
    return x
'''
LINES = SCRATCH.split("\n")


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(LINES, 1) if text in line)


# Placement


def test_each_marker_is_tied_to_its_statement():
    source = parse_source(SCRATCH)
    assert source.problems == ()
    found = [(each.scope, each.name, each.line, each.first, each.last) for each in source.markers]
    trace, delta = line_of("trace = lam"), line_of("td_error = ")
    step, final, eta = line_of("running = "), line_of("return q_value"), line_of("self.eta, _")
    assert found == [
        ("retrace", "trace", trace - 1, trace, trace + 2),
        ("retrace", "td_error", delta, delta, delta),
        ("retrace", "running", step - 1, step, step),
        ("retrace", "running-2", step + 1, step + 2, step + 2),
        ("retrace", "return", final - 1, final, final),
        ("Agent.temperature", "eta-_", eta - 1, eta, eta),
        ("Agent.step", "z", line_of("z = low") - 1, line_of("z = low"), line_of("z = low")),
    ]
    assert source.markers[0].formula == r"c_t = \lambda \min\left(1, \rho_t\right)"
    assert source.objects["Agent.temperature"][0] == line_of("@property"), "a decorator belongs to its function"


ILLEGAL = {
    "blank line": ("# LaTeX: x = 1\n\nx = 1\n", 1, "directly above"),
    "comment between": ("# LaTeX: x = 1\n# why\nx = 1\n", 1, "directly above"),
    "stacked": ("# LaTeX: x = 1\n# LaTeX: x = 2\nx = 1\n", 1, "directly above"),
    "end of file": ("x = 1\n# LaTeX: x = 1\n", 2, "directly above"),
    "above and at the end": ("# LaTeX: x = 1\nx = 1  # LaTeX: x = 1\n", 2, "already has"),
    "a call": ("# LaTeX: x = 1\nprint(1)\n", 1, "neither assigns"),
    "a loop": ("# LaTeX: x = 1\nfor x in y:\n    pass\n", 1, "neither assigns"),
    "a bare return": ("def f():\n    # LaTeX: x = 1\n    return\n", 2, "neither assigns"),
    "a declaration": ("# LaTeX: x = 1\nx: int\n", 1, "neither assigns"),
    "inside a statement": ("x = f(\n    # LaTeX: x = 1\n    1,\n)\n", 2, "directly above"),
    "end of an inner line": ("x = f(  # LaTeX: x = 1\n    1,\n)\n", 1, "at the end of"),
    "two statements": ("# LaTeX: x = 1\nx = 1; y = 2\n", 1, "here are 2"),
    "dead line": ("def f():\n    return 0\n    # LaTeX: x = 1\n    x = 1\n", 3, "never reached"),
    "no left side": ("# LaTeX: \\sum_{i=1} x\nx = 1\n", 1, "no '='"),
    "empty": ("# LaTeX:\nx = 1\n", 1, "write '# LaTeX"),
    "misspelled": ("# latex: x = 1\nx = 1\n", 1, "write '# LaTeX"),
    "no space": ("#LaTeX: x = 1\nx = 1\n", 1, "write '# LaTeX"),
    "not Python": ("x = (\n", 1, "not Python"),
}


@pytest.mark.parametrize("kind", ILLEGAL)
def test_an_illegal_marker_is_named_with_its_line(kind):
    text, line, message = ILLEGAL[kind]
    problems = parse_source(text).problems
    assert any(each.line == line and message in each.message for each in problems), problems


# Pages


class Text(HTMLParser):
    """A page's text, ids and links, read the way a browser would; and of its text, what the copy button takes."""

    def __init__(self, page: str):
        super().__init__()
        self.ids, self.links, self.text, self.copied, self.depth = [], [], "", "", 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.append(attributes.get("id"))
        self.links.append(attributes.get("href", "") if tag == "a" else "")
        self.depth += bool(self.depth or "linenos" in attributes.get("class", ""))

    def handle_endtag(self, tag):
        self.depth -= bool(self.depth)

    def handle_data(self, data):
        self.text += data
        self.copied += data * (not self.depth)


def build(folder: Path, pages: dict[str, str], scratch: str = SCRATCH, **overrides) -> tuple[Path, str]:
    """Build a book of these pages and return its folder and its warnings."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    source, target = folder / "book", folder / "html"
    (folder / "scratch.py").write_text(scratch, encoding="utf-8")
    for name, text in pages.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / f"{name}.md").write_text(text, encoding="utf-8")
    warnings = io.StringIO()
    settings = {
        "extensions": ["myst_parser", "sphinx.ext.mathjax", "annotated"],
        "root_doc": "index",
        "myst_enable_extensions": ["dollarmath"],
        "html_theme": "basic",
        "html_copy_source": False,
        "annotated_packages": ["scratch"],
        "annotated_root": str(folder),
        **overrides,
    }
    with patch_docutils(), docutils_namespace():
        Sphinx(
            str(source), None, str(target), str(folder / "trees"), "html", settings, status=None, warning=warnings
        ).build()
    return target, re.sub(r"\x1b\[[0-9;]*m", "", warnings.getvalue())


CHAPTER = """# Chapter

$$x = y$$ (eq:retrace-recursion)

1. {src}`cut the trace <scratch.retrace:trace>`
2. {src}`scratch.retrace:running-2`
3. {src}`scratch.retrace:return`
4. {src}`scratch.retrace` and {src}`scratch` and {src}`scratch.Agent.temperature:eta-_`

```{toctree}
:glob:
*
```
"""
SHOWN = "```{annotated} scratch\n```\n"
SOURCE_PAGE = f"# Source\n\n{SHOWN}"


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    pages = {"index": CHAPTER, "source": SOURCE_PAGE}
    target, warnings = build(tmp_path_factory.mktemp("book"), pages)
    assert warnings == ""
    return {path.stem: path.read_text(encoding="utf-8") for path in target.glob("*.html")}


def block(page: str) -> str:
    return re.search(r"<pre class=\"mathjax_process.*?</pre>", page, re.DOTALL)[0]


def test_formulas_stand_between_the_right_lines(book):
    shown = Text(re.sub(r'<span class="src-comment.*?</span>', "", block(book["source"]))).text.split("\n")
    numbered = {int(line[:4]): line[4:] for line in shown if line.strip()}
    assert list(numbered) == list(range(1, len(LINES))), "the gutter counts as the file does"
    above = line_of("trace = lam") - 1
    assert numbered[above].startswith(r"    \(\displaystyle c_t = \lambda \min")
    assert numbered[above - 1] == LINES[above - 2] and numbered[above + 1] == LINES[above]
    trailing = numbered[line_of("td_error = ")]
    assert trailing.startswith("    td_error = reward - q_value") and r"\delta_t = r_t - Q_t\)" in trailing
    assert sum(r"\(" in line for line in shown) == 7, "docstrings and strings stay as they are"
    assert '"# LaTeX: x < y & z"' in numbered[line_of("text = ")]
    inside = next(each for each in block(book["source"]).split("\n") if "so = is this" in each)
    assert '<span class="sd">' in inside, "a docstring is highlighted to its end"


def test_every_link_arrives(book):
    ids = Text(book["source"]).ids
    links = [link for link in Text(book["index"]).links if link.startswith("source.html#")]
    assert [link.split("#")[1] for link in links] == [
        "src-scratch.retrace-trace",
        "src-scratch.retrace-running-2",
        "src-scratch.retrace-return",
        "src-scratch.retrace",
        "src-scratch",
        "src-scratch.Agent.temperature-eta-_",
    ]
    assert all(ids.count(link.split("#")[1]) == 1 for link in links)
    assert '<span class="pre">retrace:return</span>' in book["index"]


def test_the_source_links_on_to_the_equation(book):
    assert "index.html#equation-eq-retrace-recursion" in Text(book["source"]).links
    assert "equation-eq-retrace-recursion" in Text(book["index"]).ids
    assert "Book: eq. retrace-recursion (1)." in Text(block(book["source"])).text, "the number that the equation has"


LINK = re.compile(r'<a class="reference internal" href="#([^"]*)"[^>]*>(?:<[^>]*>)*(\w+)')


def test_a_called_function_is_a_link_to_its_definition_and_a_word_in_a_string_or_comment_is_none(book):
    inner = block(book["source"])
    assert LINK.findall(inner) == [("src-scratch.Agent.other", "other"), *[("src-scratch.low", "low")] * 4]
    assert all(words in inner for words in ("low(1)", "low(x) again", "low(2)", "low(3)")), "without a tag"


def test_folds_show_their_heads_and_hold_the_rest(tmp_path):
    page = "# A\n\n```{annotated} scratch\n:fold: imports, retrace, Agent.temperature, Agent.other\n```\n"
    target, warnings = build(tmp_path, {"index": page})
    assert warnings == ""
    inner = block((target / "index.html").read_text(encoding="utf-8"))
    folds = re.findall(r"<details class=\"src-fold\"><summary>(.*?)</summary>(.*?)</details>", inner, re.DOTALL)
    assert len(folds) == inner.count("<details") == 4
    numbers = [[int(each) for each in re.findall(r'linenos"[^>]*> *(\d+)<', part)] for fold in folds for part in fold]
    first, final = line_of("def retrace"), line_of("return q_value")
    prop, method, end = line_of("@property"), line_of("def temperature"), line_of("return self.eta") + 1
    other = line_of("def other")
    assert numbers == [
        [line_of("import torch")], [line_of("import torch") + 1, line_of("import torch") + 2],
        [first], [*range(first + 1, final + 3)],
        [prop, method], [*range(method + 1, end + 1)],
        [other], [other + 1, other + 2],
    ]  # fmt: skip
    assert [re.search(r"src-folded linenos\">(.*?)<", head)[1] for head, _ in folds][:3] == [
        "1 more line", f"{final - first} more lines", f"{end - 1 - method} more lines",
    ]  # fmt: skip
    assert 'id="src-scratch.retrace-trace"' in folds[1][1], "a link leads into the fold"
    assert not any(LINK.search(head) for head, _ in folds), "what opens a fold holds no link"
    assert Text(inner).copied == SCRATCH, "what is copied is the whole file"


def test_a_function_on_no_page_is_no_link(tmp_path):
    target, warnings = build(tmp_path, {"index": "# A\n\n```{annotated} scratch.Agent.step\n```\n"})
    assert warnings == "" and not LINK.search(block((target / "index.html").read_text("utf8")))


@pytest.mark.parametrize(("page", "scratch", "expected"), [
    ("{src}`scratch.no:thing`\n\n" + SHOWN, SCRATCH, r"index\.md:3: .* no annotated source shows scratch\.no:thing"),
    (SHOWN.replace("scratch", "scratch.nothing"), SCRATCH, r"index\.md:3: WARNING: .*scratch\.nothing"),
    (SHOWN.replace("\n```\n", "\n:fold: nobody\n```\n"), SCRATCH, r"index\.md:\d+: .* no 'nobody' to fold in scratch"),
    (SHOWN.replace("\n```\n", "\n:fold: Agent, Agent.step\n```\n"), SCRATCH, r"index\.md:\d+: .* folds overlap"),
    (SHOWN * 2, SCRATCH, r"index\.md:\d+: WARNING: .* already stands"),
    ("", "# LaTeX: x = 1\n\nx = 1\n", r"scratch\.py:1: WARNING: marker: "),
], ids=["unresolved link", "unknown object", "unknown fold", "folds overlap", "shown twice", "misplaced marker"],
)  # fmt: skip
def test_a_fault_is_a_warning_with_its_place(tmp_path, page, scratch, expected):
    _, warnings = build(tmp_path, {"index": f"# A\n\n{page}"}, scratch)
    assert re.search(expected, warnings), warnings


@pytest.mark.skipif(NODE_MAIN is None, reason="no node here, or .assets was not installed (make setup)")
def test_a_formula_that_cannot_be_typeset_is_a_warning_with_its_place(tmp_path):
    good = [r"\frac{1}{2} \left\{ \min_a y \right\}", r"\KL{a}{b}"]  # with a macro of the pages
    bad = [r"\frac{1}{2", "1}", r"\left( 1", r"\nosuchcommand y", r"\mathbb{1}[y]", r"\KL"]
    scratch = "".join(f"# LaTeX: x = {each}\nx = 1\n" for each in good + bad)
    macros = {"tex": {"macros": {"KL": [r"\mathrm{KL}(#1\Vert #2)", 2]}}}
    _, warnings = build(tmp_path, {"index": "# A\n"}, scratch, annotated_mathjax=NODE_MAIN, mathjax3_config=macros)
    places = re.findall(r"scratch\.py:(\d+): WARNING: formula: ", warnings)
    assert [int(each) for each in places] == [1 + 2 * (len(good) + i) for i in range(len(bad))]


def test_a_changed_source_is_read_again(tmp_path):
    pages = {"index": CHAPTER, "source": SOURCE_PAGE}
    build(tmp_path, pages)
    target, warnings = build(tmp_path, {}, SCRATCH.replace("trace = lam", "cut = lam"))
    assert "src-scratch.retrace-cut" in (target / "source.html").read_text(encoding="utf-8")
    assert "no annotated source shows scratch.retrace:trace" in warnings
    assert "already stands" not in warnings, "what the page held before is forgotten"


# The book's own pages


INDEX = (ROOT / "book/annotated/index.md").read_text(encoding="utf-8")


def test_the_index_begins_with_the_pages_that_hold_a_whole_algorithm():
    whole = {path.name for path in (ROOT / "book/annotated").glob("one_*.md")}
    assert set(re.findall(r"\((one_\w+\.md)\)", INDEX.split("## ")[0])) == whole != set()


def test_the_example_of_the_index_stands_in_the_file():
    marked, line = re.search(r"```python\n(# LaTeX: .*)\n(.*)\n```", INDEX).groups()
    source = (ROOT / "minerva_lite/formulas/returns.py").read_text(encoding="utf-8")
    assert re.search(rf"^ +{re.escape(marked)}\n +{re.escape(line)}$", source, re.MULTILINE)
    assert f"$$\n{marked.removeprefix('# LaTeX: ')}\n$$\n\n```python\n{line}\n```" in INDEX


def test_the_index_puts_every_room_on_its_floor():
    told = {room: int(floor) for floor, room in re.findall(r"^\| (\d) \| `(\w+)` \|", INDEX, re.MULTILINE)}
    rooms = {path.name for path in (ROOT / "minerva_lite").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert told == {room: floor for floor, names in FLOORS.items() for room in names if room in rooms}
    assert list(told.values()) == sorted(told.values(), reverse=True)


def shown_on_pages(directive: str) -> list[str]:
    """What a directive shows on the pages of its folder, `room.*` as its modules."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "book" / directive).glob("*.md")]
    shown = re.findall(rf"```\{{{directive}\}} (\S+)\n(?::fold: .*\n)?```", "\n".join(pages))
    for room in [each for each in shown if each.endswith(".*")]:
        shown.remove(room)
        shown += others(room.removesuffix(".*"), find_modules(ROOT, "minerva_lite"), pages, directive)
    return shown


def test_every_marker_of_the_package_stands_on_a_page():
    shown, missing = shown_on_pages("annotated"), set()
    for module, path in find_modules(ROOT, "minerva_lite").items():
        source = parse_source(path.read_text(encoding="utf-8"))
        assert source.problems == (), path
        holders = {f"{module}.{marker.scope}" for marker in source.markers}
        missing |= {each for each in holders if not any(f"{each}.".startswith(f"{name}.") for name in shown)}
    assert not missing, f"show these with the annotated directive: {sorted(missing)}"
