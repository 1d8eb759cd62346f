"""PPO's objective, and what it does not bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from ..formulas.objectives import ppo_clip_objective
from .style import BLUE, GRAY, GREEN, ORANGE, RED


def plot_clip_objective(ax: Axes, *, advantage: float, clip_eps: float, max_ratio: float = 2.0) -> None:
    """PPO's clipped objective of one sample against its ratio; shaded: where its gradient is zero.

    The shading comes from autograd's gradient, so it shows what the code does.
    """
    log_ratio = torch.linspace(0.02, max_ratio, 397, dtype=torch.float64).log().requires_grad_()
    advantages = torch.full_like(log_ratio, advantage)
    objective = ppo_clip_objective(log_ratio, advantages, clip_eps)
    (slope,) = torch.autograd.grad(objective.sum(), log_ratio)
    ratio = log_ratio.detach().exp()
    clipped = ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps) * advantage

    flat = (slope == 0.0).numpy()
    ax.fill_between(
        ratio,
        0,
        1,
        where=flat,
        transform=ax.get_xaxis_transform(),
        color=ORANGE,
        alpha=0.25,
        linewidth=0,
        label="gradient is zero",
    )
    ax.plot(ratio, objective.detach(), color=BLUE, linewidth=5, alpha=0.55, label="objective: the smaller of the two")
    ax.plot(ratio, ratio * advantage, color=RED, linestyle="--", linewidth=1.5, label=r"unclipped, $\rho A$")
    ax.plot(ratio, clipped, color="black", linestyle=":", linewidth=1.8, label=r"clipped, $\mathrm{clip}(\rho)\,A$")
    ax.plot([1.0], [advantage], "o", color="black", markersize=5)
    for edge in (1.0 - clip_eps, 1.0 + clip_eps):
        ax.axvline(edge, color=GRAY, linewidth=0.8)
    span = abs(advantage) * max_ratio
    ax.set(
        xlim=(0.0, max_ratio),
        ylim=(-0.1 * span, 1.05 * span) if advantage > 0 else (-1.05 * span, 0.1 * span),
        xlabel=r"ratio $\rho = \pi_\theta(a\mid s) / \pi_b(a\mid s)$ (dimensionless)",
        ylabel="objective (advantage units)",
        title=rf"$A = {advantage:+.0f}$,  $\varepsilon = {clip_eps:.2f}$",
    )
    ax.legend(loc="upper left" if advantage > 0 else "lower left")


def plot_promise(ax: Axes, kl: Tensor, kept: Tensor) -> None:
    """The return's gain over the surrogate's, [N], against the KL of the step, [N], nats."""
    ax.semilogx(kl, kept, "o", color=BLUE, alpha=0.35, markersize=3.5, markeredgewidth=0, rasterized=True)
    ax.axhline(1.0, color="black", linewidth=1.0)
    ax.axhline(0.0, color=RED, linestyle="--", linewidth=1.0)
    ax.annotate("below: the return fell", (kl.min(), 0.0), (0, -12), textcoords="offset points", color=RED)
    ax.set(xlabel="KL(old || new) of the step (nats)", ylabel="improvement: kept / promised", ylim=(-1.2, 2.0))


def plot_drift(axes: Sequence[Axes], traces: Mapping[str, Tensor], clip_eps: float) -> None:
    """Largest ratio, KL and share of samples with a gradient over gradient steps, on three axes: [3, N] per run."""
    for (name, trace), style in zip(traces.items(), ("-", "--", ":"), strict=False):
        for ax, figure in zip(axes, trace, strict=True):
            ax.plot(figure, style, label=name)
    axes[0].axhline(1.0 + clip_eps, color=GRAY, linewidth=1.0, label=r"end of the interval, $1 + \varepsilon$")
    axes[0].set(xlabel="gradient steps", ylabel="largest ratio (dimensionless)")
    axes[1].set(xlabel="gradient steps", ylabel="KL(old || new) (nats)")
    axes[2].set(xlabel="gradient steps", ylabel="share of samples still paid", ylim=(0.0, 1.05))
    axes[0].legend()


def plot_kl_estimators(ax: Axes, shift: Tensor) -> None:
    """Noise of one sample of k1, k2, k3 relative to the KL, for N(0, 1) against N(m, 1), m = shift [N]."""
    m2, kl = shift.square(), 0.5 * shift.square()
    noise = {"k_1": m2, "k_2": 0.5 * m2.square() + 0.25 * m2.pow(3), "k_3": m2.expm1() - m2}
    for (name, variance), style, color in zip(noise.items(), ("-", ":", "--"), (RED, GREEN, BLUE), strict=True):
        ax.loglog(kl, variance.sqrt() / kl, linestyle=style, color=color, label=f"${name}$")
    ax.set(xlabel="KL(old || new) (nats)", ylabel="standard deviation of one sample / KL")
    ax.legend()
