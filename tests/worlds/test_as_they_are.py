"""Environments as people write them: arrays that are used again, infos of any kind, odd bounds, errors of their own."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import sys
import warnings
from decimal import Decimal
from itertools import product

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from minerva_lite import evaluate, load, make_env, train
from minerva_lite.__main__ import main
from minerva_lite.agents.ppo import PPOAgent, PPOConfig
from minerva_lite.training.settings_file import read_settings
from minerva_lite.training.studies import read_failures, study
from minerva_lite.worlds import TORCH_ENVS, EnvSpec, TorchCartPole
from minerva_lite.worlds.own_spaces import describe
from minerva_lite.worlds.single import EnvironmentFailed
from tests.laws import lived

BOX = spaces.Box(-1e6, 1e6, (2,), np.float64)
WAYS = [("gymnasium", "same_step"), ("parallel", "same_step"), ("gymnasium", "next_step"), ("parallel", "next_step")]
PIECES = {  # how observations are told that all lie in one array, which the environment goes on writing to
    "array": (BOX, lambda buffer: buffer),
    "view": (BOX, lambda buffer: buffer[:]),
    "dict": (spaces.Dict({"a": BOX, "b": BOX}), lambda buffer: {"a": buffer, "b": buffer[::-1]}),
    "tuple": (spaces.Tuple((BOX, spaces.Box(-1e6, 1e6, (), np.float64))), lambda buffer: (buffer, buffer[1])),
}


class Odd(gym.Env):
    """Episodes of 3 steps, by turns terminated and truncated; observation (episode, step), in one array for ever."""

    action_space = spaces.Discrete(2)

    def __init__(self, pieces="array", info=None, reward=1.0, error=None, at=5):
        self.observation_space, self.told = PIECES[pieces]
        self.buffer, self.info, self.reward, self.error, self.at = np.array([-1.0, 0.0]), info, reward, error, at
        self.count = self.first = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.first += (seed or 0) % 2  # the infos of neighbors differ
        self.buffer += 1.0, -self.buffer[1]
        return self.told(self.buffer), self.info(self.first) if self.info else {}

    def step(self, action):
        self.buffer[1] += 1
        self.count += 1
        if self.error is not None and self.count == self.at:
            if not isinstance(self.error, BaseException):
                return self.error, 1.0, False, False, {}
            raise self.error
        over, even = self.buffer[1] == 3, self.buffer[0] % 2 == 0
        info = self.info(self.first + self.count) if self.info else {}
        return self.told(self.buffer), self.reward, bool(over and even), bool(over and not even), info


@pytest.fixture
def odd(registries):
    def register(env_id="Odd-v0", **arguments):
        gym.register(env_id, entry_point=lambda: Odd(**arguments))
        return env_id

    return register


@pytest.mark.parametrize(("backend", "autoreset"), WAYS)
@pytest.mark.parametrize("pieces", PIECES)
def test_the_true_successor_is_not_what_the_array_holds_later(pieces, backend, autoreset, odd):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*share an object")
        rows = lived(make_env(odd(pieces=pieces), 2, backend=backend, autoreset=autoreset, dtype=torch.float64), 8)
    phantoms = autoreset == "next_step"
    wanted = [(e, t) for e in range(3) for t in (1, 2, 3, *[0] * phantoms)][:8]
    assert rows["next_obs"][..., :2].tolist() == [[[e + (t == 0), t]] * 2 for e, t in wanted]


INFOS = {
    "final_obs": lambda n: {"final_obs": np.full(2, 77.0), "_final_obs": True},
    "lengths": lambda n: {"path": np.zeros(n + 1)},
    "kinds": lambda n: {"x": "word" if n % 2 else 1, "y": {"z": n} if n % 2 else n},
}


@pytest.mark.parametrize(("backend", "autoreset"), WAYS)
@pytest.mark.parametrize("info", INFOS)
def test_infos_change_no_transition(info, backend, autoreset, odd, same):
    told, silent = odd("OddTold-v0", info=INFOS[info]), odd()
    ways = {"backend": backend, "autoreset": autoreset}
    assert same(lived(make_env(told, 2, **ways), 8), lived(make_env(silent, 2, **ways), 8))


TWO = [np.array([2.0]), np.array([[2]]), np.array(2.0), [2.0], 2, np.float32(2), torch.tensor([2.0]), Decimal(2)]


@pytest.mark.parametrize(("backend", "autoreset"), WAYS)
@pytest.mark.parametrize("reward", [*TWO, True, None, np.ones(2), [], "1.0", {}, 1j], ids=str)
def test_a_reward_is_one_number_in_whatever_form_or_is_refused_by_name(reward, backend, autoreset, odd):
    env = make_env(odd(reward=reward), 2, backend=backend, autoreset=autoreset)
    if any(reward is one for one in (*TWO, True, None)):
        wanted = [np.nan if reward is None else float(reward is True or 2)] * 2
        np.testing.assert_equal(lived(env, 2)["reward"][1].tolist(), wanted)
        return
    env.reset()
    with pytest.raises(EnvironmentFailed, match=r"^Odd-v0: environment \d raised \w+ in step: .*(reward|float)"):
        env.step(torch.zeros(2, dtype=torch.int64))
    env.close()


TINY, F16 = np.nextafter(0, 1), np.finfo(np.float16)
PAIRS = [(round(a / 10, 1), round(b / 10, 1)) for a, b in product(range(-10, 10, 3), range(-9, 11)) if a < b]
BOUNDS = [(*pair, dtype) for pair in PAIRS for dtype in (np.float64, np.float32, np.float16)]
BOUNDS += [(0.0, TINY, np.float64), (-3 * TINY, 5 * TINY, np.float64), (-1e29, 1.0, np.float64)]
BOUNDS += [(-1e29, 1e29, np.float32)]
BOUNDS += [(F16.min, F16.max, np.float16), (1e16, 1e16 + 2, np.float64), (0.1, 0.1, np.float64)]
BOUNDS += [(np.iinfo(kind).min, np.iinfo(kind).max, kind) for kind in (np.int8, np.uint8, np.int64, np.uint64)]
BOUNDS += [(-7, 4, np.int32), (1000, np.iinfo(np.int64).max, np.int64), (2**53 + 1, 2**53 + 3, np.int64)]


def test_no_action_leaves_its_box_by_the_last_bit_or_is_another_than_the_nearest(generator):
    some = 2.0 * torch.rand(200, generator=generator, dtype=torch.float64) - 1.0
    shares = torch.cat([some, torch.tensor([-1.0, 1.0, -1 + 2e-16, 1 - 2e-16, 0.0, 9.0], dtype=torch.float64)])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=RuntimeWarning)
        for low, high, dtype in BOUNDS:
            box = spaces.Box(np.array([low], dtype), np.array([high], dtype), dtype=dtype)
            native = describe("Any-v0", BOX, box).own_action(shares[:, None])
            assert native.dtype == dtype and all(box.contains(action) for action in native), (low, high, dtype)
            low, high = box.low.item(), box.high.item()
            wanted = low + 0.5 * (shares.clamp(-1.0, 1.0).numpy() + 1.0) * (high - low)
            # The nearest whole number: cut off instead, the upper bound would be an action of measure zero.
            last_bit = np.finfo(dtype if box.dtype.kind == "f" else float).eps * max(-low, high)
            apart = 0.5 * (box.dtype.kind != "f") + last_bit + 1e-6 * (high - low)
            assert (np.abs(native[:, 0].astype(float) - wanted) <= apart).all(), (low, high, dtype)


LARGEST = [np.finfo(np.float32).max, np.finfo(np.float64).max, 1e30, np.inf]
WIDE = [spaces.Box(*ends, (1,), np.float64) for end in LARGEST for ends in ((-end, 1.0), (0.0, end))]
PICTURES = [
    spaces.Box(0, 1, (84, 84, 3), np.float32),
    spaces.Box(0, 1, (64, 64), np.int64),
    spaces.MultiBinary((84, 84)),
]


@pytest.mark.parametrize("space", WIDE + PICTURES, ids=str)
def test_bounds_that_stand_for_none_and_pictures_of_any_type_are_refused(space):
    observed, actions = (spaces.Dict({"a": BOX, "b": space}), BOX) if space in PICTURES else (BOX, space)
    message = "measurements; Any-v0 has pixels" if space in PICTURES else ".* bounded Box actions; Any-v0 has"
    with pytest.raises(ValueError, match=f"^env_id: wanted .*{message}"):
        describe("Any-v0", observed, actions)


class Stubborn(Exception):
    """Neither pickled nor made from one argument."""

    def __init__(self, a, b):
        super().__init__(a, b, lambda: None)


ERRORS = [ValueError("path: x"), OSError(2, "x", "path"), KeyError("seed"), SystemExit(3), Stubborn(1, 2), np.zeros(3)]
SMALL = PPOConfig(num_envs=2, rollout_steps=4, minibatch_size=4)


@pytest.mark.parametrize("backend", ["gymnasium", "parallel"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_an_environment_names_it_and_what_is_left(error, backend, odd, tmp_path):
    env = make_env(odd(error=error, at=11), 2, backend=backend)
    agent = PPOAgent(SMALL, env.spec, device="cpu")
    with pytest.raises(EnvironmentFailed, match=r"^Odd-v0: environment \d raised \w+ in step: (?s:.*); it had made 10 steps\n") as failed:  # fmt: skip
        train(agent, env, 80, checkpoint=tmp_path / "a.pt", eval_every=8, eval_episodes=1, progress=False)
    env.close()
    assert failed.value.__notes__[0].startswith(f"the training stood at 16 steps; {tmp_path / 'a.pt'} holds the last good checkpoint, of 16 steps")  # fmt: skip
    assert load(tmp_path / "a.pt", device="cpu").spec == env.spec
    raised = isinstance(error, BaseException)
    assert ("raise self.error" if raised else "observation: wanted shape (2,); got (3,)") in failed.value.trace


MODULE = """
import gymnasium as gym
from tests.worlds.test_as_they_are import Odd
gym.register("Odd-v0", entry_point=lambda: Odd(error=OSError("path: no map"), at=11))
gym.register("Unmade-v0", entry_point=lambda: open("path: no map"))
"""


@pytest.mark.parametrize("env", ["Odd-v0", "Unmade-v0"])
def test_the_command_line_shows_the_code_that_raised(env, registries, tmp_path, monkeypatch):
    (tmp_path / "oddities.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "oddities", raising=False)
    sizes = (
        "--num-envs 2 --config.rollout-steps 4 --config.minibatch-size 4 --steps 80 --eval-every 8 --eval-episodes 1"
    )
    monkeypatch.setattr(sys, "argv", f"minerva train ppo --env oddities:{env} {sizes} --out a.pt".split())
    with pytest.raises(SystemExit) as stopped:
        main()
    *trace, line = str(stopped.value).split("\n")
    assert trace[0].startswith("Traceback") and "no map" in trace[-1]
    assert ("raise self.error" in "".join(trace)) == (env == "Odd-v0")
    assert line.startswith(f"oddities:{env}: environment 0 raised ") and "--" not in line
    assert ("a.pt holds the last good checkpoint, of 16 steps" in line) == (env == "Odd-v0")


def test_a_twin_that_says_no_bounds_has_those_of_gymnasium(registries):
    plain = EnvSpec("CartPole-v1", obs_dim=4, num_actions=2)
    TORCH_ENVS["CartPole-v1"] = type("Twin", (TorchCartPole,), {"spec": plain})
    assert make_env("CartPole-v1").spec.own == make_env("CartPole-v1", backend="gymnasium").spec.own is not None


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, "1", None, np.float64(1), np.bool_(True)])
@pytest.mark.parametrize("use", ["torch", "gymnasium", "agent", "evaluate", "study"])
def test_one_check_of_seeds(use, seed, tmp_path):
    agent = PPOAgent(SMALL, make_env("CartPole-v1", 2).spec, device="cpu")
    used = {
        "torch": lambda seed: make_env("CartPole-v1", 2, seed=seed).reset(),
        "gymnasium": lambda seed: make_env("CartPole-v1", 2, seed=seed, backend="gymnasium").reset(),
        "agent": lambda seed: PPOAgent(SMALL, agent.spec, seed=seed, device="cpu"),
        "evaluate": lambda seed: evaluate(agent, episodes=1, seed=seed),
        "study": lambda seed: study("ppo", ["CartPole-v1"], [seed], ["preset"], tmp_path / "s.csv", total_steps=9),
    }[use]
    with pytest.raises(ValueError, match=r"^seeds?(\[0\])?: wanted a whole number from 0 to 2\*\*63 - 1; got "):
        used(seed)
    for good in (np.int64(3), 2**63 - 1) if use != "study" else ():
        used(good)


def test_a_study_says_what_its_workers_import(odd, tmp_path):
    with pytest.warns(UserWarning, match="^1 of 1 runs failed"):
        study("ppo", [odd()], [0], ["preset"], tmp_path / "s.csv", total_steps=4096, progress=False)
    [line] = read_failures(tmp_path / "s.csv")
    assert "got 'Odd-v0'" in line and "name it <module>:<id>, which they import" in line


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_settings_are_read_in_the_encodings_of_editors(encoding, tmp_path):
    (tmp_path / "s.json").write_text('{"env": "Größe-v0", "seed": 3}\r\n', encoding)
    assert read_settings(tmp_path / "s.json") == {"env": "Größe-v0", "seed": 3}
