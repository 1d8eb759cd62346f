"""Optimizers by name, the device, and the guard that lets nothing non-finite in."""

from __future__ import annotations

import math

import pytest
import torch

from minerva_lite.learning import NonFiniteGuard, make_optimizer, pick_device


def weights():
    return [torch.nn.Parameter(torch.tensor([1.0, -2.0]))]


def steps(optimizer, parameters, gradients):
    for g in gradients:
        parameters[0].grad = torch.tensor(g)
        optimizer.step()
    return parameters[0].tolist()


def test_adam_takes_adams_steps_with_eps_1e_5():
    """First step: m / (sqrt(v) + eps) is g / (|g| + eps) after both bias corrections."""
    parameters = weights()
    got = steps(make_optimizer("adam", parameters, 0.1), parameters, [[2e-5, 3.0]])
    assert got == pytest.approx([1.0 - 0.1 * 2 / 3, -2.1], abs=1e-6)


def test_sgd_with_momentum_takes_its_steps():
    """Velocity 1 then 0.5 * 1 + 1: two steps of 0.1 and 0.15."""
    parameters = weights()
    got = steps(make_optimizer("sgd", parameters, 0.1, momentum=0.5), parameters, [[1.0, 0.0], [1.0, 0.0]])
    assert got == pytest.approx([1.0 - 0.1 - 0.15, -2.0], abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rmsprop", 0.1), "^optimizer: wanted one of adam, sgd; got 'rmsprop'$"),
        (("Adam", 0.1), "^optimizer: wanted one of adam, sgd; got 'Adam'$"),
        (("adam", 0.0), "^learning_rate: wanted a finite number above 0; got 0.0$"),
        (("sgd", math.nan), "^learning_rate: .*; got nan$"),
        (("adam", 0.1, 0.9), "^momentum: wanted 0 with adam, which has its own; got 0.9$"),
        (("sgd", 0.1, -0.5), "^momentum: wanted a finite number of at least 0; got -0.5$"),
    ],
)
def test_optimizer_refuses_by_name(arguments, message):
    name, rate, *momentum = arguments
    with pytest.raises(ValueError, match=message):
        make_optimizer(name, weights(), rate, momentum=momentum[0] if momentum else 0.0)


@pytest.mark.parametrize(("cuda", "mps", "wanted"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_auto_takes_cuda_then_mps_then_cpu(monkeypatch, cuda, mps, wanted):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device("auto").type == wanted
    assert pick_device().type == wanted
    assert pick_device("cpu").type == "cpu"
    assert pick_device(torch.device("meta")).type == "meta"


def test_guard_names_counts_and_gives_up_at_three_in_a_row():
    good, bad = torch.zeros(2), torch.tensor([0.0, math.nan])
    guard = NonFiniteGuard()
    assert guard.refuses(obs=good, reward=good) is None
    assert guard.refuses(obs=good, reward=bad) == "reward"
    assert guard.refuses(obs=-bad / 0, reward=bad) == "obs"
    assert guard.skipped == {"reward": 1, "obs": 1}
    assert guard.refuses(obs=good) is None, "a good batch starts the count afresh"
    assert [guard.refuses(obs=bad) for _ in range(2)] == ["obs", "obs"]
    with pytest.raises(FloatingPointError, match=r"^obs: not finite in 3 batches in a row; .*'reward': 1, 'obs': 4"):
        guard.refuses(obs=bad)
