"""Values, visits and advantages on small worlds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator
from torch import Tensor

from minerva_lite.worlds.tabular import TabularMDP, drifting_critic

from .style import BLUE, GRAY, GREEN, ORANGE, RED


def plot_start_values(ax: Axes, values: Mapping[str, float], title: str) -> None:
    """What each policy is said to be worth at the start, as bars with their numbers; the best one is dark."""
    best = max(values.values())
    for row, value in enumerate(values.values()):
        ax.barh(row, value, color=BLUE, alpha=1.0 if value == best else 0.35, height=0.6)
        ax.text(value, row, f" {value:.2f}", va="center", fontsize=11)
    ax.set(yticks=range(len(values)), yticklabels=list(values), xlim=(0.0, 1.25 * best), title=title)
    ax.set(xlabel="value of the start\n(reward units)", ylim=(len(values) - 0.5, -0.5))
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


def plot_readings(ax: Axes, *, sweeps: int) -> None:
    """Two panels inside `ax`, for *always right* in the corridor of eight states: values after so many sweeps, visits.

    The values are those of the guess zero after `sweeps` sweeps; the visits count the first `sweeps` steps, discounted.
    """
    ax.set_axis_off()
    guess, visits = _swept(sweeps)
    left, right = ax.inset_axes((0.0, 0.0, 0.44, 0.94)), ax.inset_axes((0.56, 0.0, 0.44, 0.94))
    left.bar(range(8), guess, color=BLUE, width=0.7)
    right.bar(range(8), visits, color=ORANGE, width=0.7)
    left.set(title="looking ahead: values", ylabel="value (reward units)", ylim=(0.0, 19.0), xlabel="state (start: 0)")
    right.set(title="from above: visits", ylabel="discounted visits", ylim=(0.0, 13.0), xlabel="state (7 pays)")
    for panel, at, number in ((left, 0, guess[0]), (right, 7, visits[7])):
        panel.set_xticks(range(8))
        panel.text(at, number, f"{number:.2f}", ha="center", va="bottom", fontsize=10)


def _swept(sweeps: int) -> tuple[list[float], list[float]]:
    """The corridor's values after `sweeps` sweeps from zero, and the discounted visits of as many steps, each [8]."""
    world = TabularMDP.chain(8, 0.95)
    chain, reward = world.averaged(torch.eye(2, dtype=torch.float64)[1].expand(8, 2))
    guess, visits, reached = torch.zeros_like(reward), torch.zeros_like(reward), world.start
    for _ in range(sweeps):
        guess, visits = reward + world.gamma * chain @ guess, visits + reached
        reached = world.gamma * chain.T @ reached
    return guess.tolist(), visits.tolist()


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


def plot_gae(ax: Axes, *, error: float, lam: float, rollout_steps: int) -> None:
    """Two panels inside `ax`: the weights of the critic's errors in row 0, and what they cost on a corridor.

    The last weight, red, is that of the seam: what the critic says where the rollout ends.
    """
    ax.set_axis_off()
    left, right = ax.inset_axes((0.0, 0.0, 0.4, 1.0)), ax.inset_axes((0.53, 0.0, 0.47, 1.0))
    world = drifting_critic(error)[0]
    shown = min(rollout_steps, 40)
    weight = world.gamma * (1.0 - lam) * (world.gamma * lam) ** torch.arange(shown)
    seam = world.gamma * (world.gamma * lam) ** (rollout_steps - 1)
    if rollout_steps <= shown:
        weight[-1] = seam
    beyond = f" (step {rollout_steps}: {seam:.2f})" if rollout_steps > shown and seam >= 0.005 else ""
    colors = [BLUE] * (shown - 1) + [RED if rollout_steps <= shown else BLUE]
    left.bar(range(1, shown + 1), weight.tolist(), color=colors, width=0.8, zorder=2)
    left.plot([], [], "s", color=BLUE, label="rows between")
    left.plot([], [], "s", color=RED, label=f"end of the rollout{beyond}")
    left.set(xlabel="steps ahead", ylabel="weight of the critic's error there", ylim=(0.0, 1.05), xlim=(0.0, 41.0))
    left.legend(loc="upper right")
    grid, curves = _gae_curves(error, rollout_steps)
    bias, variance = curves.T
    here = corridor_gae_error(error, lam, rollout_steps)
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


_corridor = lru_cache(maxsize=8)(drifting_critic)  # each curve asks 41 times


def corridor_gae_error(error: float, lam: float, rollout_steps: int) -> tuple[float, float]:
    """Squared bias and variance of GAE on the corridor, mean over the rows of a rollout: of `plot_gae` and its text."""
    world, policy, critic = _corridor(error)
    bias, variance = world.gae_error(policy, critic, lam, rows=rollout_steps)
    return float(bias), float(variance)


@lru_cache(maxsize=8)
def _gae_curves(error: float, rollout_steps: int) -> tuple[list[float], Tensor]:
    """Grid of lambda and [41, 2] squared bias and variance: the same for every lambda that a picture marks."""
    grid = torch.linspace(0.0, 1.0, 41).tolist()
    return grid, torch.tensor([corridor_gae_error(error, lam, rollout_steps) for lam in grid])


def plot_rollout_bias(ax: Axes, lam: Tensor, curves: Mapping[int, Tensor], endless: Tensor, size: float) -> None:
    """Root mean square of the harmful bias against lambda [N], for several rollout lengths and for endless paths."""
    for (steps, bias), color in zip(curves.items(), (GRAY, RED, ORANGE, GREEN, BLUE), strict=False):
        ax.plot(lam, bias, color=color, label=f"T = {steps}")
    ax.plot(lam, endless, color="black", linestyle="--", linewidth=1.4, label="endless")
    ax.axhline(size, color=GRAY, linewidth=1.0, linestyle=":")
    ax.annotate(r"size of $A^\pi$ itself", (1.0, size), (-4, -3), ("axes fraction", "data"), "offset points",
                ha="right", va="top", color=GRAY)  # fmt: skip
    ax.set(xlabel=r"trace decay $\lambda$", ylabel="harmful bias, RMS (reward units)", ylim=(0.0, None))
    ax.legend(loc="lower left", ncols=2)


def plot_error_kinds(
    axes: Sequence[Axes], lam: Tensor, curves: Mapping[str, Tensor], points: Mapping[str, Tensor]
) -> None:
    """Left: total error of GAE against lambda [N], mean and range over draws [D, N], for critics wrong in several ways.

    Right: for each draw, [D, 2], the harmful bias of one step and the lambda that is best.
    """
    look = dict(zip(points, zip((GRAY, GREEN, BLUE, RED, ORANGE), "osDo^", strict=True), strict=True))
    for name, runs in curves.items():
        color = look[name][0]
        axes[0].plot(lam, runs.mean(0), color=color, label=name)
        axes[0].fill_between(lam, runs.amin(0), runs.amax(0), color=color, alpha=0.13, linewidth=0)
        axes[0].plot(lam[runs.mean(0).argmin()], runs.mean(0).min(), "o", color=color)
    axes[0].set(xlabel=r"trace decay $\lambda$", ylabel="squared error (reward units²)", yscale="log", ylim=(0.03, 4.0))
    axes[0].set_yticks((0.03, 0.1, 0.3, 1.0, 3.0), ("0.03", "0.1", "0.3", "1", "3"))
    axes[0].minorticks_off()
    axes[0].legend(loc="upper left")
    for name, draws in points.items():
        color, mark = look[name]
        axes[1].plot(*draws.T, mark, color=color, label=name, markersize=6, alpha=0.75, linestyle="none")
    axes[1].set(xlabel="harmful bias of one step, RMS (reward units)", ylabel=r"best $\lambda$", ylim=(-0.03, 0.62))
    axes[1].legend(loc="upper left")
