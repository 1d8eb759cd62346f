"""Every agent from the command line, on a torch-native, a MuJoCo and a Control Suite task."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys

import pytest
import torch

from minerva_lite import load, preset
from minerva_lite.agents import AGENTS
from minerva_lite.training.presets import PRESETS

TASKS = ("Pendulum-v1", "HalfCheetah-v5", "dm_control/cheetah/run")


def command(*words):
    return subprocess.run([sys.executable, "-m", "minerva_lite", *words], capture_output=True, text=True)


# Every algorithm is tried, one of them added before the command line is imported; then one that does not exist.
NEWCOMER = """
import contextlib, io, json, sys
from minerva_lite.agents import AGENTS
AGENTS["newcomer"] = AGENTS["ppo"]
from minerva_lite.__main__ import main
said = {}
for algorithm in [*AGENTS, "dqn"]:
    sys.argv[1:] = [algorithm if word == "ALGORITHM" else word for word in WORDS]
    with contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            main()
        except SystemExit as end:
            said[algorithm] = f"{told.getvalue()} {end}"
print(json.dumps(said))
"""


@pytest.mark.parametrize("words", ["train ALGORITHM --env Nowhere-v0", "study ALGORITHM --env Nowhere-v0 --out x.csv"])
def test_the_algorithms_of_the_command_line_are_those_of_the_table(words):
    program = NEWCOMER.replace("WORDS", repr(words.split()))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"COLUMNS": "400"}
    )
    said = json.loads(done.stdout)
    for algorithm in [*AGENTS, "newcomer"]:
        assert "--env: wanted a registered Gymnasium id; got 'Nowhere-v0'" in said[algorithm], algorithm
    assert "'Nowhere-v0'" not in said["dqn"] and all(name in said["dqn"] for name in [*AGENTS, "newcomer"])


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "env_id"), [key for key in PRESETS if key[1] in TASKS])
def test_every_agent_trains_from_the_command_line(algorithm, env_id, tmp_path):
    config = preset(algorithm, env_id).config
    steps = getattr(config, "warmup_steps", 0) + 2 * config.batch_size
    asked = ["--env", env_id, "--steps", str(steps), "--eval-every", str(steps), "--episodes", "2", "--device", "cpu"]
    asked += ["--eval-episodes", "2"]
    files = ["--history", str(tmp_path / "history.csv"), "--out", str(tmp_path / "agent.pt")]
    done = command("train", algorithm, *asked, *files)
    assert done.returncode == 0, done.stderr[-2000:]
    assert math.isfinite(json.loads(done.stdout.splitlines()[-1])["eval/mean"])
    agent = load(tmp_path / "agent.pt", device="cpu")
    assert agent.name == algorithm and agent.spec.env_id == env_id
    fresh = AGENTS[algorithm][0](agent.config, agent.spec, seed=0, device="cpu")
    learned = zip(agent.policy.parameters(), fresh.policy.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in learned), "it learned"
    with (tmp_path / "history.csv").open(newline="") as file:
        names = {row["name"] for row in csv.DictReader(file)}
    assert {"eval/mean", "train/steps_per_second", "train/reward_mean"} <= names
