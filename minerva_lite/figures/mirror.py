"""V-MPO's diagnostics, its taste for luck, and its relatives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from torch import Tensor

from .style import BLUE, GRAY, GREEN, ORANGE, RED

STYLES = ("-", "--", ":", "-.")


def plot_vmpo_diagnostics(axes: Any, history: Any, config: Any) -> None:
    """Eight figures to look at while V-MPO trains, on axes [4, 2]; each realized divergence with its bound."""
    bounds = {"kl/mean": config.eps_mean, "kl/std": config.eps_std, "kl/psi_kept": config.eps_eta}
    panels = (
        ("kl/mean", r"$\mathrm{KL}^\mu$ (nats)", r"realized"),
        ("kl/std", r"$\mathrm{KL}^\sigma$ (nats)", r"realized"),
        ("dual/alpha_mean", "multipliers (1 / nat)", r"$\alpha_\mu$"),
        ("dual/eta", "advantage units", r"temperature $\eta$"),
        ("kl/psi_kept", r"$\mathrm{KL}(\psi\, \Vert\, \cdot)$ (nats)", "to the kept"),
        ("train/effective_samples", "share of the batch", "effective"),
        ("adv/threshold", "advantage units", "threshold"),
        ("adv/std_over_eta", "no unit", r"std of $A$ over $\eta$"),
    )
    second = {
        "dual/alpha_mean": ("dual/alpha_std", r"$\alpha_\sigma$"),
        "kl/psi_kept": ("kl/psi_batch", "to the batch"),
        "train/effective_samples": ("train/selected_fraction", "selected"),
        "adv/threshold": ("adv/raw_std", "std"),
    }
    for ax, (name, unit, label) in zip(axes.flat, panels, strict=True):
        steps, column = history.steps(name) / 1000.0, history.column(name)
        scale = config.batch_size if name == "train/effective_samples" else 1.0
        ax.plot(steps, column / scale, color=BLUE, linewidth=1.3, label=label)
        if name in second:
            ax.plot(steps, history.column(second[name][0]), "--", color=ORANGE, linewidth=1.3, label=second[name][1])
        if name in bounds:
            ax.axhline(bounds[name], color=RED, linestyle=":", linewidth=1.6, label="bound")
        if name == "kl/psi_kept":
            ax.axhline(math.log(1.0 / config.top_k_frac), color=GRAY, linewidth=1.0, label=r"$\log(1 / \kappa)$")
        ax.set(ylabel=unit)
        if name != "adv/threshold":  # an advantage may be negative
            low, high = ax.get_ylim()
            ax.set_ylim(0.0, high + 0.35 * (high - low))  # room for the legend
        ax.legend(loc="upper right", ncols=2 if name in second else 1, borderpad=0.1, columnspacing=0.8)
    for ax in axes[-1]:
        ax.set(xlabel="environment steps (1000)")


def plot_luck(
    axes: Any, eta: Tensor, worth: Mapping[str, Tensor], threshold: float, runs: Mapping[str, Tensor]
) -> None:
    """Left: what each arm is worth to exp(A / eta), [N], against eta [N]. Right: P(the better arm) over updates."""
    left, right = axes
    for (name, curve), style in zip(worth.items(), STYLES, strict=False):
        left.semilogx(eta, curve, style, label=name)
    left.axvline(threshold, color=GRAY, linewidth=1.0)
    left.annotate(rf"$\eta$ = {threshold:.2f}", (threshold, 0.9), (4, 0), textcoords="offset points", color=GRAY)
    left.set(
        xlabel=r"temperature $\eta$ (reward units)",
        ylabel=r"worth $\mathcal{W}_\eta = \eta \log \mathbb{E}\, e^{r / \eta}$",
    )
    left.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, columnspacing=1.0)
    for (name, curve), style in zip(runs.items(), (*STYLES, (0, (5, 1, 1, 1, 1, 1))), strict=False):
        right.plot(range(1, len(curve) + 1), curve, linestyle=style, label=name)
    right.set(xlabel="updates", ylabel="probability of the better arm", ylim=(-0.03, 1.03))
    right.legend(loc="center right")


def plot_projections(ax: Axes, action: Tensor, curves: Mapping[str, Tensor], value: Tensor) -> None:
    """Densities [N] over actions [N], the target filled; the action's value [N] on an axis of its own."""
    (name, target), *others = curves.items()
    ax.fill_between(action, target, color=GRAY, alpha=0.3, linewidth=0, label=name)
    for (name, density), (color, style) in zip(others, ((BLUE, "-"), (RED, "--"), (GREEN, ":")), strict=False):
        ax.plot(action, density, color=color, linestyle=style, label=name)
    ax.set(xlabel="action", ylabel="density (1 / action unit)", xlim=(-4.0, 4.0), ylim=(0.0, None))
    twin = ax.twinx()
    twin.plot(action, value, color=ORANGE, linewidth=1.0)
    twin.set_ylabel("value of the action (thin line)")
    twin.set_ylim(0.0, 2.5 * float(value.max()))
    twin.grid(visible=False)
    twin.spines["right"].set_visible(True)
    ax.legend(loc="upper left")


def plot_multiplier_sign(axes: Any, runs: Mapping[str, tuple[Tensor, Tensor]], fixed: float, bound: float) -> None:
    """Two axes over gradient steps: the multiplier [N] of each run with its fixed point, and KL over bound [N]."""
    left, right = axes
    colors = (BLUE, BLUE, RED, RED)
    for (name, (alpha, kl)), color, style in zip(runs.items(), colors, ("-", "--", "-", "--"), strict=True):
        left.semilogy(alpha, color=color, linestyle=style, label=name)
        right.semilogy(kl / bound, color=color, linestyle=style)
    left.axhline(fixed, color=GRAY, linewidth=1.0)
    right.axhline(1.0, color=GRAY, linewidth=1.0)
    left.set(xlabel="gradient steps", ylabel=r"multiplier $\alpha$ (1 / nat)")
    right.set(xlabel="gradient steps", ylabel="KL / bound")
    left.legend(loc="center right")
