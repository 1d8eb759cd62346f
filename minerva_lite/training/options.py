"""Options of the command line, one for each field of a configuration, with its comment as help: `--config.clip-eps`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Annotated, Any, TypeVar, get_origin, get_type_hints

import tyro

T = TypeVar("T")


def word_after(words: Sequence[str], option: str) -> str | None:
    """The word after `--option`, or behind its `=`; the last one, as the parser has it. None: it is not there."""
    found = None
    for word, after in zip(words, [*words[1:], None], strict=True):
        name, sign, value = word.partition("=")
        if name.replace("_", "-") == f"--{option}":
            found = value if sign else after
    return found


def unchecked(config: T) -> T:
    """The same settings in a class that checks nothing, so that an option can be read before the next one.

    It keeps the name and the place of the configuration's own class, where the parser finds the comments.
    """
    kind = _twin((type(config),), {})
    return kind(**{field.name: getattr(config, field.name) for field in fields(config)})


def listed(config_classes: Iterable[type]) -> Any:
    """A class with the fields of all these configurations, each a list of values to try, empty at first.

    A field that is a tuple itself takes one value whenever its option is given.
    """
    classes = list(dict.fromkeys(config_classes))
    classes = [c for c in classes if not any(c is not other and issubclass(other, c) for other in classes)]
    hints = {name: hint for c in classes for name, hint in get_type_hints(c).items()}
    names = {field.name: () for c in classes for field in fields(c)}
    types = {
        name: Annotated[tuple[hints[name], ...], tyro.conf.UseAppendAction]
        if get_origin(hints[name]) is tuple
        else tuple[hints[name], ...]
        for name in names
    }
    return dataclass(frozen=True)(_twin(tuple(classes), {"__annotations__": types} | names))


def _twin(classes: tuple[type, ...], changed: dict[str, Any]) -> Any:
    """A subclass that makes no check and passes for its first base: by these names its source is looked up."""
    passes = ("__module__", "__qualname__", "__doc__", "__firstlineno__")
    inherited = {name: value for name, value in vars(classes[0]).items() if name in passes}
    return type(classes[0].__name__, classes, inherited | {"__post_init__": lambda self: None} | changed)


def combinations(lists: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Every way to take one value from each list, under a name that tells it: `{"clip_eps=0.1": {"clip_eps": 0.1}}`.

    Without lists there is one, which changes nothing and has no name.
    """
    ways = [dict(zip(lists, values, strict=True)) for values in product(*lists.values())]
    return {", ".join(f"{name}={value}" for name, value in way.items()): way for way in ways}


def as_typed(message: str, options: Mapping[str, str]) -> str:
    """An error message that begins with the name of an argument, with the option that was typed for it instead."""
    named = re.match(r"(the suffix of )?(\w+)(\[[^]]*\])?(?=:)", message)
    if not named or named[2] not in options:
        return message
    return f"{named[1] or ''}{options[named[2]]}{named[3] or ''}{message[named.end() :]}"


def option(name: str) -> str:
    """How a field is typed: `clip_eps` as `clip-eps`."""
    return name.replace("_", "-")
