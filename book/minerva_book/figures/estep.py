"""MPO's E-step: how far the weights move, what the temperature's dual says, how it finds its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from minerva_lite.formulas.duals import estep_weights, temperature_loss, weights_kl

from .style import BLUE, GRAY, GREEN, ORANGE, RED

# One state with seven actions: the best one is rare, so the prior and the values disagree.
DEMO_PRIOR = (0.05, 0.25, 0.15, 0.15, 0.25, 0.10, 0.05)
DEMO_Q = (-1.0, 0.0, 0.2, 0.4, 1.0, 1.5, 2.0)


def plot_estep(
    axes: Sequence[Sequence[Axes]], grid: Tensor, q_value: Tensor, prior: Tensor, action: Tensor, slope: float,
    panels: Mapping[str, tuple[Tensor, Tensor, Tensor]],
) -> None:  # fmt: skip
    """A column for each temperature: above, the Q-curve and the sampled actions; below, the densities.

    axes: [2][n]. grid, q_value, prior: [M], places on the action axis with the value and the prior's density there.
    action: [N], sampled, the same in all columns. slope: of Q at the prior's mean, drawn as an arrow along the curve.
    panels: title -> (density [M] of the reweighted prior, weights [N] of the actions, mean and std of their Gaussian).
    """
    at = action.contiguous()
    step = (grid[1] - grid[0]).item()
    worth = q_value[((at - grid[0]) / step).round().long().clamp(0, len(grid) - 1)]
    mean = (prior * grid).sum() / prior.sum()
    height = q_value[((mean - grid[0]) / step).round().long()].item()
    for (above, below), (title, (tilted, weights, fit)) in zip(zip(*axes, strict=True), panels.items(), strict=True):
        above.plot(grid, q_value, color="black", linewidth=1.5)
        above.scatter(at, worth, s=6 + 500 * weights, color=RED, alpha=0.6, linewidths=0, zorder=3)
        run = -0.45 if slope < 0 else 0.45
        above.annotate(
            "", (mean.item() + run, height + slope * run), (mean.item(), height),
            arrowprops={"arrowstyle": "-|>", "color": BLUE, "linewidth": 1.8}, zorder=4,
        )  # fmt: skip
        above.set(title=title, ylim=(-0.15, 1.2 * q_value.max().item()))
        fitted = (-0.5 * ((grid - fit[0]) / fit[1]) ** 2).exp() / (fit[1] * (2 * torch.pi) ** 0.5)
        below.fill_between(grid, prior, color=GRAY, alpha=0.25, linewidth=0, label=r"prior $\pi$")
        below.plot(grid, tilted, color=GREEN, linewidth=1.5, label=r"$q \propto \pi e^{Q/\eta}$")
        below.plot(grid, fitted, color=RED, linestyle="--", linewidth=1.8, label="Gaussian fitted to the dots")
        below.set(xlabel="action", ylim=(0.0, 2.3))
    axes[0][0].set_ylabel("Q (return units)")
    axes[1][0].set_ylabel("density")
    axes[1][0].legend(loc="upper left")


def temperature_example(eta: float) -> tuple[float, float]:
    """The divergence (nats) and the mean value (return units) of the demonstration's weights at a temperature."""
    prior, q_value = (torch.tensor(x, dtype=torch.float64).unsqueeze(1) for x in (DEMO_PRIOR, DEMO_Q))
    weights = estep_weights(q_value, prior.log(), torch.tensor(eta, dtype=torch.float64))
    return weights_kl(weights, prior.log()).item(), (weights * q_value).sum().item()


def plot_temperature(ax: Axes, *, eta: float, eps_eta: float) -> None:
    """Two panels inside `ax`: one state's weights at a temperature, and the dual with its tangent there."""
    ax.set_axis_off()
    left, right = ax.inset_axes((0.0, 0.0, 0.42, 1.0)), ax.inset_axes((0.55, 0.0, 0.45, 1.0))
    prior, q_value = (torch.tensor(x, dtype=torch.float64).unsqueeze(1) for x in (DEMO_PRIOR, DEMO_Q))
    log_prior, here = prior.log(), torch.tensor(eta, dtype=torch.float64)
    weights = estep_weights(q_value, log_prior, here)
    kl, value = temperature_example(eta)
    actions = range(len(prior))
    left.bar([a - 0.2 for a in actions], prior[:, 0], width=0.4, color=GRAY, label=r"prior $\pi(a)$", zorder=2)
    left.bar([a + 0.2 for a in actions], weights[:, 0], width=0.4, color=BLUE, label=r"weights $q(a)$", zorder=2)
    left.set(xlabel="value Q of each action (return units)", ylabel="probability", ylim=(0.0, 1.05))
    left.set_xticks(list(actions), [f"{q:g}" for q in DEMO_Q])
    left.set_title(f"KL(q || π) = {kl:.2f} nats, E Q = {value:.2f}", fontsize=10)
    framed = {"frameon": True, "facecolor": "white", "edgecolor": "none", "framealpha": 1.0}  # over the grid's lines
    left.legend(loc="upper left", **framed)
    grid = torch.linspace(0.03, 3.2, 200, dtype=torch.float64)
    dual = torch.stack([temperature_loss(q_value, log_prior, x, eps_eta) for x in grid])
    at = temperature_loss(q_value, log_prior, here, eps_eta).item()
    slope = eps_eta - kl
    right.plot(grid, dual, color="black", label=r"dual $g(\eta)$")
    ends = torch.tensor([max(0.0, eta - 0.7), eta + 0.7])
    right.plot(ends, at + slope * (ends - eta), color=RED, label=f"slope = {eps_eta:g} − {kl:.2f} = {slope:+.2f}")
    right.plot([eta], [at], "o", color=RED, markersize=6)
    if dual.argmin() > 0:
        right.plot([grid[dual.argmin()]], [dual.min()], "v", color=GREEN, markersize=8, label="minimum: KL = bound")
    right.set(xlabel=r"temperature $\eta$ (return units)", ylabel="dual (return units)", xlim=(0.0, 3.2))
    middle = dual.min().item()
    right.set_ylim(middle - 0.25, middle + max(1.0, 1.15 * (dual.max().item() - middle)))
    right.legend(loc="upper left" if dual[-1] > dual[0] else "upper right", **framed)


def plot_simplex(
    ax: Axes, prior: Tensor, q_value: Tensor, path: Tensor, reached: Tensor, eps_eta: Sequence[float]
) -> None:
    """All distributions over three actions: curves of equal KL to `prior` [3], lines of equal value, the path of q.

    path: [N, 3], q from a high temperature to a low one. reached: [n, 3], where the path meets each bound.
    """
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]], dtype=torch.float64)
    steps = torch.linspace(0.0, 1.0, 121, dtype=torch.float64)
    pairs = torch.cartesian_prod(steps, steps)
    pairs = pairs[pairs.sum(1) <= 1.0 + 1e-9]
    q = torch.cat([pairs, (1.0 - pairs.sum(1, keepdim=True)).clamp(min=0.0)], 1)
    x, y = (q @ corners).T
    kl = weights_kl(q.T, prior.log().unsqueeze(1).expand(-1, len(q)))
    ax.tricontour(x, y, q @ q_value, levels=9, colors=GRAY, linewidths=0.7, linestyles="--")
    ax.tricontour(x, y, kl, levels=list(eps_eta), colors=BLUE, linewidths=1.5)
    ax.plot(*torch.cat([corners, corners[:1]]).T, color="black", linewidth=1.0)
    ax.plot(*(path @ corners).T, color=RED, linewidth=2.2)
    ax.plot(*(prior @ corners), "s", color="black", markersize=6)
    ax.plot(*(reached @ corners).T, "o", color=RED, markersize=6)
    for eps, point in zip(eps_eta, reached @ corners, strict=True):
        name = f"{eps:g} nat{'s' * (eps != 1)}"
        behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
        ax.annotate(
            name, tuple(point.tolist()), (-8, 6), textcoords="offset points", color=BLUE, ha="right", bbox=behind
        )
    along = path @ corners
    ax.annotate(
        "path of q, from hot to cold", tuple(along[int(0.8 * len(along))].tolist()), (14, -16),
        textcoords="offset points", color=RED, arrowprops={"arrowstyle": "-", "color": RED, "linewidth": 0.8},
    )  # fmt: skip
    ax.annotate("π", tuple((prior @ corners).tolist()), (-12, -4), textcoords="offset points")
    names = [f"action {a + 1}, Q = {value:g}" for a, value in enumerate(q_value.tolist())]
    for name, corner, offset, side in zip(
        names, corners.tolist(), ((0, -14), (0, -14), (8, 2)), ("center", "center", "left"), strict=True
    ):
        ax.annotate(name, corner, offset, textcoords="offset points", ha=side)
    ax.set(xlim=(-0.12, 1.12), ylim=(-0.1, 0.93), aspect="equal")
    ax.set_axis_off()


def plot_sweeps(axes: Sequence[Axes], runs: Mapping[str, Mapping[str, Sequence[Tensor]]]) -> None:
    """One panel for each run: the objective after every half sweep, 2 K of them, and K + 1 policies' returns.

    A return is drawn level until the next policy, so that the objective's rise in an E-step is seen above it.
    """
    for ax, (title, run) in zip(axes, runs.items(), strict=True):
        objective, returns = run["objective"], run["returns"]
        half = torch.arange(len(objective) + 1) / 2
        rising = [returns[0], *objective]  # at the start q is the policy, and the two are equal
        ax.plot(half, rising, color=BLUE, marker=".", markersize=6, label=r"objective $\mathcal{J}_\eta(q, \pi)$")
        ax.plot(
            range(len(returns)),
            returns,
            "o--",
            drawstyle="steps-post",
            color=RED,
            markerfacecolor="none",
            linewidth=1.2,
            label=r"return $J(\pi)$",
        )
        ax.set(xlabel="sweeps", title=title)
    axes[0].set_ylabel("return units")
    axes[-1].legend(loc="center right")


def plot_thermostat(
    axes: Sequence[Axes], runs: Mapping[str, Mapping[str, Tensor]], eps_eta: float, goal: float
) -> None:
    """Divergence and temperature [N] over gradient steps, a line per run, with the bound and its temperature."""
    colors = (BLUE, RED, GREEN, ORANGE)
    for (name, run), color in zip(runs.items(), colors, strict=False):
        axes[0].semilogy(run["kl"], color=color, label=name)
        axes[1].semilogy(run["eta"], color=color, label=name)
    bound = axes[0].axhline(eps_eta, color=GRAY, linewidth=1.2, linestyle="--", label=r"bound $\varepsilon_\eta$")
    axes[1].axhline(goal, color=GRAY, linewidth=1.2, linestyle="--", label=r"minimum of the dual")
    axes[0].set(xlabel="gradient steps", ylabel="mean KL(q || π) (nats)")
    axes[1].set(xlabel="gradient steps", ylabel=r"temperature $\eta$ (return units)")
    axes[1].set_yticks([0.2, 0.5, 1, 2, 5], ["0.2", "0.5", "1", "2", "5"])
    axes[1].minorticks_off()
    axes[0].legend(handles=[bound], loc="best")
    axes[1].legend(loc="best")
