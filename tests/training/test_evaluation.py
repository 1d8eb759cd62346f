"""Evaluation is raw, costs no more than the training, is cut where it does not end, and can lose nothing."""

from __future__ import annotations

import copy
import json

import gymnasium as gym
import numpy as np
import pytest
import torch

from minerva_lite import __main__, evaluate, train
from minerva_lite.training import loop
from minerva_lite.training.checkpoints import read
from minerva_lite.training.defaults import evaluations
from minerva_lite.training.evaluation import official
from tests.living import live
from tests.runs import new, run, timeless


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


@pytest.fixture
def sick(registries):
    for name in ("", "obs", "reward"):
        gym.register(f"Sick{name}-v0", Sick, kwargs={"sick": name}, disable_env_checker=True)
    Sick.made = 0


def test_an_evaluation_moves_nothing_and_its_seed_decides(same):
    """That its returns are those of the official environment is asked in `peers/test_peers.py`."""
    agent, env = new("ppo")
    live(agent, env, env.reset(), 3)
    before, torch_state = copy.deepcopy(agent.state_dict()), torch.get_rng_state()
    got = evaluate(agent, episodes=4, seed=77)
    assert same(before, agent.state_dict()), "statistics frozen, generator untouched"
    assert torch.equal(torch_state, torch.get_rng_state())
    assert got == evaluate(agent, episodes=4, seed=77) != evaluate(agent, episodes=4, seed=78)


def test_only_the_first_episode_of_each_environment_counts():
    """Seeds 12 … 17 last 1 … 6 steps of reward 1; short ones are reset and played again while the long one runs."""
    agent, _ = new("ppo", "ToyLottery-v0")
    figures = evaluate(agent, episodes=6, seed=12)
    wanted = {"mean": 3.5, "median": 3.5, "min": 1.0, "max": 6.0, "length": 3.5, "std": pytest.approx(1.7078, abs=1e-4)}
    assert figures == {f"eval/{name}": value for name, value in wanted.items()}


# How often, and how long


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
    env_id, steps, wanted, minerva, monkeypatch, capsys
):
    assert evaluations("ppo", env_id, steps, None, None, usual=10) == wanted
    assert evaluations("ppo", env_id, steps, 7, None, usual=10)[:2] == (7, 10)
    given = {}
    monkeypatch.setattr(__main__, "train", lambda *args, **how: given.update(how))
    monkeypatch.setattr(__main__, "evaluate", lambda agent, **how: how)
    assert minerva(f"train ppo --env {env_id} --steps {max(steps, 2048)}") is None
    every, episodes, final = evaluations("ppo", env_id, max(steps, 2048), None, None, usual=50)
    assert (given["eval_every"], given["eval_episodes"]) == (every, episodes)
    out, err = capsys.readouterr()
    assert json.loads(out)["episodes"] == final
    first = [line for line in err.splitlines() if line.startswith("no preset")]
    assert first == [] or f"evaluated every {every} steps over {episodes} episodes" in first[0]


def test_python_has_the_same_rule_and_the_final_evaluation_its_interval(sick):
    agent, env = new("ppo", "Sick-v0")
    made, history = Sick.made, train(agent, env, 640, progress=False)
    assert len(history.evaluations) == 3 and Sick.made == made + 3, "three copies, made once"
    figures = evaluate(agent, episodes=6, interval=True)
    assert (
        figures["eval/low"] == figures["eval/high"] == figures["eval/mean"] == 8.0 and figures["eval/episodes"] == 6.0
    )
    figures = evaluate(new("ppo", "ToyLottery-v0")[0], episodes=60, interval=True)  # ten of each length from 1 to 6
    half = figures["eval/high"] - figures["eval/mean"]
    assert half == pytest.approx(1.96 * figures["eval/std"] / 60**0.5, rel=0.1)


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "HalfCheetah-v5", "dm_control/cartpole/swingup"]
)
def test_copies_that_are_seeded_again_play_as_new_ones(env_id):
    agent, _ = new("ppo", env_id)
    with official(agent, env_id, 2) as copies:
        again = [evaluate(agent, episodes=2, max_steps=200, copies=copies) for _ in range(2)]
    with official(agent, env_id, 2) as copies:
        assert again == [evaluate(agent, episodes=2, max_steps=200, copies=copies)] * 2


def test_an_evaluation_that_does_not_end_is_cut_and_told_once(tmp_path):
    """ToyEcho-v0 goes on for ever, and has no limit registered."""
    agent, env = new("ppo", "ToyEcho-v0")
    with pytest.warns(UserWarning, match=r"^ToyEcho-v0: evaluation cuts an episode .* after 1000 steps") as warned:
        history = train(agent, env, 192, progress=False, checkpoint=tmp_path / "run.pt")
    assert len([warning for warning in warned if "cuts" in str(warning.message)]) == 1
    assert history.column("eval/unfinished").tolist() == [1.0] * 3 and history.column("eval/length")[-1] == 1000.0
    assert read(tmp_path / "run.pt")["training"]["evaluations"] == history.evaluations
    with pytest.warns(UserWarning, match="after 40 steps"):
        assert evaluate(agent, episodes=3, max_steps=40)["eval/unfinished"] == 1.0


# What goes wrong in one


@pytest.mark.parametrize("every", [None, 10**6])
@pytest.mark.parametrize("error", [RuntimeError("a fault"), ValueError("obs: not finite"), KeyboardInterrupt])
def test_an_evaluation_that_fails_leaves_the_training_and_is_made_up_for(error, every, tmp_path, monkeypatch, same):
    path, how = tmp_path / "run.pt", {"eval_every": 128, "checkpoint_every": every}
    wanted = run(*(whole := new("ppo", "CartPole-v1")), None, 320, **how)

    def fail(*args, **how):
        assert path.exists() == (every is None), "written before, where it is due"
        raise error

    with monkeypatch.context() as patch, pytest.raises(BaseException) as found:  # KeyboardInterrupt would end the tests
        patch.setattr(loop, "evaluate", fail)
        run(*new("ppo", "CartPole-v1"), path, 320, **how)
    assert read(path)["training"]["steps"] == 128
    if isinstance(error, ValueError):
        assert str(found.value) == f"{error}; {path} holds the last good checkpoint, of 128 steps"
    history = run(*(again := new("ppo", "CartPole-v1")), path, 320, **how)
    assert timeless(history) == timeless(wanted) and same(again[0].state_dict(), whole[0].state_dict())
    assert run(*new("ppo", "CartPole-v1"), path, 320, **how).evaluations == history.evaluations


@pytest.mark.parametrize("kind", ["obs", "reward"])
def test_what_is_no_number_in_an_evaluation_is_refused_by_name(kind, sick, tmp_path):
    agent, env = new("ppo", f"Sick{kind}-v0")
    named = rf"^{kind}: wanted finite numbers; got \d+ .* from Sick{kind}-v0 after 5 steps"
    with pytest.raises(ValueError, match=named):
        evaluate(agent, episodes=2)
    with pytest.raises(FloatingPointError, match=rf"{named}; .*run.pt holds .* of 128 steps"):
        run(agent, env, tmp_path / "run.pt", 128)
    assert read(tmp_path / "run.pt")["training"]["steps"] == 128


def test_a_parameter_that_is_no_number_is_refused_by_name():
    agent, _ = new("ppo", "CartPole-v1")
    with torch.no_grad():
        next(agent.policy.parameters()).view(-1)[0] = torch.nan
    with pytest.raises(ValueError, match=r"^policy\S+: wanted finite numbers; got 1 "):
        evaluate(agent, episodes=1)
