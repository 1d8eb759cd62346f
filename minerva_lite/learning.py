"""Optimizers, fits of a critic, parameter vectors, the device, and the guard against non-finite batches (floor 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Generator, Tensor, nn

from .checks import require_count, require_non_negative, require_one_of, require_positive

MAX_SKIPS = 3


def pick_device(device: str | torch.device = "auto") -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU; anything else is taken at its word."""
    if device != "auto":
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def make_optimizer(
    name: str, parameters: Iterable[nn.Parameter], learning_rate: float, *, momentum: float = 0.0
) -> torch.optim.Optimizer:
    """`adam` (eps 1e-5, as in the PPO code of OpenAI baselines) or `sgd` with momentum.

    Raises ValueError: an unknown name, a learning rate not above 0, or a momentum that Adam would ignore.
    """
    require_one_of(("adam", "sgd"), optimizer=name)
    require_positive(learning_rate=learning_rate)
    require_non_negative(momentum=momentum)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=learning_rate, momentum=momentum)
    if momentum != 0.0:
        raise ValueError(f"momentum: wanted 0 with adam, which has its own; got {momentum}")
    # One fused kernel over all parameters: on these small networks the loop over tensors is the cost.
    return torch.optim.Adam(parameters, lr=learning_rate, eps=1e-5, fused=True)


def flatten(tensors: Sequence[Tensor]) -> Tensor:
    """All entries of the tensors, one after another: [n]."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


class NonFiniteGuard:
    """Refuses a batch with a NaN or an infinity before any parameter moves, and counts the refusals by name."""

    def __init__(self) -> None:
        self.skipped: dict[str, int] = {}
        self.in_a_row = 0

    def refuses(self, **tensors: Tensor) -> str | None:
        """The name of the first tensor that is not finite, or None.

        Raises FloatingPointError: three batches in a row were refused.
        """
        for name, tensor in tensors.items():
            if not torch.isfinite(tensor).all():
                self.skipped[name] = self.skipped.get(name, 0) + 1
                self.in_a_row += 1
                if self.in_a_row >= MAX_SKIPS:
                    raise FloatingPointError(
                        f"{name}: not finite in {MAX_SKIPS} batches in a row; refused so far: {self.skipped}"
                    )
                return name
        self.in_a_row = 0
        return None


def fit_lbfgs(critic: nn.Module, obs: Tensor, target: Tensor, *, iterations: int, l2: float) -> bool:
    """Fit critic(obs) [N] to target [N] by L-BFGS on the squared error plus l2 times the squared weights.

    True if the fit was kept. One that does not lower its own loss, or leaves a non-finite number, is undone.
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
    """Run a fit; restore the weights unless it lowered the loss. A NaN is no lower loss."""
    with torch.no_grad():
        before, old = loss(), [w.clone() for w in weights]
    run()
    with torch.no_grad():
        better = bool(loss() <= before)
        if not better:
            for weight, value in zip(weights, old, strict=True):
                weight.copy_(value)
    return better
