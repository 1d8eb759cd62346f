"""Films: the episodes that are evaluated, every picture of them, and no file where something went wrong."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import ctypes.util
import json
import os
import sys

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import pytest

from minerva_lite import evaluate
from minerva_lite.training import video as module
from minerva_lite.training.checkpoints import save
from minerva_lite.training.video import film
from tests.runs import new, run

opengl = pytest.mark.skipif(
    sys.platform == "linux" and not ctypes.util.find_library("EGL"),
    reason="no OpenGL library: apt install libegl1 libgl1",
)


class GrayEnv(gym.Env):
    """Episode lengths 2, …, 5 by the seed; a picture's gray tells length and step. Its sides are odd."""

    metadata = {"render_modes": ["rgb_array"]}
    observation_space = gym.spaces.Box(-1000.0, 1000.0, (1,), np.float64)
    action_space = gym.spaces.Box(np.array([3.0]), np.array([5.0]), dtype=np.float64)
    shared = np.random.default_rng(0)

    def __init__(self, render_mode=None, fault=""):
        self.render_mode, self.fault = render_mode, fault

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.length = seed % 4 + 2
        self.t = 0
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        if self.fault == "BreaksWhenFilmed" and self.render_mode and self.t == 2:
            raise RuntimeError("broken")
        reward = self.shared.normal() if self.fault == "IgnoresItsSeed" else float(action[0]) / 3
        over = self.t >= self.length and self.fault != "NeverEnds"
        return np.full(1, self.t, dtype=np.float64), reward, over, False, {}

    def render(self):
        return np.full((33, 47, 3), gray(self.length, self.t), dtype=np.uint8)


def gray(length: int, t: int) -> int:
    return 20 * length + 30 * t


for fault in ("", "BreaksWhenFilmed", "IgnoresItsSeed", "NeverEnds"):
    gym.register(f"Gray{fault}-v0", GrayEnv, kwargs={"fault": fault}, disable_env_checker=True)


def pictures(path) -> tuple[dict, np.ndarray]:
    """What ffmpeg says about a film, and its pictures, [T, H, W, 3]."""
    frames = imageio_ffmpeg.read_frames(str(path))
    about = next(frames)
    width, height = about["size"]
    return about, np.stack([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in frames])


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_every_state_of_every_episode_is_shown_in_its_order(suffix, tmp_path):
    agent, path = new("ppo", "Gray-v0")[0], tmp_path / f"film{suffix}"
    told = film(agent, path, episodes=3, seed=9)
    assert told == evaluate(agent, episodes=3, seed=9)
    about, seen = pictures(path)
    wanted = [gray(length, t) for length in (3, 4, 5) for t in range(length + 1)]
    assert len(seen) / about["duration"] == pytest.approx(30.0, rel=0.03), "where the environment says nothing"
    np.testing.assert_allclose(seen[:, 8:24, 8:40].mean((1, 2, 3)), wanted, atol=3.0)
    assert about["size"] == ((48, 34) if suffix == ".mp4" else (47, 33))


@pytest.mark.parametrize(
    ("env_id", "suffix", "rate", "episodes"),
    [
        ("CartPole-v1", ".mp4", 50.0, 2),
        ("Pendulum-v1", ".mp4", 30.0, 1),  # of 200 steps
        pytest.param("LunarLander-v3", ".mp4", 50.0, 2, marks=pytest.mark.slow),
        pytest.param("InvertedPendulum-v5", ".mp4", 25.0, 2, marks=opengl),
        pytest.param("dm_control/cartpole/swingup", ".mp4", 100.0, 1, marks=[opengl, pytest.mark.slow]),
    ],
)
def test_a_film_is_what_was_evaluated_at_the_speed_of_the_environment(env_id, suffix, rate, episodes, tmp_path, same):
    (agent, env), path = new("ppo", env_id), tmp_path / f"film{suffix}"
    run(agent, env, None, 64)
    before = copy.deepcopy(agent.state_dict())
    figures = film(agent, path, episodes=episodes)
    assert figures == evaluate(agent, episodes=episodes)
    assert same(before, agent.state_dict())
    about, seen = pictures(path)
    assert about["fps"] == pytest.approx(rate)
    assert len(seen) == episodes * (figures["eval/length"] + 1), "a picture a state, the first and the last included"
    assert seen[0].std() > 5.0 and (seen[0] != seen[-1]).any(), "something is to be seen, and it moves"
    assert os.listdir(tmp_path) == [path.name]


def test_a_gif_keeps_the_time_of_an_environment_faster_than_a_gif(tmp_path):
    agent = new("ppo", "CartPole-v1")[0]
    told = film(agent, tmp_path / "film.gif", fps=100)
    about, seen = pictures(tmp_path / "film.gif")
    assert about["fps"] == 50.0 and len(seen) == pytest.approx(told["eval/length"] / 2, abs=1)


@pytest.mark.parametrize(
    ("env_id", "arguments", "kind", "message"),
    [
        ("Gray-v0", {"path": "film.avi"}, ValueError, r"^the suffix of path: wanted one of .mp4, .gif; got '.avi'$"),
        ("Gray-v0", {"path": "none/film.mp4"}, ValueError, r"^path: wanted a file in a folder that exists and may be written to; got .*none/film.mp4$"),
        ("Gray-v0", {"fps": 0}, ValueError, r"^fps: wanted a finite number above 0; got 0$"),
        ("Gray-v0", {"episodes": 0}, ValueError, r"^episodes: wanted a whole number of at least 1; got 0$"),
        ("Gray-v0", {"env_id": "Grey-v0"}, ValueError, r"^env_id: wanted a registered Gymnasium id; got 'Grey-v0'; did you mean Gray-v0\?$"),
        ("Gray-v0", {"env_id": "CartPole-v1"}, ValueError, r"^env_id: wanted one with the spaces of .*Gray-v0.*; got .*CartPole-v1"),
        ("ToyLottery-v0", {}, ValueError, r"^env_id: wanted an environment with render_mode rgb_array; ToyLottery-v0 has \[\]$"),
        ("GrayNeverEnds-v0", {"max_steps": 20}, ValueError, r"^max_steps: wanted episodes of GrayNeverEnds-v0 to end within 20 steps; 1 of 1 did not: "),
        ("GrayIgnoresItsSeed-v0", {}, ValueError, r"^env_id: wanted an environment whose seed decides what happens; GrayIgnoresItsSeed-v0 was played with .* and filmed with "),
        ("Gray-v0", {"ffmpeg": "-c:v nonsense -f mp4"}, OSError, "^path: wanted to write .*film.mp4, where nothing has changed; got .*nonsense"),
        ("GrayBreaksWhenFilmed-v0", {}, RuntimeError, "^GrayBreaksWhenFilmed-v0: environment 0 raised RuntimeError in step: broken$"),
    ],
)  # fmt: skip
def test_a_film_that_fails_names_the_cause_and_keeps_the_older_file(
    env_id, arguments, kind, message, tmp_path, monkeypatch
):
    (tmp_path / "film.mp4").write_bytes(b"older")
    if "ffmpeg" in arguments:
        monkeypatch.setitem(module.FORMATS, ".mp4", arguments.pop("ffmpeg"))
    path = tmp_path / arguments.pop("path", "film.mp4")
    with pytest.raises(kind, match=message):
        film(new("ppo", env_id)[0], path, **arguments)
    assert os.listdir(tmp_path) == ["film.mp4"] and (tmp_path / "film.mp4").read_bytes() == b"older"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is a display")
def test_without_a_display_drawing_variables_are_set_and_then_restored(monkeypatch):
    names = ("MUJOCO_GL", "SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY")

    def seen(**variables):
        for name in names:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        before = dict(os.environ)
        with module._without_display():
            inside = [os.environ.get(name) for name in names[:2]]
        assert before == dict(os.environ)
        return inside

    assert seen() == seen(DISPLAY="") == ["egl", "dummy"]
    assert seen(MUJOCO_GL="osmesa") == ["osmesa", "dummy"]
    assert seen(DISPLAY=":0") == seen(WAYLAND_DISPLAY="wayland-0") == [None, None]


@pytest.mark.parametrize("env_id", ["InvertedPendulum-v5", "dm_control/cartpole/swingup"])
def test_without_opengl_the_message_says_what_to_install(env_id, tmp_path, monkeypatch):
    agent = new("ppo", env_id)[0]
    monkeypatch.setenv("MUJOCO_GL", "nothing")
    with pytest.raises(ImportError, match=rf"^env_id: {env_id} cannot be drawn here .* `apt install libegl1 libgl1`"):
        film(agent, tmp_path / "film.mp4")
    assert os.listdir(tmp_path) == []


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(ImportError, match=r"^path: films need `pip install minerva_lite\[video\]`"):
        film(new("ppo", "Gray-v0")[0], tmp_path / "film.mp4")
    assert os.listdir(tmp_path) == []


def test_the_command_line_films(minerva, tmp_path, capfd):
    """Nothing but the figures on stdout, nothing at all on stderr, not of ffmpeg either."""
    agent = new("ppo", "CartPole-v1")[0]
    save(agent, tmp_path / "agent.pt")
    assert minerva("video agent.pt --out film.gif --episodes 2") is None
    out, err = capfd.readouterr()
    assert json.loads(out) == evaluate(agent, episodes=2) and err == ""
    assert sorted(os.listdir(tmp_path)) == ["agent.pt", "film.gif"]
