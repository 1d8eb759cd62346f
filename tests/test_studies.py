"""Studies and the command line, end to end on budgets of a few rollouts."""

import dataclasses
import json
import subprocess
import sys

import pytest

from minerva_lite import studies
from minerva_lite.presets import preset


@pytest.fixture
def short(monkeypatch):
    """Presets cut to two rollouts."""

    def cut(algorithm, env_id):
        kept = preset(algorithm, env_id)
        return dataclasses.replace(kept, total_steps=2 * kept.config.batch_size)

    monkeypatch.setattr(studies, "preset", cut)


def test_a_study_has_a_row_an_evaluation_and_says_how_it_was_made(short, tmp_path):
    path = tmp_path / "study.csv"
    variants = {"preset": {}, "1 epoch": {"epochs": 1}}
    studies.study("ppo", ["CartPole-v1"], range(3, 5), variants, path, jobs=1)
    first, second, *_ = path.read_text().splitlines()
    assert first.startswith("# command: python -m minerva_lite ") and second.startswith("# versions: python 3")
    rows = studies.read_study(path)
    final = [row for row in rows if row["episodes"] == 100]
    assert [(r["variant"], r["seed"]) for r in final] == [(v, s) for v in variants for s in (3.0, 4.0)]
    assert all(r["steps"] == 4096 and r["min"] <= r["mean"] <= r["max"] and r["seconds"] > 0 for r in final)
    assert len({r["mean"] for r in final}) > 1


def test_a_run_is_decided_by_its_seed_and_its_variant(short):
    def final(seed, **changes):
        return studies.run("ppo", "CartPole-v1", "", changes, seed)[-1]["mean"]

    assert final(0) == final(0) != final(0, epochs=1)


def test_bad_studies_are_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "study.csv"
    with pytest.raises(ValueError, match="algorithm: wanted one of reinforce, a2c, trpo, ppo, mpo, vmpo; got 'dqn'"):
        studies.study("dqn", ["CartPole-v1"], [0], {"preset": {}}, path)
    with pytest.raises(ValueError, match="jobs: wanted a whole number of at least 1; got 0"):
        studies.study("ppo", ["CartPole-v1"], [0], {"preset": {}}, path, jobs=0)
    with pytest.raises(ValueError, match="preset: wanted one of"):
        studies.study("ppo", ["Walker-v0"], [0], {"preset": {}}, path)
    assert not path.exists()


def command(*words, **options):
    return subprocess.run([sys.executable, "-m", "minerva_lite", *words], capture_output=True, text=True, **options)


def test_the_command_line_trains_saves_and_evaluates(tmp_path):
    path = str(tmp_path / "agent.pt")
    trained = command("train", "ppo", "--env", "CartPole-v1", "--steps", "2048", "--device", "cpu", "--out", path)
    assert trained.returncode == 0, trained.stderr[-1000:]
    again = command("evaluate", path)
    assert json.loads(again.stdout) == json.loads(trained.stdout.splitlines()[-1])
    # The same command finds a file: it does not write over it, and goes on where it may.
    short = ("train", "ppo", "--env", "CartPole-v1", "--device", "cpu", "--steps", "2048", "--out", path)
    stopped = command(*short)
    assert stopped.returncode == 1 and "agent.pt exists; wanted resume=True" in stopped.stderr
    resumed = command(*short, "--resume", "--history", str(tmp_path / "figures.csv"))
    assert json.loads(resumed.stdout.splitlines()[-1]) == json.loads(again.stdout)
    assert (tmp_path / "figures.csv").read_text().startswith("steps,seconds,name,value\n2048,")
    refused = command("study", "ppo", "--env", "CartPole-v1", "--variants", "magic", "--out", str(tmp_path / "x.csv"))
    assert refused.returncode == 1 and "variants[0]: wanted one of preset" in refused.stderr
