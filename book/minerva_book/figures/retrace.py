"""Off-policy targets: what weighing costs, what a target is made of, how fast each contracts, which one is best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle
from matplotlib.ticker import FixedLocator, NullLocator
from torch import Tensor

from .style import BLUE, GRAY, GREEN, ORANGE, RED

VIOLET = "#CC79A7"
LOOKS = {
    "importance sampling": (GRAY, ":"), "tree backup": (GREEN, "--"), "Q(lambda)": (RED, "-."), "Retrace": (BLUE, "-"),
    "Peng's Q(lambda)": (ORANGE, (0, (5, 1))), "uncorrected": (VIOLET, (0, (1, 1))),
}  # fmt: skip
LABELS = {"Q(lambda)": r"Q($\lambda$)", "Peng's Q(lambda)": r"Peng's Q($\lambda$)"}


def _curve(ax: Axes, x: Tensor, y: Tensor, name: str, **more: object) -> None:
    color, style = LOOKS[name]
    ax.plot(x, y, linestyle=style, color=color, label=LABELS.get(name, name), **more)  # type: ignore[arg-type]


def plot_ratio_products(ax: Axes, exact: Tensor, sampled: Tensor, median: Tensor) -> None:
    """Standard deviation of the product of n ratios, exact and in a sample, and the median product, each [n]."""
    steps = torch.arange(1, len(exact) + 1)
    ax.axhline(1.0, color="black", linewidth=1.0, label="mean, exact")
    ax.semilogy(steps, exact, color=RED, label="standard deviation, exact")
    ax.semilogy(steps, sampled, "--", color=ORANGE, label="standard deviation, in the sample")
    ax.semilogy(steps, median, "-.", color=BLUE, label="median, in the sample")
    ax.set(xlabel="steps $n$", ylabel=r"product of ratios $\rho_1 \cdots \rho_n$ (no unit)")
    ax.legend(loc="lower left")


def plot_total_error(ax: Axes, lam: Tensor, curves: Mapping[str, Tensor], count: int) -> None:
    """Squared bias plus variance / count against lambda [N]; each curve is [2, N]; a dot at each minimum."""
    for name, (bias, variance) in curves.items():
        total = bias + variance / count
        _curve(ax, lam, total, name)
        best = int(total.argmin())
        ax.plot(lam[best], total[best], "o", color=LOOKS[name][0], markersize=6)
    ax.set(
        xlabel=r"trace decay $\lambda$", ylabel="squared error left (share of the critic's)", ylim=(0.0, 0.6),
        title=f"a corridor, two actions, mean of {count} targets",
    )  # fmt: skip
    ax.legend(loc="lower left")


def plot_contraction_factors(ax: Axes, distance: Tensor, factors: Mapping[str, Tensor], gamma: float) -> None:
    """Sup-norm factor [N] of each operator against the total variation [N] between the two policies."""
    for name, factor in factors.items():
        _curve(ax, distance, factor, name)
    ax.axhline(gamma, color="black", linewidth=0.8)
    ax.text(float(distance.max()), gamma + 0.02, r"$\gamma$", ha="right", va="bottom")
    ax.set(
        xlabel=r"total variation between $\pi$ and $\pi_b$ (probability)",
        ylabel="largest error after / before (no unit)",
        ylim=(-0.05, 1.6),
    )
    ax.legend(loc="upper right", bbox_to_anchor=(1.0, 0.55))


def plot_traces_along(ax: Axes, names: Sequence[str], products: Mapping[str, Tensor]) -> None:
    """What is left of the trace after each step of one path, gamma left out; `names` are the actions, products [K]."""
    for name, product in products.items():
        _curve(ax, torch.arange(len(product)), product, name, marker="o", markersize=4)
    ax.set_xticks(range(len(names)), names)
    ax.set_yscale("log")
    ax.set(
        xlabel="action of the path, from left to right (the first is given)",
        ylabel=r"product of traces $C_t$ (no unit)", ylim=(1e-5, None),
    )  # fmt: skip
    ax.legend(loc="lower left")


def leaf_weights(
    policy: Tensor,  # [K, A]  pi(. | s_1), ..., pi(. | s_K) along a path
    action: Tensor,  # [K]  a_1, ..., a_K
    trace: Tensor,  # [K]  c_1, ..., c_K
    gamma: float,
    sampled: float = 0.0,  # share of Q(s_k, a_k) in the TD error before it: lambda for Peng's Q(lambda)
) -> Tensor:  # [K, A]
    """With which weight each Q(s_k, a) enters the target of a path that is cut before a_K: the leaves of its backup."""
    steps, actions = policy.shape
    product = torch.cat([torch.ones_like(trace[:1]), trace]).cumprod(0)[:steps]  # C_0, ..., C_{K-1}
    taken = torch.nn.functional.one_hot(action, actions).to(policy.dtype)
    more = torch.ones(steps, 1, dtype=policy.dtype)
    more[-1] = 0.0  # the last successor is only averaged over
    asked = (1.0 - sampled * more) * policy + sampled * more * taken
    discount = gamma ** torch.arange(1, steps + 1, dtype=policy.dtype)[:, None]
    return discount * product[:, None] * (asked - more * trace[:, None] * taken)


def draw_off_policy_backup(ax: Axes, title: str, weights: Tensor, action: Tensor, spine: Tensor) -> None:
    """A backup diagram: states as open circles, actions as dots whose area is the weight of their Q in the target.

    weights: [K, A], a negative one is red. action: [K], the path. spine: [K], the width of the line into each s_k: with
    which weight the reward before it enters.
    """
    steps, actions = weights.shape
    across = torch.linspace(-1.0, 1.0, actions)
    x, y = 0.0, 0.0
    places = [float(across[action[:k]].sum()) for k in range(steps)]
    ax.plot(x, y, "o", color="black", markersize=5)
    ax.text(x + 0.2, y, "$s, a$", va="center", fontsize=9)
    for k in range(steps):
        below = y - 0.8
        ax.plot([x, x], [y, below], color="black", linewidth=0.4 + 3.0 * float(spine[k]), solid_capstyle="butt")
        ax.add_patch(Circle((x, below), 0.13, facecolor="white", edgecolor="black", zorder=3))
        fan = bool(weights[k].abs().max() > 1e-9)
        for a in range(actions):
            on = a == int(action[k]) and k < steps - 1
            if not fan and not on:
                continue
            end, leaf = (x + float(across[a]), below - 0.8), float(weights[k, a])
            width = 0.4 + 3.0 * float(spine[k + 1]) if on else 0.7
            ax.plot([x, end[0]], [below, end[1]], color="black" if on else GRAY, linewidth=width, zorder=1)
            if abs(leaf) > 1e-9:
                ax.scatter(*end, s=4.0 + 260.0 * abs(leaf), color=RED if leaf < 0.0 else BLUE, zorder=4, linewidths=0)
        x, y = x + float(across[action[k]]), below - 0.8
        if k == steps - 1 or float(spine[min(k + 1, steps - 1)]) == 0.0:
            break
    ax.set(xlim=(min(places) - 1.4, max(places) + 1.6), ylim=(-1.6 * steps - 0.3, 0.3), aspect="equal")
    ax.set_title(title, fontsize=10)
    ax.axis("off")


def plot_error_grid(axes: Sequence[Axes], mixtures: Sequence[float], errors: Mapping[str, Tensor]) -> None:
    """One panel for each number of actions: mean error and its 95 % interval [panels, mixtures, 2] of each method."""
    for panel, ax in enumerate(axes):
        for i, (name, table) in enumerate(errors.items()):
            shift = 0.02 * (i - 0.5 * (len(errors) - 1))
            mean, half = table[panel].T
            x = torch.tensor(mixtures, dtype=mean.dtype) + shift
            _curve(ax, x, mean, name, marker="o", markersize=3)
            ax.errorbar(x, mean, half, fmt="none", ecolor=LOOKS[name][0], elinewidth=1.0)
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(FixedLocator([0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0]))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_locator(NullLocator())
        ax.set_xticks(list(mixtures))
