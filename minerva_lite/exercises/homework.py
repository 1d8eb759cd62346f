"""What a homework notebook checks by itself: one example, and that the file can be handed in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .answers import compare


def check_example(
    function: Callable[..., Any], example: dict[str, Any], wanted: list[Any], gradients: tuple[str, ...] = ()
) -> None:
    """Raise AssertionError unless `function` gives the numbers `wanted`, one entry for each array returned.

    It is called with copies of the example's values as positional arguments. With `gradients` the answer is a scalar,
    and its gradients by those inputs come after it in `wanted`.
    """
    given = {name: value.clone() if isinstance(value, Tensor) else value for name, value in example.items()}
    answer = with_gradients(lambda: function(*given.values()), [given[name] for name in gradients])
    parts = list(answer) if isinstance(answer, (tuple, list)) else [answer]
    if len(parts) != len(wanted):
        raise AssertionError(f"the example: wanted {len(wanted)} arrays; got {len(parts)}")
    named = ["the value", *(f"the gradient by {name}" for name in gradients)]
    named = named if gradients and len(named) == len(wanted) else [f"array {place}" for place in range(len(wanted))]
    for name, part, right in zip(named, parts, wanted, strict=True):
        compare(
            f"the example, {name}" if len(wanted) > 1 else "the example",
            torch.as_tensor(part).double(),
            torch.as_tensor(right, dtype=torch.float64),
            1e-5,
        )


def check_runs(table: Any) -> None:
    """Raise AssertionError unless `table` [rows, 3] of (setting, seed, final return) can carry a comparison.

    Finite numbers, whole ones for setting and seed; two settings or more; five seeds or more for each, the same ones
    for all, none twice; returns that are not all equal.
    """
    table = table if isinstance(table, Tensor) else torch.as_tensor(table)
    if table.ndim != 2 or table.shape[1] != 3 or not len(table):
        raise AssertionError(f"wanted a table [rows, 3] of setting, seed, final return; got shape {tuple(table.shape)}")
    seeds: dict[int, list[int]] = {}
    for row, numbers in enumerate(table):
        if not numbers.isfinite().all():
            raise AssertionError(f"row {row}: wanted finite numbers; got {numbers.tolist()}")
        if not (numbers[:2] == numbers[:2].round()).all():
            raise AssertionError(f"row {row}: wanted whole numbers for setting and seed; got {numbers[:2].tolist()}")
        setting, seed = numbers[:2].long().tolist()
        if seed in seeds.setdefault(setting, []):
            raise AssertionError(f"row {row}: setting {setting} with seed {seed} stands there already")
        seeds[setting].append(seed)
    if len(seeds) < 2:
        raise AssertionError(f"wanted at least two settings; got {len(seeds)}")
    every = set().union(*seeds.values())
    for setting, own in sorted(seeds.items()):
        if len(own) < 5:
            raise AssertionError(f"setting {setting}: wanted at least five seeds; got {len(own)}")
        if missing := sorted(every - set(own)):
            raise AssertionError(f"setting {setting}: wanted the same seeds for every setting; missing {missing}")
    if (table[:, 2] == table[0, 2]).all():
        raise AssertionError(f"wanted returns of real runs; all of them are {float(table[0, 2])}")


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


def self_check(path: Path | str) -> dict[str, str]:
    """For each question of a homework notebook the fault that a fresh run finds, or `""`: then it can be handed in.

    A marked function must agree with its example, the cell of an experiment must run, and a written answer must exist.

    Raises ValueError: the file is no notebook, has another name than it was released under, or lacks marked cells.
    """
    import nbformat  # imported here, because the chapters' checks need neither
    from nbclient import NotebookClient

    path = Path(path)
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception as error:
        raise ValueError(f"{path.name}: wanted a Jupyter notebook; got a file that is none ({error})") from error
    released = notebook.metadata.get("homework", {})
    if released.get("name", path.stem) != path.stem:
        raise ValueError(f"{path.name}: wanted the name {released['name']}.ipynb, under which it is collected")
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    found = {}
    for cell in notebook.cells:
        question, _, kind = cell.metadata.get("nbgrader", {}).get("grade_id", "").partition("-")
        if kind in ("marked", "run"):
            errors = [f"{out.ename}: {out.evalue}" for out in cell.outputs if out.output_type == "error"]
            found[question] = errors[0] if errors else ""
        elif kind == "answer" and "YOUR ANSWER HERE" in cell.source:
            found[question] = found.get(question) or "there is no answer yet"
        elif kind == "answer":
            found.setdefault(question, "")
    missing = set(released.get("marked", [])) - found.keys()
    if missing:
        raise ValueError(f"{path.name}: wanted the check cells of {', '.join(sorted(missing))}; they were deleted")
    return found
