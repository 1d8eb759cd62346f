"""Studies and the command line, end to end on budgets of a few rollouts."""

import dataclasses
import itertools
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from minerva_lite import __main__
from minerva_lite.agents import AGENTS, PPOAgent, PPOConfig
from minerva_lite.training import studies, workers
from minerva_lite.training.defaults import settings_for
from minerva_lite.training.presets import PRESETS, Preset
from minerva_lite.training.variants import ABLATIONS, varied

TINY = Preset(PPOConfig(num_envs=4, rollout_steps=16, minibatch_size=32, epochs=1, hidden=(8,)), total_steps=640)
VARIANTS = {"preset": {}, "2 epochs": {"epochs": 2}}


@pytest.fixture
def tiny(monkeypatch):
    """Every preset is PPO's, cut to ten rollouts of 64 steps."""
    monkeypatch.setattr(studies, "settings_for", lambda algorithm, env_id, **how: TINY)


@pytest.fixture
def quick(monkeypatch):
    """Runs that train nothing. `seconds` tells two runs of one task apart; three variants fail, unless cured."""
    cured = set()

    def pretend(task):
        fate = None if task.variant in cured else task.variant
        if fate == "raises":
            raise RuntimeError("two\nlines, " + 300 * "long ")
        if fate == "exits":
            sys.exit("enough")
        if fate == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        row = dict(zip(studies.COLUMNS, task.name, strict=False))
        row |= {"steps": 64, "seconds": time.time_ns(), "episodes": 10, "mean": 1.5, "std": 0.0, "min": 1.5, "max": 1.5}
        row["fingerprint"] = "00000000-1"
        return [row, row | {"steps": 128, "episodes": 100}]

    monkeypatch.setattr(studies, "run", pretend)
    return cured


def study(path, algorithms="ppo", env_ids=("CartPole-v1",), seeds=range(2), variants=VARIANTS, **settings):
    studies.study(algorithms, env_ids, seeds, variants, path, **{"progress": False} | settings)


def lines(path) -> list[str]:
    """The rows of a table as they stand there."""
    return [line for line in path.read_text().split("\n")[:-1] if not line.startswith(("#", "algorithm,"))]


def finals(path) -> list[tuple]:
    rows = studies.read_study(path)
    return [(r["algorithm"], r["env_id"], r["variant"], r["seed"]) for r in rows if r["episodes"] == 100]


def test_a_study_has_a_row_an_evaluation_and_says_how_it_was_made(tiny, tmp_path):
    path = tmp_path / "study.csv"
    study(path)
    first, second, *_ = path.read_text().splitlines()
    assert first.startswith("# command: python -m minerva_lite ") and second.startswith("# versions: python 3")
    rows = studies.read_study(path)
    assert [row["steps"] for row in rows if row["episodes"] == 10] == 4 * [*range(64, 641, 64)]
    assert finals(path) == [("ppo", "CartPole-v1", variant, seed) for variant in VARIANTS for seed in (0.0, 1.0)]
    final = [row for row in rows if row["episodes"] == 100]
    assert all(r["steps"] == 640 and r["min"] <= r["mean"] <= r["max"] and r["seconds"] > 0 for r in final)
    assert len({r["mean"] for r in final}) == 4, "its seed and its variant decide a run"
    assert studies.read_failures(path) == []


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """The runs that a study would do, by their variants."""

    def of(**how):
        found = []
        monkeypatch.setattr(studies, "outcomes", lambda run, left, pool: found.extend(left.values()) or [])
        path = tmp_path / f"{time.time_ns()}.csv"
        study(path, **{"env_ids": ["Acrobot-v1"], "seeds": np.arange(1)} | how)
        return {task.variant: task for task in found}

    return of


def test_a_study_takes_what_is_changed_beside_its_variants(tasks):
    changes = {"total_steps": 5000, "eval_every": 7, "eval_episodes": 3, "backend": "gymnasium"}
    variants = {"settings": {"": {}, "gamma=0.9": {"gamma": 0.9}}, "variants": ["preset", "raw advantages"]}
    found, kept = tasks(**variants, **changes), settings_for("ppo", "Acrobot-v1").config
    assert {name: task.config for name, task in found.items()} == {
        "preset": kept,
        "gamma=0.9": dataclasses.replace(kept, gamma=0.9),
        "raw advantages": dataclasses.replace(kept, normalize_advantage=False),
        "raw advantages, gamma=0.9": dataclasses.replace(kept, normalize_advantage=False, gamma=0.9),
    }
    assert all({name: getattr(task, name) for name in changes} == changes for task in found.values())
    assert all(type(task.seed) is int for task in found.values()), "what Gymnasium takes, of what NumPy gives"
    assert {task.total_steps for task in tasks(variants=["preset"]).values()} == {512_000}


def test_a_function_among_the_settings_is_given_the_presets_own(tasks):
    kept = settings_for("ppo", "Acrobot-v1").config
    (task,) = tasks(variants={"rate x 3": {"learning_rate": lambda rate: 3 * rate, "epochs": 2}}).values()
    assert (task.config.learning_rate, task.config.epochs) == (3 * kept.learning_rate, 2)
    as_many = varied(PRESETS["ppo", "Pendulum-v1"].config, ABLATIONS["ppo"]["1 epoch, as many steps"])
    assert (as_many.epochs, math.ceil(as_many.batch_size / as_many.minibatch_size)) == (1, 40)


@pytest.mark.parametrize("steps", [64, 129])
def test_a_study_does_not_mix_runs_of_other_steps(steps, quick, tiny, tmp_path):
    """The two runs in the table end at 128 steps, which 65 to 128 are rounded up to."""
    study(tmp_path / "study.csv", total_steps=128)
    study(tmp_path / "study.csv", total_steps=65)
    with pytest.raises(ValueError, match=rf"total_steps: wanted those of the runs in study.csv, 128; got {steps}"):
        study(tmp_path / "study.csv", total_steps=steps)


def test_a_larger_study_keeps_finished_runs_unchanged_and_does_the_missing_ones(quick, tmp_path, monkeypatch):
    path = tmp_path / "study.csv"
    study(path, seeds=[1])
    before = lines(path)
    more = ["trpo", "ppo"], ["Pendulum-v1", "CartPole-v1"], [1, 0], {"2 epochs": {"lam": 0.9}, "preset": {}}
    study(path, *more)
    algorithms, env_ids, seeds, variants = more
    assert finals(path) == list(itertools.product(algorithms, env_ids, variants, seeds))
    assert len(before) == 4 and set(before) < set(lines(path)) and len(lines(path)) == 32
    done = path.read_bytes()
    monkeypatch.setattr(sys, "argv", ["program", "another", "command"])
    study(path, *more)
    assert path.read_bytes() == done and list(tmp_path.iterdir()) == [path]


# What a kill may leave of the last two rows, one run's.
TORN = {
    "in a row": lambda row, last: row + last[:-9],
    "before the line break": lambda row, last: row + last[:-2],
    "between the rows": lambda row, last: row,
    "in the first row": lambda row, last: row[:20],
}


@pytest.mark.parametrize("where", TORN)
def test_a_run_with_incomplete_rows_is_done_again(where, quick, tmp_path):
    path = tmp_path / "study.csv"
    study(path)
    *kept, row, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(kept) + TORN[where](row, last))
    assert len(finals(path)) == 3
    study(path)
    again = path.read_bytes().splitlines(keepends=True)
    assert again[:-2] == kept and again[-1] != last and len(finals(path)) == 4


@pytest.mark.parametrize("jobs", [1, 2])
def test_jobs_limits_how_many_processes_work_at_once(jobs):
    def nap(i):
        start = time.monotonic()
        time.sleep(0.2)
        return os.getpid(), start, time.monotonic()

    with workers.workers(jobs) as pool:
        naps = [result for _, result, _ in workers.outcomes(nap, dict.fromkeys(range(4), 0), pool)]
    assert len(naps) == 4 and os.getpid() not in {process for process, _, _ in naps}
    assert max(sum(begun <= start < end for _, begun, end in naps) for _, start, _ in naps) == jobs


def test_workers_know_an_agent_that_was_registered_here(tmp_path, monkeypatch):
    class Cautious(PPOAgent):
        name = "cautious"

        def update(self, rollout, *, progress=0.0):
            if self.config.epochs > 1:
                raise ValueError("one is enough")
            return super().update(rollout, progress=progress)

    monkeypatch.setitem(AGENTS, "cautious", (Cautious, PPOConfig))
    monkeypatch.setitem(PRESETS, ("cautious", "CartPole-v1"), TINY)
    path = tmp_path / "study.csv"
    with pytest.warns(UserWarning, match="1 of 2 runs failed"):
        study(path, "cautious", seeds=[0])
    assert finals(path) == [("cautious", "CartPole-v1", "preset", 0.0)]
    assert studies.read_failures(path) == ["cautious CartPole-v1 2 epochs 0: ValueError: one is enough"]


def test_bad_studies_are_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "study.csv"
    for wanted, bad in (
        (f"algorithm: wanted one of {', '.join(AGENTS)}; got 'dqn'", {"algorithms": ["ppo", "dqn"]}),
        ("jobs: wanted a whole number of at least 1; got 0", {"jobs": 0}),
        ("backend: wanted one of auto, torch, .*; got 'cloud'", {"backend": "cloud"}),
        ("eval_every: wanted a whole number of at least 1; got 0", {"eval_every": 0}),
        ("total_steps: wanted a whole number of at least 1; got 1000.5", {"total_steps": 1000.5}),
        (r"total_steps: wanted at least one rollout, \d+ \* \d+ = 2048; got 9", {"total_steps": 9}),
        ("eval_episodes: wanted another number than that of a final evaluation, 100; got 100", {"eval_episodes": 100}),
        ("epochs: wanted a setting that the variant '2 epochs' leaves alone", {"settings": {"x": {"epochs": 3}}}),
        ("settings: wanted one of .*num_envs, .*; got 'epoch'", {"settings": {"x": {"epoch": 2}}}),
        ("env_id: wanted a registered Gymnasium id; got 'Walker-v0'", {"env_ids": ["Walker-v0"]}),
        (r"variants\[1\]: wanted one of preset, ", {"variants": ["preset", "magic"]}),
        (r"variants\['x'\]: wanted one of .*num_envs, .*; got 'epoch'", {"variants": {"x": {"epoch": 2}}}),
        ("epochs: wanted a whole number of at least 1; got 0", {"variants": {"x": {"epochs": 0}}}),
        (r"variants: wanted names of printable characters; got 'a\\nb'", {"variants": {"a\nb": {}}}),
        (r"seeds\[1\]: wanted a whole number from 0 to 2\*\*63 - 1; got -1", {"seeds": [0, -1]}),
        ("seeds: wanted at least one algorithm, environment, variant and seed", {"seeds": []}),
    ):
        with pytest.raises(ValueError, match=wanted):
            study(path, **bad)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_anything_else_is_refused_and_left_alone(quick, tmp_path):
    path = tmp_path / "study.csv"
    study(path)
    good = path.read_bytes()
    header = ",".join(studies.COLUMNS).encode()
    for wanted, bad in (
        ("study.csv holds something else: name another file", b""),
        ("study.csv holds something else: name another file", b"\xff\x00\n\x80"),
        ("study.csv holds something else: name another file", b"\n".join(good.split(b"\n")[1:])),
        ("study.csv holds something else: name another file", good.replace(header, header.replace(b"mean", b"median"))),
        ("study.csv holds something else: name another file", good.replace(header, header + b",length")),
        ("wanted a study with 'seeding: .*study.csv is of the former", good.replace(b"# seeding: streams\n", b"")),
        ("path: wanted 12 columns; study.csv has a row", good.replace(b",100,", b",100,1.0,", 1)),
        ("path: wanted a study by versions: python .*has versions: .*torch 0.1", good.replace(b"torch ", b"torch 0.1")),
        ("study.csv also holds ppo Acrobot-v1 preset 0: ask for it too", good.replace(b"CartPole", b"Acrobot")),
    ):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=wanted):
            study(path)
        assert path.read_bytes() == bad != good and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("raises", f"RuntimeError: two lines, {' '.join(300 * ['long'])}"),
        ("exits", "SystemExit: enough"),
        ("dies", "TerminatedWorkerError: A worker process"),
    ],
)
def test_a_run_that_fails_is_recorded_alone_and_tried_again(kind, error, quick, tmp_path):
    path = tmp_path / "study.csv"
    variants = {"preset": {}, kind: {}, "2 epochs": {}}
    with pytest.warns(UserWarning, match=r"1 of 3 runs failed: see read_failures\('.*study.csv'\)"):
        study(path, seeds=[0], variants=variants)
    assert [variant for _, _, variant, _ in finals(path)] == ["preset", "2 epochs"]
    [failure] = studies.read_failures(path)
    assert failure.startswith(f"ppo CartPole-v1 {kind} 0: {error}")
    before = lines(path)
    if kind == "raises":
        with pytest.warns(UserWarning, match="1 of 3 runs failed"):
            study(path, seeds=[0], variants=variants)
        assert lines(path) == before and studies.read_failures(path) == [failure]
    quick.add(kind)
    study(path, seeds=[0], variants=variants)
    assert [variant for _, _, variant, _ in finals(path)] == [*variants]
    assert lines(path)[:2] + lines(path)[4:] == before and studies.read_failures(path) == []


def test_a_table_that_cannot_be_written_stays_as_it_was(quick, tmp_path, monkeypatch):
    path = tmp_path / "study.csv"
    study(path)
    path.write_bytes(before := path.read_bytes()[:-9])

    def full(file):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        study(path)
    assert path.read_bytes() == before


def test_without_joblib_the_message_says_what_to_install(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(ImportError, match=r"^studies need `pip install minerva_lite\[studies\]`"):
        study(tmp_path / "study.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow  # starts Ray
def test_an_address_without_a_cluster_is_refused_soon(tiny, tmp_path, monkeypatch):
    path = tmp_path / "study.csv"
    with pytest.raises(ValueError, match="address: wanted local, auto or the host:port of a Ray cluster; got 'there'"):
        study(path, address="there")
    monkeypatch.setattr(workers, "CONNECT_SECONDS", 4)
    with pytest.raises(ValueError, match=r"got '127.0.0.1:1' \(no answer in 4 s\)"):
        study(path, address="127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"address: Ray needs `pip install minerva_lite\[ray\]`"):
        study(path, address="local")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ray_does_the_same_runs(tiny, tmp_path):
    ray = pytest.importorskip("ray")
    here, there = tmp_path / "here.csv", tmp_path / "there.csv"
    study(here, seeds=[1])
    study(there, seeds=[1], address="local")
    ours, theirs = ([row | {"seconds": 0} for row in studies.read_study(path)] for path in (here, there))
    assert ours == theirs != []
    assert not ray.is_initialized()


def test_the_study_command(quick, tmp_path, monkeypatch, minerva):
    path, words = tmp_path / "study.csv", "--env CartPole-v1 --out study.csv --seeds 2 --first-seed 3"
    assert minerva(f"study ppo a2c {words}") is None
    assert finals(path) == [(name, "CartPole-v1", "preset", seed) for name in ("ppo", "a2c") for seed in (3.0, 4.0)]
    assert minerva("study a2c vmpo --ablations --seeds 1 --env CartPole-v1 --out 2.csv") is None
    assert minerva(f"study ppo {words} --variants magic").startswith("--variants[0]: wanted one of preset")
    variants = [variant for _, _, variant, _ in finals(tmp_path / "2.csv")]
    assert variants == [*ABLATIONS["a2c"], *ABLATIONS["vmpo"]] and len(ABLATIONS["a2c"]) > 2
    monkeypatch.setitem(ABLATIONS["ppo"], "raises", {})
    path.unlink()
    with pytest.warns(UserWarning, match="2 of 4 runs failed"):
        first, *failures = minerva(f"study ppo {words} --variants preset raises").split("\n")
    assert first == "failed; the same command tries again:" and failures == studies.read_failures(path)
    assert [failure.split(":")[0] for failure in failures] == ["ppo CartPole-v1 raises 3", "ppo CartPole-v1 raises 4"]

    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "study", interrupted)
    assert minerva(f"study ppo {words}") == "stopped; the same command goes on from study.csv"


def test_the_command_line_trains_saves_and_evaluates(minerva, capsys):
    """Trained in a process of its own, evaluated in this one."""
    command = shlex.split(f"{sys.executable} -m minerva_lite train ppo --env CartPole-v1 --steps 2048 --out agent.pt")
    trained = subprocess.run(command, capture_output=True, text=True)
    assert trained.returncode == 0, trained.stderr[-1000:]
    assert minerva("evaluate agent.pt") is None
    assert json.loads(capsys.readouterr().out) == json.loads(trained.stdout.splitlines()[-1])
