"""A CUDA graph for machines without CUDA: every operation is noted with its tensors, and replayed on the same ones.

What makes recorded work go wrong on a GPU goes wrong here in the same way: a state that is replaced instead of changed
in place is read at its old address, a Python number is kept as it was, and a question about a number cannot be put.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from minerva_lite.agents.base import Agent
from minerva_lite.formulas import duals, sequences
from minerva_lite.language import decoder, tokens
from minerva_lite.training import gpu
from minerva_lite.training.gpu import KNOWN, Accelerated, Answer
from minerva_lite.worlds import torch_native

ATEN = torch.ops.aten
# Their result, or its shape, depends on numbers: a GPU would have to be waited for.
QUESTIONS = {
    ATEN._local_scalar_dense.default,
    ATEN.nonzero.default,
    ATEN.masked_select.default,
    ATEN.equal.default,
    ATEN.is_nonzero.default,
    ATEN.bincount.default,
    ATEN._unique2.default,
}


def asks(function: Any, args: Sequence[Any]) -> bool:
    if function in (ATEN.index.Tensor, ATEN.index_put_.default, ATEN.index_put.default):
        return any(isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1])
    return function in QUESTIONS


class Questions(TorchDispatchMode):
    """Counts the operations a device would be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if asks(function, args):
            self.asked.append(str(function))
        return function(*args, **(kwargs or {}))

    def __enter__(self):
        # These copy memory without an operation that could be seen.
        self.patch = pytest.MonkeyPatch()
        for name in ("tolist", "numpy"):
            whole = getattr(Tensor, name)
            self.patch.setattr(
                Tensor, name, lambda t, *a, _=(name, whole), **k: self.asked.append(_[0]) or _[1](t, *a, **k)
            )
        return super().__enter__()

    def __exit__(self, *error):
        self.patch.undo()
        return super().__exit__(*error)


def mutated(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that an operation writes to, by its schema."""
    found = []
    for position, argument in enumerate(function._schema.arguments):
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        if argument.is_write:
            found += [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]
    return found


class Tape(TorchDispatchMode):
    """Runs what it notes, but puts back whatever it changed: recording a CUDA graph runs nothing."""

    def __init__(self, generators: Sequence[Generator]):
        super().__init__()
        self.notes: list[tuple[Any, Any, Any, Any]] = []
        self.generators = [(generator, generator.get_state()) for generator in generators]
        self.before: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if asks(function, args):
            raise RuntimeError(f"{function} while recording: a graph cannot be asked for a number")
        for tensor in mutated(function, args, kwargs):
            whole = tensor.untyped_storage()
            if whole._cdata not in self.before:
                flat = torch.empty(0, dtype=tensor.dtype).set_(whole)
                self.before[whole._cdata] = (flat, flat.clone())
        result = function(*args, **kwargs)
        self.notes.append((function, args, kwargs, result))
        return result

    def rewind(self) -> None:
        for flat, value in self.before.values():
            flat.copy_(value)
        for generator, state in self.generators:
            generator.set_state(state)

    @torch.no_grad()
    def replay(self) -> None:
        for function, args, kwargs, noted in self.notes:
            given = {t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
            writes = bool(mutated(function, args, kwargs))
            outputs = [t for t in tree_leaves(noted) if isinstance(t, Tensor)]
            if not writes and outputs and all(t.untyped_storage()._cdata in given for t in outputs):
                continue  # a view of what is there already
            again = function(*args, **kwargs)
            if not writes:
                for old, new in zip(outputs, (t for t in tree_leaves(again) if isinstance(t, Tensor)), strict=True):
                    old.copy_(new)


@contextmanager
def tape_instead_of_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`Recorded` on the CPU, by tapes."""

    def record(function: Callable, inputs: dict[str, Any], generators: Sequence[Generator]) -> Any:
        tape = Tape(generators)
        with tape:
            outputs = function(inputs)
        tape.rewind()
        return tape, outputs

    with monkeypatch.context() as patch:
        patch.setattr(gpu, "record", record)
        patch.setattr(gpu, "aside", lambda function, inputs: function(inputs))
        for module in (duals, torch_native, sequences, tokens, decoder):
            patch.setattr(module, "can_ask", lambda tensor: False)  # as for a tensor on a GPU
        patch.setattr(Answer, "__bool__", unseen)
        yield


def unseen(answer: Answer) -> bool:
    """What has come over from the device is read on the CPU: no question."""
    with _disable_current_modes():
        return bool(answer.here)


def as_on_a_gpu(agent: Agent, *, record: bool = False, kind: type[Accelerated] = Accelerated) -> Accelerated:
    """The agent as it would be driven on a GPU, from now on."""
    known = KNOWN[type(agent)]
    assert not known.waits(agent.config) and (known.same(agent.config) or not record)
    return kind(agent, known, masked=True, record=record).__enter__()


class Rated(Accelerated):
    """Updates that are not recorded, with learning rates on the device as a recording needs them."""

    def update(self, rollout: Any, progress: float = 0.0) -> dict[str, Tensor]:
        self.kind, self.progress = type(rollout), progress
        with self.rates_on_device():
            return self.masked_update(vars(rollout))
