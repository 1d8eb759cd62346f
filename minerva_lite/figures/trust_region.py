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


def draw_two_networks(axes: Sequence[Axes], *, rate: float = 0.2, std: float = 0.5) -> None:
    """One gradient step of two networks that compute the same policy, a normal distribution with mean w v.

    Left the plane of the weights, where one curve w v = constant is one policy; right the densities of the actions.
    The reward is -(a - 2)^2.
    """
    plane, line = axes
    starts = {"1 · 1": (1.0, 1.0, BLUE, "-"), "4 · 0.25": (4.0, 0.25, RED, "--")}
    w = torch.linspace(0.05, 5.2, 300, dtype=torch.float64)
    for mean, style, color in ((1.0, "-", "black"), (2.0, ":", GREEN)):
        plane.plot(w, mean / w, style, color=color, linewidth=1.6)
    plane.annotate("the same policy, w v = 1", (0.75, 0.12), (0, 0), textcoords="offset points", fontsize=9)
    plane.annotate("the best, w v = 2", (1.6, 1.3), (6, 2), textcoords="offset points", fontsize=9, color=GREEN)
    a = torch.linspace(-1.0, 9.5, 600, dtype=torch.float64)

    def density(mean: float) -> Tensor:
        return torch.exp(-((a - mean) ** 2) / (2 * std**2)) / (std * math.sqrt(2 * math.pi))

    line.fill_between(a, density(1.0), color=GRAY, alpha=0.35, linewidth=0, label="before, both")
    for name, (first, second, color, style) in starts.items():
        slope = -2 * (first * second - 2)  # of the return by the mean
        after = first + rate * slope * second, second + rate * slope * first
        plane.annotate("", after, (first, second), arrowprops={"arrowstyle": "-|>", "color": color, "lw": 2.2})
        plane.plot([first], [second], "o", color=color, markersize=6)
        line.plot(a, density(after[0] * after[1]), style, color=color, label=f"after, from {name}")
    line.axvline(2.0, color=GREEN, linestyle=":", linewidth=1.6)
    plane.set(xlabel="weight w", ylabel="weight v", xlim=(0.0, 5.2), ylim=(0.0, 2.2), title="the weights")
    line.set(xlabel="action", ylabel="density", ylim=(0.0, 1.15), title="what the agent does")
    line.legend(loc="upper center", bbox_to_anchor=(0.66, 0.98))


def plot_reparametrization(axes: Sequence[Axes], paths: Mapping[str, tuple[Tensor, Tensor, Tensor]]) -> None:
    """Paths of (mean, std) [N, 2] with their length [N] and what is missing of the return [N]; dots at equal lengths.

    Left the paths, right what is missing against the length that was walked.
    """
    for (name, (path, length, missing)), style, color in zip(
        paths.items(), ("-", "--", "-"), (RED, ORANGE, BLUE), strict=True
    ):
        dots = torch.searchsorted(length, torch.arange(1.0, float(length[-1]), dtype=length.dtype))
        axes[0].plot(path[:, 0], path[:, 1], style, color=color, label=name)
        axes[0].plot(*path[dots].T, "o", color=color, markersize=5)
        axes[1].semilogy(length, missing, style, color=color, label=name)
    axes[0].plot(*next(iter(paths.values()))[0][0], "o", color="black", markersize=6)
    axes[0].set(xlabel=r"mean $\mu$ (action units)", ylabel=r"std $\sigma$ (action units)")
    axes[1].set(xlabel=r"length of the path, $\sum \sqrt{2\, \mathrm{KL}}$", ylabel="return still missing")
    axes[1].legend()


def plot_damping(ax: Axes, gradient: Tensor, fisher: Tensor, kl_bound: float, dampings: Sequence[float]) -> None:
    """Steps of equal damped cost in two dimensions, and the best of each: it lies within the KL's ellipse and a ball.

    The last of `dampings` is the one whose ball is drawn.
    """
    angle = torch.linspace(0, 2 * torch.pi, 240, dtype=gradient.dtype)
    circle = torch.stack([angle.cos(), angle.sin()], -1)

    def boundary(matrix: Tensor) -> Tensor:  # of the steps s with s^T matrix s / 2 = kl_bound
        return circle * (2 * kl_bound / torch.einsum("bm,mn,bn->b", circle, matrix, circle)).sqrt()[:, None]

    identity = torch.eye(2, dtype=gradient.dtype)
    for damping, color, style in zip(dampings, ("black", BLUE, ORANGE), ("-", "--", "-."), strict=True):
        damped = fisher + damping * identity
        ax.plot(*boundary(damped).T, style, color=color, linewidth=1.6, label=rf"$\omega$ = {damping:g}")
        step = full_step(gradient, torch.linalg.solve(damped, gradient), kl_bound)
        ax.annotate("", step.tolist(), (0, 0), arrowprops={"arrowstyle": "-|>", "color": color, "lw": 2})
    radius = math.sqrt(2 * kl_bound / dampings[-1])
    ax.plot(*(radius * circle).T, ":", color=ORANGE, linewidth=1.4, label=rf"ball of $\omega$ = {dampings[-1]:g}")
    steps = [full_step(gradient, torch.linalg.solve(fisher + float(w) * identity, gradient), kl_bound)
             for w in torch.logspace(-5, 3, 120)]  # fmt: skip
    ax.plot(*torch.stack(steps).T, color=GREEN, linewidth=1.2, label=r"best steps, all $\omega$")
    ax.set(xlabel=r"$\Delta\theta_1$", ylabel=r"$\Delta\theta_2$", aspect="equal")
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))


def plot_cg_error(ax: Axes, errors: Mapping[str, Tensor], conditions: Sequence[float]) -> None:
    """Error of conjugate gradient in its own norm, [iterations], for several matrices; thin, what the condition says.

    conditions: largest over smallest eigenvalue of each matrix, for the bound of Chebyshev.
    """
    for (name, error), condition, style, color in zip(
        errors.items(), conditions, ("o-", "s--", "^:", "v-."), (BLUE, RED, GREEN, ORANGE), strict=True
    ):
        ax.semilogy(range(len(error)), error, style, color=color, markersize=4, label=name)
        root = math.sqrt(condition)
        bound = [2 * ((root - 1) / (root + 1)) ** k for k in range(len(error))]
        ax.semilogy(range(len(error)), bound, color=color, linewidth=1.0, alpha=0.5)
    ax.set(xlabel="products", ylabel=r"error $\Vert x_k - x \Vert_M / \Vert x \Vert_M$", ylim=(1e-9, 3))
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))


def plot_convergence(axes: Sequence[Axes], curves: Mapping[str, Mapping[str, Tensor]]) -> None:
    """What a policy still lacks of the best return after each exact step [N], log-log: a panel per start."""
    styles = {"plain gradient": (RED, "--"), "natural gradient": (BLUE, "-"), "bound": (GRAY, ":")}
    for ax, (title, lines) in zip(axes, curves.items(), strict=True):
        for name, missing in lines.items():
            color, style = styles[name]
            ax.loglog(range(1, len(missing) + 1), missing.clamp(min=1e-12), style, color=color, label=name)
        ax.set(xlabel="steps", title=title, ylim=(1e-6, 1e3))
    axes[0].set(ylabel="return still missing")
    axes[0].legend(loc="lower left")


def plot_step_rules(axes: Sequence[Axes], runs: Mapping[str, tuple[Tensor, Tensor, Tensor, Tensor]]) -> None:
    """Several rules on one task: mean return over steps with a band over seeds, and KL on batch and fresh states.

    runs: by rule, steps [E], returns [seeds, E], KL of every update on the batch [N] and on fresh states [N], nats.
    """
    colors = (GRAY, ORANGE, GREEN, BLUE, RED)
    for i, ((name, (steps, returns, kl, fresh)), color) in enumerate(zip(runs.items(), colors, strict=True)):
        axes[0].plot(steps, returns.mean(0), color=color, label=name, linestyle=("-", "--", ":", "-", "-.")[i])
        axes[0].fill_between(steps, returns.amin(0), returns.amax(0), color=color, alpha=0.12, linewidth=0)
        for shift, values, marker in ((-0.14, kl, "o"), (0.14, fresh, "s")):
            low, middle, high = torch.quantile(values, torch.tensor([0.05, 0.5, 0.95], dtype=values.dtype)).tolist()
            axes[1].plot([i + shift] * 2, [low, high], color=color, linewidth=2)
            axes[1].plot([i + shift], [middle], marker, color=color, markersize=6,
                         markerfacecolor=color if marker == "o" else "white")  # fmt: skip
    axes[0].set(xlabel="environment steps", ylabel="mean return")
    axes[0].locator_params(axis="x", nbins=4)
    axes[1].set(yscale="log", ylabel="KL(old || new) of an update (nats)", xticks=range(len(runs)))
    axes[1].set_xticklabels(runs, rotation=20)
