"""The packages declare what they import, a version is pinned in one place, and the lower bounds work."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import partial
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from minerva_book.wheel import build_wheel
from minerva_lite.training.reached import reached, table_of_presets
from tests.chapters import record

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]
CORE = [Requirement(line) for line in PROJECT["dependencies"]]
EXTRAS = {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}
PACKAGES = {"minerva_lite": ROOT / "minerva_lite", "minerva_book": ROOT / "book" / "minerva_book"}
LINES = [line for line in (ROOT / "requirements.txt").read_text("utf8").splitlines() if line and line[0] != "#"]
PINS = {canonicalize_name(line.split("==")[0]): Requirement(line).specifier for line in LINES}

EVERY_MODULE = """
import importlib, pathlib, pkgutil, minerva_lite
assert pathlib.Path(minerva_lite.__file__).with_name("py.typed").is_file()
for module in pkgutil.walk_packages(minerva_lite.__path__, "minerva_lite."):
    importlib.import_module(module.name)
"""
EVERY_MODULE_OF_THE_BOOK = """
import importlib, pkgutil, minerva_book.figures
for module in pkgutil.walk_packages(minerva_book.__path__, "minerva_book."):
    importlib.import_module(module.name)
minerva_book.figures.explore_decoupled_kl()
"""
# A machine that has none of what only extras bring. A few updates, then the table of presets.
ALONE = """
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from minerva_lite import PPOAgent, make_env, preset, train

config = preset("ppo", "CartPole-v1").config
env = make_env("CartPole-v1", config.num_envs, seed=0)
agent = PPOAgent(config, env.spec, seed=0, device="cpu")
history = train(agent, env, 3 * config.num_envs * config.rollout_steps, progress=False)
assert len(history.updates) == 3
sys.argv = ["minerva_lite", "presets"]
runpy.run_module("minerva_lite", run_name="__main__")
"""
MISSING = {"matplotlib", "PIL", "ipywidgets", "nbformat", "joblib", "minerva_book"}
TRAIN, STUDY = "train ppo --episodes 1 --steps 4096 --env", "study ppo --env CartPole-v1 --seeds 1 --steps 2048 --out"
TRIALS = {  # what an extra is for
    "studies": [f"{STUDY} study.csv"],
    "mujoco": [f"{TRAIN} HalfCheetah-v5"],
    "dmc": [f"{TRAIN} dm_control/pendulum/swingup --out dmc.pt", "video dmc.pt --out dmc.mp4"],
    "envpool": [f"{TRAIN} CartPole-v1 --backend envpool"],
    "box2d": [f"{TRAIN} LunarLander-v3"],
    "video": ["video ppo.pt --out ppo.gif"],
    "ray": [f"{STUDY} ray.csv --address local"],
    "tracking": [f"{TRAIN} CartPole-v1 --tensorboard runs --wandb trial"],
}
CORE_TRIALS = [
    f"{TRAIN} CartPole-v1 --out ppo.pt", f"{TRAIN} CartPole-v1 --out ppo.pt --resume", "evaluate ppo.pt --episodes 2",
    f"{TRAIN} CartPole-v1 --backend parallel",
]  # fmt: skip


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(each.name) for each in requirements}


def imports(package: str) -> tuple[set[str], set[str]]:
    """The distributions that a package's files import at once, and those that its functions import."""
    at_once, later, owners = set(), set(), packages_distributions()
    for path in PACKAGES[package].rglob("*.py"):
        tree = ast.parse(path.read_text("utf8"))
        for node in ast.walk(tree):
            whole = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            whole += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            modules = {name.split(".")[0] for name in whole} - sys.stdlib_module_names - {*PACKAGES}
            found = {canonicalize_name(owners.get(module, [module])[0]) for module in modules}
            (at_once if node in tree.body else later).update(found)
    return at_once, later


def test_what_is_imported_is_declared_and_no_other_dependency():
    every = names(CORE).union(*map(names, EXTRAS.values()))
    at_once, later = imports("minerva_lite")
    assert at_once == names(CORE)
    assert later <= every
    at_once, later = imports("minerva_book")
    cells = "\n".join(cell["source"] for path in (ROOT / "book").glob("*.ipynb") for cell in record.cells_of(path))
    chapters = names(EXTRAS["book"]) & {*re.findall(r"^(?:import|from) (\w+)", cells, re.M)}
    assert at_once <= names([*CORE, *EXTRAS["book"]]) and names(EXTRAS["book"]) <= at_once | later | chapters <= every


def test_the_package_alone_trains_and_tells_its_presets():
    program = ALONE.format(missing=MISSING)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == table_of_presets() + "\n"


def wheel_of(folder: Path) -> Path:
    build_wheel(folder)
    [wheel] = folder.glob("*.whl")
    return wheel


def test_the_wheel_holds_the_two_packages_and_what_chapters_read(tmp_path):
    wheel = wheel_of(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    ours = {f"{name}/{path.relative_to(place)}" for name, place in PACKAGES.items() for path in place.rglob("*.py")}
    recorded = {f"minerva_book/recorded/{name}" for name in named_by_chapters()}
    assert held == ours | {"minerva_lite/py.typed", "minerva_lite/training/reached.csv"} | recorded
    opened = {name for notebook in record.read().values() for name in notebook["files"]}
    read = {name.replace("book/results/", "minerva_book/recorded/") for name in opened if "/results/" in name}
    assert read and read <= recorded and wheel.stat().st_size < 4_000_000


def named_by_chapters() -> set[str]:
    """The recorded files that a call of `recording` may mean: what stands in braces is any name, but of no folder."""
    cells = [cell["source"] for path in (ROOT / "book").glob("*.ipynb") for cell in record.cells_of(path)]
    calls = re.findall(r'\brecording\((?:f?"([^"]+)"\))?', "\n".join(cells))
    assert calls and all(calls), "the name stands in the call"
    results = ROOT / "book" / "results"
    found = {call: [*results.glob(re.sub(r"\{.*?\}", "*", call))] for call in calls}
    assert all(found.values())
    return {path.relative_to(results).as_posix() for paths in found.values() for path in paths}


@pytest.mark.parametrize("requirement", [*CORE, *sum(EXTRAS.values(), [])], ids=str)
def test_a_dependency_is_a_range_with_a_lower_bound_that_holds_the_pin(requirement):
    operators = {bound.operator for bound in requirement.specifier}
    assert operators in ({">="}, {">=", "<"}) or (requirement.extras and requirement.name in names(CORE))
    pin = PINS[canonicalize_name(requirement.name)]
    assert all(requirement.specifier.contains(bound.version) for bound in pin)


def test_binder_installs_the_versions_of_the_requirements(tmp_path):
    """All but torch, for conda brings one without CUDA: the script itself runs, with a pip that tells what it got."""
    assert "==" not in (ROOT / ".binder" / "environment.yml").read_text("utf8")
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    (tmp_path / "minerva_lite-1-py3-none-any.whl").touch()
    (tmp_path / "pip").write_text('#!/bin/sh\necho "$@"\ncat .versions\n')
    (tmp_path / "pip").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    command = ["sh", ROOT / ".binder" / "postBuild"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=True)
    asked, *versions = done.stdout.splitlines()
    assert [line for line in versions if line in LINES] == [line for line in LINES if not line.startswith("torch==")]
    assert asked.startswith("install --constraint .versions ./minerva_lite-1-py3-none-any.whl[book,studies] ")
    assert set(asked.split()[4:]) <= set(PINS)


def run_apart(folder: Path, *words: object) -> str:
    """What a command in a folder prints, without this environment's own settings of Python."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "WANDB_MODE": "offline"}
    done = subprocess.run([*map(str, words)], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stdout[-500:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
def test_the_lowest_versions_work(tmp_path):
    """The wheel with its lowest dependencies, then with the lowest of all extras, in an environment of its own.

    Without an extra no book is beside it, and it tells what its presets reached.
    """
    assert {*EXTRAS} == {*TRIALS, "book", "homework", "dev"}
    bounds = {f"{each.name}=={bound.version}" for each in sum(EXTRAS.values(), [*CORE]) for bound in each.specifier
              if bound.operator == ">=" and each not in EXTRAS["dev"]}  # fmt: skip
    (tmp_path / "lowest.txt").write_text("\n".join(sorted(bounds)))
    wheel, run = wheel_of(tmp_path), partial(run_apart, tmp_path)
    run(sys.executable, "-m", "venv", "venv")
    python = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    everything = ",".join(sorted({*EXTRAS} - {"dev"}))
    for extras, trials in (("", CORE_TRIALS), (f"[{everything}]", sum(TRIALS.values(), []))):
        run(python, "-m", "pip", "install", "-q", "-c", "lowest.txt", f"{wheel}{extras}")
        for trial in trials:
            run(python, "-m", "minerva_lite", *shlex.split(trial))
        run(python, "-c", EVERY_MODULE)
        if not extras:
            told = run(python, "-m", "minerva_lite", "presets")
            assert told == table_of_presets() + "\n" and all(each in told for each in reached().values()) and reached()
            there = json.loads(run(python, "-m", "pip", "list", "--format", "json"))
            assert not names(EXTRAS["book"] + EXTRAS["studies"]) & {canonicalize_name(each["name"]) for each in there}
    run(python, "-c", EVERY_MODULE_OF_THE_BOOK)
