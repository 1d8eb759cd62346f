"""Seeds, statistics and a reward that hides: what chapters 8 to 8c ask for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from minerva_lite.formulas.statistics import holm, probability_of_improvement

from .answers import compare


def check_ranks(function: Callable[[Tensor, Tensor], Tensor | float], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(x, y)` is how often a score of x [n] beats one of y [m], ties half."""
    generator = Generator().manual_seed(seed)
    for n, m, values in ((7, 11, 6), (1, 5, 3), (4, 1, 2), (3, 3, 1), (20, 8, 1000)):
        x, y = (torch.randint(values, (size,), generator=generator).double() for size in (n, m))
        for name, one, other in (("x, y", x, y), ("y, x", y, x), ("x, -y - 1", x, -y - 1)):
            wanted = probability_of_improvement(one[:, None], other[:, None])
            compare(f"{n} and {m} scores of {values} values, ({name})", function(one, other), wanted)


def check_student_interval(
    function: Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]], *, seed: int = 0
) -> None:
    """Raise AssertionError unless `function(x, again, p)` is the interval (low, high) of the mean by bootstrap-t.

    x: [n] scores. again: [R, n], resamples of them. p: the share of resamples left out at each end.
    """
    generator = Generator().manual_seed(seed)
    for n, p in ((10, 0.025), (6, 0.05)):
        x = 5.0 + torch.randn(n, generator=generator, dtype=torch.float64).exp()
        again = x[torch.randint(n, (401, n), generator=generator)]
        again = again[again.std(1) > 0.1]
        t = sorted(float((each.mean() - x.mean()) / (each.std() / n**0.5)) for each in again)
        ends = torch.tensor(t, dtype=torch.float64).quantile(torch.tensor([1 - p, p], dtype=torch.float64))
        for name, got, end in zip(("lower", "upper"), function(x, again, p), ends, strict=True):
            compare(f"n = {n}, p = {p}, the {name} end", got, x.mean() - end * x.std() / n**0.5)


def check_remembered(function: Callable[[float, int, Generator], float], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(tau, cars, generator)` is the share of cars that reach the flag.

    The pushes of the cars are correlated over tau steps. The share of 4000 may be off by 0.035, four standard errors.
    """
    generator = Generator().manual_seed(seed)
    for tau, share in ((2.0, 0.455), (4.0, 0.758), (11.5, 0.942)):  # of 20,000 cars
        wanted = torch.tensor(share, dtype=torch.float64)
        compare(f"tau = {tau}, the share of 4000 cars", function(tau, 4000, generator), wanted, 0.035)


def check_held_pole(function: Callable[[int], float]) -> None:
    """Raise AssertionError unless `function(hold)` is the mean number of steps over twenty episodes of the pole.

    Episodes are drawn: where some fail, a mean is right within four standard errors.
    """
    for hold, steps, error in ((1, 500.0, 0.0), (3, 500.0, 0.0), (4, 340.0, 130.0), (8, 10.0, 0.6)):
        wanted = torch.tensor(steps, dtype=torch.float64)
        compare(f"hold = {hold}, the mean over twenty episodes", function(hold), wanted, error)


def check_closing(function: Callable[[Tensor], Tensor], *, seed: int = 0) -> None:
    """Raise AssertionError unless `function(p)` is the corrected p-values [m] of p [m] by asking all groups."""
    generator = Generator().manual_seed(seed)
    draw = torch.rand(6, generator=generator, dtype=torch.float64)
    ties = torch.tensor([0.02, 0.01, 0.02, 0.5, 0.01], dtype=torch.float64)
    for name, p in (("one", draw[:1]), ("two", draw[:2]), ("small", draw**4), ("large", draw), ("ties", ties)):
        compare(f"{name}: p = {[round(each, 4) for each in p.tolist()]}", function(p), holm(p))
