"""The loop and the evaluation: what is refused before anything starts, what is counted, and what is left alone."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import csv
import io
import json
import math
import re
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
import torch

from minerva_lite import History, PPOAgent, PPOConfig, evaluate, make_env, train

SMALL = {"num_envs": 4, "rollout_steps": 16, "minibatch_size": 32, "epochs": 2, "hidden": (8,)}


def make(env_id="CartPole-v1", **options):
    config = PPOConfig(**SMALL | options)
    env = make_env(env_id, config.num_envs)
    return PPOAgent(config, env.spec, device="cpu"), env


def everything(agent):
    return copy.deepcopy(agent.state_dict())


class Untouchable:
    """An environment that must not be started; it looks like the one given."""

    def __init__(self, env, **changes):
        self.num_envs, self.spec, self.dtype, self.device = env.num_envs, env.spec, env.dtype, env.device
        vars(self).update(changes)

    def reset(self):
        raise AssertionError("training began")


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ({"total_steps": -5}, {}, r"^total_steps: wanted a whole number of at least 1; got -5"),
        ({"total_steps": 0}, {}, r"^total_steps: wanted a whole number of at least 1; got 0"),
        ({"total_steps": 100.0}, {}, r"^total_steps: .*; got 100.0"),
        ({"total_steps": 63}, {}, r"^total_steps: wanted at least one rollout, 16 \* 4 = 64; got 63"),
        ({"total_steps": 64, "eval_every": 0}, {}, r"^eval_every: wanted a whole number of at least 1; got 0"),
        ({"total_steps": 64, "eval_episodes": 0}, {}, r"^eval_episodes: .*; got 0"),
        ({"total_steps": 64}, {"num_envs": 3}, r"^env: wanted 4 of .*CartPole-v1.*; got 3 of"),
        ({"total_steps": 64}, {"spec": make_env("Pendulum-v1").spec}, r"^env: wanted 4 of .*CartPole-v1.*; got 4 of .*Pendulum-v1"),
        ({"total_steps": 64}, {"dtype": torch.float64}, r"^env: wanted torch.float32 on cpu, like the agent; got torch.float64 on cpu"),
        ({"total_steps": 64}, {"device": torch.device("cuda")}, r"^env: wanted torch.float32 on cpu, .*; got torch.float32 on cuda"),
    ],
)  # fmt: skip
def test_bad_input_is_named_before_anything_is_trained(arguments, changes, message, same):
    agent, env = make()
    before = everything(agent)
    with pytest.raises(ValueError, match=message):
        train(agent, Untouchable(env, **changes), **arguments, progress=False)
    assert same(before, everything(agent))


@pytest.mark.parametrize(
    ("env_id", "arguments", "message"),
    [
        (None, {"episodes": 0}, r"^episodes: wanted a whole number of at least 1; got 0"),
        ("Nope-v0", {}, r"^env_id: wanted a registered Gymnasium id; got 'Nope-v0'"),
        ("Pendulum-v1", {}, r"^env_id: wanted one with the spaces of .*CartPole-v1.*; got .*Pendulum-v1"),
    ],
)
def test_bad_input_to_evaluate_is_named(env_id, arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(make()[0], env_id, **arguments)


def returns_by_hand(agent, episodes: int, seed: int) -> tuple[list[float], list[int]]:
    """The official environment, one episode after another, the policy's mode, raw rewards."""
    returns, lengths = [], []
    for i in range(episodes):
        env = gym.make(agent.spec.env_id)
        obs, _ = env.reset(seed=seed + i)
        total, length, over = 0.0, 0, False
        while not over:
            action, _ = agent.act(torch.as_tensor(obs, dtype=torch.float32).unsqueeze(0), deterministic=True)
            a = agent.policy.to_env(action)[0]
            if agent.spec.action_dim:
                a = 2.0 * a.clamp(-1, 1)
            obs, reward, terminated, truncated, _ = env.step(a.numpy())
            total, length, over = total + float(reward), length + 1, terminated or truncated
        returns.append(total)
        lengths.append(length)
    return returns, lengths


@pytest.mark.parametrize(("env_id", "options"), [("CartPole-v1", {}), ("Pendulum-v1", {}), ("Pendulum-v1", {"squash": True})])  # fmt: skip
def test_evaluation_is_raw_deterministic_and_first_episodes_only(env_id, options, same):
    agent, env = make(env_id, normalize_obs=True, normalize_reward=True, learning_rate=3e-3, **options)
    train(agent, env, 640, eval_every=640, eval_episodes=1, progress=False)
    before, torch_state = everything(agent), torch.get_rng_state()
    got = evaluate(agent, episodes=4, seed=77)
    returns, lengths = returns_by_hand(agent, 4, 77)
    wanted = {
        "eval/mean": np.mean(returns),
        "eval/median": np.median(returns),
        "eval/std": np.std(returns),
        "eval/min": np.min(returns),
        "eval/max": np.max(returns),
        "eval/length": np.mean(lengths),
    }
    assert got == pytest.approx(wanted, rel=1e-4)
    assert same(before, everything(agent)), "statistics frozen, generator untouched"
    assert torch.equal(torch_state, torch.get_rng_state())
    assert got == evaluate(agent, episodes=4, seed=77)
    assert got != evaluate(agent, episodes=4, seed=78)


def test_only_the_first_episode_of_each_environment_counts():
    """Seeds 12 … 17 last 1 … 6 steps of reward 1; short ones are reset and played again while the long one runs."""
    env = make_env("ToyLottery-v0", 4)
    agent = PPOAgent(PPOConfig(**SMALL), env.spec, device="cpu")
    got = evaluate(agent, episodes=6, seed=12)
    assert (got["eval/mean"], got["eval/median"], got["eval/min"], got["eval/max"]) == (3.5, 3.5, 1.0, 6.0)
    assert got["eval/length"] == 3.5


def test_history_has_a_row_an_update_and_one_an_evaluation():
    agent, env = make()
    rows = []
    history = train(agent, env, 64 * 10 - 1, eval_every=150, eval_episodes=2, progress=False, callback=rows.append)
    assert [row["steps"] for row in history.updates] == [64 * i for i in range(1, 11)], "rounded up to whole rollouts"
    assert [row["steps"] for row in history.evaluations] == [192, 320, 512, 640], "first update past each multiple"
    assert len(rows) == 14 and rows[2] == history.updates[2] and rows[3] == history.evaluations[0]
    assert all(isinstance(v, float) for row in history.updates for k, v in row.items() if k != "steps")
    assert history.column("eval/mean").shape == (4,) and history.steps("eval/mean").tolist() == [192, 320, 512, 640]
    assert history.column("loss/policy").shape == (10,) and history.steps("loss/policy")[-1] == 640
    seconds = [row["seconds"] for row in history.updates]
    assert seconds == sorted(seconds) and seconds[0] > 0
    assert history.updates[4]["train/steps_per_second"] == pytest.approx(320 / seconds[4])


def test_a_row_tells_return_and_length_of_the_training_episodes_that_finished_in_it_and_of_no_others(tmp_path):
    agent, env = make(rollout_steps=8)
    steps, step = [], env.step

    def listen(action):
        steps.append(step(action))
        return steps[-1]

    env.step = listen
    history = train(agent, env, 32 * 12, eval_every=1000, eval_episodes=1, progress=False)
    names, total, length = ("train/episode_return", "train/episode_length"), [0.0] * 4, [0] * 4
    wanted = []
    for row in range(12):
        finished = []
        for taken in steps[8 * row : 8 * row + 8]:
            for b in range(4):
                total[b], length[b] = total[b] + taken.reward[b].item(), length[b] + 1
                if taken.terminated[b] or taken.truncated[b]:
                    finished.append((total[b], length[b]))
                    total[b], length[b] = 0.0, 0
        wanted.append(dict(zip(names, np.mean(finished, 0), strict=True)) if finished else {})
    assert [{name: row[name] for name in names if name in row} for row in history.updates] == wanted
    assert {} in wanted and any(wanted), "episodes last longer than rollouts"
    assert len(history.column(names[0])) == len(history.steps(names[0])) == sum(map(bool, wanted))
    history.to_csv(tmp_path / "run.csv")
    told = [row for row in csv.DictReader((tmp_path / "run.csv").open()) if row["name"] == names[0]]
    assert [float(row["value"]) for row in told] == history.column(names[0]).tolist()


def test_seconds_leave_evaluation_out(monkeypatch):
    """Time stands still but for the evaluations, which take 100 seconds each."""
    import minerva_lite.training.loop as training

    clock = [0.0]
    monkeypatch.setattr(training.time, "perf_counter", lambda: clock[0])

    def slow(*args, **kwargs):
        clock[0] += 100.0
        return {"eval/mean": 0.0}

    agent, env = make()
    update = agent.update

    def one_second(*args, **kwargs):
        clock[0] += 1.0
        return update(*args, **kwargs)

    agent.update = one_second
    monkeypatch.setattr(training, "evaluate", slow)
    history = train(agent, env, 256, eval_every=64, progress=False)
    assert [row["seconds"] for row in history.updates] == [1.0, 2.0, 3.0, 4.0]
    assert [row["seconds"] for row in history.evaluations] == [1.0, 2.0, 3.0, 4.0]


def test_an_evaluation_twenty_times_by_default_and_always_at_the_end():
    agent, env = make(rollout_steps=2, minibatch_size=8, epochs=1)
    history = train(agent, env, 400, eval_episodes=1, progress=False)
    passed = [8 * math.ceil(20 * k / 8) for k in range(1, 21)]  # multiples of 400 / 20, rounded up to updates of 8
    assert [row["steps"] for row in history.evaluations] == passed
    history = train(agent, env, 40, eval_every=1000, eval_episodes=1, progress=False)
    assert [row["steps"] for row in history.evaluations] == [40]


def test_stop_at_leaves_early_and_only_when_reached():
    agent, env = make()
    assert len(train(agent, env, 640, eval_every=64, eval_episodes=1, stop_at=1.0, progress=False).updates) == 1
    assert len(train(agent, env, 640, eval_every=64, eval_episodes=1, stop_at=501.0, progress=False).updates) == 10


def test_progress_anneals_the_learning_rate_over_training():
    agent, env = make(learning_rate=1e-3)
    history = train(agent, env, 256, eval_episodes=1, progress=False)
    assert history.column("train/learning_rate").tolist() == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-4], rel=1e-5)


def test_training_is_repeatable_whatever_the_evaluations(same):
    ends = []
    for eval_every in (64, 64, 320):
        agent, env = make(normalize_obs=True)
        train(agent, env, 320, eval_every=eval_every, eval_episodes=2, progress=False)
        ends.append(everything(agent))
    assert same(ends[0], ends[1]) and same(ends[0], ends[2])


def test_no_progress_bar_when_switched_off(capsys):
    agent, env = make()
    train(agent, env, 64, eval_episodes=1, progress=False)
    assert capsys.readouterr() == ("", "")
    train(agent, env, 64, eval_episodes=1, progress=True)
    assert "return=" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_tells_the_training_return_from_the_evaluations_and_the_speed_of_training_alone(monkeypatch):
    """An update takes one second, an evaluation 100: 64 steps a second."""
    import minerva_lite.training.loop as training

    clock, screen = [0.0], Terminal()
    monkeypatch.setattr(training.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(training, "evaluate", lambda *args, **how: (clock.append(clock.pop() + 100.0), {"eval/mean": -7.25})[1])  # fmt: skip
    monkeypatch.setattr(training.sys, "stderr", screen)
    agent, env = make()
    update = agent.update
    agent.update = lambda *args, **how: (clock.append(clock.pop() + 1.0), update(*args, **how))[1]
    history = train(agent, env, 250, eval_every=64)
    *_, last, end = re.split("[\r\n]", screen.getvalue().strip(" "))
    latest = history.column("train/episode_return")[-1]
    wanted = rf"100%\|.*\| 250/250 steps \[\d\d:\d\d<00:00, train return={latest:.1f}, eval return=-7\.2, steps/s=64\]"
    assert end == "" and re.fullmatch(wanted, last.strip())


@pytest.mark.parametrize(("screen", "states"), [(io.StringIO, 2), (Terminal, 6)])
def test_a_terminal_sees_the_bar_move_and_a_file_its_two_ends(screen, states, monkeypatch):
    import minerva_lite.training.loop as training

    screen = screen()
    monkeypatch.setattr(training.sys, "stderr", screen)
    agent, env = make()
    train(agent, env, 256, eval_every=1000, eval_episodes=1, callback=lambda row: time.sleep(0.11))
    assert len(re.findall(r"\d+%\|", screen.getvalue())) == states, "start, four updates, end"
    assert screen.getvalue().endswith("\n") and screen.getvalue().count("\n") == 1


def test_the_bar_of_a_complete_run_that_is_resumed_stands_at_its_end(tmp_path, monkeypatch):
    """Five rollouts of 64 steps pass a budget of 300."""
    import minerva_lite.training.loop as training

    for resume in (False, True):
        screen = io.StringIO()
        monkeypatch.setattr(training.sys, "stderr", screen)
        agent, env = make()
        train(agent, env, 300, eval_episodes=1, checkpoint=tmp_path / "run.pt", resume=resume)
        last = screen.getvalue().strip().split("\r")[-1]
        assert "100%" in last and " 300/300 steps " in last


def test_a_notebook_sees_the_bar_move(monkeypatch):
    import minerva_lite.training.loop as training

    told = {}

    class NotebookBar(training.tqdm):
        def __init__(self, **options):
            told.update(options)
            super().__init__(**options)

    monkeypatch.setattr(training, "tqdm", NotebookBar)
    monkeypatch.setattr(training.sys, "stderr", io.StringIO())
    agent, env = make()
    train(agent, env, 64, eval_episodes=1)
    assert told["mininterval"] == 0.1


def test_csv_is_tidy(tmp_path):
    history = History(
        updates=[{"steps": 64, "seconds": 0.5, "loss/policy": -0.25, "kl/k3": 0.125}],
        evaluations=[{"steps": 64, "seconds": 0.5, "eval/mean": 21.0}],
    )
    history.to_csv(tmp_path / "history.csv")
    with (tmp_path / "history.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["steps", "seconds", "name", "value"],
        ["64", "0.5", "loss/policy", "-0.25"],
        ["64", "0.5", "kl/k3", "0.125"],
        ["64", "0.5", "eval/mean", "21.0"],
    ]


def test_a_history_column_skips_rows_without_the_figure():
    history = History(updates=[{"steps": 1, "a": 1.0}, {"steps": 2, "b": 5.0}, {"steps": 3, "a": 3.0}])
    assert history.column("a").tolist() == [1.0, 3.0] and history.steps("a").tolist() == [1, 3]


def test_a_second_training_does_not_warn_of_refusals_of_the_first(recwarn):
    agent, env = make()
    agent.guard.skipped = {"reward": 1}
    history = train(agent, env, 64, eval_every=10_000, progress=False)
    assert history.updates[-1]["train/skipped_batches"] == 1 and not [w for w in recwarn if "refused" in str(w.message)]


def test_a_diverging_run_stops_by_name():
    agent, env = make("Pendulum-v1")
    with torch.no_grad():
        agent.parameters[0].fill_(math.nan)
    with pytest.raises(FloatingPointError, match="not finite in 3 batches in a row"):
        train(agent, env, 640, eval_every=10_000, progress=False)


def test_the_train_command_sends_every_figure_to_trackers_and_csv_and_closes_them(tmp_path, monkeypatch, capsys):
    import minerva_lite.__main__ as commands

    opened = []

    class Tracker:
        def __init__(self, place, **settings):
            self.place, self.settings, self.rows, self.closed = place, settings, [], False
            opened.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.closed = True

        def __call__(self, row):
            self.rows.append(row)

    monkeypatch.setattr(commands, "TensorBoard", Tracker)
    monkeypatch.setattr(commands, "WeightsAndBiases", Tracker)
    monkeypatch.setattr(commands, "evaluate", lambda agent, **how: {"eval/mean": 5.0} | how)
    files = ["--tensorboard", str(tmp_path / "board"), "--history", str(tmp_path / "figures.csv")]
    words = "minerva_lite train ppo --env CartPole-v1 --device cpu --steps 1024 --num-envs 8 --seed 3 --wandb book"
    monkeypatch.setattr(sys, "argv", [*words.split(), *files])
    commands.main()
    board, project = opened
    assert (board.place, board.settings, project.place) == (tmp_path / "board", {}, "book")
    about = project.settings["config"]
    assert (about["algorithm"], about["env"], about["seed"], about["num_envs"]) == ("ppo", "CartPole-v1", 3, 8)
    assert board.rows == project.rows and board.closed and project.closed
    assert [row["steps"] for row in board.rows] == [512, 512, 1024, 1024]
    with (tmp_path / "figures.csv").open(newline="") as file:
        assert sum(1 for _ in csv.reader(file)) == 1 + sum(len(row) - 2 for row in board.rows)
    assert json.loads(capsys.readouterr().out) == {
        "eval/mean": 5.0, "episodes": 100, "max_steps": 500, "interval": True
    }  # fmt: skip
