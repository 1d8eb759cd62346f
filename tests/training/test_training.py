"""The loop: what is refused before anything starts, what is counted, what is shown, and what is left alone."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import csv
import io
import json
import re
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from minerva_lite import History, __main__, make_env, train
from minerva_lite.training import loop
from minerva_lite.training.evaluation import EPISODES
from minerva_lite.worlds import TabularEnv
from minerva_lite.worlds.tabular import TabularMDP
from tests.runs import STEPS, new, run

SILENT = {"eval_episodes": 1, "progress": False}


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ({"total_steps": 0}, {}, r"^total_steps: wanted a whole number of at least 1; got 0"),
        ({"total_steps": 63}, {}, r"^total_steps: wanted at least one rollout, 16 \* 4 = 64; got 63"),
        ({"eval_every": 0}, {}, r"^eval_every: wanted a whole number of at least 1; got 0"),
        ({"eval_episodes": 0}, {}, r"^eval_episodes: .*; got 0"),
        ({}, {"num_envs": 3}, r"^env: wanted 4 of .*CartPole-v1.*; got 3 of"),
        ({}, {"spec": make_env("Pendulum-v1").spec}, r"^env: wanted 4 of .*CartPole-v1.*; got 4 of .*Pendulum-v1"),
        ({}, {"dtype": torch.float64}, r"^env: wanted torch.float32 on cpu, like the agent; got torch.float64 on cpu"),
        ({}, {"device": torch.device("cuda")}, r"^env: wanted torch.float32 on cpu, .*; got torch.float32 on cuda"),
    ],
)  # fmt: skip
def test_bad_input_is_named_before_anything_is_trained(arguments, changes, message, same):
    agent, env = new("ppo", "CartPole-v1")
    before = copy.deepcopy(agent.state_dict())
    like = {name: getattr(env, name) for name in ("num_envs", "spec", "dtype", "device")}
    world = SimpleNamespace(**like | changes, reset=lambda: pytest.fail("training began"))
    with pytest.raises(ValueError, match=message):
        train(agent, world, **{"total_steps": 64} | arguments, progress=False)
    assert same(before, agent.state_dict())


def test_a_training_that_could_not_learn_or_be_evaluated_is_refused_before_it_begins(tmp_path):
    small = {"num_envs": 2, "rollout_steps": 8, "learner_steps": 1, "minibatch_size": 8}
    agent, env = new("mpo", warmup_steps=100, **small)
    with pytest.raises(ValueError, match=r"^total_steps: wanted at least 100, after which .*; got 96"):
        train(agent, env, 96, **SILENT, checkpoint=tmp_path / "run.pt")
    train(agent, env, 97, **SILENT)  # rounded up to 112
    assert "loss/critic" in train(agent, env, 16, **SILENT).updates[0], "its replay is full"
    with pytest.raises(ValueError, match=r"^total_steps: wanted at least 40, "):
        train(*new("mpo", warmup_steps=0, sequence_length=20, replay_steps=40, **small), 32, **SILENT)
    world = TabularEnv(TabularMDP.random(6, 3, 0.9, torch.Generator().manual_seed(0)), 4, max_steps=5)
    agent, _ = new("ppo", "CartPole-v1", dtype=world.dtype)
    tabular = type(agent)(agent.config, world.spec, device="cpu", dtype=world.dtype)
    with pytest.raises(ValueError, match=r"^env_id: wanted a registered Gymnasium id"):
        train(tabular, world, 64, **SILENT, checkpoint=tmp_path / "run.pt")
    assert list(tmp_path.iterdir()) == []


# What is counted


def test_history_has_a_row_an_update_and_one_an_evaluation(means):
    (agent, env), rows = new("ppo", "CartPole-v1", learning_rate=1e-3), []
    history = train(agent, env, 64 * 10 - 1, eval_every=150, progress=False, callback=rows.append)
    assert [row["steps"] for row in history.updates] == [64 * i for i in range(1, 11)], "rounded up to whole rollouts"
    assert [row["steps"] for row in history.evaluations] == [192, 320, 512, 640], "first update past each multiple"
    assert len(rows) == 14 and rows[2] == history.updates[2] and rows[3] == history.evaluations[0]
    assert all(isinstance(v, float) for row in history.updates for k, v in row.items() if k != "steps")
    assert history.column("eval/mean").shape == (4,) and history.steps("eval/mean").tolist() == [192, 320, 512, 640]
    assert history.column("loss/policy").shape == (10,) and history.steps("loss/policy")[-1] == 640
    seconds = [row["seconds"] for row in history.updates]
    assert seconds == sorted(seconds) and seconds[0] > 0
    assert history.updates[4]["train/steps_per_second"] == pytest.approx(320 / seconds[4])
    left = 1 - np.arange(10) * 64 / 639
    assert history.column("train/learning_rate").tolist() == pytest.approx((1e-3 * left).tolist(), rel=1e-5)


def test_a_row_tells_return_and_length_of_the_episodes_that_finished_in_it_if_any(tmp_path):
    """An episode of three steps pays 30 more than the one before it, and a row has two steps of each environment."""
    agent, env = new("a2c", "ToyCount-v0", rollout_steps=2)
    history = train(agent, env, 6 * 8, eval_every=1000, **SILENT)
    told = [[row[name] for name in EPISODES if name in row] for row in history.updates]
    assert told == [[], [6.0, 3.0], [36.0, 3.0], [], [66.0, 3.0], [96.0, 3.0]]
    assert history.steps(EPISODES[0]).tolist() == [16, 24, 40, 48]
    history.to_csv(tmp_path / "run.csv")
    found = [row for row in csv.DictReader((tmp_path / "run.csv").open()) if row["name"] == EPISODES[0]]
    assert [float(row["value"]) for row in found] == history.column(EPISODES[0]).tolist()


def test_a_callback_cannot_change_the_history_and_a_misspelled_figure_is_named(means):
    history = run(*new("ppo", "CartPole-v1"), None, 64, callback=lambda row: row.clear())
    assert history.steps("eval/mean").tolist() == history.column("steps").tolist() == [64]
    with pytest.raises(ValueError, match=r"^name: wanted a figure .*; got 'eval/maen'; did you mean eval/mean"):
        history.column("eval/maen")
    assert History().column("eval/maen").shape == history.column("train/episode_return")[:0].shape == (0,)


@pytest.mark.parametrize(("goal", "updates"), [(1.0, 1), (501.0, 10)])
def test_stop_at_leaves_early_and_only_when_reached(goal, updates):
    history = train(*new("ppo", "CartPole-v1"), STEPS, eval_every=64, stop_at=goal, **SILENT)
    assert len(history.updates) == updates


def test_evaluations_do_not_change_a_training(same):
    often, seldom = new("ppo", "CartPole-v1"), new("ppo", "CartPole-v1")
    train(*often, 320, eval_every=64, **SILENT)
    train(*seldom, 320, eval_every=320, **SILENT)
    assert same(often[0].state_dict(), seldom[0].state_dict())


def test_a_second_training_does_not_warn_of_refusals_of_the_first(recwarn):
    agent, env = new("ppo", "CartPole-v1")
    agent.guard.skipped = {"reward": 1}
    history = train(agent, env, 64, **SILENT)
    assert history.updates[-1]["train/skipped_batches"] == 1
    assert not [warning for warning in recwarn if "refused" in str(warning.message)]


# What is shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_tells_the_training_return_from_the_evaluations_and_the_speed_of_training_alone(monkeypatch):
    """An update takes one second, an evaluation 100: 64 steps a second, and seconds that leave evaluations out."""
    clock, screen = [0.0], Terminal()
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(loop, "evaluate", lambda *args, **how: (clock.append(clock.pop() + 100.0), {"eval/mean": -7.25})[1])  # fmt: skip
    monkeypatch.setattr(sys, "stderr", screen)
    agent, env = new("ppo", "CartPole-v1")
    update = agent.update
    agent.update = lambda *args, **how: (clock.append(clock.pop() + 1.0), update(*args, **how))[1]
    history = train(agent, env, 250, eval_every=64)
    *_, last, end = re.split("[\r\n]", screen.getvalue().strip(" "))
    latest = history.column("train/episode_return")[-1]
    wanted = rf"100%\|.*\| 250/250 steps \[\d\d:\d\d<00:00, train return={latest:.1f}, eval return=-7\.2, steps/s=64\]"
    assert end == "" and re.fullmatch(wanted, last.strip())
    for rows in (history.updates, history.evaluations):
        assert [row["seconds"] for row in rows] == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(("screen", "states"), [(io.StringIO, 2), (Terminal, 6)], ids=["file", "terminal"])
def test_a_terminal_sees_the_bar_move_and_a_file_its_two_ends(screen, states, means, monkeypatch):
    monkeypatch.setattr(sys, "stderr", shown := screen())
    train(*new("ppo", "CartPole-v1"), 256, eval_every=1000, callback=lambda row: time.sleep(0.11))
    told = shown.getvalue()
    assert len(re.findall(r"\d+%\|", told)) == states, "start, four updates, end"
    assert told.count("\n") == 1 and told[-1] == "\n"
    train(*new("ppo", "CartPole-v1"), 64, progress=False)
    assert shown.getvalue() == told, "nothing more, where nothing is asked for"


def test_the_bar_of_a_complete_run_that_is_resumed_stands_at_its_end(means, tmp_path, monkeypatch):
    """Five rollouts of 64 steps pass a budget of 300."""
    for _ in range(2):
        monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
        run(*new("ppo", "CartPole-v1"), tmp_path / "run.pt", 300, progress=True)
        last = screen.getvalue().strip().split("\r")[-1]
        assert "100%" in last and " 300/300 steps " in last


# The command line


def test_the_train_command_sends_every_figure_to_trackers_and_csv_and_closes_them(
    minerva, tmp_path, monkeypatch, capsys
):
    opened = []

    class Tracker(list):
        closed, __call__ = False, list.append

        def __init__(self, place, **settings):
            self.place, self.settings = place, settings
            opened.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.closed = True

    monkeypatch.setattr(__main__, "TensorBoard", Tracker)
    monkeypatch.setattr(__main__, "WeightsAndBiases", Tracker)
    monkeypatch.setattr(__main__, "evaluate", lambda agent, **how: {"eval/mean": 5.0} | how)
    words = "train ppo --env CartPole-v1 --device cpu --steps 1024 --num-envs 8 --seed 3 --wandb book"
    assert minerva(f"{words} --tensorboard board --history figures.csv") is None
    board, project = opened
    assert (str(board.place), board.settings, project.place) == ("board", {}, "book")
    about = project.settings["config"]
    assert (about["algorithm"], about["env"], about["seed"], about["num_envs"]) == ("ppo", "CartPole-v1", 3, 8)
    assert board == project and board.closed and project.closed
    assert [row["steps"] for row in board] == [512, 512, 1024, 1024]
    with (tmp_path / "figures.csv").open(newline="") as file:
        assert sum(1 for _ in csv.reader(file)) == 1 + sum(len(row) - 2 for row in board)
    figures = {"eval/mean": 5.0, "episodes": 100, "max_steps": 500, "interval": True}
    assert json.loads(capsys.readouterr().out) == figures


def test_ctrl_c_in_an_evaluation_is_one_line(minerva, means, monkeypatch):
    def press(*args, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "evaluate", press)
    words = "train ppo --env CartPole-v1 --steps 2048 --device cpu --out run.pt --eval-episodes 1"
    assert minerva(words) == "stopped; run.pt is where --resume goes on"
    assert minerva("evaluate run.pt") == "stopped"
