"""Save an agent and get it back."""

from __future__ import annotations

import glob
import math
import os
import pickle
import platform
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from ..agents import AGENTS
from ..agents.base import pick_device
from ..agents.settings import completed
from ..files import loaded, replacing, stream_of
from ..worlds.spec import EnvSpec

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

FORMAT = 3  # 1 had no training; 1 and 2 are of version 0.1, whose settings and networks differ from these
FORMER = (
    "of minerva_lite 0.1: train again with this version, or evaluate and film it with 0.1; its weights alone are in "
    "torch.load(path)['state']['modules'], under the names that they had in 0.1"
)
PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device)  # besides tensors


def save(agent: Any, path: str | Path, training: dict[str, Any] | None = None) -> None:
    """Write everything that training changes, normalizer and generator included, and the settings.

    training: where a run stands, as `train` tells it. The file is read back before it takes its place, and a crash
    never leaves half a checkpoint.
    Raises OSError: there is no room for it. FloatingPointError: a number that training changes is NaN or infinite.
    ValueError: the agent holds something that cannot be read back. In all cases the file that stood there is untouched.
    """
    learned = plain(agent.state_dict(), "state")
    _require_finite({part: value for part, value in learned.items() if part not in ("config", "spec")})
    versions = {"python": platform.python_version(), "torch": str(torch.__version__), "gymnasium": gym.__version__}
    state = {"format": FORMAT, "agent": agent.name, "versions": versions, "state": learned, "training": training}
    with replacing(path) as part:
        try:
            with part.open("wb") as file:
                torch.save(state, file)
            loaded(part, in_place=True)  # without a second copy in memory
        except RuntimeError as error:  # what torch makes of a disk that fills up while it writes
            raise OSError(str(error.__context__ or error)) from error
        except (AttributeError, TypeError, ValueError, pickle.PicklingError) as error:
            raise ValueError(f"path: wanted a checkpoint that can be read, so nothing has changed; {error}") from None


def plain(value: Any, name: str) -> Any:
    """A nested value as `loaded` gives it back: NumPy's numbers, enumerations and other kin as what they are equal to.

    Raises ValueError: something that is no tensor, number or text, nor a list, tuple or dictionary of them.
    """
    if type(value) in PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().as_subclass(torch.Tensor)
    if isinstance(value, dict):
        return {plain(key, name): plain(each, f"{name}.{key}") for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(plain(x, f"{name}[{i}]") for i, x in enumerate(value))
    for kind in (int, float, str):  # an IntEnum is an int, np.float64 a float
        if isinstance(value, kind):
            return getattr(kind, f"__{kind.__name__}__")(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        return torch.from_numpy(np.array(value)) if value.ndim else value.item()
    kind = type(value)
    raise ValueError(
        f"{name}: wanted tensors, numbers, text, and lists, tuples and dictionaries of them in a checkpoint; "
        f"got {kind.__module__}.{kind.__qualname__}"
    )


def state_of(env: Any) -> Any:
    """The state of environments as a checkpoint holds it, for `unpacked`; None: there is none.

    One that is offered but cannot be written, or raises, is None too, with a warning: the agent is to be saved.
    """
    try:
        return packed(env.state_dict())
    except Exception as error:
        message = f"the state of the environments is not saved, a resumed run starts fresh episodes: {error}"
        warnings.warn(message, stacklevel=3)
        return None


def packed(value: Any) -> Any:
    """A nested value so that `unpacked` makes the same of what the loader gives back, which knows no NumPy.

    Arrays, NumPy's numbers and tuples stand in a pair behind their kind.
    Raises ValueError: something that would come back as another thing, or not at all.
    """
    kind = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, torch.Tensor) and type(tensor := value.detach()) is torch.Tensor:
        return tensor
    if kind is list:
        return [packed(each) for each in value]
    if kind is tuple:
        return "tuple", tuple(packed(each) for each in value)
    if kind is dict:
        return {packed(key): packed(each) for key, each in value.items()}
    if kind is np.str_:
        return str(value)
    if kind is np.ndarray or isinstance(value, np.generic):
        try:
            return "array" if kind is np.ndarray else "number", torch.from_numpy(np.array(value))
        except (TypeError, ValueError):  # no numbers, or of a kind that torch does not have
            pass
    raise ValueError(
        "env: wanted a state of tensors, numbers, text, arrays, and lists, tuples and dictionaries of them; "
        f"got {kind.__module__}.{kind.__qualname__}"
    )


def unpacked(value: Any) -> Any:
    """What `packed` was given."""
    if type(value) is list:
        return [unpacked(each) for each in value]
    if type(value) is dict:
        return {unpacked(key): unpacked(each) for key, each in value.items()}
    if type(value) is not tuple:
        return value
    kind, inside = value
    if kind == "tuple":
        return tuple(unpacked(each) for each in inside)
    return inside.numpy() if kind == "array" else inside.numpy()[()]


def _require_finite(state: Any, where: str = "") -> None:
    """Raise FloatingPointError naming the first tensor or number of a nested state that is not finite."""
    if isinstance(state, (dict, list, tuple)):
        for key, value in state.items() if isinstance(state, dict) else enumerate(state):
            _require_finite(value, f"{where}.{key}" if where else str(key))
        return
    if isinstance(state, torch.Tensor):
        bad = int((~torch.isfinite(state)).sum())
    else:
        bad = int(isinstance(state, float) and not math.isfinite(state))
    if bad:
        raise FloatingPointError(f"{where}: wanted finite numbers in a checkpoint; got {bad} that are NaN or infinite")


def require_place(name: str, path: str | Path) -> None:
    """Raise ValueError unless a file can be there: better now than after hours of training."""
    real = Path(os.path.realpath(path))
    if stream_of(path) is None and (real.is_dir() or not os.access(real.parent, os.W_OK)):
        raise ValueError(f"{name}: wanted a file in a folder that exists and may be written to; got {path}")


@contextmanager
def claim(name: str, *paths: str | Path | None, start: str | None = None) -> Iterator[None]:
    """Keep files for the block: meanwhile no other process, and no other block of this one, may claim them.

    The lock is on an empty file beside each, `.<name>.lock`, because a file that is replaced would lose its own. The
    operating system opens it when its process dies, and it goes with the block. So does what a killed process had not
    finished writing. start: unless None, devices and pipes pass, which nobody claims, and a file has to be empty or
    begin with this text, by which a run knows what it wrote.
    Raises ValueError: a place where no file can be, a device or pipe, or a file that is claimed or another run's.
    """
    with ExitStack() as claimed:
        for path in filter(None, paths):
            require_place(name, path)
            if stream_of(path) is not None:
                if start is None:
                    raise ValueError(f"{name}: wanted a file; got {path}")
                continue
            claimed.enter_context(_locked(name, Path(os.path.realpath(path))))
            if start is not None and Path(path).exists():
                with Path(path).open("rb") as file:
                    found = file.read(max(1, len(start.encode())))
                if found not in (b"", start.encode()):
                    raise ValueError(f"{name}: {Path(path).name} exists, and is not of this run; wanted another name")
        yield


CLAIMED: set[Path] = set()  # by this process, which on some systems may lock a file twice


@contextmanager
def _locked(name: str, path: Path) -> Iterator[None]:
    taken = f"{name}: wanted a file that nothing else writes; {path.name} is taken, by another process or option"
    if path in CLAIMED:
        raise ValueError(taken)
    lock, handle = path.with_name(f".{path.name}.lock"), -1
    while not _is(lock, handle):  # whoever held it may have removed it in between
        with suppress(OSError):
            os.close(handle)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if sys.platform == "win32":
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(handle)
            raise ValueError(taken) from None
        except OSError:  # a file system without locks: `stamp` tells of others
            pass
    CLAIMED.add(path)
    try:
        for part in path.parent.glob(f"{glob.escape(path.name)}.{8 * '[0-9a-f]'}.part"):
            part.unlink()
        yield
    finally:
        CLAIMED.remove(path)
        if _is(lock, handle):
            with suppress(OSError):  # Windows removes no open file
                lock.unlink()
        os.close(handle)


def _is(path: Path, handle: int) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False


def stamp(path: Path) -> tuple[int, ...] | None:
    """What changes when somebody writes a file; None if there is none."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return None
    return there.st_ino, there.st_mtime_ns, there.st_size


def load(path: str | Path, *, device: str | torch.device = "auto") -> Any:
    """The agent saved at `path`. Reads tensors and plain values only, so a hostile file cannot run code.

    One that was saved on another kind of device, say a GPU, draws on from its own generator here, because neither kind
    can take over the other's.
    Its environment's name is the file's, so `evaluate` and `film` want one that imports a module named to them.
    Raises FileNotFoundError, or ValueError: the file is no checkpoint of this package, of another format, or does not
    fit together; or the device is not here.
    """
    saved, device = read(path), pick_device(device)
    agent_class, config_class = AGENTS[saved["agent"]]
    with fitting(path, saved["agent"]):
        state = saved["state"]
        config = config_class(**completed(config_class, state["config"]))
        dtype = next(each.dtype for each in state["modules"].values() if each.is_floating_point())
        agent = agent_class(config, EnvSpec(**state["spec"]), device=device, dtype=dtype)
        own = {name: getattr(agent, name).get_state() for name in ("generator", "minibatch_generator")}
        other = len(state["generator"]) != len(own["generator"])
        agent.load_state_dict(state | own if other else state)
    agent.env_from_file = True
    return agent


@contextmanager
def fitting(path: str | Path, name: str) -> Iterator[None]:
    """Raise ValueError if the block finds that a checkpoint of `name` lacks something, or has other shapes."""
    try:
        yield
    except Exception as error:  # a file may hold anything
        raise ValueError(
            f"path: wanted a checkpoint of {name} as this version saves it; {Path(path).name} differs ({error})"
        ) from error


def read(path: str | Path) -> dict[str, Any]:
    """What a checkpoint holds: tensors and plain values, nothing else is read.

    Raises FileNotFoundError, or ValueError: the file is no checkpoint of this package, or of another format.
    """
    path = Path(path)
    try:
        saved = loaded(path)
    except ValueError as error:
        raise ValueError(f"path: wanted a checkpoint of minerva_lite; {error}") from None
    kinds = {"agent": str, "format": int, "state": dict, "training": (dict, type(None))}
    fits = isinstance(saved, dict) and all(isinstance(saved.get(name), kind) for name, kind in kinds.items())
    if not fits or saved["agent"] not in AGENTS:
        raise ValueError(f"path: wanted a checkpoint of minerva_lite; {path.name} holds something else")
    if saved["format"] != FORMAT:
        what = "of a newer version: update minerva_lite" if saved["format"] > FORMAT else FORMER
        raise ValueError(f"path: wanted format {FORMAT}; {path.name} has format {saved['format']}, {what}")
    return saved
