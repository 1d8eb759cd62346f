"""A function of tensors as one CUDA graph: recorded once, then replayed without Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor

WARM_UP = 3  # calls before the recording: optimizers make their states in the first, compilers compile


class Recorded:
    """Calls of `function(inputs)` replayed as one CUDA graph: one launch instead of thousands, the same kernels.

    function: takes a dict of tensors (or tuples of them, or None) and returns such a dict, always of the same shapes.
    What it changes besides it must change in place, and it must not ask for a number: a graph knows only addresses.
    generators: those it draws from; a replay draws on where the last one stopped.
    """

    def __init__(self, function: Callable[[dict[str, Any]], dict[str, Any]], generators: Sequence[Generator]):
        self.function, self.generators = function, generators
        self.calls, self.graph = 0, None

    def __call__(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self.graph is None and self.calls < WARM_UP:
            self.calls += 1
            return aside(self.function, inputs)
        if self.graph is None:
            self.inputs = copied(inputs)
            self.graph, self.outputs = record(self.function, self.inputs, self.generators)
        copy_into(self.inputs, inputs)
        self.graph.replay()
        return copied(self.outputs)  # the next replay writes over its own


def record(function: Callable, inputs: dict[str, Any], generators: Sequence[Generator]) -> tuple[Any, dict[str, Any]]:
    """The CUDA graph of `function(inputs)`, which is not run, and where a replay leaves the outputs."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        outputs = function(inputs)
    return graph, outputs


def aside(function: Callable, inputs: dict[str, Any]) -> dict[str, Any]:
    """`function(inputs)` on a stream of its own, as whatever is recorded later must have been run before."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        outputs = function(inputs)
    torch.cuda.current_stream().wait_stream(stream)
    return outputs


def is_recording() -> bool:
    """Whether what runs now is being recorded."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def copied(tree: Any) -> Any:
    """The same dict of tensors, tuples of tensors and None, with storage of its own."""
    if isinstance(tree, dict):
        return {name: copied(branch) for name, branch in tree.items()}
    if isinstance(tree, tuple):
        return tuple(copied(branch) for branch in tree)
    return tree.clone() if isinstance(tree, Tensor) else tree


def copy_into(old: Any, new: Any) -> None:
    """Write every tensor of `new` into the one that stands at its place in `old`."""
    if isinstance(old, Tensor):
        if old.shape != new.shape:
            raise ValueError(f"inputs: wanted shape {tuple(old.shape)}, what was recorded; got {tuple(new.shape)}")
        old.copy_(new)
    elif old is not None:
        for name in old if isinstance(old, dict) else range(len(old)):
            copy_into(old[name], new[name])
