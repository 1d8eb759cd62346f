"""What a homework notebook checks by itself: a function on one example, and a table of runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .answers import NOT_YET, Wrong, agree, plain, told_wrong


def check_example(
    function: Callable[..., Any], example: dict[str, Any], wanted: list[Any], gradients: tuple[str, ...] = ()
) -> None:
    """Raise AssertionError unless `function` gives the numbers `wanted`, one entry for each array returned.

    It is called with copies of the example's values as positional arguments. With `gradients` the answer is a scalar,
    and its gradients by those inputs come after it in `wanted`.
    """
    given = {name: value.clone() if isinstance(value, Tensor) else value for name, value in example.items()}
    try:
        answer = with_gradients(lambda: function(*given.values()), [given[name] for name in gradients])
    except NotImplementedError as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        # A stub's own error, and none of torch's.
        if not error.args and frame.f_globals.get("__name__") == function.__module__:
            raise Wrong(NOT_YET) from None
        raise
    try:
        parts = plain(answer)  # from here on as the grader compares hidden cases
    except (TypeError, ValueError) as error:
        raise Wrong(f"the example: {error}") from None
    if len(parts) != len(wanted):
        raise Wrong(f"the example: wanted {len(wanted)} arrays; got {len(parts)}")
    named = ["the value", *(f"the gradient by {name}" for name in gradients)]
    named = named if gradients and len(named) == len(wanted) else [f"array {place}" for place in range(len(wanted))]
    for name, part, due in zip(named, parts, wanted, strict=True):
        name = f"the example, {name}" if len(wanted) > 1 else "the example"
        right = torch.as_tensor(due, dtype=torch.float64)
        if part["shape"] != list(right.shape):
            raise Wrong(f"{name}: wanted shape {tuple(right.shape)}; got {tuple(part['shape'])}")
        got = torch.tensor(part["data"], dtype=torch.float64).reshape(right.shape)
        told_wrong(name, got, right, ~agree(got, right))


def check_runs(table: Any) -> None:
    """Raise AssertionError unless `table` [rows, 3] of (setting, seed, final return) can carry a comparison.

    Finite numbers, whole ones for setting and seed; two settings or more; five seeds or more for each, the same ones
    for all, none twice; returns that are not all equal.
    """
    table = table if isinstance(table, Tensor) else torch.as_tensor(table)
    if table.ndim != 2 or table.shape[1] != 3 or not len(table):
        raise Wrong(f"wanted a table [rows, 3] of setting, seed, final return; got shape {tuple(table.shape)}")
    seeds: dict[int, list[int]] = {}
    for row, numbers in enumerate(table):
        if not numbers.isfinite().all():
            raise Wrong(f"row {row}: wanted finite numbers; got {numbers.tolist()}")
        if not (numbers[:2] == numbers[:2].round()).all():
            raise Wrong(f"row {row}: wanted whole numbers for setting and seed; got {numbers[:2].tolist()}")
        setting, seed = numbers[:2].long().tolist()
        if seed in seeds.setdefault(setting, []):
            raise Wrong(f"row {row}: setting {setting} with seed {seed} stands there already")
        seeds[setting].append(seed)
    if len(seeds) < 2:
        raise Wrong(f"wanted at least two settings; got {len(seeds)}")
    every = set().union(*seeds.values())
    for setting, own in sorted(seeds.items()):
        if len(own) < 5:
            raise Wrong(f"setting {setting}: wanted at least five seeds; got {len(own)}")
        if missing := sorted(every - set(own)):
            raise Wrong(f"setting {setting}: wanted the same seeds for every setting; missing {missing}")
    if (table[:, 2] == table[0, 2]).all():
        raise Wrong(f"wanted returns of real runs; all of them are {float(table[0, 2])}")


def with_gradients(function: Callable[[], Any], leaves: list[Tensor]) -> Any:
    """What the function returns. With leaves: a tuple of that and the gradient of its sum by each of them."""
    for leaf in leaves:
        leaf.requires_grad_()
    answer = function()
    if not leaves:
        return answer
    if not (isinstance(answer, Tensor) and answer.requires_grad):
        return answer, *(torch.zeros_like(leaf) for leaf in leaves)
    found = torch.autograd.grad(answer.sum(), leaves, allow_unused=True)
    return answer, *(torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True))
