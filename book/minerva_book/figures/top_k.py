"""V-MPO's E-step: what flows through it, which samples are kept, how states are reweighted, the temperature's dual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from minerva_lite.formulas.diagnostics import effective_sample_size
from minerva_lite.formulas.duals import top_k_mask, vmpo_weights, weights_kl

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


def flow_example(eps_eta: float = 0.3, eps_mean: float = 0.05) -> dict[str, Tensor]:
    """One update of V-MPO by hand: 16 states with one action each, a policy N(w s + b, 1), and the truth a = 2 s.

    The fit is a weighted least-squares line; the bounded fit pays a multiplier for its mean's part of the KL.
    """
    generator = torch.Generator().manual_seed(1)
    state = torch.linspace(-1.0, 1.0, 16, dtype=torch.float64)
    action = torch.randn(16, generator=generator, dtype=torch.float64)  # the old policy: mean 0, std 1
    value = -(1.0 + 4.0 * state**2)  # of -(a - 2 s)^2 under the old policy
    advantage = -((action - 2.0 * state) ** 2) - value
    mask = top_k_mask(advantage, torch.ones(16, dtype=torch.bool), 0.5)
    low, high = 1e-3, 1e3
    prior = torch.full((8,), 1.0 / 8.0, dtype=torch.float64).log()
    for _ in range(60):  # the KL falls in eta
        eta = (low * high) ** 0.5
        psi = vmpo_weights(advantage, mask, torch.zeros_like(advantage), torch.tensor(eta, dtype=torch.float64))
        low, high = (eta, high) if weights_kl(psi[mask], prior) > eps_eta else (low, eta)
    features = torch.stack([torch.ones_like(state), state], -1)
    gram, pull = (features.T * psi) @ features, (features.T * psi) @ action

    def line(alpha: float) -> Tensor:  # minimizes the fit plus alpha times the mean's KL, both quadratic
        return features @ torch.linalg.solve(gram + alpha * features.T @ features / 16.0, pull)

    low, high = 0.0, 1e3
    for _ in range(60):
        alpha = 0.5 * (low + high)
        low, high = (alpha, high) if 0.5 * line(alpha).square().mean() > eps_mean else (low, alpha)
    return {"state": state, "action": action, "advantage": advantage, "mask": mask, "psi": psi,
            "free": line(0.0), "bounded": line(alpha), "eta": torch.tensor(eta)}  # fmt: skip


def draw_vmpo_flow(axes: Sequence[Axes]) -> None:
    """V-MPO's data flow on three axes: advantages and the cut, weights, the fit with and without the policy's bound."""
    example = flow_example()
    state, action, mask = example["state"], example["action"], example["mask"]
    order = example["advantage"].argsort(descending=True)
    colors = [BLUE if kept else GRAY for kept in mask[order]]
    axes[0].bar(range(16), example["advantage"][order].tolist(), color=colors)
    axes[0].axvline(7.5, color=RED, linestyle="--", linewidth=1.5)
    axes[0].set(title="1. sort and cut", xlabel="samples, best first", ylabel=r"advantage $A_t$")
    axes[0].annotate("keep | drop", (7.5, 0.93), xycoords=("data", "axes fraction"), ha="center", color=RED,
                     bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0})  # fmt: skip
    axes[1].bar(range(16), example["psi"][order].tolist(), color=colors)
    axes[1].axhline(1.0 / 16.0, color=GRAY, linestyle="--", linewidth=1.2)
    axes[1].annotate("share of the batch, 1/16", (15.4, 1.0 / 16.0), xytext=(0, 4), textcoords="offset points",
                     ha="right", color=GRAY, fontsize=9)  # fmt: skip
    axes[1].set(
        title=f"2. weigh over the batch, η = {example['eta']:.1f}",
        xlabel="samples, best first",
        ylabel=r"weight $\psi_t$",
    )
    axes[2].plot(state, torch.zeros_like(state), color=GRAY, linewidth=1.5, label="old mean")
    axes[2].plot(state, example["free"], ":", color=ORANGE, label="fit without bound")
    axes[2].plot(state, example["bounded"], color=GREEN, label="fit within the bound")
    axes[2].plot(state, 2.0 * state, color="black", linewidth=0.8)
    axes[2].scatter(state[~mask], action[~mask], marker="x", color=GRAY, s=25)
    axes[2].annotate("best action 2s", (-0.64, -1.28), xytext=(6, -4), textcoords="offset points", fontsize=9)
    axes[2].annotate("dropped", (float(state[~mask][-1]), float(action[~mask][-1])), xytext=(0, 6),
                     textcoords="offset points", ha="center", color=GRAY, fontsize=9)  # fmt: skip
    axes[2].scatter(state[mask], action[mask], s=(400.0 * example["psi"][mask]).tolist(), color=BLUE, zorder=3)
    axes[2].set(title="3. fit, within a bound", xlabel="state: one action in each", ylabel="action")
    axes[2].set_ylim(-1.5, 2.3)
    axes[2].legend(loc="upper left")
    for ax in axes[:2]:
        ax.set_xticks([])
        ax.set_axisbelow(True)


def plot_state_factors(ax: Axes, spread: Tensor, factors: Mapping[float, Tensor]) -> None:
    """Z(s) less 1, times 2 eta^2, against the variance of a state's advantages, for several temperatures: [S] each.

    To leading order the two are equal, which is the diagonal.
    """
    top = 1.08 * float(max(spread.max(), max((2 * eta**2 * (z - 1)).max() for eta, z in factors.items())))
    ax.plot([0, top], [0, top], color=GRAY, linestyle="--", linewidth=1.2, label="leading order: equal")
    for (eta, z), color, marker in zip(factors.items(), (BLUE, GREEN, RED), "os^", strict=False):
        ax.plot(spread, 2 * eta**2 * (z - 1), marker, color=color, markersize=7, label=rf"$\eta = {eta:g}$")
    if len(factors) == 1:  # room for the numbers of the states
        ((eta, z),) = factors.items()
        height = 2 * eta**2 * (z - 1)
        low = (height < 0.2 * height.max()).nonzero().flatten().tolist()  # these lie close together: one label
        labels = {state: str(state) for state in range(len(z)) if state not in low}
        if low:
            labels[max(low, key=lambda state: float(spread[state]))] = ", ".join(map(str, low))
        for state, label in labels.items():
            at = (spread[state].item(), height[state].item())
            ax.annotate(label, at, xytext=(6, -3), textcoords="offset points", fontsize=9)
    ax.set(xlim=(0, 1.15 * float(spread.max())), ylim=(0, top),
           xlabel="variance of the advantage in the state\n(return units squared)",
           ylabel=r"$2 \eta^2\, (Z(s) - 1)$")  # fmt: skip
    ax.legend()


def plot_duals(ax: Axes, eta: Tensor, curves: Mapping[str, Tensor]) -> None:
    """Duals of a temperature, each less its largest advantage, [N], over eta; a dot at a minimum inside the range."""
    ax.axhline(0.0, color="black", linewidth=0.8)
    styles = zip(curves.items(), ("-", "--", "-.", ":"), strict=False)
    for (name, dual), style in styles:
        (line,) = ax.plot(eta, dual, style, label=name)
        at = int(dual.argmin())
        if 0 < at < len(eta) - 1:
            ax.plot([float(eta[at])], [float(dual[at])], "o", color=line.get_color(), markersize=7)
    ax.set(xlabel=r"temperature $\eta$ (advantage units)", ylabel=r"dual less the largest advantage, $g(\eta) - c$")
    ax.legend(loc="center right")
