"""Fits of a critic to its targets, undone where they did not help (TRPO's critic)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from ..checks import require_count, require_non_negative
from .optimizers import make_optimizer


def fit_lbfgs(critic: nn.Module, obs: Tensor, target: Tensor, *, iterations: int, l2: float) -> bool:
    """Fit critic(obs) [N] to target [N] by L-BFGS on the squared error plus l2 times the squared weights.

    True if the fit was kept. One that raises its own loss, or leaves a non-finite number, is undone; one whose loss is
    not finite to begin with is not tried.
    Raises ValueError: fewer than one iteration or a negative penalty.
    """
    require_count(iterations=iterations)
    require_non_negative(l2=l2)
    weights = list(critic.parameters())
    optimizer = torch.optim.LBFGS(weights, max_iter=iterations, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        return (critic(obs) - target).square().mean() + l2 * sum(w.square().sum() for w in weights)

    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    return _keep_if_better(weights, loss, lambda: optimizer.step(closure))


def fit_adam(
    critic: nn.Module,
    obs: Tensor,
    target: Tensor,
    *,
    passes: int,
    l2: float,
    learning_rate: float,
    minibatch: int,
    generator: Generator,
) -> bool:
    """The same fit by `passes` passes of Adam over shuffled minibatches of at most `minibatch` rows.

    True if the fit was kept. Raises ValueError: a count below 1, a negative penalty, a learning rate not above 0.
    """
    require_count(passes=passes, minibatch=minibatch)
    require_non_negative(l2=l2)
    weights = list(critic.parameters())
    optimizer = make_optimizer("adam", weights, learning_rate)

    def loss(rows: Tensor | slice = slice(None)) -> Tensor:
        return (critic(obs[rows]) - target[rows]).square().mean() + l2 * sum(w.square().sum() for w in weights)

    def run() -> None:
        for _ in range(passes):
            for rows in torch.randperm(len(obs), generator=generator, device=generator.device).split(minibatch):
                optimizer.zero_grad()
                loss(rows).backward()
                optimizer.step()

    return _keep_if_better(weights, loss, run)


def _keep_if_better(weights: list[nn.Parameter], loss: Callable[[], Tensor], run: Callable[[], object]) -> bool:
    """Run a fit; restore the weights if it raised the loss. A NaN counts as raised, and so does a weight's infinity."""
    with torch.no_grad():
        before, old = loss(), [w.clone() for w in weights]
    if not torch.isfinite(before):
        return False
    run()
    with torch.no_grad():
        better = bool(loss() <= before) and all(bool(torch.isfinite(w).all()) for w in weights)
        if not better:
            for weight, value in zip(weights, old, strict=True):
                weight.copy_(value)
    return better
