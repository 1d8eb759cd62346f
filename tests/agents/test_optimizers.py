"""Optimizers by name, the device, and the guard that lets nothing non-finite in."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from minerva_lite.agents.base import pick_device
from minerva_lite.agents.critic_fit import fit_adam, fit_lbfgs
from minerva_lite.agents.networks import ValueNet
from minerva_lite.agents.optimizers import flatten, make_optimizer

WEIGHT = torch.nn.Parameter(torch.tensor([1.0, -2.0]))


@pytest.mark.parametrize(
    ("name", "momentum", "gradients", "wanted"),
    [
        # First step: m / (sqrt(v) + eps) is g / (|g| + eps) after both bias corrections; eps is 1e-5.
        ("adam", 0.0, [[2e-5, 3.0]], [1.0 - 0.1 * 2 / 3, -2.1]),
        # Velocity 1 then 0.5 * 1 + 1: two steps of 0.1 and 0.15.
        ("sgd", 0.5, [[1.0, 0.0], [1.0, 0.0]], [1.0 - 0.1 - 0.15, -2.0]),
    ],
)
def test_steps_by_hand(name, momentum, gradients, wanted):
    parameter = copy.deepcopy(WEIGHT)
    optimizer = make_optimizer(name, [parameter], 0.1, momentum=momentum)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
    assert parameter.tolist() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Adam", 0.1, 0.0), "^optimizer: wanted one of adam, sgd; got 'Adam'$"),
        (("adam", 0.0, 0.0), "^learning_rate: wanted a finite number above 0; got 0.0$"),
        (("adam", 0.1, 0.9), "^momentum: wanted 0 with adam, which has its own; got 0.9$"),
        (("sgd", 0.1, -0.5), "^momentum: wanted a finite number of at least 0; got -0.5$"),
    ],
)
def test_optimizer_refuses_by_name(arguments, message):
    name, rate, momentum = arguments
    with pytest.raises(ValueError, match=message):
        make_optimizer(name, [WEIGHT], rate, momentum=momentum)


@pytest.mark.parametrize(("cuda", "mps", "wanted"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_auto_takes_cuda_then_mps_then_cpu(monkeypatch, cuda, mps, wanted):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device("auto").type == wanted
    assert pick_device().type == wanted
    assert pick_device("cpu").type == "cpu"
    assert pick_device(torch.device("meta")).type == "meta"


# Fits of a critic


class Line(torch.nn.Module):
    """y = w x + c: the best fit is known."""

    def __init__(self):
        super().__init__()
        self.w, self.c = (torch.nn.Parameter(torch.zeros((), dtype=torch.float64)) for _ in "wc")

    def forward(self, x):
        return self.w * x + self.c


X = torch.tensor([-1.0, 0.0, 2.0, 3.0], dtype=torch.float64)
Y = torch.tensor([1.0, -1.0, 4.0, 2.0], dtype=torch.float64)


def best(l2: float) -> list[float]:
    """Minimum of mean (w x + c - y)^2 + l2 (w^2 + c^2), from its two linear equations."""
    design = torch.stack([X, torch.ones_like(X)], 1)
    system = design.T @ design / 4 + l2 * torch.eye(2, dtype=torch.float64)
    return torch.linalg.solve(system, design.T @ Y / 4).tolist()


def fit(how, critic, obs, target, generator, **options):
    if how == "lbfgs":
        return fit_lbfgs(critic, obs, target, **{"iterations": 25, "l2": 0.0} | options)
    settings = {"passes": 25, "l2": 0.0, "learning_rate": 1e-2, "minibatch": 16, "generator": generator}
    return fit_adam(critic, obs, target, **settings | options)


@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_both_fits_find_the_penalized_least_squares_line(l2, generator):
    line = Line()
    assert fit_lbfgs(line, X, Y, iterations=25, l2=l2) is True
    # It leaves when a step changes the loss by less than 1e-9, whose root is the error that remains.
    assert [line.w.item(), line.c.item()] == pytest.approx(best(l2), abs=1e-4)
    line = Line()
    settings = {"passes": 3000, "learning_rate": 1e-2, "minibatch": 4, "generator": generator}
    assert fit_adam(line, X, Y, l2=l2, **settings) is True
    assert [line.w.item(), line.c.item()] == pytest.approx(best(l2), abs=1e-3)


def lost(optimizer, closure):
    """A step that ends in NaN."""
    closure()
    for p in optimizer.param_groups[0]["params"]:
        p.detach().fill_(math.nan)


@pytest.mark.parametrize("how", ["lbfgs", "adam"])
@pytest.mark.parametrize("target_of_one", [math.nan, math.inf, 1e26, 0.0])
def test_a_fit_that_makes_it_worse_is_undone_to_the_bit(how, target_of_one, monkeypatch, generator):
    """One to a target that is not finite, or has no finite square; at 0 steps that are far too long, or end in NaN."""
    critic, options = ValueNet(3, (8,), generator), {}
    obs, target = torch.randn(40, 3, generator=generator), torch.randn(40, generator=generator)
    target[7] = target_of_one
    if target_of_one == 0.0:
        monkeypatch.setattr(torch.optim.LBFGS, "step", lost)
        options = {"learning_rate": 1e3, "passes": 3} if how == "adam" else {}
    before = flatten(critic.parameters()).clone()
    assert not fit(how, critic, obs, target, generator, **options)
    assert torch.equal(flatten(critic.parameters()), before)


def test_adam_sees_every_row_once_a_pass_in_minibatches(generator):
    rows = []

    class Watched(Line):
        def forward(self, x):
            if torch.is_grad_enabled():
                rows.append(x.tolist())
            return super().forward(x)

    obs = torch.arange(10.0, dtype=torch.float64)
    fit_adam(Watched(), obs, 2 * obs, passes=2, l2=0.0, learning_rate=1e-2, minibatch=4, generator=generator)
    assert [len(r) for r in rows] == [4, 4, 2, 4, 4, 2]
    for third in (rows[:3], rows[3:]):
        assert sorted(sum(third, [])) == obs.tolist()
    assert rows[:3] != rows[3:], "a fresh order"


@pytest.mark.parametrize(
    ("how", "options", "message"),
    [
        ("lbfgs", {"iterations": 0}, "^iterations: wanted a whole number of at least 1; got 0$"),
        ("lbfgs", {"l2": -1.0}, "^l2: wanted a finite number of at least 0; got -1.0$"),
        ("adam", {"passes": 0}, "^passes: .*; got 0$"),
        ("adam", {"minibatch": 0}, "^minibatch: .*; got 0$"),
        ("adam", {"l2": math.nan}, "^l2: .*; got nan$"),
        ("adam", {"learning_rate": 0.0}, "^learning_rate: wanted a finite number above 0; got 0.0$"),
    ],
)
def test_a_fit_refuses_by_name(how, options, message, generator):
    with pytest.raises(ValueError, match=message):
        fit(how, Line(), X, Y, generator, **options)
