"""The package declares what it imports, a version is pinned in one place, and the lower bounds work."""

import ast
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]
CORE = [Requirement(line) for line in PROJECT["dependencies"]]
EXTRAS = {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}
LINES = [line for line in (ROOT / "requirements.txt").read_text("utf8").splitlines() if line and line[0] != "#"]
PINS = {canonicalize_name(line.split("==")[0]): Requirement(line).specifier for line in LINES}

EVERY_MODULE = """
import importlib, pathlib, pkgutil, minerva_lite
assert pathlib.Path(minerva_lite.__file__).with_name("py.typed").is_file()
for module in pkgutil.walk_packages(minerva_lite.__path__, "minerva_lite."):
    importlib.import_module(module.name)
minerva_lite.figures.explore_decoupled_kl()
"""
TRAIN, STUDY = "train ppo --episodes 1 --steps 4096 --env", "study ppo --env CartPole-v1 --seeds 1 --steps 2048 --out"
TRIALS = {  # what an extra is for
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
    f"{TRAIN} CartPole-v1 --backend parallel", f"{STUDY} study.csv",
]  # fmt: skip


def names(requirements: list[Requirement]) -> set[str]:
    return {canonicalize_name(each.name) for each in requirements}


def imports() -> tuple[set[str], set[str]]:
    """The distributions that the package's files import at once, and those that its functions import."""
    at_once, later, owners = set(), set(), packages_distributions()
    for path in (ROOT / "minerva_lite").rglob("*.py"):
        tree = ast.parse(path.read_text("utf8"))
        for node in ast.walk(tree):
            whole = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            whole += [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            modules = {name.split(".")[0] for name in whole} - sys.stdlib_module_names - {"minerva_lite"}
            found = {canonicalize_name(owners.get(module, [module])[0]) for module in modules}
            (at_once if node in tree.body else later).update(found)
    return at_once, later


def test_what_is_imported_is_declared_and_no_other_dependency():
    at_once, later = imports()
    assert at_once == names(CORE)
    assert later <= names(CORE).union(*map(names, EXTRAS.values()))


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
    (tmp_path / "pip").write_text('#!/bin/sh\necho "$@"\ncat .versions\n')
    (tmp_path / "pip").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    command = ["sh", ROOT / ".binder" / "postBuild"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=True)
    asked, *versions = done.stdout.splitlines()
    assert [line for line in versions if line in LINES] == [line for line in LINES if not line.startswith("torch==")]
    assert asked.startswith("install --constraint .versions --editable . ") and set(asked.split()[5:]) <= set(PINS)


@pytest.mark.slow
def test_the_lowest_versions_work(tmp_path):
    """The wheel with its lowest dependencies, then with the lowest of all extras, in an environment of its own."""
    assert {*EXTRAS} == {*TRIALS, "homework", "dev"}
    source = shutil.copytree(ROOT / "minerva_lite", tmp_path / "source" / "minerva_lite").parent
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    python = tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    bounds = {f"{each.name}=={bound.version}" for each in sum(EXTRAS.values(), [*CORE]) for bound in each.specifier
              if bound.operator == ">=" and each not in EXTRAS["dev"]}  # fmt: skip
    (tmp_path / "lowest.txt").write_text("\n".join(sorted(bounds)))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "WANDB_MODE": "offline"}

    def run(*words: object) -> None:
        done = subprocess.run([*map(str, words)], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout[-500:]}{done.stderr[-3000:]}"

    run(sys.executable, "-m", "venv", "venv")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", ".", source)
    (wheel,) = tmp_path.glob("*.whl")
    for extras, trials in (("", CORE_TRIALS), (f"[{','.join(sorted({*EXTRAS} - {'dev'}))}]", sum(TRIALS.values(), []))):
        run(python, "-m", "pip", "install", "-q", "-c", "lowest.txt", f"{wheel}{extras}")
        for trial in trials:
            run(python, "-m", "minerva_lite", *shlex.split(trial))
        run(python, "-c", EVERY_MODULE)
