"""Numbers in and out of the process that runs a student's functions, and their gradients.

What is used here is taken hold of when this module is imported, before any code of the student's runs, and as deep down
as it goes: functions of torch's own C types, which no assignment in Python changes. So another `torch.autograd.grad`,
`Tensor.sum` or `Tensor.detach`, a mode that is never left, or a Tensor with a class of its own changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import numpy
import torch
from torch import Tensor

ENTRIES = 200_000  # numbers that an answer may have
BASE = torch._C.TensorBase
ENGINE = torch._C._ImperativeEngine().run_backward  # what torch.autograd.grad comes to
as_plain, total, require, detached = BASE.as_subclass, BASE.sum, BASE.requires_grad_, BASE.detach
to_type, on_processor, listed = BASE.to, BASE.cpu, BASE.tolist
needs_gradient, shape_of, count_of = BASE.requires_grad.__get__, BASE.shape.__get__, BASE.numel
is_complex = BASE.is_complex
without_functions = torch._C.DisableTorchFunction
without_dispatch = torch._C._DisableTorchDispatch
gradients_on = torch._C._set_grad_enabled
made, ones, zeros, reshaped = torch.tensor, torch.ones_like, torch.zeros_like, BASE.reshape
as_array, array_type = numpy.asarray, numpy.ndarray
DOUBLE = torch.float64
DTYPES = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}


def tensor_of(value: Any) -> Any:
    """What the grader wrote as {"dtype", "shape", "data"}, as a tensor; anything else as it is."""
    if isinstance(value, dict) and "dtype" in value:
        with without_functions(), without_dispatch():
            return reshaped(made(value["data"], dtype=DTYPES[value["dtype"]]), value["shape"])
    return value


def with_gradients(function: Callable[[], Any], leaves: list[Tensor]) -> Any:
    """What the function returns. With leaves: a tuple of that and the gradient of its sum by each of them.

    As `minerva_lite.exercises.homework.with_gradients`, by which students check themselves.
    """
    gradients_on(True)  # a cell may have left it off
    for leaf in leaves:
        require(leaf)
    answer = function()
    if not leaves:
        return answer
    with without_functions(), without_dispatch():
        gradients_on(True)
        answer = as_plain(answer, Tensor) if isinstance(answer, BASE) else answer
        if not (isinstance(answer, BASE) and needs_gradient(answer)):
            return answer, *(zeros(leaf) for leaf in leaves)
        summed = total(answer)
        found = ENGINE((summed,), (ones(summed),), False, False, tuple(leaves), True, accumulate_grad=False)
        return answer, *(zeros(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True))


def called(call: str | CodeType, answer: Callable, inputs: dict[str, Any], leaves: list[str]) -> Any:
    """What the function gives, and its gradients by the leaves; as the check of the example takes them."""
    names = {"answer": answer, "inputs": inputs, "torch": torch, **inputs}
    return with_gradients(lambda: eval(call, names), [inputs[leaf] for leaf in leaves])


def plain(answer: Any, entries: int = ENTRIES) -> list[dict]:
    """Numbers and nothing else: a list of {"shape", "data"} in float64, each of at most so many entries."""
    several = isinstance(answer, (tuple, list)) and any(isinstance(part, (BASE, array_type)) for part in answer)
    return [written(part, entries) for part in (answer if several else [answer])]


def written(part: Any, entries: int) -> dict:
    if isinstance(part, BASE):
        with without_functions(), without_dispatch():
            part = detached(as_plain(part, Tensor))
            if is_complex(part):
                raise TypeError("wanted numbers; got complex ones")
            few(count_of(part), entries)
            part = to_type(on_processor(part), DOUBLE)
            return {"shape": list(shape_of(part)), "data": listed(reshaped(part, -1))}
    array = as_array(part)
    if type(array) is not array_type:
        array = array.view(array_type)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"wanted numbers; got {type(part).__name__}")
    few(array.size, entries)
    return {"shape": list(array.shape), "data": array.astype("float64").reshape(-1).tolist()}


def few(count: int, entries: int) -> None:
    if count > entries:
        raise ValueError(f"wanted an array of at most {entries} numbers; got {count}")
