"""MPO's M-step: how a policy collapses, the bounds that keep it wide, and the multipliers that keep the bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator
from torch import Tensor

from minerva_lite.formulas.distributions import gaussian_kl, gaussian_kl_mean_std

from .style import BLUE, GRAY, GREEN, ORANGE, RED

# What is bounded, as `explore_decoupled_kl` names it.
RULES = ("coupled", "new std", "decoupled")


def plot_collapse(axes: Sequence[Axes], runs: Mapping[str, tuple[Tensor, Tensor]], *, exact: float) -> None:
    """Mean (left) and std (right) of a policy after each fit, both [iterations, runs]: for each N median and 10 to 90%.

    exact: how far the exact M-step moves the mean in one iteration, in first stds.
    """
    for (name, pair), style in zip(runs.items(), ("-", "--", ":", "-."), strict=False):
        for ax, values in zip(axes, pair, strict=True):
            low, middle, high = values.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=values.dtype), 1).clamp(min=-99.0)
            if ax is axes[1]:
                low, middle, high = (x.clamp(min=1e-12) for x in (low, middle, high))
            (line,) = ax.plot(middle, style, label=name)
            ax.fill_between(
                range(len(values)), low, high, color=line.get_color(), alpha=0.15, linewidth=0, rasterized=True
            )
    axes[0].axline((0.0, 0.0), slope=exact, color=GRAY, linewidth=1.0, label="exact fit")
    axes[1].axhline(1.0, color=GRAY, linewidth=1.0)
    axes[0].set(xlabel="fits", ylabel=r"mean $\mu$ (first stds)", ylim=(0.0, 50.0))
    axes[1].set(xlabel="fits", ylabel=r"std $\sigma$ (first stds)", yscale="log", ylim=(1e-6, 1e4))
    axes[0].legend(loc="upper left")


def plot_chase(axes: Sequence[Axes], paths: Mapping[str, Tensor], target: Tensor) -> None:
    """Mean (left) and std (right) of several policies, paths [iterations, 2], that chase a target, [iterations]."""
    axes[0].plot(target, color=GRAY, linewidth=1.0, label="best action")
    for (name, path), style in zip(paths.items(), ("-", "--", ":", "-."), strict=False):
        axes[0].plot(path[:, 0], style, label=name)
        axes[1].semilogy(path[:, 1].clamp(min=1e-12), style, label=name)
    axes[0].set(xlabel="iterations", ylabel=r"mean $\mu$ (action units)", ylim=(-0.2, 3.3))
    axes[1].set(xlabel="iterations", ylabel=r"std $\sigma$ (action units)", ylim=(1e-5, 1e4))
    axes[1].legend(loc="upper right")


def plot_multiplier(
    axes: Sequence[Axes], paths: Mapping[str, tuple[Tensor, Tensor]], *, bound: float, optimum: float
) -> None:
    """KL over its bound (left) and the multiplier (right) at each step of dual ascent: name -> two of [steps]."""
    for (name, (kl, alpha)), style, color in zip(paths.items(), ("-", "--", ":"), (BLUE, RED, ORANGE), strict=False):
        axes[0].semilogy((kl / bound).clamp(min=1e-4), style, color=color, label=name)
        axes[1].semilogy(alpha.clamp(min=1e-4), style, color=color, label=name)
    axes[0].axhline(1.0, color="black", linewidth=1.0)
    axes[0].annotate("the bound", (1.0, 1.0), (-2, 3), ("axes fraction", "data"), "offset points", ha="right")
    axes[0].set(xlabel="steps", ylabel=r"$\mathrm{KL}^\mu / \varepsilon_\mu$", ylim=(1e-3, 1e3))
    axes[1].axhline(optimum, color="black", linewidth=1.0)
    axes[1].annotate("by hand", (1.0, optimum), (-2, 3), ("axes fraction", "data"), "offset points", ha="right")
    axes[1].set(xlabel="steps", ylabel=r"multiplier $\alpha_\mu$", ylim=(1e-3, 1e3))
    axes[0].legend(loc="lower left")


def plot_mpo_dip(axes: Sequence[Axes], history: Any, *, warmup: int, solved: float) -> None:
    """Return, critic and actions of a run on a task without positive rewards: three panels, the warm-up shaded."""
    axes[0].plot(history.steps("eval/mean"), history.column("eval/mean"), color=BLUE)
    axes[0].axhline(solved, color=GRAY, linewidth=1.0)
    axes[0].annotate("solved", (0.0, solved), (3, 3), ("axes fraction", "data"), "offset points", color=GRAY)
    axes[0].set(ylabel="mean return of 10 episodes", title="a  return")
    for name, style, color, label in (
        ("value/q_max", "-", RED, "largest"), ("value/q_mean", "--", BLUE, "mean"), ("value/q_min", ":", GRAY, "least")
    ):  # fmt: skip
        axes[1].plot(history.steps(name), history.column(name), style, color=color, label=label)
    axes[1].axhline(0.0, color="black", linewidth=1.0)
    axes[1].set(ylabel="Q of a batch (return units)", title="b  critic (true values are below 0)")
    axes[1].legend(loc="lower left")
    axes[2].plot(history.steps("train/abs_action"), history.column("train/abs_action"), color=BLUE)
    axes[2].axhline(1.0, color="black", linewidth=1.0)
    axes[2].annotate("the box", (1.0, 1.0), (-2, 3), ("axes fraction", "data"), "offset points", ha="right")
    axes[2].set(ylabel="mean |a| of the candidates", title="c  actions", ylim=(0.0, None))
    for ax in axes:
        ax.axvspan(0.0, warmup, color=GRAY, alpha=0.15, linewidth=0)
        ax.set(xlabel="environment steps", xlim=(0.0, None))


def plot_mpo_diagnostics(axes: Any, history: Any, config: Any) -> None:
    """Six figures of a run of MPO against environment steps, each divergence over its bound; axes [2, 3]."""
    steps = history.steps("dual/eta")
    top, bottom = axes
    for ax, name, bound, label in (
        (top[0], "kl/estep", config.eps_eta, r"KL of the weights / $\varepsilon_\eta$"),
        (top[1], "kl/mean", config.eps_mean, r"$\mathrm{KL}^\mu / \varepsilon_\mu$"),
        (top[2], "kl/std", config.eps_std, r"$\mathrm{KL}^\sigma / \varepsilon_\sigma$"),
    ):
        over = torch.as_tensor(history.column(name)) / bound
        ax.plot(steps, over, ".", color=BLUE, markersize=4, alpha=0.5, rasterized=True)
        latest = [over[max(0, i - 9) : i + 1].mean() for i in range(len(over))]
        ax.plot(steps, latest, color=BLUE, linewidth=1.8)
        ax.axhline(1.0, color="black", linewidth=1.0)
        ax.set(ylabel=label, ylim=(0.0, 4.0))
    for ax, letter in zip((*top, *bottom), "abcdef", strict=True):
        ax.set_title(letter, loc="left")
    bottom[0].plot(steps, history.column("dual/eta"), color=RED)
    bottom[0].set(ylabel=r"temperature $\eta$ (return units)", ylim=(0.0, None))
    bottom[1].semilogy(steps, history.column("dual/alpha_mean"), color=BLUE, label=r"$\alpha_\mu$")
    bottom[1].semilogy(steps, history.column("dual/alpha_std"), "--", color=RED, label=r"$\alpha_\sigma$")
    bottom[1].set(ylabel="multipliers")  # their mean over the dimensions
    bottom[1].yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    bottom[1].yaxis.set_major_formatter("{x:g}")
    bottom[1].minorticks_off()
    bottom[1].legend(loc="lower left")
    bottom[2].plot(
        steps, history.column("train/effective_samples") / config.action_samples, color=BLUE, label="ESS / N"
    )
    bottom[2].plot(steps, history.column("train/std"), "--", color=RED, label="std, mean of a batch")
    bottom[2].plot(steps, history.column("train/std_min"), ":", color=GREEN, label="std, smallest")
    bottom[2].set(ylabel="share; action units", ylim=(0.0, 2.0))
    bottom[2].legend(loc="upper left")
    for ax in bottom:
        ax.set(xlabel="environment steps")


def decoupled_kl_optimum(
    rule: str, mean_fit: float, std_fit: float, eps_mean: float, eps_std: float
) -> tuple[tuple[float, float], dict[str, Tensor]]:
    """Best (mean, std) that a bound allows, and what it was chosen from, on a grid around the old policy N(0, 1).

    The weights have mean_fit and std_fit. rule: `"coupled"` bounds the whole KL by eps_mean + eps_std, `"new std"` the
    two parts of its exact split, `"decoupled"` those of `gaussian_kl_mean_std`; the fit is joint for the first, and
    decoupled for the other two, where it asks for the std around the old mean. The grids are [S, M].
    """
    mean, std = torch.meshgrid(
        torch.linspace(-0.6, 1.2, 601, dtype=torch.float64), torch.linspace(0.5, 1.6, 551, dtype=torch.float64),
        indexing="xy",
    )  # fmt: skip
    zero, one = torch.zeros_like(mean), torch.ones_like(std)
    kl_mean, kl_std = gaussian_kl_mean_std(zero, one, mean, std)
    whole = gaussian_kl(zero, one, mean, std)
    if rule == "coupled":
        allowed = whole <= eps_mean + eps_std
        loss = std.log() + 0.5 * (std_fit**2 + (mean_fit - mean).square()) / std.square()
    else:
        allowed = ((whole - kl_std if rule == "new std" else kl_mean) <= eps_mean) & (kl_std <= eps_std)
        loss = 0.5 * (mean_fit - mean).square() + std.log() + 0.5 * (std_fit**2 + mean_fit**2) / std.square()
    best = int(loss.masked_fill(~allowed, torch.inf).argmin())
    point = (float(mean.flatten()[best]), float(std.flatten()[best]))
    return point, {"mean": mean, "std": std, "allowed": allowed, "loss": loss}


def plot_decoupled_kl(
    ax: Axes, *, rule: str, std_fit: float, mean_fit: float = 0.6, eps_mean: float = 0.05, eps_std: float = 0.005
) -> None:
    """The policies that a bound allows around N(0, 1), and the best of them, `decoupled_kl_optimum`."""
    point, grid = decoupled_kl_optimum(rule, mean_fit, std_fit, eps_mean, eps_std)
    lowest = float(grid["loss"].min())
    ax.contour(
        grid["mean"], grid["std"], grid["loss"], [lowest + step for step in (0.01, 0.04, 0.1, 0.2, 0.4, 0.8)],
        colors=GRAY, linewidths=0.8, linestyles="solid",
    )  # fmt: skip
    ax.contourf(grid["mean"], grid["std"], grid["allowed"].double(), [0.5, 1.5], colors=[BLUE], alpha=0.25)
    # How far the mean may move where the old std is in its part of the KL: a line to compare every rule with.
    reach = math.sqrt(2.0 * eps_mean)
    for side in (-reach, reach):
        ax.axvline(side, color=GREEN, linewidth=1.0, linestyle=":")
    ax.plot(0.0, 1.0, "o", color="black", markersize=7)
    ax.annotate("old policy", (0.0, 1.0), (-6, 8), textcoords="offset points", ha="right")
    ax.annotate("", point, (0.0, 1.0), arrowprops={"arrowstyle": "-|>", "color": RED, "lw": 2.2})
    # Where the loss is smallest: the losses of the two splits measure the std around the old mean.
    std_asked = std_fit if rule == "coupled" else math.hypot(std_fit, mean_fit)
    if 0.5 <= std_asked <= 1.6:
        ax.plot(mean_fit, std_asked, "*", color=ORANGE, markersize=13, markeredgecolor="black", markeredgewidth=0.6)
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        ax.annotate("weights", (mean_fit, std_asked), (10, -3), textcoords="offset points", bbox=behind)
    ax.set(
        xlim=(-0.6, 1.2), ylim=(0.5, 1.6), xlabel=r"mean $\mu$ (old stds)", ylabel=r"std $\sigma$ (old stds)",
        title=rf"best allowed: $\mu = {point[0]:.2f}$, $\sigma = {point[1]:.2f}$",
    )  # fmt: skip
    ax.grid(visible=False)
