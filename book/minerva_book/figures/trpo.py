"""TRPO's bounds and its step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor

from minerva_lite.formulas.bounds import cpi_bound
from minerva_lite.formulas.trust_region import conjugate_gradient, full_step, line_search, predicted_gain
from minerva_lite.worlds.tabular import TabularMDP

from .drawings import INK, arrow, draw_two_places, frame
from .style import BLUE, GRAY, GREEN, ORANGE, RED


def plot_pinsker(ax: Axes, tv: Tensor, kl: Tensor) -> None:
    """Total variation against divergence [N] of many pairs, and the curve that Pinsker's inequality allows."""
    ax.semilogx(kl, tv, "o", color=BLUE, alpha=0.3, markersize=3, markeredgewidth=0, rasterized=True)
    bound = torch.logspace(-3, 1.3, 200, dtype=torch.float64)
    ax.semilogx(bound, (0.5 * bound).sqrt().clamp(max=1.0), color=RED, label=r"$\min(1, \sqrt{\mathrm{KL} / 2})$")
    ax.set(xlabel="KL(p || q) (nats)", ylabel="total variation (probability)",
           xlim=(0.7 * float(kl.min()), 20), ylim=(0.0, 1.05))  # fmt: skip
    ax.legend(loc="lower right")


def draw_ledge(ax: Axes) -> None:
    """The world of `tabular_trpo.ledge`: the same two actions in a safe place and on a ledge."""
    arrows = (
        ((0.42, 0.26), (2.58, 0.26), GREEN, -0.25), ((2.58, -0.26), (0.42, -0.26), INK, -0.25),
        ((-0.38, 0.32), (-0.38, -0.32), INK, 1.9), ((3.38, -0.32), (3.38, 0.32), RED, 1.9),
    )  # fmt: skip
    words = (
        (1.5, 0.62, "bold: pays 1", GREEN, "center", "bottom"), (1.5, -0.62, "careful: 0", INK, "center", "top"),
        (-1.15, 0.0, "careful: 0", INK, "right", "center"), (4.15, 0.0, "bold:\ncosts 3", RED, "left", "center"),
        (0.0, -0.66, "start", BLUE, "center", "top"),
    )  # fmt: skip
    draw_two_places(ax, ("safe\nplace", "ledge"), arrows, words, radius=0.5, fontsize=10)
    frame(ax, (-2.6, 5.6), (-1.3, 1.5))


def draw_trap(ax: Axes) -> None:
    """The world of `tabular_trpo.trap`: leaving pays at once, and costs ever after where the old policy never was."""
    arrows = (
        ((0.46, 0.0), (2.52, 0.0), GREEN), ((-0.38, 0.32), (-0.38, -0.32), INK, 1.9),
        ((2.7, 0.4), (3.3, 0.4), INK, -1.9), ((3.38, 0.3), (3.38, -0.32), RED, -1.9),
    )  # fmt: skip
    words = (
        (1.5, 0.08, "go: pays 1", GREEN, "center", "bottom"), (-1.15, 0.0, "stay: 0", INK, "right", "center"),
        (3.0, 1.12, "stay: 0", INK, "center", "bottom"), (4.15, 0.0, "go:\ncosts 1", RED, "left", "center"),
        (0.0, -0.66, "start", BLUE, "center", "top"), (3.0, -0.66, "no way back", GRAY, "center", "top"),
    )  # fmt: skip
    draw_two_places(ax, ("0", "1"), arrows, words, radius=0.5, fontsize=10)
    frame(ax, (-2.6, 5.6), (-1.3, 1.5))


def plot_jumps(ax: Axes, chance: Tensor, true: Tensor, jumps: Sequence[tuple[float, float, float, float]]) -> None:
    """The return along a line of policies, and an agent that follows the surrogate from where it stands to its end.

    chance, true: [N], the line's coordinate and the return. jumps: for each, where the agent stands and its return,
    where it lands and what the surrogate promises there.
    """
    ax.plot(chance, true, color="black", linewidth=2.5, label=r"return $J$", zorder=2)
    for k, (start, here, end, promised) in enumerate(jumps):
        ax.plot([start, end], [here, promised], "--", color=BLUE, linewidth=1.6, zorder=1,
                label="what the data of each policy promise" if k == 0 else None)  # fmt: skip
        landed = float(true[(chance - end).abs().argmin()])
        arrow(ax, (end, promised), (end, landed), RED, mutation_scale=12, shrinkB=4)
        side = 9 if start < 0.5 else -9
        ax.plot([start], [here], "o", color=RED, markersize=7, clip_on=False, zorder=3)
        ax.annotate(f"{k + 1}", (start, here), (side, -13), textcoords="offset points", ha="center", color=RED)
    ax.plot([], [], "o", color=RED, label="the agent, and what it gets")
    ax.set(xlabel=r"probability of the bold action, $\pi(\mathrm{bold})$", ylabel="return", xlim=(-0.02, 1.02))
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))


def plot_trap(ax: Axes, *, gamma: float) -> None:
    """The trap by mixture: what the surrogate promises, what comes, and the two forms of the bound below.

    All of it per step, that is times 1 - gamma, so that pictures of several discounts share their axes.
    """
    mixture = torch.linspace(0.0, 1.0, 101, dtype=torch.float64)
    gain = mixture * (2.0 * (1.0 - gamma) / (1.0 - gamma * (1.0 - mixture)) - 1.0)
    below = [
        torch.tensor(
            [a - (1.0 - gamma) * cpi_bound(1.0, a, gamma, sharp=sharp) for a in mixture.tolist()], dtype=torch.float64
        )  # fmt: skip
        for sharp in (True, False)
    ]
    ax.plot(mixture, mixture, "--", color=BLUE, label="surrogate")
    ax.plot(mixture, below[0], color=ORANGE, linewidth=6.0, alpha=0.6, label="surrogate less sharp bound")
    ax.plot(mixture, gain, color="black", label="true gain")
    seen = below[1] >= -1.15
    ax.plot(mixture[seen], below[1][seen], ":", color=RED, label="surrogate less plain bound")
    ax.axhline(0.0, color=GRAY, linewidth=0.8)
    ax.set(xlabel=r"mixture weight $\alpha_{\mathrm{mix}}$", ylabel="gain per step (reward units)", ylim=(-1.15, 1.05),
           xlim=(0.0, 1.0), title=rf"$\gamma = {gamma:g}$")  # fmt: skip
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))


def plot_minorizer(axes: Sequence[Axes], chance: Tensor, curves: Mapping[str, Tensor], *, start: float) -> None:
    """Gain, surrogate and minorizers, [N] each, along a line of policies: the whole line, and the old policy's place.

    chance: [N], the line's coordinate; start: where the old policy stands. A dot marks where each curve would send you.
    """
    styles = (("black", "-", 2.5), (BLUE, "--", 2.0), (RED, "-", 2.0), (ORANGE, "-.", 2.0))
    near = [(chance - start).abs() <= width for width in (1.0, 0.05)]
    for ax, seen in zip(axes, near, strict=True):
        x = chance[seen]
        for (name, curve), (color, style, width) in zip(curves.items(), styles, strict=True):
            y = curve[seen]
            ax.plot(x[y > -0.7], y[y > -0.7], color=color, linestyle=style, linewidth=width, label=name)
            if x[0] < chance[curve.argmax()] < x[-1] or len(x) == len(chance):
                ax.plot([chance[curve.argmax()]], [curve.max()], "o", color=color, markersize=6, clip_on=False)
        ax.axhline(0.0, color=GRAY, linewidth=0.8)
        ax.axvline(start, color=GRAY, linewidth=0.8)
        ax.set(xlabel=r"$\pi(\mathrm{bold})$", xlim=(float(x[0]), float(x[-1])))
    top = max(float(curve.max()) for curve in curves.values())
    axes[0].annotate("old policy", (start, -0.68), (4, 0), textcoords="offset points", color=GRAY)
    axes[0].set(ylabel="gain over the old policy (return units)", ylim=(-0.7, 1.1 * top), title="the whole line")
    low = [float(curve[near[1]].min()) for curve in list(curves.values())[2:]]
    high = float(next(iter(curves.values()))[near[1]].max())
    axes[1].set(ylim=(0.6 * min(low), 1.15 * high), title="around the old policy, magnified")
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)


def plot_bounds(axes: Sequence[Axes], ratios: Mapping[str, Tensor], gamma: Tensor) -> None:
    """How much of each bound, ratio [N] of error to bound, the worlds use: a panel per bound, a line per horizon.

    gamma: [N], the discount of each world.
    """
    edges = torch.linspace(-5.0, 0.0, 21, dtype=torch.float64)
    for ax, (name, ratio) in zip(axes, ratios.items(), strict=True):
        for low, high, color, style in ((0.0, 0.5, BLUE, "-"), (0.5, 0.9, GREEN, "--"), (0.9, 1.0, RED, "-")):
            chosen = ratio[(gamma >= low) & (gamma < high)].clamp(min=1e-5).log10()
            share = torch.histc(chosen, 20, -5.0, 0.0) / len(chosen)
            ax.stairs(share, edges, color=color, linestyle=style, linewidth=1.8,
                      label=rf"${low:g} \leq \gamma < {high:g}$")  # fmt: skip
        ax.axvline(0.0, color="black", linewidth=1.2)
        ax.set(title=name, xlim=(-5.0, 0.3), ylim=(0.0, None), yticks=[])
        ax.set_xticks([-4, -2, 0], ["1/10000", "1/100", "1"])


def plot_improvement(ax: Axes, curves: Mapping[str, Mapping[float, Tensor]]) -> None:
    """Share of the possible improvement after each step, [N + 1], of several rules at several discounts.

    curves: rule -> discount -> share. A rule has a color, a discount a style of line.
    """
    styles: dict[float, str] = {}
    for (name, runs), color in zip(curves.items(), (GRAY, BLUE, GREEN, ORANGE, RED), strict=False):
        for gamma, share in runs.items():
            style = styles.setdefault(gamma, ("-", ":", "--")[len(styles)])
            ax.plot(range(len(share)), share, color=color, linestyle=style, label=name if style == "-" else None)
    for gamma, style in styles.items():
        ax.plot([], [], color="black", linestyle=style, label=rf"$\gamma = {gamma:g}$")
    ax.axhline(1.0, color="black", linewidth=0.8)
    ax.set(xlabel="steps", ylabel="share of the possible improvement", ylim=(-0.03, 1.05))
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))


def plot_kept(axes: Sequence[Axes], kl: Tensor, kept: Sequence[Mapping[str, Tensor]], names: Sequence[str]) -> None:
    """What comes of what the surrogate promised, by size of the step: a panel per kind of advantages.

    kl: [K], nats. kept: for each panel, world -> ratio [N, K]; the median and the band of the middle 80 %.
    """
    for ax, panel, title in zip(axes, kept, names, strict=True):
        for (name, ratio), color, style in zip(panel.items(), (BLUE, RED, GREEN), ("-", "--", "-."), strict=True):
            low, middle, high = torch.quantile(ratio, torch.tensor([0.1, 0.5, 0.9], dtype=ratio.dtype), dim=0)
            ax.semilogx(kl, middle, linestyle=style, color=color, label=name)
            ax.fill_between(kl, low, high, color=color, alpha=0.13, linewidth=0)
        ax.axhline(1.0, color="black", linewidth=1.0)
        ax.axhline(0.0, color=GRAY, linewidth=1.0)
        ax.set(xlabel=r"$\overline{\mathrm{KL}}$ of the step (nats)", title=title)
    axes[0].annotate("kept exactly", (float(kl[0]), 1.0), (2, -12), textcoords="offset points", fontsize=9)
    axes[0].set(ylabel="true gain / promised gain")
    axes[0].legend(loc="upper left")


def two_parameter_world(seed: int = 0) -> dict[str, Any]:
    """A random world of 4 states with a softmax policy of two parameters, exact.

    Returns the surrogate and the mean KL as functions of a shift of the parameters [..., 2], the gradient [2] and the
    Fisher matrix [2, 2] at no shift.
    """
    generator = torch.Generator().manual_seed(seed)
    world = TabularMDP.random(4, 3, 0.9, generator)
    # The second parameter moves the policy less, and the two are correlated, so F is not a multiple of the identity.
    features = torch.randn(4, 3, 2, generator=generator, dtype=torch.float64)
    features = features @ torch.tensor([[1.0, 0.3], [0.0, 0.3]], dtype=torch.float64)
    offset = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    policy = offset.softmax(-1)
    score = features - (policy[..., None] * features).sum(1, keepdim=True)
    visits = (1.0 - world.gamma) * world.visitation(policy)
    advantage = world.advantage(policy)

    def log_policy(shift: Tensor) -> Tensor:
        return (offset + torch.einsum("san,...n->...sa", features, shift)).log_softmax(-1)

    return {
        "surrogate": lambda shift: (visits[:, None] * log_policy(shift).exp() * advantage).sum((-2, -1)),
        "kl": lambda shift: (visits[:, None] * policy * (policy.log() - log_policy(shift))).sum((-2, -1)),
        "gradient": (1.0 - world.gamma) * world.policy_gradient(policy, score),
        "fisher": world.fisher(policy, score),
    }


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
    """One gradient step of two networks that compute the same policy, a normal distribution with mean theta_1 theta_2.

    Left the plane of the weights, where a curve of one mean is one policy; right the densities of the actions.
    The reward is -(a - 2)^2.
    """
    plane, line = axes
    starts = {"1 · 1": (1.0, 1.0, BLUE, "-"), "4 · 0.25": (4.0, 0.25, RED, "--")}
    weight = torch.linspace(0.05, 5.2, 300, dtype=torch.float64)
    for mean, style, color in ((1.0, "-", "black"), (2.0, ":", GREEN)):
        plane.plot(weight, mean / weight, style, color=color, linewidth=1.6)
    plane.annotate(
        r"the same policy, $\theta_1 \theta_2 = 1$", (0.75, 0.12), (0, 0), textcoords="offset points", fontsize=9
    )
    plane.annotate(
        r"the best, $\theta_1 \theta_2 = 2$", (1.6, 1.3), (6, 2), textcoords="offset points", fontsize=9, color=GREEN
    )
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
    plane.set(
        xlabel=r"weight $\theta_1$", ylabel=r"weight $\theta_2$", xlim=(0.0, 5.2), ylim=(0.0, 2.2), title="the weights"
    )
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
    uphill = (1.9 * gradient / gradient.norm()).tolist()
    ax.annotate("", uphill, (0, 0), arrowprops={"arrowstyle": "-|>", "color": GRAY, "lw": 1.4, "linestyle": "--"})
    ax.annotate("along g", uphill, (5, -4), textcoords="offset points", color=GRAY)
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
    ax.plot([], [], color=GRAY, linewidth=1.0, label="thin: the bound of each condition")
    ax.set(xlabel="products", ylabel=r"error $\Vert x_k - x \Vert_M / \Vert x \Vert_M$", ylim=(1e-9, 3))
    ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))


def plot_convergence(axes: Sequence[Axes], curves: Mapping[str, Mapping[str, Tensor]]) -> None:
    """What a policy still lacks of the best return after each exact step [N], log-log: a panel per start."""
    styles = {"plain gradient": (RED, "--"), "natural gradient": (BLUE, "-"), "bound": (GRAY, ":")}
    for ax, (title, lines) in zip(axes, curves.items(), strict=True):
        for name, missing in lines.items():
            color, style = styles[name]
            ax.loglog(range(1, len(missing) + 1), missing.clamp(min=1e-12), style, color=color,
                      label="bound (natural gradient)" if name == "bound" else name)  # fmt: skip
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
