"""Values, visits and advantages on small worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator
from torch import Tensor

from ..worlds.tabular import TabularMDP, drifting_critic
from .style import BLUE, GRAY, GREEN, RED


def plot_start_values(ax: Axes, values: Mapping[str, float], title: str) -> None:
    """What each policy is said to be worth at the start, as bars with their numbers; the best one is dark."""
    best = max(values.values())
    for row, value in enumerate(values.values()):
        ax.barh(row, value, color=BLUE, alpha=1.0 if value == best else 0.35, height=0.6)
        ax.text(value, row, f" {value:.2f}", va="center", fontsize=11)
    ax.set(yticks=range(len(values)), yticklabels=list(values), xlim=(0.0, 1.25 * best), title=title)
    ax.set(xlabel="value of the start (reward units)", ylim=(len(values) - 0.5, -0.5))
    ax.grid(False)


def plot_contraction(ax: Axes, errors: Mapping[float, Tensor]) -> None:
    """Largest error [N] after N sweeps for each discount, and dashed what the contraction bound allows."""
    for (gamma, error), color in zip(errors.items(), (GREEN, BLUE, RED), strict=False):
        sweeps = torch.arange(len(error))
        ax.semilogy(sweeps, error, color=color, label=rf"$\gamma = {gamma:g}$")
        ax.semilogy(sweeps, gamma ** sweeps.double() * error[0], color=color, linestyle="--", linewidth=1.0)
    ax.set(xlabel="sweeps", ylabel="largest error (reward units)", ylim=(1e-4, 10.0))
    ax.legend(title="dashed: the bound")


def plot_discount(ax: Axes, *, gamma: float) -> None:
    """Values per step, best actions and visits on the chain of six states, for one discount."""
    world = TabularMDP.chain(6, gamma)
    policy = world.best_policy()
    value, visits = (1.0 - gamma) * world.value(policy), (1.0 - gamma) * world.visitation(policy)
    ax.bar(range(6), value, color=BLUE, alpha=0.6, width=0.6, label=r"value $(1 - \gamma) V^\star$ (reward per step)")
    ax.plot(range(6), visits, "o--", color="black", linewidth=1.0, label="normalized visitation (probability)")
    for s, right in enumerate(policy[:, 1].tolist()):
        ends = ((s - 0.3, -0.1), (s + 0.3, -0.1)) if right else ((s + 0.3, -0.1), (s - 0.3, -0.1))
        ax.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": RED, "linewidth": 2.2})
    ax.set(
        xlabel="state (start: 0)",
        ylabel="reward per step; probability",
        ylim=(-0.26, 1.3),
        title=rf"$\gamma = {gamma:g}$, horizon $1/(1-\gamma)$ = {1 / (1 - gamma):.3g} steps",
    )
    ax.text(-0.4, -0.155, "left pays 0.1", va="top", fontsize=9, color=GREEN)
    ax.text(5.4, -0.155, "right pays 1", va="top", ha="right", fontsize=9, color=GREEN)
    ax.legend(loc="upper right")


def plot_value_error(ax: Axes, errors: Mapping[str, Tensor]) -> None:
    """Root mean squared error of learned values after each step, [N], for several learners."""
    for (name, error), style in zip(errors.items(), ("-", "--", "-."), strict=False):
        ax.loglog(torch.arange(1, len(error) + 1), error, style, label=name)
    ax.set(xlabel="steps of each learner", ylabel="RMS error of V (reward units)", xlim=(10, None))
    low = min(float(error.min()) for error in errors.values())
    ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if tick > 0.8 * low]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.legend()


def plot_time_limit(
    ax: Axes, limits: Sequence[int], curves: Mapping[str, Sequence[float]], truth: Sequence[float]
) -> None:
    """Value of the start for two policies: as learned if each time limit counts as termination, and the true one."""
    for (name, learned), true, color in zip(curves.items(), truth, (RED, BLUE), strict=True):
        ax.semilogy(limits, learned, color=color, label=f"{name}, the limit taken for an end")
        ax.axhline(float(true), color=color, linestyle="--", linewidth=1.2, label=f"{name}, true value")
    first, second = (torch.as_tensor(learned) for learned in curves.values())
    crossing = limits[int((second > first).int().argmax())]
    ax.axvspan(limits[0], crossing, color=GRAY, alpha=0.15, linewidth=0.0)
    ax.annotate(
        "order reversed", ((limits[0] + crossing) / 2, 22.0), (crossing + 2.5, 22.0), fontsize=10, va="center",
        arrowprops={"arrowstyle": "->", "color": "black"},
    )  # fmt: skip
    ax.set(xlabel="time limit (steps)", ylabel="value of the start (reward units)", ylim=(0.08, 40.0))
    ax.set_yticks((0.1, 0.3, 1.0, 3.0, 10.0), ("0.1", "0.3", "1", "3", "10"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.legend(loc="lower right", ncols=1)


def plot_gae_error(ax: Axes, lam: Tensor, curves: Mapping[str, Tensor]) -> None:
    """Squared bias and variance of GAE, [2, N], and their sum against lambda [N], for several critics."""
    for (name, (bias, variance)), color in zip(curves.items(), (BLUE, GREEN, RED), strict=False):
        total = bias + variance
        best = int(total.argmin())
        ax.semilogy(lam, total, color=color, label=name)
        ax.semilogy(lam[bias > 1e-6], bias[bias > 1e-6], ":", color=color, linewidth=1.4)
        ax.semilogy(lam, variance, "--", color=color, linewidth=1.2)
        ax.plot(lam[best], total[best], "o", color=color)
    ax.plot([], [], ":", color=GRAY, label="bias²")
    ax.plot([], [], "--", color=GRAY, label="variance")
    ax.set(xlabel=r"trace decay $\lambda$", ylabel="squared error (reward units²)", ylim=(2e-3, 5.0))
    ax.legend(loc="lower left")


def plot_gae(ax: Axes, *, error: float, lam: float) -> None:
    """Two panels inside `ax`: the weights of the TD errors, and what they cost on a corridor with a wrong critic."""
    ax.set_axis_off()
    left, right = ax.inset_axes((0.0, 0.0, 0.4, 1.0)), ax.inset_axes((0.53, 0.0, 0.47, 1.0))
    world, policy, critic = drifting_critic(error)
    lags = torch.arange(25)
    left.bar(range(25), ((world.gamma * lam) ** lags).tolist(), color=BLUE, width=0.7, zorder=2)
    left.plot(
        lags, world.gamma**lags, color=GRAY, linewidth=1.2, zorder=3, label=r"$\gamma^l$, the weights at $\lambda = 1$"
    )
    left.set(xlabel="steps ahead $l$", ylabel=r"weight of $\delta_{t+l}$, $(\gamma\lambda)^l$", ylim=(0.0, 1.25))
    left.legend(loc="upper right")
    grid = torch.linspace(0.0, 1.0, 41).tolist()
    bias, variance = torch.tensor([[float(x) for x in world.gae_error(policy, critic, at)] for at in grid]).T
    here = [float(x) for x in world.gae_error(policy, critic, lam)]
    for name, values, at, color, style in (
        ("bias²", bias, here[0], RED, ":"),
        ("variance", variance, here[1], GREEN, "--"),
        ("sum", bias + variance, sum(here), "black", "-"),
    ):
        right.plot(grid, values, style, color=color, label=name, linewidth=1.6)
        right.plot([lam], [at], "o", color=color, markersize=6, zorder=3)
    right.axvline(lam, color=GRAY, linewidth=0.8)
    right.set(
        xlabel=r"trace decay $\lambda$", ylabel="squared error (reward units²)", ylim=(0.0, 1.5), xlim=(-0.02, 1.02)
    )
    right.set_title(f"here: {here[0]:.3f} + {here[1]:.3f} = {sum(here):.3f}", fontsize=10)
    right.legend(loc="upper center")
