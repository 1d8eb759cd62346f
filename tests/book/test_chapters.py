"""Every chapter against the design's anatomy: sizes, labeled and accounted equations, alt text, exercises that work."""

import json
import multiprocessing
import os
import pkgutil
import re
import runpy
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.copies.second_pass import CHANGE
from tests.equations import CHAPTERS, ROOT, markdown, table_rows

IGNORED = {"nbval-ignore-output", "nbval-skip"}
FOLDED = {"hide-cell", "hide-input", "hide-output", "remove-cell"}
KINDS = {"Predict", "Derive", "Implement", "Find the bug", "Explore"}  # Explore: an open experiment
chapters = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def cells_of(path: Path, kind: str = "") -> list[dict]:
    cells = json.loads(path.read_text())["cells"]
    return [c | {"source": "".join(c["source"])} for c in cells if not kind or c["cell_type"] == kind]


def tags(cell: dict) -> set[str]:
    return set(cell["metadata"].get("tags", []))


def is_shown(cell: dict) -> bool:
    """Whether code and output both stand open on the page; a picture whose code is folded counts with the pictures."""
    return not tags(cell) & FOLDED


def kept_open(cell: dict) -> bool:
    """Whether what the cell prints stands open, or unfolds as an answer."""
    return not tags(cell) & {"hide-cell", "remove-cell"}


def is_picture(output: dict) -> bool:
    """A figure, also one that moves; what is printed and what stands in a table are none."""
    return any(kind.startswith("image/") or "widget-view" in kind for kind in output.get("data", {}))


def figure_of(cell: dict) -> dict:
    return cell["metadata"].get("mystnb", {}).get("figure", {})


def display_equations(text: str) -> list[str | None]:
    """The label of each displayed equation, None where it has none."""
    return [m[1] for m in re.finditer(r"\$\$[^$]+\$\$(?: \(([\w-]+)\))?", text)]


@chapters
def test_the_size_of_a_chapter(path):
    lengths = {True: [], False: []}  # of cells that hold a training loop, and of the others
    for cell in (each for each in cells_of(path, "code") if "device" not in tags(each)):
        lengths["loop" in tags(cell)].append(len(CHANGE.sub("", cell["source"], 1).splitlines()))
    every = lengths[True] + lengths[False]
    assert max(lengths[False]) <= 25 and max(every) <= 45
    assert len(every) <= 44 and statistics.median(every) <= 8


@chapters
def test_at_least_sixty_percent_of_the_code_cells_are_compared(path):
    code = cells_of(path, "code")
    assert sum(not tags(cell) & IGNORED for cell in code) >= 0.6 * len(code)
    # Only pictures may be left out: a number or a word that a cell prints is always compared. But the digits of a long
    # training in single precision hang on how a processor rounds. Such a cell asserts what the text says of it.
    for cell in code:
        if tags(cell) & IGNORED:
            drawn = all(map(is_picture, cell["outputs"]))
            assert drawn or ("single-precision" in tags(cell) and re.search(r"^ *assert ", cell["source"], re.M))


@chapters
def test_every_figure_says_what_it_shows(path):
    for cell in cells_of(path, "code"):
        if "plt.show()" in cell["source"]:
            assert len(cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")) > 40, cell["source"]


@chapters
def test_every_figure_has_a_number_a_caption_and_a_sentence_that_speaks_of_it(path):
    text = markdown(path)
    figures = [figure_of(cell) for cell in cells_of(path, "code") if "plt.show()" in cell["source"]]
    assert figures and len({figure["name"] for figure in figures}) == len(figures)
    for figure in figures:
        assert 20 < len(figure["caption"]) < 260
        assert f"{{numref}}`{figure['name']}`" in text, figure["name"]


@chapters
def test_no_command_of_a_formula_has_become_a_control_character(path):
    r"""What a script writes as "\tfrac" in quotes that read escapes is a tab and "frac" on the page."""
    for cell in cells_of(path):
        assert not re.search(r"[\x00-\x09\x0b-\x1f]", cell["source"]), cell["source"]


@chapters
def test_the_algorithm_has_a_number_and_lines_that_lead_to_their_source(path):
    if path.stem == "a_prerequisites":
        return
    algorithms = re.findall(r"^`{3,}\{prf:algorithm\}.*?^`{3,}$", markdown(path), re.M | re.S)
    assert algorithms
    for algorithm in algorithms:
        label = re.search(r"^:label: (alg-[\w-]+)$", algorithm, re.M)[1]
        assert f"{{prf:ref}}`{label}`" in markdown(path)
        assert len(re.findall(r"^\d+\.", algorithm, re.M)) >= 4 and algorithm.count("{src}`") >= 3


@chapters
def test_every_displayed_equation_is_labeled_and_stands_in_the_table(path):
    text = markdown(path)
    labels, rows = display_equations(text), [row.label for row in table_rows(text)]
    assert None not in labels and len(set(labels)) == len(labels) >= 5
    assert len(set(rows)) == len(rows) and set(rows) <= set(labels)


@chapters
def test_every_derivation_is_checked_by_a_later_cell(path):
    cells, text = cells_of(path), markdown(path)
    for label in set(display_equations(text)) - {row.label for row in table_rows(text)}:
        stands = next(i for i, c in enumerate(cells) if f"$$ ({label})" in c["source"])
        checks = [i for i, c in enumerate(cells) if f"checks:{label}" in tags(c)]
        assert len(checks) == 1 and checks[0] > stands, label
        assert re.search(r"\b(assert|print|table)\b", cells[checks[0]]["source"])


@chapters
def test_every_computed_equation_names_a_function_and_a_test(path):
    rows = table_rows(markdown(path))
    assert {row.kind for row in rows} == {"computed"}  # what is derived is held by its cell alone
    for row in rows:
        assert callable(pkgutil.resolve_name(row.function.partition(":")[0])), row
        file, test = row.check.split("::")
        assert f"def {test}(" in (ROOT / file).read_text(), row


@chapters
def test_exercises_of_all_four_kinds_each_with_a_solution(path):
    text = markdown(path)
    exercises = re.findall(r"```\{exercise\} (.*?): .*\n:label: ([\w-]+)", text)
    assert len(exercises) >= 6 and {kind for kind, _ in exercises} == KINDS
    assert sorted(label for _, label in exercises) == sorted(re.findall(r"```\{solution\} ([\w-]+)", text))


# All chapters load these. A process that runs solutions is a fork of one that has, and so begins two seconds earlier.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch", "matplotlib.pyplot", "minerva_lite", "minerva_book.figures.widgets"])
IN_A_FORK = """import os, torch
os.dup2(os.open({said!r}, os.O_WRONLY | os.O_CREAT), 1)
os.dup2(1, 2)
os.chdir({root!r})
torch.set_num_threads(1)
"""


def run_alone(script: str, folder: Path) -> tuple[int, str]:
    """The exit code of a process of its own that runs the script, and what it wrote."""
    path, said = folder / "script.py", folder / "said.txt"
    path.write_text(IN_A_FORK.format(said=str(said), root=str(ROOT)) + script, "utf8")
    child = FORKS.Process(target=runpy.run_path, args=(str(path), None, "__main__"))
    child.start()
    child.join()
    return child.exitcode, said.read_text("utf8") if said.exists() else ""


# The solutions of these take more than ten seconds.
LONG = {"04_trpo", "05_ppo", "06b_mpo_policy"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.stem in LONG), id=path.stem) for path in CHAPTERS],
)
def test_every_solution_runs_and_checks_something(tmp_path, monkeypatch, path):
    setup = next(cell["source"] for cell in cells_of(path, "code") if "device" not in tags(cell))
    solutions = re.findall(r"```\{solution\} ([\w-]+)\n.*?~~~python\n(.*?)~~~", markdown(path), re.S)
    assert len(solutions) == markdown(path).count("```{solution}")
    script = [setup.replace('set_matplotlib_formats("svg")', "")]
    for label, source in solutions:
        assert re.search(r"\b(assert|check_\w+)\b", source), label
        # Each in a scope of its own: a solution may lean on the setup cell, not on its neighbors.
        script.append(f"exec(compile({source!r}, {label!r}, 'exec'), dict(globals()))")
    for name, value in (("MPLBACKEND", "agg"), ("OMP_NUM_THREADS", "1")):
        monkeypatch.setenv(name, value)
    code, said = run_alone("\n".join(script), tmp_path)
    assert code == 0, said[-2000:]


def test_a_flipped_sign_in_the_main_function_turns_nbval_red(tmp_path):
    """The cell that compares the objective with its cases is the first to fail, and all before it pass."""
    notebook = json.loads((ROOT / "book" / "05_ppo.ipynb").read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    first = next(i for i, cell in enumerate(cells) if "checks:ppo-cases" in tags(cell))
    (tmp_path / "part.ipynb").write_text(json.dumps(notebook | {"cells": cells[: first + 1]}))
    shutil.copytree(ROOT / "minerva_lite", tmp_path / "minerva_lite", ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / "minerva_lite" / "formulas" / "objectives.py"
    line = "return torch.minimum(ratio * advantage, clipped_ratio * advantage)"
    assert source.read_text().count(line) == 1
    source.write_text(source.read_text().replace(line, line.replace("minimum(", "minimum(-")))
    command = [
        sys.executable,
        *["-m", "pytest", "--nbval", "--nbval-current-env", "-q", "-p", "no:cacheprovider", "part.ipynb"],
    ]
    path = f"{tmp_path}{os.pathsep}{ROOT / 'book'}"
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True)
    failed = re.findall(r"^FAILED part.ipynb::.*?(\d+)", done.stdout, re.M)
    assert failed == [str(first)] and f" {first} passed" in done.stdout, done.stdout[-2000:]
