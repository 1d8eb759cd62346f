"""Save an agent and get it back (floor 7)."""

from __future__ import annotations

import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch

from .agents import AGENTS
from .spec import EnvSpec

FORMAT = 2  # 1 had no training


def save(agent: Any, path: str | Path, training: dict[str, Any] | None = None) -> None:
    """Write everything that training changes, normalizer and generator included, and the settings.

    training: where a run stands, as `train` tells it. The file is written beside its final name and renamed, so a
    crash never leaves half a checkpoint.
    """
    path = Path(path)
    versions = {"python": platform.python_version(), "torch": str(torch.__version__), "gymnasium": gym.__version__}
    state = {"format": FORMAT, "agent": agent.name, "versions": versions, "state": agent.state_dict()}
    state |= {"training": training}
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | Path, *, device: str | torch.device = "auto") -> Any:
    """The agent saved at `path`. Reads tensors and plain values only, so a hostile file cannot run code.

    Raises FileNotFoundError, or ValueError: the file is no checkpoint of this package, or of a newer format.
    """
    saved = read(path)
    agent_class, config_class = AGENTS[saved["agent"]]
    state = saved["state"]
    config = config_class(**state["config"])
    dtype = state["modules"]["obs_normalizer.mean"].dtype
    agent = agent_class(config, EnvSpec(**state["spec"]), device=device, dtype=dtype)
    agent.load_state_dict(state)
    return agent


def read(path: str | Path) -> dict[str, Any]:
    """What a checkpoint holds: tensors and plain values, nothing else is read.

    Raises FileNotFoundError, or ValueError: the file is no checkpoint of this package, or of a newer format.
    """
    path = Path(path)
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # torch reports a damaged file by half a dozen exception types
        raise ValueError(f"path: wanted a checkpoint of minerva_lite; {path.name} cannot be read ({error})") from error
    if not isinstance(saved, dict) or saved.get("agent") not in AGENTS or not isinstance(saved.get("format"), int):
        raise ValueError(f"path: wanted a checkpoint of minerva_lite; {path.name} holds something else")
    if saved["format"] > FORMAT:
        raise ValueError(f"path: wanted format {FORMAT} or older; {path.name} has format {saved['format']}")
    return saved
