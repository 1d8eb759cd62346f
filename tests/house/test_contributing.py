"""The tables of CONTRIBUTING.md: their files exist, their tests exist, and two worked examples need no other file."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
import torch

from minerva_lite import agents, evaluate, language, preset, train
from minerva_lite.agents import AGENTS
from minerva_lite.agents.base import Agent
from minerva_lite.training.presets import PRESETS
from minerva_lite.worlds.envs import TORCH_ENVS
from tests.equations import CHAPTERS
from tests.examples import awr, mountain_car
from tests.living import learned, live, make_agent, small_agent
from tests.markers.check import Function, check_function
from tests.markers.inputs import CASES
from tests.markers.markers import find_markers
from tests.markers.mutate import mutants_of, try_mutants
from tests.markers.symbols import TABLES

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf8")
# The rows of each table, by the heading above it; the rules of a chapter are a second table under theirs.
ROWS = {
    heading: [re.split(r"(?<!\\) \| ", row.strip("| ")) for row in re.findall(r"^\| .* \|$", part, re.M)]
    for heading, part in re.findall(r"^## (To add .*?)$(.*?)(?=^## )", TEXT, re.M | re.S)
}
FILES = [row for rows in ROWS.values() for row in rows if len(row) == 3 and row[0] != "file"]
RULES = [row for row in ROWS["To add a chapter"] if len(row) == 2 and not row[0].startswith("rule")]


def functions(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(path.read_text("utf8")).body if isinstance(node, ast.FunctionDef)]


def test_there_is_a_table_for_each():
    named = ["To add an agent", "To add a setting", "To add a formula", "To add an environment", "To add a chapter"]
    assert list(ROWS) == named and len(FILES) == 23 and len(RULES) >= 10
    assert len(ROWS["To add an agent"]) - 1 <= 6 and len(ROWS["To add an environment"]) - 1 <= 3


@pytest.mark.parametrize("row", FILES, ids=lambda row: row[0].strip("`"))
def test_the_files_and_the_tests_of_the_tables_exist(row):
    pattern = re.sub(r"<\w+>", "*", row[0].strip("`"))
    assert list(ROOT.glob(pattern)), row[0]
    for file, test in re.findall(r"`(tests/\w+/test_\w+\.py)::(test_\w+)`", row[2]):
        assert test in [node.name for node in functions(ROOT / file)], f"{file}::{test}"


def test_the_rules_of_a_chapter_are_those_that_are_tested():
    tested = functions(ROOT / "tests/book/test_chapters.py")
    of_each = asked_with("tests/book/test_chapters.py", "chapters")
    listed = {row[1].strip("`") for row in RULES}
    assert of_each <= listed <= {node.name for node in tested}, of_each ^ listed


# A setting and its formula


def test_a_setting_and_its_formula_need_the_files_of_their_tables_and_no_other(tmp_path):
    """The worked example, put into a copy: the formula is evaluated and mutated, the setting matters and is refused."""
    diff = ROOT / "tests/examples/huber.diff"
    rows = [row for name in ("setting", "formula") for row in ROWS[f"To add a {name}"] if row in FILES]
    listed = {row[0].strip("`") for row in rows}
    changed = re.findall(r"^\+\+\+ b/(\S+)", diff.read_text("utf8"), re.M)
    assert {re.sub(r"/(test_)?(ppo|objectives)\.py", r"/\1<name>.py", file) for file in changed} == listed
    for name in ("minerva_lite", "tests", "book"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("_static", "*.ipynb"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    subprocess.run(["git", "apply", str(diff)], cwd=tmp_path, check=True)
    named = {row[2].strip("`") for row in rows if "::" in row[2]}
    files = sorted({test.partition("::")[0] for test in named} | {f for f in changed if "/test_" in f})
    tests = ["-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-k", "huber or every_setting_stands", *files]
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{tmp_path / 'book'}"}
    done = subprocess.run([sys.executable, *tests], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert set(re.findall(r"^PASSED (\S+::test_\w+)", done.stdout, re.M)) >= named


# Agents


def test_every_agent_is_registered():
    """A class in a room of agents that has a name of its own is in `AGENTS` under that name."""
    files = [module for room in (agents, language) for module in iter_modules(room.__path__, f"{room.__name__}.")]
    found = {each for file in files for each in vars(import_module(file.name)).values() if isinstance(each, type)}
    named = {each.name: each for each in found if issubclass(each, Agent) and "name" in vars(each)}
    assert {name: agent for name, (agent, _) in AGENTS.items()} == named


@pytest.mark.parametrize("name", list(AGENTS))
def test_every_agent_has_tests_of_its_own(name):
    assert (ROOT / f"tests/{'language' if name == 'sequence' else 'agents'}/test_{name}.py").exists()


def run_tests(register: str, only: str, *folders: str) -> set[str]:
    """The tests with this name that passed in a process that registers something first; none may fail."""
    options = ["-q", "-rA", "--tb=short", "-p", "no:cacheprovider", "-m", "not slow and not gpu", "-k", only, *folders]
    program = f"import sys, pytest\n{register}\nsys.exit(pytest.main({options}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return set(re.findall(r"^PASSED \S+::(test_\w+)", done.stdout, re.M))


def asked_with(file: str, decorator: str) -> set[str]:
    """The tests of a file that have this decorator."""
    return {node.name for node in functions(ROOT / file) if decorator in [ast.unparse(d) for d in node.decorator_list]}


REGISTER_AGENT = """
from minerva_lite.agents import AGENTS
from minerva_lite.training.presets import PRESETS
from tests.examples import awr
AGENTS["example_awr"], PRESETS["example_awr", "CartPole-v1"] = (awr.AWRAgent, awr.AWRConfig), awr.PRESET
"""


@pytest.mark.slow
def test_the_tests_of_agents_hold_for_a_new_one():
    """Registered as the table says, it is asked everything that all on-policy agents are asked, and passes."""
    passed = run_tests(REGISTER_AGENT, "awr and not solves", "tests/agents", "tests/training")  # it solves below
    asked = asked_with("tests/agents/test_on_policy.py", "pytest.mark.parametrize('name', NAMES)")
    asked -= asked_with("tests/agents/test_on_policy.py", "pytest.mark.gpu")
    assert len(asked) >= 7 and asked <= passed, asked - passed
    assert {"test_a_run_that_died_twice_ends_as_if_it_had_not", "test_each_preset_fits_its_environment"} <= passed


def test_the_formulas_of_a_new_agent_are_checked(registries):
    """Its markers are true, and each of their mutants is caught, with one table and two cases."""
    AGENTS["example_awr"] = awr.AWRAgent, awr.AWRConfig
    key = "examples.awr.AWRAgent.loss"
    markers = find_markers(Path(awr.__file__))
    function = Function(key, awr, markers, TABLES | {key: awr.TABLE}, CASES | {key: awr.cases})
    report = check_function(function)
    assert report.problems == [] and len(report.evaluated) == len(markers) == 3
    tally = try_mutants(function, mutants_of(function))
    assert tally.generated >= 20 and tally.survivors == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 4))])
def test_a_new_agent_solves_cartpole(registries, seed):
    AGENTS["example_awr"], PRESETS["example_awr", "CartPole-v1"] = (awr.AWRAgent, awr.AWRConfig), awr.PRESET
    settings = preset("example_awr", "CartPole-v1")
    agent, env, _ = make_agent("example_awr", "CartPole-v1", seed=seed, **vars(settings.config))
    train(agent, env, settings.total_steps, eval_every=settings.total_steps, eval_episodes=1, progress=False)
    assert evaluate(agent, episodes=100)["eval/mean"] >= 475.0


# Environments

NEW = "MountainCarContinuous-v0"
REGISTER_ENVIRONMENT = f"""
from minerva_lite.worlds.envs import TORCH_ENVS
from tests.examples.mountain_car import LAWS, TorchMountainCar
from tests.laws import LAWS as known
TORCH_ENVS[{NEW!r}], known[{NEW!r}] = TorchMountainCar, LAWS
"""


@pytest.mark.slow
def test_the_tests_of_environments_hold_for_a_new_one():
    """Registered as the table says, in two places, it is asked everything the others are asked, and passes."""
    passed = run_tests(REGISTER_ENVIRONMENT, f"{NEW.split('-')[0]} or has_its_laws", "tests/worlds")
    asked = asked_with("tests/worlds/test_envs.py", "torch_envs")
    assert len(asked) >= 6 and asked <= passed, asked - passed


def test_a_new_environment_is_trained_on(registries):
    TORCH_ENVS[NEW] = mountain_car.TorchMountainCar
    agent, env, obs = small_agent("ppo", NEW)
    assert type(env) is mountain_car.TorchMountainCar, "the twin, not Gymnasium's"
    before = learned(agent)
    live(agent, env, obs, 4)
    assert all(not torch.equal(a, b) for a, b in zip(before, learned(agent), strict=True))
    assert -999.0 <= evaluate(agent, episodes=1)["eval/mean"] <= 100.0


# Chapters


def test_every_chapter_stands_in_the_table_of_contents():
    listed = re.findall(r"file: (book/\S+)", (ROOT / "_toc.yml").read_text("utf8"))
    first = sorted(CHAPTERS, key=lambda path: path.stem[0].isdigit())  # the appendix is read before Chapter 1
    written = [f"book/{path.stem}" for path in first]
    assert [name for name in listed if (ROOT / f"{name}.ipynb").exists()] == written
