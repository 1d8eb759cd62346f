"""The settings that agents share. Each range is said once, beside its field, and checked when the object is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from types import MappingProxyType, NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..checks import require_count, require_non_negative, require_one_of, require_positive, require_unit_interval
from .networks import LOG_STD_MAX, LOG_STD_MIN

T = TypeVar("T")
Number = TypeVar("Number", int, float)


def ranged(default: T, check: Callable[..., None]) -> T:
    """A field with a default whose value must pass `check(name=value)`."""
    return field(default=default, metadata={"check": check})


def count(default: int) -> int:
    """A whole number of at least 1."""
    return ranged(default, require_count)


def positive(default: float) -> float:
    """A finite number above 0."""
    return ranged(default, require_positive)


def non_negative(default: Number) -> Number:
    """A finite number of at least 0."""
    return ranged(default, require_non_negative)


def unit_interval(default: float) -> float:
    """A number in [0, 1]."""
    return ranged(default, require_unit_interval)


def one_of(default: str, *others: str, elsewhere: Mapping[str, str] = MappingProxyType({})) -> str:
    """One of these words; the first is the default.

    elsewhere: what other libraries call some of them. The error then says which word is meant here; it is not taken
    for that word, so that a setting has one name wherever it is written down.
    """

    def check(**named: str) -> None:
        for name, value in named.items():
            if value in elsewhere:
                words = ", ".join((default, *others))
                raise ValueError(f"{name}: wanted one of {words}; got {value!r}, which is {elsewhere[value]!r} here")
        require_one_of((default, *others), **named)

    return ranged(default, check)


def optional(check: Callable[..., None]) -> Any:
    """A field that is None unless it is set, and whose value must then pass `check(name=value)`."""

    def check_if_set(**named: Any) -> None:
        check(**{name: value for name, value in named.items() if value is not None})

    return ranged(None, check_if_set)


def _require_widths(**named: tuple[int, ...]) -> None:
    for name, widths in named.items():
        if not isinstance(widths, tuple):
            raise ValueError(f"{name}: wanted a tuple of whole numbers; got {widths!r}")
        require_count(**{f"{name}[{i}]": width for i, width in enumerate(widths)})


def _require_log_std(**named: float) -> None:
    for name, value in named.items():
        if not LOG_STD_MIN <= value <= LOG_STD_MAX:
            raise ValueError(
                f"{name}: wanted a number in [{LOG_STD_MIN}, {LOG_STD_MAX}], where the policy clamps it; got {value}"
            )


def _plain(value: Any) -> Any:
    """A number of NumPy's as Python's, a member of an enumeration of numbers as its number, and a list as a tuple."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(each) for each in value)
    if isinstance(value, Enum) and isinstance(value, (int, float, str)):
        return value.value
    return value.item() if isinstance(value, np.generic) else value


def _is(value: Any, hint: Any) -> bool:
    """Whether a plain value is of the declared type; a whole number passes as float. Other types are not looked at."""
    either = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = {get_origin(kind) or kind for kind in either}
    known = kinds <= {bool, int, float, str, tuple, NoneType}
    return not known or type(value) in kinds or (type(value) is int and float in kinds)


@dataclass(frozen=True)
class Settings:
    """A configuration whose fields are checked when it is made. Raises ValueError: a value of another type or range.

    A number of NumPy's becomes Python's, and a list a tuple: a checkpoint holds plain values, and a fingerprint hashes.
    """

    normalize_obs = normalize_reward = False  # for settings without such a field
    formerly: ClassVar[Mapping[str, str]] = {}  # names that fields had in earlier versions, each with that of today

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for each in fields(self):
            value = _plain(getattr(self, each.name))
            object.__setattr__(self, each.name, value)
            if "check" in each.metadata:
                with suppress(TypeError):  # of a comparison: then the type is what is wrong
                    each.metadata["check"](**{each.name: value})
            if not _is(value, hints[each.name]):
                raise ValueError(f"{each.name}: wanted {getattr(each.type, '__name__', each.type)}; got {value!r}")


def completed(current: Any, saved: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they were saved, by the names of today, and the defaults of those that there were not yet."""
    named = {current.formerly.get(name, name): value for name, value in saved.items()}
    return {each.name: each.default for each in fields(current) if each.default is not MISSING} | named


@dataclass(frozen=True)
class CollectSettings(Settings):
    """How much is collected between two updates, and the networks that see it."""

    num_envs: int = count(8)  # environments stepped side by side, B
    rollout_steps: int = count(128)  # steps of each environment between two updates, T
    gamma: float = unit_interval(0.99)  # discount
    normalize_obs: bool = False  # shift and scale observations by running statistics, clipped at 10
    hidden: tuple[int, ...] = ranged((64, 64), _require_widths)  # widths of the layers of policy and critic
    critic_hidden: tuple[int, ...] | None = optional(_require_widths)  # widths of the critic's layers; None: as hidden
    log_std_init: float = ranged(0.0, _require_log_std)  # log of the first standard deviation of a Gaussian policy

    @property
    def batch_size(self) -> int:
        """Environment steps of a rollout, T * B; with whole episodes the most it can hold."""
        return self.rollout_steps * self.num_envs

    @property
    def critic_widths(self) -> tuple[int, ...]:
        """Widths of the critic's layers."""
        return self.hidden if self.critic_hidden is None else self.critic_hidden


@dataclass(frozen=True)
class OptimizerSettings(Settings):
    """How gradients become steps."""

    optimizer: str = one_of("adam", "sgd")  # "adam" or "sgd"
    momentum: float = non_negative(0.0)  # of "sgd"
    anneal_lr: bool = True  # let the learning rates of policy and critic fall linearly to 0 over training
    max_grad_norm: float = positive(0.5)  # clip the gradient's norm over the parameters that step together

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer == "adam" and self.momentum:
            raise ValueError(f"momentum: wanted 0 with adam, which has its own; got {self.momentum}")


@dataclass(frozen=True)
class BoundSettings(Settings):
    """The KL bounds of MPO and V-MPO, and the multipliers that hold them."""

    eps_eta: float = positive(0.1)  # E-step: bound on KL(weights || what they reweigh), nats
    eps_mean: float = positive(0.01)  # M-step: bound on the mean's part of the KL, nats; discrete: on the whole KL
    eps_std: float = positive(1e-3)  # M-step: bound on the standard deviation's part of the KL, nats
    eta_init: float = positive(1.0)  # first temperature, return units
    alpha_mean_init: float = positive(1.0)  # first multiplier of eps_mean
    alpha_std_init: float = positive(1.0)  # first multiplier of eps_std
    dual_learning_rate: float = positive(1e-2)  # of the temperature and the multipliers
    temperature_learning_rate: float | None = optional(require_positive)  # of the temperature; None: dual_learning_rate
