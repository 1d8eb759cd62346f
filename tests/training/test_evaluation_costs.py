"""Evaluation costs no more than the training, is cut where it does not end, and can lose nothing."""

from __future__ import annotations

import json
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch

from minerva_lite import MPOAgent, MPOConfig, PPOAgent, PPOConfig, __main__, evaluate, make_env, train
from minerva_lite.training import loop
from minerva_lite.training.checkpoints import load, read, save
from minerva_lite.training.defaults import evaluations
from minerva_lite.training.evaluation import official
from minerva_lite.worlds.envs import TabularEnv
from minerva_lite.worlds.tabular import TabularMDP

SMALL = {"num_envs": 2, "rollout_steps": 32, "minibatch_size": 32, "epochs": 1, "hidden": (8,)}


class Sick(gym.Env):
    """Eight steps; one observation or reward of an evaluation, whose seeds begin at 10 000, is no number."""

    observation_space, action_space, made = gym.spaces.Box(-9.0, 9.0, (1,), np.float64), gym.spaces.Discrete(2), 0

    def __init__(self, sick=""):
        self.sick, self.judged = sick, False
        type(self).made += 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.judged = 0, self.judged if seed is None else 10_000 <= seed < 20_000
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        bad = self.sick if self.judged and self.t == 5 else ""
        obs = np.array([np.nan if bad == "obs" else self.t])
        return obs, np.inf if bad == "reward" else 1.0, self.t == 8, False, {}


def agent_and_env(env_id, **options):
    config = PPOConfig(**SMALL | options)
    env = make_env(env_id, config.num_envs)
    return PPOAgent(config, env.spec, device="cpu"), env


@pytest.fixture
def sick(registries):
    for name in ("", "obs", "reward"):
        gym.register(f"Sick{name}-v0", Sick, kwargs={"sick": name}, disable_env_checker=True)
    Sick.made = 0


def command(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["minerva_lite", *words.split()])
    __main__.main()


@pytest.mark.parametrize(
    ("env_id", "steps", "wanted"),
    [
        ("dm_control/hopper/hop", 20_000, (6_667, 3, 20)),
        ("HalfCheetah-v5", 20_000, (1_000, 10, 100)),  # has a preset
        ("InvertedPendulum-v5", 512_000, (170_667, 34, 100)),
        ("InvertedPendulum-v5", 2_000_000, (250_000, 50, 100)),
        ("FrozenLake-v1", 10**7, (500_000, 50, 100)),
        ("CliffWalking-v1", 64, (22, 3, 10)),
    ],
)
def test_without_a_preset_evaluations_take_a_fifth_of_the_steps_in_python_and_on_the_command_line(
    env_id, steps, wanted, monkeypatch, capsys
):
    assert evaluations("ppo", env_id, steps, None, None, usual=10) == wanted
    assert evaluations("ppo", env_id, steps, 7, None, usual=10)[:2] == (7, 10)
    asked = {}
    monkeypatch.setattr(__main__, "train", lambda *args, **how: asked.update(how))
    monkeypatch.setattr(__main__, "evaluate", lambda agent, **how: how)
    command(monkeypatch, f"train ppo --env {env_id} --steps {max(steps, 2048)}")
    every, episodes, final = evaluations("ppo", env_id, max(steps, 2048), None, None, usual=50)
    assert (asked["eval_every"], asked["eval_episodes"]) == (every, episodes)
    out, told = capsys.readouterr()
    assert json.loads(out)["episodes"] == final
    first = [line for line in told.splitlines() if line.startswith("no preset")]
    assert first == [] or f"evaluated every {every} steps over {episodes} episodes" in first[0]


def test_python_has_the_same_rule_and_the_final_evaluation_its_interval(sick, monkeypatch):
    agent, env = agent_and_env("Sick-v0")
    history = train(agent, env, 640, progress=False)
    assert len(history.evaluations) == 3 and Sick.made == 2 + 3, "three copies, made once"
    told = evaluate(agent, episodes=6, interval=True)
    assert told["eval/low"] == told["eval/high"] == told["eval/mean"] == 8.0 and told["eval/episodes"] == 6.0
    lottery, _ = agent_and_env("ToyLottery-v0")
    told = evaluate(lottery, episodes=60, interval=True)  # ten of each length from 1 to 6
    assert told["eval/high"] - told["eval/mean"] == pytest.approx(1.96 * told["eval/std"] / 60**0.5, rel=0.1)


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "HalfCheetah-v5", "dm_control/cartpole/swingup"]
)
def test_copies_that_are_seeded_again_play_as_new_ones(env_id):
    agent, _ = agent_and_env(env_id)
    with official(agent, env_id, 2) as copies:
        again = [evaluate(agent, episodes=2, max_steps=200, copies=copies) for _ in range(2)]
    with official(agent, env_id, 2) as copies:
        assert again == [evaluate(agent, episodes=2, max_steps=200, copies=copies)] * 2


def test_an_evaluation_that_does_not_end_is_cut_and_told_once(tmp_path):
    """ToyEcho-v0 goes on for ever, and has no limit registered."""
    agent, env = agent_and_env("ToyEcho-v0")
    with pytest.warns(UserWarning, match=r"^ToyEcho-v0: evaluation cuts an episode .* after 1000 steps") as warned:
        history = train(agent, env, 192, progress=False, checkpoint=tmp_path / "run.pt")
    assert len([each for each in warned if "cuts" in str(each.message)]) == 1
    assert history.column("eval/unfinished").tolist() == [1.0] * 3 and history.column("eval/length")[-1] == 1000.0
    assert read(tmp_path / "run.pt")["training"]["evaluations"] == history.evaluations
    with pytest.warns(UserWarning, match="after 40 steps"):
        assert evaluate(agent, episodes=3, max_steps=40)["eval/unfinished"] == 1.0


@pytest.mark.parametrize("every", [None, 10**6])
@pytest.mark.parametrize("error", [RuntimeError("a fault"), ValueError("obs: not finite"), KeyboardInterrupt])
def test_an_evaluation_that_fails_leaves_the_training_and_is_made_up_for(error, every, tmp_path, monkeypatch, same):
    whole, env = agent_and_env("CartPole-v1")
    wanted = train(whole, env, 320, eval_every=128, progress=False)
    path, how = tmp_path / "run.pt", {"eval_every": 128, "checkpoint_every": every, "progress": False, "resume": True}

    def fail(*args, **how):
        assert path.exists() == (every is None), "written before, where it is due"
        raise error

    agent, env = agent_and_env("CartPole-v1")
    with monkeypatch.context() as patch, pytest.raises(BaseException) as told:  # KeyboardInterrupt would end the tests
        patch.setattr(loop, "evaluate", fail)
        train(agent, env, 320, checkpoint=path, **how)
    assert read(path)["training"]["steps"] == 128
    if isinstance(error, ValueError):
        assert str(told.value) == f"{error}; {path} holds the last good checkpoint, of 128 steps"
    agent, env = agent_and_env("CartPole-v1")
    history = train(agent, env, 320, checkpoint=path, **how)
    plain = [[{k: v for k, v in row.items() if k != "seconds"} for row in h.evaluations] for h in (history, wanted)]
    assert plain[0] == plain[1] and same(agent.state_dict(), whole.state_dict())
    assert train(*agent_and_env("CartPole-v1"), 320, checkpoint=path, **how).evaluations == history.evaluations


@pytest.mark.parametrize("kind", ["obs", "reward"])
def test_what_is_no_number_in_an_evaluation_is_refused_by_name(kind, sick, tmp_path):
    agent, env = agent_and_env(f"Sick{kind}-v0")
    named = rf"^{kind}: wanted finite numbers; got \d+ .* from Sick{kind}-v0 after 5 steps"
    with pytest.raises(ValueError, match=named):
        evaluate(agent, episodes=2)
    with pytest.raises(FloatingPointError, match=rf"{named}; .*run.pt holds .* of 128 steps"):
        train(agent, env, 128, eval_every=128, progress=False, checkpoint=tmp_path / "run.pt")
    assert read(tmp_path / "run.pt")["training"]["steps"] == 128


def test_a_parameter_that_is_no_number_is_refused_by_name(tmp_path):
    agent, _ = agent_and_env("CartPole-v1")
    save(agent, tmp_path / "agent.pt")
    saved = read(tmp_path / "agent.pt")
    name = next(name for name in saved["state"]["modules"] if name.startswith("policy"))
    saved["state"]["modules"][name].view(-1)[0] = torch.nan
    torch.save(saved, tmp_path / "agent.pt")
    with pytest.raises(ValueError, match=rf"^{name}: wanted finite numbers; got 1 "):
        evaluate(load(tmp_path / "agent.pt"), episodes=1)


def test_a_training_that_could_not_learn_or_be_evaluated_is_refused_before_it_begins(tmp_path):
    config = MPOConfig(num_envs=2, rollout_steps=8, hidden=(8,), warmup_steps=100, learner_steps=1)
    env = make_env("Pendulum-v1", 2)
    agent = MPOAgent(config, env.spec, device="cpu")
    with pytest.raises(ValueError, match=r"^total_steps: wanted at least 100, after which .*; got 96"):
        train(agent, env, 96, progress=False, checkpoint=tmp_path / "run.pt")
    train(agent, env, 97, eval_episodes=1, progress=False)  # rounded up to 112
    assert "loss/critic" in train(agent, env, 16, eval_episodes=1, progress=False).updates[0], "its replay is full"
    long = MPOAgent(MPOConfig(**SMALL_MPO), env.spec, device="cpu")
    with pytest.raises(ValueError, match=r"^total_steps: wanted at least 40, "):
        train(long, env, 32, progress=False)
    world = TabularEnv(TabularMDP.random(6, 3, 0.9, torch.Generator().manual_seed(0)), 2, max_steps=5)
    tabular = PPOAgent(PPOConfig(**SMALL), world.spec, device="cpu", dtype=torch.float64)
    with pytest.raises(ValueError, match=r"^env_id: wanted a registered Gymnasium id"):
        train(tabular, world, 64, progress=False, checkpoint=tmp_path / "run.pt")
    assert list(tmp_path.iterdir()) == []


SMALL_MPO = {"num_envs": 2, "rollout_steps": 8, "warmup_steps": 0, "sequence_length": 20, "replay_steps": 40}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train ppo --env CartPole-v1 --episodes 0", "--episodes: wanted a whole number of at least 1; got 0"),
        ("train mpo --env Pendulum-v1 --steps 800", "--steps: wanted at least 1000, "),
    ],
)
def test_the_command_line_refuses_before_it_writes(words, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as told:
        command(monkeypatch, f"{words} --device cpu --save-config c.json --out run.pt --history h.csv")
    assert told.value.code.startswith(message) and list(tmp_path.iterdir()) == []


def test_ctrl_c_in_an_evaluation_is_one_line(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def press(*args, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(__main__, "evaluate", press)
    with pytest.raises(SystemExit, match=r"^stopped; run.pt is where --resume goes on$"):
        command(monkeypatch, "train ppo --env CartPole-v1 --steps 2048 --device cpu --out run.pt --eval-episodes 1")
    with pytest.raises(SystemExit, match="^stopped$"):
        command(monkeypatch, "evaluate run.pt")
