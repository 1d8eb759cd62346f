"""V-MPO's weights: which samples are kept, how states are reweighted, and the slope of the temperature's dual."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.axes import Axes
from torch import Tensor

from ..formulas.diagnostics import effective_sample_size
from ..formulas.duals import top_k_mask, vmpo_weights, weights_kl
from .style import BLUE, GRAY, GREEN, ORANGE, RED


def top_k_example(top_k_frac: float, eta: float) -> dict[str, Tensor]:
    """Thirty-two advantages with a long right tail, the mask, V-MPO's weights, and their two divergences, nats."""
    # Evenly spaced quantiles of an exponential: a few lucky samples, many that are a little worse than the mean.
    quantile = (torch.arange(32, dtype=torch.float64) + 0.5) / 32.0
    advantage = -torch.log1p(-quantile) - 1.0
    mask = top_k_mask(advantage, torch.ones(32, dtype=torch.bool), top_k_frac)
    psi = vmpo_weights(advantage, mask, torch.zeros_like(advantage), torch.tensor(eta, dtype=torch.float64))
    kept, batch = (torch.full_like(psi[m], 1.0 / int(m.sum())).log() for m in (mask, torch.ones_like(mask)))
    return {
        "advantage": advantage,
        "mask": mask,
        "psi": psi,
        "kl_kept": weights_kl(psi[mask], kept),
        "kl_batch": weights_kl(psi, batch),
        "ess": effective_sample_size(psi),
    }


def plot_top_k(ax: Axes, *, top_k_frac: float, eta: float) -> None:
    """Weight of each of 32 samples, as a multiple of 1 / 32, against its advantage; samples not kept stand at the foot.

    On the logarithmic axis the kept ones lie on a line of slope 1 / eta.
    """
    example = top_k_example(top_k_frac, eta)
    advantage, mask, share = example["advantage"], example["mask"], 32.0 * example["psi"]
    low, high = 3e-3, 40.0
    if not mask.all():
        threshold = 0.5 * (advantage[mask].min() + advantage[~mask].max())
        ax.axvspan(-1.2, float(threshold), color=GRAY, alpha=0.15, linewidth=0)
        ax.plot(advantage[~mask], torch.full_like(advantage[~mask], low), "x", color=RED, clip_on=False,
                label="not kept: weight 0")  # fmt: skip
    ax.axhline(1.0, color=GRAY, linewidth=1.2, linestyle="--", label="equal share of the batch")
    # One curve with gaps: a file of 32 lines would repeat their color 32 times.
    stems = torch.stack([torch.full_like(share, low), share, torch.full_like(share, torch.nan)], -1)[mask]
    ax.plot(advantage[mask].repeat_interleave(3), stems.flatten(), color=BLUE, linewidth=1.0, alpha=0.5,
            solid_capstyle="butt")  # fmt: skip
    shown = mask & (share >= low)
    ax.semilogy(advantage[shown], share[shown], "o", color=BLUE, markersize=5, label=r"kept: $32\, \psi_t$")
    ax.set(
        xlim=(-1.2, 3.4), ylim=(low, high), xlabel="advantage (advantage units)", ylabel="weight in equal shares (log)",
        title=f"KL to kept {example['kl_kept']:.2f} + log(n / k) {abs(example['kl_batch'] - example['kl_kept']):.2f} "
        f"≈ {example['kl_batch']:.2f} nats;  ESS {example['ess']:.1f} of 32",
    )  # fmt: skip
    ax.legend(loc="upper left")


def plot_state_weights(ax: Axes, shares: Mapping[str, Tensor], spread: Tensor) -> None:
    """Share of each state, [S], before and after an E-step; states from left to right by how far advantages spread."""
    order = spread.argsort()
    width = 0.8 / len(shares)
    for i, ((name, share), color) in enumerate(zip(shares.items(), (GRAY, GREEN, BLUE, ORANGE), strict=False)):
        at = torch.arange(len(order)) + (i - 0.5 * (len(shares) - 1)) * width
        ax.bar(at.tolist(), share[order].tolist(), width, color=color, label=name)
    ax.set_xticks(range(len(order)), [f"{float(x):.2f}" for x in spread[order]])
    ax.set(xlabel="standard deviation of the advantage in the state (return units)", ylabel="share of the state")
    ax.grid(visible=False, axis="x")
    ax.set_axisbelow(True)
    ax.legend()


def plot_dual_slope(ax: Axes, eta: Tensor, curves: Mapping[str, Tensor]) -> None:
    """Slopes of temperature duals, [N] each, over the temperature; a dot where one crosses 0, at the minimum."""
    ax.axhline(0.0, color="black", linewidth=0.8)
    for (name, slope), style in zip(curves.items(), ("-", "--", "-.", ":"), strict=False):
        (line,) = ax.semilogx(eta, slope, style, label=name)
        at = int((slope < 0).sum())
        if 0 < at < len(eta):
            ax.plot([eta[at]], [0.0], "o", color=line.get_color(), markersize=7)
    ax.set(xlabel=r"temperature $\eta$ (advantage units, log)", ylabel=r"slope $g'(\eta)$ of the dual (nats)")
    ax.legend()
