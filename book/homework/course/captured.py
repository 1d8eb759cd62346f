"""Numbers in and out of the process that runs a student's functions, and their gradients.

What is used here is taken hold of when this module is imported, before any code of the student's runs: functions of
torch's own C types, so that another `torch.autograd.grad`, a mode that is never left, or a Tensor with a class of its
own changes nothing. `taken` makes the functions anew for each use, so that neither does another value under a name of
this module's. That is no wall: code in the same process can lie about its own gradient, as an `autograd.Function` may
honestly do, too. It has to know what is right for that.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
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


def evaluated(call: str | CodeType, answer: Callable, inputs: dict[str, Any], leaves: Sequence[Tensor]) -> Any:
    """What the student's function returns, with gradients by the leaves; as the check of the example takes it."""
    gradients_on(True)  # a cell may have left it off
    for leaf in leaves:
        require(leaf)
    return eval(call, {"answer": answer, "inputs": inputs, "torch": torch, **inputs})


def with_gradients(answer: Any, leaves: Sequence[Tensor]) -> Any:
    """An answer. With leaves: a tuple of it and the gradient of its sum by each of them.

    As `minerva_book.exercises.homework.with_gradients`, by which students check themselves.
    """
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
    """What the function gives, and its gradients by the leaves."""
    by = tuple(inputs[leaf] for leaf in leaves)
    return with_gradients(evaluated(call, answer, inputs, by), by)


def taken() -> Callable[[str], Callable]:
    """Gives this module's functions by name, each made anew of what they are, and of what every name is, now."""
    kind, names = FunctionType, tuple({**vars(builtins), **globals()}.items())
    own = tuple((name, value.__code__, value.__defaults__) for name, value in names if isinstance(value, FunctionType))

    def anew(function: str) -> Callable:
        space: dict[str, Any] = {name: value for name, value in names}  # noqa: C416 - `dict` may be another by now
        space["__builtins__"] = {**space}
        for name, code, defaults in own:
            space[name] = kind(code, space, name, defaults)
        return space[function]

    return anew


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
