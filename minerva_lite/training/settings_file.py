"""The settings of a run as a JSON file: algorithm, env, seed, steps, and its configuration."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from ..agents import AGENTS
from ..checks import require_one_of

TOP: dict[str, Any] = {"algorithm": str, "env": str, "seed": int, "steps": int, "config": dict}
CALLED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    dict: "an object",
    NoneType: "null",
}


def settings_text(**settings: Any) -> str:
    """The settings of a run, those named in `TOP`, as JSON."""
    return json.dumps({name: settings[name] for name in TOP}, indent=2) + "\n"


def read_settings(path: str | Path) -> dict[str, Any]:
    """What a file of settings holds; it may leave out any of them. What `config` holds is for `read_config` to check.

    Raises OSError: it cannot be read. ValueError: it is no JSON, or a key is unknown or of another type; the message
    names file and key.
    """
    path = Path(path)
    try:
        settings = json.loads(path.read_bytes())  # in UTF-8 or UTF-16, with a mark or without
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: wanted a file of settings; there is none") from error
    except ValueError as error:  # no JSON, or no text
        raise ValueError(f"{path.name}: wanted settings as --save-config writes them; got no JSON ({error})") from error
    return _checked(settings, TOP, path.name, "")


def read_config(settings: Mapping[str, Any], algorithm: str, path: str | Path) -> dict[str, Any]:
    """The changes that `settings`, from `read_settings`, make in the configuration of `algorithm`.

    Raises ValueError: an unknown algorithm, the settings of another one, an unknown key, a value of another type.
    """
    require_one_of(tuple(AGENTS), algorithm=algorithm)
    file = Path(path).name
    if settings.get("config") and settings.get("algorithm", algorithm) != algorithm:
        raise ValueError(f"{file}: algorithm: wanted {algorithm}, as typed; got {settings['algorithm']!r}")
    config_class = AGENTS[algorithm][1]
    hints = get_type_hints(config_class)
    wanted = {field.name: hints[field.name] for field in fields(config_class)}
    return _checked(settings.get("config", {}), wanted, file, "config.")


def nearest(name: str, known: Iterable[str]) -> str:
    """What to add to an error about an unknown name: the known one that comes nearest, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _checked(settings: Any, wanted: Mapping[str, Any], file: str, where: str) -> dict[str, Any]:
    """The values of an object of the file, each as the type that is wanted under its key."""
    if not isinstance(settings, dict):
        raise ValueError(f"{file}: wanted an object with the keys {', '.join(wanted)}; got {settings!r}")
    for name in settings:
        if name not in wanted:
            raise ValueError(f"{file}: {where}{name}: wanted a known key; {nearest(name, wanted)}")
    values = {}
    for name, value in settings.items():
        try:
            values[name] = _fitting(value, wanted[name])
        except TypeError:
            raise ValueError(f"{file}: {where}{name}: wanted {_called(wanted[name])}; got {value!r}") from None
    return values


def _fitting(value: Any, hint: Any) -> Any:
    """The value as `hint` wants it: JSON has lists for tuples, and whole numbers for floats. Raises TypeError."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        for each in inside:
            try:
                return _fitting(value, each)
            except TypeError:
                continue
    elif origin is tuple and isinstance(value, list):
        return tuple(_fitting(each, inside[0]) for each in value)
    elif type(value) is hint:
        return value
    elif hint is float and type(value) is int:
        return float(value)
    raise TypeError


def _called(hint: Any) -> str:
    """A type in words."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_called, inside))
    if origin is tuple:
        return f"a list, each of it {_called(inside[0])}"
    return CALLED[hint]
