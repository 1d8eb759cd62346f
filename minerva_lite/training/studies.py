"""Many runs side by side, on this machine or on a Ray cluster, written as one tidy table."""

from __future__ import annotations

import csv
import itertools
import os
import platform
import shlex
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import gymnasium
import torch
from tqdm.auto import tqdm

from ..agents import AGENTS
from ..checks import require_count, require_one_of, require_seed
from ..files import as_csv, write_text
from ..worlds.envs import BACKENDS, make_env
from ..worlds.seeding import SEEDING
from .checkpoints import claim, stamp
from .defaults import episode_limit, settings_for
from .evaluation import evaluate
from .fingerprint import fingerprint
from .loop import require_learning, train
from .variants import ABLATIONS, varied
from .workers import outcomes, workers

COLUMNS = ["algorithm", "env_id", "variant", "seed", "steps", "seconds", "episodes", "mean", "std", "min", "max"]
COLUMNS += ["fingerprint"]  # of what decides the numbers; older files have none
SEEDING_LINE = f"# seeding: {SEEDING}"  # files of the former seeding have none
VERSIONS = f"python {platform.python_version()}, torch {torch.__version__}, gymnasium {gymnasium.__version__}"
FAILED = "# failed: "  # begins the line of a run that raised
Name = tuple[str, ...]  # of a run: its first four columns


@dataclass(frozen=True)
class Task:
    """One run of a study: its name in the table, and what else a worker needs to do it."""

    algorithm: str
    env_id: str
    variant: str
    seed: int
    agent_class: type
    config: Any
    total_steps: int
    eval_every: int | None = None
    eval_episodes: int = 10
    backend: str = "auto"

    @property
    def name(self) -> Name:
        return self.algorithm, self.env_id, self.variant, str(self.seed)


def run(task: Task) -> list[dict[str, Any]]:
    """Train one seed: a row per evaluation, the last over 100 episodes."""
    torch.set_num_threads(1)  # one process per core is faster than one process on all cores
    try:
        env = make_env(task.env_id, task.config.num_envs, seed=task.seed, backend=task.backend)
    except ValueError as error:
        if ":" in task.env_id or task.env_id in gymnasium.registry:
            raise
        raise ValueError(
            f"{error}; what a script or a notebook registers is unknown to the workers of a study: put it into a "
            "module and name it <module>:<id>, which they import"
        ) from error
    agent = task.agent_class(task.config, env.spec, seed=task.seed, device="cpu")
    often = {"eval_every": task.eval_every, "eval_episodes": task.eval_episodes}
    history = train(agent, env, task.total_steps, progress=False, **often)
    last, final = history.updates[-1], evaluate(agent, episodes=100, max_steps=episode_limit(task.env_id))
    rows = [(row, task.eval_episodes) for row in history.evaluations]
    rows.append(({"steps": last["steps"], "seconds": last["seconds"]} | final, 100))
    mark = fingerprint(task.agent_class, task.config, task.env_id, task.backend)
    return [
        dict(zip(COLUMNS, task.name, strict=False))
        | {"steps": int(row["steps"]), "seconds": round(row["seconds"], 3), "episodes": episodes}
        | {name: round(row[f"eval/{name}"], 3) for name in ("mean", "std", "min", "max")}
        | {"fingerprint": mark}
        for row, episodes in rows
    ]


def study(
    algorithms: str | Iterable[str],
    env_ids: Iterable[str],
    seeds: Iterable[int],
    variants: Mapping[str, Mapping[str, Any]] | Iterable[str] | None,
    path: str | Path,
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    total_steps: int | None = None,
    eval_every: int | None = None,
    eval_episodes: int = 10,
    backend: str = "auto",
    jobs: int = 2,
    address: str | None = None,
    progress: bool = True,
    command: str | None = None,
) -> None:
    """Run every algorithm on every environment in every variant with every seed; the rows go to the CSV file `path`.

    variants: a mapping from a name to the settings that it changes in the preset (a function makes the new setting of
    the preset's own); or names from `ABLATIONS`, which every algorithm must have; or None, for all names that
    `ABLATIONS` has for the algorithm. settings: more changes by name, each combined with each variant.
    total_steps: of each run, instead of those of its preset (without a preset `settings_for` tells what is taken).
    eval_every, eval_episodes: of the evaluations while it trains, as in `train`. backend: as in `make_env`.
    jobs: how many runs at a time, each in its own process with one thread. address: the Ray cluster that does the runs
    (`local` starts one here); its machines need this package. command: what the file's first line names; unless named
    this command line.
    A run's rows are written when it ends; until the last has, no other process gets the file. The same call on the same
    file keeps the runs that the file holds, even if presets have changed since, and does the missing ones. A run that
    raises, or kills its process, leaves a line that `read_failures` returns; then `study` ends with a warning, and the
    next call tries the run again.
    Raises ValueError, before anything is written: nothing to run, an unknown algorithm, variant, setting or back end, a
    preset that does not take the changes, a setting that both a variant and `settings` change, steps that are no whole
    number or too few, fewer than one job, a file that holds anything but runs of this study by the same versions or
    that another process writes, or no cluster at `address`. ImportError: Ray is missing.
    """
    require_count(jobs=jobs, eval_episodes=eval_episodes)
    counts = {"total_steps": total_steps, "eval_every": eval_every}
    require_count(**{name: count for name, count in counts.items() if count is not None})
    require_one_of(BACKENDS, backend=backend)
    if eval_episodes == 100:
        raise ValueError("eval_episodes: wanted another number than that of a final evaluation, 100; got 100")
    often = {"eval_every": eval_every, "eval_episodes": eval_episodes, "backend": backend}
    tasks = _tasks(algorithms, env_ids, seeds, variants, settings or {"": {}}, total_steps, often)
    with claim("path", path):
        table = _Table(Path(path), list(tasks), command or f"python -m minerva_lite {shlex.join(sys.argv[1:])}")
        if total_steps is not None:
            table.require_steps(tasks)
        left = {name: task for name, task in tasks.items() if name not in table.runs}
        if left:
            shown = {"total": len(tasks), "initial": len(tasks) - len(left), "unit": "run", "disable": not progress}
            with workers(jobs, address) as pool, tqdm(**shown) as bar:
                table.write()
                for name, rows, error in outcomes(run, left, pool):
                    table.add(name, rows, error)
                    bar.update()
                    bar.set_postfix({"failed": len(table.failures)} if table.failures else {})
        table.write()
    if failed := len(table.failures):
        warnings.warn(f"{failed} of {len(tasks)} runs failed: see read_failures({str(path)!r})", stacklevel=2)


def read_study(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a study's CSV file, numbers as numbers. While the study runs: those of the runs that have ended."""
    rows = list(csv.DictReader(line for line in _whole_lines(Path(path)) if not line.startswith("#")))
    ended = {tuple(row.values())[:4] for row in rows if row["episodes"] == "100"}
    text = {"algorithm", "env_id", "variant", "fingerprint"}
    return [
        {k: v if k in text else float(v) for k, v in row.items()} for row in rows if tuple(row.values())[:4] in ended
    ]


def read_failures(path: str | Path) -> list[str]:
    """The runs that failed, each as `algorithm environment variant seed: error`."""
    return [line.removeprefix(FAILED) for line in _whole_lines(Path(path)) if line.startswith(FAILED)]


def _tasks(
    algorithms: str | Iterable[str],
    env_ids: Iterable[str],
    seeds: Iterable[int],
    variants: Mapping[str, Mapping[str, Any]] | Iterable[str] | None,
    settings: Mapping[str, Mapping[str, Any]],
    total_steps: int | None,
    often: dict[str, Any],
) -> dict[Name, Task]:
    """All runs of a study by name, in the order of the table."""
    algorithms = [algorithms] if isinstance(algorithms, str) else algorithms
    env_ids = list(env_ids)
    seeds = [require_seed(**{f"seeds[{i}]": seed}) for i, seed in enumerate(seeds)]
    names = None if variants is None else list(variants)
    tasks = []
    for algorithm in algorithms:
        require_one_of(tuple(AGENTS), algorithm=algorithm)
        known = variants if isinstance(variants, Mapping) else ABLATIONS.get(algorithm, {"preset": {}})
        chosen = list(known) if names is None else names
        require_one_of(tuple(known), **{f"variants[{i}]": name for i, name in enumerate(chosen)})
        for env_id in env_ids:
            usual = settings_for(algorithm, env_id, backend=often["backend"])
            for variant, (name, more) in itertools.product(chosen, settings.items()):
                config = _config(usual.config, variant, known[variant], more)
                if total_steps is not None:
                    require_learning(config, total_steps)
                work = AGENTS[algorithm][0], config, total_steps or max(usual.total_steps, config.batch_size)
                called = f"{variant}, {name}" if name and variant != "preset" else name or variant
                tasks += [Task(algorithm, env_id, called, seed, *work, **often) for seed in seeds]
    if not tasks:
        raise ValueError("seeds: wanted at least one algorithm, environment, variant and seed; got none of one of them")
    return {task.name: task for task in tasks}


def _config(usual: Any, variant: str, changes: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
    """The preset's configuration with the changes of a variant and others, which must be other ones."""
    if not variant.isprintable():  # a line break would end the comment that names a failed run
        raise ValueError(f"variants: wanted names of printable characters; got {variant!r}")
    known = tuple(field.name for field in fields(usual))
    for name in more:
        require_one_of(known, settings=name)
    for name in changes:
        require_one_of(known, **{f"variants[{variant!r}]": name})
        if name in more:
            raise ValueError(f"{name}: wanted a setting that the variant {variant!r} leaves alone; got {more[name]!r}")
    return varied(usual, {**more, **changes})


class _Table:
    """The file of a study, and the rows of each run in it."""

    def __init__(self, path: Path, names: list[Name], command: str):
        self.path, self.names = path, names
        self.runs: dict[Name, str] = {}  # the rows of each run that ended, as they stand in the file
        self.failures: dict[Name, str] = {}
        self.command = f"# command: {command}"
        self.stamp = stamp(path)
        if self.stamp:
            self._read()

    def _read(self) -> None:
        """Read what an earlier call wrote. A run without its last row was killed; its rows are dropped."""
        lines, file = _whole_lines(self.path), self.path.name
        marks = "# command: ", "# versions: ", ",".join(COLUMNS)
        former = lines[2:3] != [SEEDING_LINE]
        lines = lines if former else lines[:2] + lines[3:]
        if [line[: len(mark)] for line, mark in zip(lines, marks, strict=False)] != [*marks] or lines[2] != marks[2]:
            raise ValueError(f"path: wanted a study, or a new file; {file} holds something else: name another file")
        if former:
            raise ValueError(
                f"path: wanted a study with {SEEDING_LINE[2:]!r}; {file} is of the former seeding, in which streams of "
                "random numbers were shared: name another file"
            )
        if lines[1] != f"# versions: {VERSIONS}":
            raise ValueError(
                f"path: wanted a study by versions: {VERSIONS}; {file} has {lines[1][2:]}: name another file, "
                "or remove it"
            )
        rows: dict[Name, list[list[str]]] = {}
        for row in csv.reader(line for line in lines[3:] if not line.startswith("#")):
            if len(row) != len(COLUMNS):
                raise ValueError(f"path: wanted {len(COLUMNS)} columns; {file} has a row {row}: name another file")
            rows.setdefault(tuple(row[:4]), []).append(row)
        self.runs = {name: as_csv(rows[name]) for name in rows if any(row[6] == "100" for row in rows[name])}
        if others := [name for name in self.runs if name not in self.names]:
            raise ValueError(
                f"path: wanted runs of this study alone; {file} also holds {' '.join(others[0])}: ask for it too, or "
                "name another file"
            )
        if len(self.runs) == len(self.names):  # this call adds nothing
            self.command = lines[0]
        for line in [line for line in lines if line.startswith(FAILED)]:
            for name in self.names:
                if name not in self.runs and line.startswith(f"{FAILED}{' '.join(name)}: "):
                    self.failures[name] = line + "\n"

    def require_steps(self, tasks: Mapping[Name, Task]) -> None:
        """Raise ValueError unless the runs in the file had the steps that are asked for, in whole rollouts."""
        for name, text in self.runs.items():
            steps, task = int(next(csv.reader(text.splitlines()[-1:]))[COLUMNS.index("steps")]), tasks[name]
            if not task.total_steps <= steps < task.total_steps + task.config.batch_size:
                raise ValueError(
                    f"total_steps: wanted those of the runs in {self.path.name}, {steps}; got {task.total_steps}: name "
                    "another file"
                )

    def add(self, name: Name, rows: list[dict[str, Any]] | None, error: str | None) -> None:
        """Add the rows of a run, or its error. When this returns, they are on the disk."""
        if rows is None:
            self.failures[name] = text = f"{FAILED}{' '.join(name)}: {error}\n"
        else:
            self.runs[name] = text = as_csv(row.values() for row in rows)
            self.failures.pop(name, None)
        alone = stamp(self.path) in (None, self.stamp)
        with self.path.open("a", newline="", encoding="utf8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if alone:
            self.stamp = stamp(self.path)

    def write(self) -> None:
        """Write the table, in order, to a second file that then replaces the first: a kill leaves one of the two.

        Raises OSError: somebody else has written the file.
        """
        if stamp(self.path) not in (None, self.stamp):
            raise OSError(f"path: wanted {self.path.name} as this study left it; what somebody else wrote stands")
        head = f"{self.command}\n# versions: {VERSIONS}\n{SEEDING_LINE}\n{as_csv([COLUMNS])}"
        rows = [texts[name] for texts in (self.runs, self.failures) for name in self.names if name in texts]
        write_text(self.path, head + "".join(rows))
        self.stamp = stamp(self.path)


def _whole_lines(path: Path) -> list[str]:
    """The lines of a text file, without a last line that a kill left incomplete."""
    return path.read_text("utf8", errors="replace").split("\n")[:-1]
