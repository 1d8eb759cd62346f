"""Films of whole episodes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from ..checks import require_count, require_one_of, require_positive
from ..files import replacing
from ..language.answering import AnsweringAgent
from ..worlds.envs import make_env
from ..worlds.numpy_backed import registered_id
from ..worlds.single import make_single
from .checkpoints import require_place
from .evaluation import evaluate, named_env, official, summary

# What ffmpeg makes of the pictures. H.264 stores colors at half the resolution, so both sides must be even. A GIF has
# one palette, here of its first pictures, and no viewer shows more than 50 pictures a second.
FORMATS = {
    ".mp4": "-vf pad=ceil(iw/2)*2:ceil(ih/2)*2 -c:v libx264 -pix_fmt yuv420p -movflags +faststart -f mp4",
    ".gif": "-vf fps=min(source_fps\\,50),split[a][b];[a]trim=end_frame=50,palettegen[p];[b][p]paletteuse=dither=none "
    "-f gif",
}


def film(
    agent: Any,
    path: str | Path,
    *,
    env_id: str | None = None,
    episodes: int = 1,
    seed: int = 10_000,
    fps: float | None = None,
    max_steps: int = 100_000,
) -> dict[str, float]:
    """Write whole episodes to `path`, an .mp4 or a .gif, and return their figures.

    Episodes and figures are those of `evaluate` with the same seeds: the agent plays first, then its actions are
    repeated in an environment that draws. fps: pictures per second (None: the environment's own).
    Raises ValueError: another kind of file, no folder for it, what `evaluate` refuses, an episode that goes on after
    `max_steps` steps, an environment that draws no pictures, or one that does not repeat an episode under its seed.
    ImportError: what draws or writes is not installed. OSError: the film cannot be written. Then there is no new file,
    and an old one is untouched.
    """
    path = Path(path)
    require_one_of(tuple(FORMATS), **{"the suffix of path": path.suffix})
    require_count(episodes=episodes)
    require_place("path", path)
    if fps is not None:
        require_positive(fps=fps)
    env_id = named_env(agent, env_id)
    if isinstance(agent, AnsweringAgent):
        raise ValueError(f"env_id: wanted an environment that draws pictures; got {env_id}, whose answers are text")
    with _named(env_id, AttributeError), closing(make_env(env_id, backend="gymnasium")) as one:
        rate = fps or _pictures_a_second(one.env.envs[0], env_id)
    actions: list[np.ndarray] = []
    with official(agent, env_id, episodes) as copies:
        how = {"seed": seed, "max_steps": max_steps, "watch": actions.append, "copies": copies}
        figures = evaluate(agent, env_id, episodes=episodes, **how)
    if unfinished := round(episodes * figures.get("eval/unfinished", 0.0)):
        raise ValueError(
            f"max_steps: wanted episodes of {env_id} to end within {max_steps} steps; {unfinished} of {episodes} did "
            "not: register it with max_episode_steps, or allow more"
        )
    total, length = torch.zeros(2, episodes, dtype=torch.float64)

    def pictures() -> Iterator[np.ndarray]:
        for i in range(episodes):
            rewards = yield from _replay(env_id, seed + i, [action[i] for action in actions])
            length[i] = len(rewards)
            for reward in torch.tensor(rewards, dtype=agent.dtype).double():  # one by one, as `evaluate` adds them
                total[i] += reward

    with replacing(path) as part, _without_display():
        _encode(pictures(), part, path.suffix, rate)
        if summary(total, length) != figures:
            raise ValueError(
                f"env_id: wanted an environment whose seed decides what happens; {env_id} was played with {figures} "
                f"and filmed with {summary(total, length)}"
            )
    return figures


def _pictures_a_second(env: gym.Env, env_id: str) -> float:
    """Pictures per second of the environment's own time. Raises ValueError: it cannot be drawn."""
    modes = env.metadata.get("render_modes", [])
    if "rgb_array" not in modes:
        raise ValueError(f"env_id: wanted an environment with render_mode rgb_array; {env_id} has {modes}")
    if env_id.startswith("dm_control/"):
        return 1.0 / env.unwrapped.dt  # Shimmy's render_fps is the length of a step, in milliseconds
    return env.metadata.get("render_fps", 30)


def _replay(env_id: str, seed: int, actions: list[np.ndarray]) -> Generator[np.ndarray, None, list[float]]:
    """Pictures [H, W, 3] of one episode, its last state among them; then the rewards."""
    rewards = []
    with closing(make_single(registered_id(env_id), 0, render_mode="rgb_array")) as env:
        env.reset(seed=seed)
        yield _first_picture(env, env_id)
        for action in actions:
            _, reward, terminated, truncated, _ = env.step(action)
            rewards.append(reward)
            yield env.render()
            if terminated or truncated:
                break
    return rewards


def _first_picture(env: gym.Env, env_id: str) -> np.ndarray:
    """A picture. Raises ImportError: what draws it is missing."""
    with _named(env_id, Exception):  # every way to draw raises an exception of its own
        if env_id.startswith("dm_control/"):  # it read MUJOCO_GL when it was imported: let it read again
            importlib.reload(sys.modules["dm_control._render"])
        elif hasattr(env.unwrapped, "mujoco_renderer") and "MUJOCO_GL" in os.environ:
            # Tried here first: where Gymnasium itself fails, it leaves an object that raises when it is deleted.
            importlib.import_module(f"mujoco.{os.environ['MUJOCO_GL']}").GLContext(64, 64).free()
        return env.render()


@contextmanager
def _named(env_id: str, failure: type[Exception]) -> Iterator[None]:
    """Say what to install where a failure means that nothing can draw."""
    try:
        yield
    except gym.error.DependencyNotInstalled:
        raise  # the message already says what to install
    except failure as error:
        raise ImportError(
            f"env_id: {env_id} cannot be drawn here ({error}); MuJoCo and dm_control need an OpenGL library: on "
            "Debian and Ubuntu `apt install libegl1 libgl1`, or one named in MUJOCO_GL (egl, osmesa, glfw)"
        ) from error


@contextmanager
def _without_display() -> Iterator[None]:
    """Without a screen, let MuJoCo draw by EGL and pygame by its dummy driver; by default both look for a window."""
    chosen = {"PYGAME_HIDE_SUPPORT_PROMPT": "1"}
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        chosen |= {"MUJOCO_GL": "egl", "SDL_VIDEODRIVER": "dummy"}
    chosen = {name: value for name, value in chosen.items() if name not in os.environ}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name in chosen:
            del os.environ[name]


def _encode(pictures: Iterator[np.ndarray], file: Path, suffix: str, fps: float) -> None:
    """Write the pictures, [H, W, 3] uint8 each. Raises OSError: ffmpeg failed; ImportError: there is none."""
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError as error:
        raise ImportError(f"path: films need `pip install minerva_lite[video]` ({error})") from error
    first = next(pictures)
    height, width, _ = first.shape
    options = f"-v error -y -f rawvideo -pix_fmt rgb24 -s {width}x{height} -r {fps} -i - {FORMATS[suffix]}".split()
    command = [get_ffmpeg_exe(), *options, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as ffmpeg:
        with suppress(BrokenPipeError):  # ffmpeg has ended, and said why
            for picture in chain([first], pictures):
                ffmpeg.stdin.write(picture.tobytes())
        _, said = ffmpeg.communicate()
    if ffmpeg.returncode:
        raise OSError(f"ffmpeg: {said.decode(errors='replace').strip() or f'exit code {ffmpeg.returncode}'}")
