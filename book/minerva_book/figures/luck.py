"""V-MPO from inside, and its taste for luck."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from torch import Tensor

from .style import BLUE, GRAY, GREEN, ORANGE, RED

STYLES = ("-", "--", ":", "-.")


def plot_arms(ax: Axes, runs: Mapping[str, Tensor], title: str = "") -> None:
    """Probability of the better arm after every update, name -> [seeds, updates]: every seed, thin, and their mean."""
    for (name, chance), style, color in zip(runs.items(), STYLES, (RED, BLUE, GREEN, ORANGE), strict=False):
        updates = range(1, chance.shape[1] + 1)
        ax.plot(updates, chance.T, color=color, linewidth=0.7, alpha=0.5)
        ax.plot(updates, chance.mean(0), linestyle=style, color=color, label=name)
    ax.axhline(0.5, color=GRAY, linewidth=0.8)
    ax.set(xlabel="updates", ylabel="probability of the better arm", ylim=(-0.03, 1.03), title=title)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def plot_worth(ax: Axes, eta: Tensor, worth: Mapping[str, Tensor], threshold: float) -> None:
    """What each arm is worth to exp(A / eta), [N], against eta [N]; a line where two are worth the same."""
    for (name, curve), style in zip(worth.items(), STYLES, strict=False):
        ax.semilogx(eta, curve, style, label=name)
    ax.axvline(threshold, color=GRAY, linewidth=1.0)
    ax.annotate(rf"$\eta$ = {threshold:.2f}", (threshold, 0.9), (4, 0), textcoords="offset points", color=GRAY)
    ax.annotate("below it the coin\nlooks better", (0.01, 0.08), color=GRAY)
    ax.set(
        xlabel=r"temperature $\eta$ (reward units)",
        ylabel=r"worth $\mathcal{W}_\eta = \eta \log \mathbb{E}\, e^{r / \eta}$",
    )
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def plot_vmpo_diagnostics(axes: Any, history: Any, config: Any) -> None:
    """Eight figures to look at while V-MPO trains, on lettered axes [4, 2]; each realized divergence with its bound."""
    bounds = {"kl/mean": config.eps_mean, "kl/std": config.eps_std, "kl/psi_kept": config.eps_eta}
    panels = (
        ("kl/mean", r"$\mathrm{KL}^\mu$ (nats)", "realized", "divergence, mean"),
        ("kl/std", r"$\mathrm{KL}^\sigma$ (nats)", "realized", "divergence, std"),
        ("dual/alpha_mean", "1 / nat", r"$\alpha_\mu$", "multipliers"),
        ("dual/eta", "advantage units", r"$\eta$", "temperature"),
        ("kl/psi_kept", r"$\mathrm{KL}(\psi\, \Vert\, \cdot)$ (nats)", "to the kept", "weights: how unequal"),
        ("train/effective_samples", "share of the batch", "effective", "samples that count"),
        ("adv/threshold", "advantage units", "smallest kept", "advantages"),
        ("adv/std_over_eta", "no unit", r"std of $A$ over $\eta$", "lever of the weights"),
    )
    second = {
        "dual/alpha_mean": ("dual/alpha_std", r"$\alpha_\sigma$"),
        "kl/psi_kept": ("kl/psi_batch", "to the batch"),
        "train/effective_samples": ("train/selected_fraction", "selected"),
        "adv/threshold": ("adv/raw_std", "std"),
    }
    for letter, ax, (name, unit, label, title) in zip("abcdefgh", axes.flat, panels, strict=True):
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
        ax.set_title(f"{letter}  {title}", loc="left")
        if name != "adv/threshold":  # an advantage may be negative
            low, high = ax.get_ylim()
            ax.set_ylim(0.0, high + 0.35 * (high - low))  # room for the legend
        if name in ("kl/mean", "kl/std"):
            share = float((column <= bounds[name]).mean())
            where = {"xycoords": "axes fraction", "ha": "left", "color": RED, "fontsize": 9}
            ax.annotate(f"{share:.0%} of the updates end below the bound", (0.02, 0.72), **where)
        ax.legend(loc="upper right", ncols=2 if name in second else 1, borderpad=0.1, columnspacing=0.8)
    for ax in axes[-1]:
        ax.set(xlabel="environment steps (1000)")


def plot_price(axes: Any, runs: Mapping[str, tuple[Any, Any, Any]], bound: float) -> None:
    """Price, KL over its bound and return of several runs: name -> (price, KL, returns), each along the updates."""
    for (name, columns), style, color in zip(runs.items(), STYLES, (BLUE, RED), strict=False):
        for ax, column in zip(axes, columns, strict=True):
            ax.plot(range(1, len(column) + 1), column, style, color=color, label=name)
    axes[0].set(xlabel="updates", ylabel=r"price $\alpha$ (1 / nat)", title="a  price", ylim=(0.0, None))
    axes[1].axhline(bound, color=GRAY, linewidth=1.0)
    axes[1].set(xlabel="updates", ylabel="KL (nats)", title="b  divergence", yscale="log")
    axes[1].annotate("bound", (1.0, bound), (-2, 3), ("axes fraction", "data"), "offset points", ha="right", color=GRAY)
    axes[2].set(xlabel="evaluations", ylabel="mean return of 10 episodes", title="c  return")
    axes[0].legend(loc="lower left")
