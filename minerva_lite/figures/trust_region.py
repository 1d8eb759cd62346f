"""TRPO's bounds and its step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor

from ..formulas.trust_region import conjugate_gradient, full_step, line_search, predicted_gain
from ..worlds.tabular_trpo import two_parameter_world
from .style import BLUE, GRAY, GREEN, ORANGE, RED


def plot_pinsker(ax: Axes, tv: Tensor, kl: Tensor) -> None:
    """Total variation against divergence [N] of many pairs, and the curve that Pinsker's inequality allows."""
    ax.semilogx(kl, tv, "o", color=BLUE, alpha=0.3, markersize=3, markeredgewidth=0, rasterized=True)
    bound = torch.logspace(-3, 1.3, 200, dtype=torch.float64)
    ax.semilogx(bound, (0.5 * bound).sqrt().clamp(max=1.0), color=RED, label=r"$\min(1, \sqrt{\mathrm{KL} / 2})$")
    ax.set(xlabel="KL(p || q) (nats)", ylabel="total variation (probability)",
           xlim=(0.7 * float(kl.min()), 20), ylim=(0.0, 1.05))  # fmt: skip
    ax.legend(loc="lower right")


def plot_minorizer(
    ax: Axes, chance: Tensor, curves: Mapping[str, Tensor], *, start: float, region: tuple[float, float]
) -> None:
    """Gain, surrogate and minorizers, [N] each, along a line of policies; a dot at each one's maximum.

    chance: [N], the line's coordinate; start: where the old policy stands; region: the policies within a KL bound.
    """
    styles = (("black", "-", 2.5), (BLUE, "--", 2.0), (RED, "-", 2.0), (ORANGE, "-.", 2.0))
    ax.axvspan(*region, color=GREEN, alpha=0.18, linewidth=0, label="within the KL bound")
    for (name, curve), (color, style, width) in zip(curves.items(), styles, strict=True):
        ax.plot(chance, curve, color=color, linestyle=style, linewidth=width, label=name)
        ax.plot([chance[curve.argmax()]], [curve.max()], "o", color=color, markersize=6, clip_on=False)
    ax.axhline(0.0, color=GRAY, linewidth=0.8)
    ax.axvline(start, color=GRAY, linewidth=0.8)
    top = max(float(curve.max()) for curve in curves.values())
    ax.annotate("old policy", (start, -0.7), (4, 4), textcoords="offset points", color=GRAY)
    ax.set(
        xlabel=r"probability of the bold action, $\pi(\mathrm{bold})$",
        ylabel="gain over the old policy (return units)",
        xlim=(0.0, 1.0),
        ylim=(-0.7, 1.5 * top),
    )
    ax.legend(loc="upper right", ncols=2)


def plot_bounds(ax: Axes, pairs: Mapping[str, Tensor]) -> None:
    """True error of the surrogate against its bound, log-log: a dot per random world, [N, 2] for each bound.

    A dot above the line would break its bound.
    """
    markers = zip("os^Dv", (BLUE, GREEN, ORANGE, RED, "black"), strict=True)
    for (name, pair), (marker, color) in zip(pairs.items(), markers, strict=False):
        gap, bound = pair.clamp(min=1e-12).T
        ax.loglog(
            bound, gap, marker, color=color, alpha=0.3, markersize=3, markeredgewidth=0, rasterized=True, label=name
        )
    ends = torch.tensor([1e-6, 1e5])
    ax.loglog(ends, ends, color="black", linewidth=1.2)
    ax.annotate("error = bound", (3e-3, 3e-3), (-6, 6), textcoords="offset points", ha="right")
    ax.set(
        xlabel="bound (return units)",
        ylabel=r"$|J(\pi) - J(\pi_{\mathrm{old}}) - L(\pi)|$ (return units)",
        xlim=(1e-6, 1e5),
        ylim=(1e-9, 1e2),
    )
    for handle in ax.legend(loc="lower right", markerscale=2.5).legend_handles:
        handle.set_alpha(1.0)


def plot_improvement(ax: Axes, curves: Mapping[str, Tensor]) -> None:
    """Share of the possible improvement after each step, [N + 1], of several rules."""
    for (name, share), style in zip(curves.items(), ("-", "--", ":", "-."), strict=False):
        ax.plot(range(len(share)), share, style, label=name)
    ax.axhline(1.0, color=GRAY, linewidth=1.0)
    ax.set(xlabel="steps", ylabel="share of the possible improvement", ylim=(-0.03, 1.05))
    ax.legend(loc="center right")


def plot_trust_region(ax: Axes, *, kl_bound: float, stretch: float = 1.0) -> None:
    """One TRPO step in two dimensions: surrogate, KL and its ellipse, plain and natural gradient step, line search.

    stretch: the policy is written in u = (theta_1 / stretch, theta_2); the plain gradient step is the one taken in
    u, up to the edge of the same ellipse, and the natural one as well. Both are drawn in theta.
    """
    world = two_parameter_world()
    gradient, fisher, surrogate, kl = world["gradient"], world["fisher"], world["surrogate"], world["kl"]
    natural = full_step(gradient, torch.linalg.solve(fisher, gradient), kl_bound)
    # d theta / d u is diag(stretch, 1): the gradient in u, carried back to theta.
    plain = torch.tensor([stretch**2, 1.0], dtype=torch.float64) * gradient
    plain = plain * (2.0 * kl_bound / (plain @ fisher @ plain)).sqrt()

    span = 1.5 * float((2.0 * kl_bound * torch.linalg.inv(fisher).diagonal()).sqrt().max())
    axis = torch.linspace(-span, span, 121, dtype=torch.float64)
    shift = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1)
    ax.contourf(axis, axis, surrogate(shift), 14, cmap="Greys", alpha=0.55)
    ax.contour(axis, axis, kl(shift), [kl_bound], colors=BLUE, linewidths=2)
    quadratic = 0.5 * torch.einsum("...m,mn,...n->...", shift, fisher, shift)
    ax.contour(axis, axis, quadratic, [kl_bound], colors=ORANGE, linewidths=2, linestyles="--")
    for step, color, style in ((plain, RED, "-"), (natural, GREEN, "-")):
        ax.annotate("", tuple(step.tolist()), (0.0, 0.0), arrowprops={"arrowstyle": "-|>", "color": color, "lw": 2.2})
        ax.plot([], [], style, color=color)
    found = line_search(
        lambda fraction: (surrogate(fraction * natural), kl(fraction * natural)),
        float(predicted_gain(gradient, natural)),
        kl_bound=kl_bound,
    )
    trials = torch.stack([0.5**j * natural for j in range(found.trials)])
    ax.plot(*trials[:-1].T, "o", color="black", markerfacecolor="white", markersize=7)
    ax.plot(*trials[-1], "o", color="black", markersize=7)
    handles = [
        Line2D([], [], color=BLUE, label=r"KL $= \delta$"),
        Line2D([], [], color=ORANGE, linestyle="--", label=r"$\frac{1}{2} \Delta\theta^\top F \Delta\theta = \delta$"),
        Line2D([], [], color=RED, label="plain gradient"),
        Line2D([], [], color=GREEN, label="natural gradient"),
        Line2D([], [], color="black", marker="o", markerfacecolor="white", linestyle="", label="trial refused"),
        Line2D([], [], color="black", marker="o", linestyle="", label="step taken"),
    ]
    ax.legend(handles=handles, loc="center left", bbox_to_anchor=(1.02, 0.5))
    ax.set(
        xlim=(-span, span), ylim=(-span, span), aspect="equal", xlabel=r"$\Delta\theta_1$", ylabel=r"$\Delta\theta_2$",
        title=rf"$\delta = {kl_bound:g}$ nats (darker: higher surrogate)",
    )  # fmt: skip
    ax.grid(visible=False)


def plot_conjugate_gradient(ax: Axes, *, condition: float, steps: int) -> None:
    """Minimize (1/2) x^T M x - b^T x in two dimensions by steepest descent and by conjugate gradient.

    M has eigenvalues 1 and `condition`, on axes turned by 30 degrees. Both methods start at 0; the first takes
    `steps` steps, the second as many or the two that it needs.
    """
    turn = math.pi / 6.0
    basis = torch.tensor([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]], dtype=torch.float64)
    matrix = basis @ torch.diag(torch.tensor([1.0, condition], dtype=torch.float64)) @ basis.T
    # The error at the start has the same size along both axes, the worst mixture for steepest descent up to a factor.
    solution = basis @ torch.tensor([1.0, 1.0 / condition**0.5], dtype=torch.float64)
    target = matrix @ solution
    descent = [torch.zeros(2, dtype=torch.float64)]
    for _ in range(steps):
        residual = target - matrix @ descent[-1]
        descent.append(descent[-1] + residual @ residual / (residual @ matrix @ residual) * residual)
    conjugate = [descent[0]] + [
        conjugate_gradient(lambda v: matrix @ v, target, k, tolerance=0.0) for k in range(1, min(steps, 2) + 1)
    ]
    axis_x, axis_y = torch.linspace(-0.3, 1.3, 121).double(), torch.linspace(-0.3, 1.3, 121).double()
    point = torch.stack(torch.meshgrid(axis_x, axis_y, indexing="xy"), -1) - solution
    height = 0.5 * torch.einsum("...m,mn,...n->...", point, matrix, point)
    start = 0.5 * solution @ matrix @ solution
    ax.contour(axis_x, axis_y, height, [float(start) * f for f in (0.01, 0.1, 0.35, 1.0, 3.0)], colors=GRAY,
               linewidths=0.9)  # fmt: skip
    ax.plot(*torch.stack(descent).T, "o--", color=RED, markersize=4, linewidth=1.5, label="steepest descent")
    ax.plot(*torch.stack(conjugate).T, "s-", color=BLUE, markersize=5, linewidth=2, label="conjugate gradient")
    ax.plot(*solution, "*", color="black", markersize=13, label="solution")
    left = [
        float((path[-1] - solution) @ matrix @ (path[-1] - solution) / (2.0 * start)) for path in (descent, conjugate)
    ]
    ax.set(
        xlim=(-0.3, 1.3), ylim=(-0.3, 1.3), aspect="equal", xlabel="$x_1$", ylabel="$x_2$",
        title=f"height left: {left[0]:.1%} and {left[1]:.1%}",
    )  # fmt: skip
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))


def plot_reparametrization(axes: Sequence[Axes], paths: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Paths [N, 2] of (mean, std) of a Gaussian policy: a panel per method, a line per parametrization."""
    for ax, (method, lines) in zip(axes, paths.items(), strict=True):
        for (name, path), style in zip(lines.items(), ("-", "--", ":"), strict=False):
            ax.plot(path[:, 0], path[:, 1], style, label=f"in {name}", linewidth=2.6 if style == "-" else 2.0)
        ax.plot(*next(iter(lines.values()))[0], "o", color="black", markersize=6)
        ax.set(xlabel=r"mean $\mu$ (action units)", ylabel=r"std $\sigma$ (action units)", title=method)
        ax.legend()


def plot_cg_error(ax: Axes, errors: Mapping[str, Tensor]) -> None:
    """Relative error of conjugate gradient, [iterations], for several matrices."""
    for (name, error), style in zip(errors.items(), ("o-", "s--", "^:", "v-."), strict=False):
        ax.semilogy(range(len(error)), error, style, markersize=4, label=name)
    ax.set(xlabel="iterations", ylabel=r"error $\Vert x_k - x \Vert / \Vert x \Vert$")
    # This place is free: below the curves that fall slowly, to the right of the one that falls at once.
    ax.legend(loc="center", bbox_to_anchor=(0.45, 0.28))


def plot_kl_kept(ax: Axes, kl: Sequence[Tensor], names: Sequence[str], kl_bound: float | Tensor) -> None:
    """Realized KL of each update over its bound (one number, or one per update), a line per run."""
    for values, name, style in zip(kl, names, ("-", "--", ":"), strict=False):
        ax.plot(values / kl_bound, style, label=name, linewidth=1.4)
    ax.axhline(1.0, color="black", linewidth=1.0)
    ax.annotate("the bound", (0.0, 1.0), (4, 3), textcoords="offset points")
    ax.set(xlabel="updates", ylabel=r"KL(old || new) / $\delta$", ylim=(0.0, None))
    ax.legend()
