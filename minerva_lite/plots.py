"""Pictures (floor 7): one style for the book, and one function a picture, drawn on axes it is given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from torch import Tensor

from .objectives import ppo_clip_objective
from .tabular import TabularMDP
from .trust_region import conjugate_gradient, full_step, line_search, predicted_gain

# Okabe and Ito's colors: told apart by color-blind readers, dark enough on white.
BLUE, ORANGE, GREEN, RED, GRAY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#6E6E6E"


def book_style() -> dict:
    """Matplotlib settings of the book: white background (legible in the dark theme too), fonts of 9 pt or more."""
    return {
        "figure.figsize": (6.4, 3.8), "figure.dpi": 100, "savefig.dpi": 160, "figure.facecolor": "white",
        "figure.constrained_layout.use": True, "savefig.facecolor": "white",
        "font.size": 10, "axes.titlesize": 11, "axes.labelsize": 10,
        "xtick.labelsize": 9, "ytick.labelsize": 9, "legend.fontsize": 9, "legend.frameon": False,
        "axes.prop_cycle": mpl.cycler(color=[BLUE, RED, GREEN, ORANGE, GRAY]),
        "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": "#E5E5E5", "grid.linewidth": 0.8, "lines.linewidth": 2.0,
        "svg.fonttype": "path", "svg.hashsalt": "minerva_lite",
    }  # fmt: skip


def use_book_style() -> None:
    """Draw every later figure of this process in the book's style."""
    mpl.rcParams.update(book_style())


def plot_clip_objective(ax: Axes, *, advantage: float, clip_eps: float, max_ratio: float = 2.0) -> None:
    """PPO's clipped objective of one sample against its ratio; shaded: where its gradient is zero.

    The gradient is autograd's, so the shading is a fact about the code and not about the picture.
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
    """Share of the surrogate's promise that the return kept, [N], against the KL of the step, [N], nats."""
    ax.semilogx(kl, kept, "o", color=BLUE, alpha=0.35, markersize=3.5, markeredgewidth=0, rasterized=True)
    ax.axhline(1.0, color="black", linewidth=1.0)
    ax.axhline(0.0, color=RED, linestyle="--", linewidth=1.0)
    ax.annotate("below: the return fell", (kl.min(), 0.0), (0, -12), textcoords="offset points", color=RED)
    ax.set(xlabel="KL(old || new) of the step (nats)", ylabel="improvement: kept / promised", ylim=(-1.2, 2.0))


def plot_drift(axes: Sequence[Axes], traces: Mapping[str, Tensor], clip_eps: float) -> None:
    """Largest ratio, KL and share of paid samples over gradient steps: a [3, N] trace a run, on three axes."""
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


def plot_learning_curves(ax: Axes, histories: Mapping[str, Any], title: str, *, solved: float) -> None:
    """Mean evaluation return of several runs against environment steps."""
    styles = ("-", "--", ":", "-.")
    for i, (name, history) in enumerate(histories.items()):
        ax.plot(history.steps("eval/mean"), history.column("eval/mean"), styles[i % 4], label=name)
    ax.axhline(solved, color=GRAY, linewidth=1.0)
    ax.annotate("solved", (1.0, solved), (-2, 2), ("axes fraction", "data"), "offset points", ha="right", color=GRAY)
    ax.set(xlabel="environment steps", ylabel="mean return of 10 episodes", title=title)
    if len(histories) > 1:
        ax.legend(loc="lower right")


def plot_learning_curve(ax: Axes, history: Any, title: str, *, solved: float) -> None:
    """Mean evaluation return of one run against environment steps; its training time in the title."""
    seconds = history.updates[-1]["seconds"]
    plot_learning_curves(ax, {"": history}, f"{title}, {seconds:.1f} s of training", solved=solved)
    mean, std = history.column("eval/mean"), history.column("eval/std")
    ax.fill_between(history.steps("eval/mean"), mean - std, mean + std, alpha=0.2, linewidth=0)


LABELS = {
    "kl/k3": "KL(old || new), k3 (nats)",
    "kl/exact": "KL(old || new) (nats)",
    "train/clip_fraction": "clip fraction",
    "train/max_ratio": "largest ratio",
    "train/std": "std of the policy (action units)",
    "train/entropy": "entropy (nats)",
    "value/explained_variance": "explained variance",
}


def plot_diagnostics(axes: Any, history: Any, names: Sequence[str]) -> None:
    """One diagnostic an axis, against environment steps. Explained variance is cut at -1: below, it says no more."""
    for ax, name in zip(axes.flat, names, strict=True):
        ax.plot(history.steps(name), history.column(name), color=BLUE, linewidth=1.5)
        ax.set(ylabel=LABELS.get(name, name))
        if name == "value/explained_variance":
            ax.set_ylim(-1.0, 1.05)
    for ax in axes[-1]:
        ax.set(xlabel="environment steps")


def plot_ablations(ax: Axes, rows: Sequence[Mapping[str, Any]], *, solved: float) -> None:
    """Final return of every seed of every variant: a dot a seed, a bar at the median, `rows` from `read_study`."""
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    for y, variant in enumerate(variants):
        means = sorted(row["mean"] for row in rows if row["variant"] == variant)
        ax.plot(means, [y] * len(means), "o", color=BLUE, alpha=0.6, markersize=5, rasterized=True)
        ax.plot([means[len(means) // 2]], [y], "|", color="black", markersize=14, markeredgewidth=2)
    ax.axvline(solved, color=GRAY, linewidth=1.0)
    ax.set(xlabel="mean return of 100 episodes", title=rows[0]["env_id"], yticks=range(len(variants)))
    ax.set_yticklabels(variants)
    ax.set_ylim(len(variants) - 0.5, -0.5)


def two_parameter_world(seed: int = 0) -> dict[str, Any]:
    """A random world of 4 states with a softmax policy of two parameters, exact: what `plot_trust_region` draws.

    Returns the surrogate and the mean KL as functions of a shift of the parameters [..., 2], the gradient [2] and the
    Fisher matrix [2, 2] at no shift.
    """
    generator = torch.Generator().manual_seed(seed)
    world = TabularMDP.random(4, 3, 0.9, generator)
    # The second parameter moves the policy less, and the two are not independent: F is no multiple of 1.
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

    M has eigenvalues 1 and `condition`, on axes turned by 30 degrees; both methods start at 0 and take `steps` steps.
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
    """Paths [N, 2] of (mean, std) of a Gaussian policy: a panel a method, a line a parametrization it was run in."""
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
    ax.legend()


def plot_kl_kept(ax: Axes, kl: Sequence[Tensor], names: Sequence[str], kl_bound: float | Tensor) -> None:
    """Realized KL of each update over its bound (one number, or one an update), one line a run."""
    for values, name, style in zip(kl, names, ("-", "--", ":"), strict=False):
        ax.plot(values / kl_bound, style, label=name, linewidth=1.4)
    ax.axhline(1.0, color="black", linewidth=1.0)
    ax.annotate("the bound", (0.0, 1.0), (4, 3), textcoords="offset points")
    ax.set(xlabel="updates", ylabel=r"KL(old || new) / $\delta$", ylim=(0.0, None))
    ax.legend()


def plot_direction_cosine(ax: Axes, gamma: Tensor, cosines: Mapping[str, Tensor]) -> None:
    """Cosine of two directions against the horizon 1 / (1 - gamma), gamma [G]: median and 10 to 90 % of each [N, G]."""
    horizon = 1.0 / (1.0 - gamma)
    for (name, cosine), style in zip(cosines.items(), ("-", "--", ":"), strict=False):
        low, middle, high = cosine.quantile(torch.tensor([0.1, 0.5, 0.9], dtype=cosine.dtype), dim=0)
        (line,) = ax.semilogx(horizon, middle, style, label=name)
        ax.fill_between(horizon, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    ax.axhline(0.0, color="black", linewidth=1.0)
    ax.set(xlabel=r"horizon $1 / (1 - \gamma)$ (steps)", ylabel=r"cosine with $\nabla J$", ylim=(-1.05, 1.05))
    ax.legend(loc="lower right")


def plot_baseline(ax: Axes, *, baseline: float, chance: float, q_value: tuple[float, float] = (2.0, 1.0)) -> None:
    """A bandit with two arms, the better one pulled with probability `chance`: what a baseline does to one sample.

    Left: the noise of the one-sample gradient against the baseline, exact. Right: the two values it can take.
    """
    better, worse = q_value
    gradient = chance * (1.0 - chance) * (better - worse)

    def sample(b: float | Tensor) -> tuple:
        return (1.0 - chance) * (better - b), -chance * (worse - b)

    def noise(b: float | Tensor) -> Any:
        first, second = sample(b)
        return (chance * (first - gradient) ** 2 + (1.0 - chance) * (second - gradient) ** 2) ** 0.5 / gradient

    ax.axis("off")
    left, right = ax.inset_axes((0.0, 0.0, 0.44, 1.0)), ax.inset_axes((0.57, 0.0, 0.43, 1.0))
    grid = torch.linspace(-0.1, 2.6, 541, dtype=torch.float64)
    left.plot(grid, noise(grid), color=BLUE)
    value, best = chance * better + (1.0 - chance) * worse, (1.0 - chance) * better + chance * worse
    left.axvline(value, color=GREEN, linestyle="--", linewidth=1.5, label=f"$V$ = {value:.2f}")
    left.axvline(best, color=RED, linestyle=":", linewidth=1.8, label=f"$b^*$ = {best:.2f}")
    left.plot([baseline], [noise(baseline)], "o", color="black", markersize=7)
    left.set(xlim=(-0.1, 2.6), ylim=(-0.3, 8.5), xlabel="baseline $b$ (return units)")
    left.set(ylabel="noise of one sample / gradient", title=rf"$\pi_1 = {chance:g}$,  $b = {baseline:g}$")
    left.legend(loc="upper left")

    chances, colors = (chance, 1.0 - chance), (BLUE, ORANGE)
    names = (f"arm 1 ($Q$ = {better:g})", f"arm 2 ($Q$ = {worse:g})")
    values = sample(baseline)
    floors = (0.0, chance if abs(values[0] - values[1]) < 1e-9 else 0.0)  # two values that meet are stacked
    for at, height, floor, color, name in zip(values, chances, floors, colors, names, strict=True):
        right.bar([at], [height], width=0.06, bottom=floor, color=color, label=name, zorder=2)
    right.axvline(gradient, color="black", linestyle="--", linewidth=1.0, label="mean: the gradient")
    right.set(xlim=(-1.2, 1.6), ylim=(0.0, 1.45), yticks=(0.0, 0.5, 1.0))
    right.set(xlabel="gradient from one sample (return units)", ylabel="probability")
    right.legend(loc="upper left", fontsize=8)


def plot_gradient_noise(ax: Axes, noise: Mapping[str, float]) -> None:
    """Standard deviation of a batch's gradient, relative to the first estimator's: one bar an estimator."""
    ax.barh(list(noise), list(noise.values()), color=BLUE, height=0.6)
    ax.axvline(1.0, color=GRAY, linewidth=1.0)
    ax.invert_yaxis()
    ax.set(xlabel="noise of one batch, relative to the first (dimensionless)")


def plot_contraction(ax: Axes, errors: Mapping[float, Tensor]) -> None:
    """Largest error [N] of N looks ahead for each discount, and dashed what the contraction bound allows."""
    for (gamma, error), color in zip(errors.items(), (GREEN, BLUE, RED), strict=False):
        looks = torch.arange(len(error))
        ax.semilogy(looks, error, color=color, label=rf"$\gamma = {gamma:g}$")
        ax.semilogy(looks, gamma ** looks.double() * error[0], color=color, linestyle="--", linewidth=1.0)
    ax.set(xlabel="looks ahead", ylabel="largest error (reward units)", ylim=(1e-6, 30.0))
    ax.legend(title="dashed: the bound")


def plot_grid_world(ax: Axes, cells: Tensor, title: str, *, policy: Tensor | None = None) -> None:
    """One number a cell, [height, width], with the most likely of the moves up, right, down, left in each."""
    height, width = cells.shape
    ax.imshow(cells, cmap="Blues", vmin=float(cells.min()), vmax=float(cells.max()) * 1.6)
    for row in range(height):
        for column in range(width):
            ax.text(column, row - 0.28, f"{cells[row, column]:.2f}", ha="center", va="center", fontsize=9)
            if policy is not None and (row, column) != (height - 1, width - 1):
                across, down = ((0, -1), (1, 0), (0, 1), (-1, 0))[int(policy[row * width + column].argmax())]
                tail = (column - 0.25 * across, row + 0.15 - 0.22 * down)
                head = (column + 0.25 * across, row + 0.15 + 0.22 * down)
                ax.annotate("", head, tail, arrowprops={"arrowstyle": "->", "color": RED, "linewidth": 1.8})
    ax.set(xticks=range(width), yticks=range(height), xlabel="column", ylabel="row", title=title)
    ax.grid(False)


def plot_discount(ax: Axes, *, gamma: float) -> None:
    """Values per step, best actions and visits on the chain of six states, for one discount."""
    world = TabularMDP.chain(6, gamma)
    policy = world.best_policy()
    value, visits = (1.0 - gamma) * world.value(policy), (1.0 - gamma) * world.visitation(policy)
    ax.bar(range(6), value, color=BLUE, alpha=0.6, width=0.6, label=r"value $(1 - \gamma) V^\star$ (reward per step)")
    ax.plot(range(6), visits, "o--", color="black", linewidth=1.0, label="normalized visitation (probability)")
    for s, right in enumerate(policy[:, 1].tolist()):
        ends = ((s - 0.3, -0.1), (s + 0.3, -0.1)) if right else ((s + 0.3, -0.1), (s - 0.3, -0.1))
        ax.annotate("", ends[1], ends[0], arrowprops={"arrowstyle": "->", "color": RED, "linewidth": 2.2})
    ax.set(
        xlabel="state (start: 0)",
        ylabel="reward per step; probability",
        ylim=(-0.2, 1.3),
        title=rf"$\gamma = {gamma:g}$, horizon $1/(1-\gamma)$ = {1 / (1 - gamma):.3g} steps",
    )
    ax.legend(loc="upper right")


def plot_value_error(ax: Axes, errors: Mapping[str, Tensor]) -> None:
    """Root mean squared error of learned values after each step, [N], for several learners."""
    for (name, error), style in zip(errors.items(), ("-", "--", "-."), strict=False):
        ax.loglog(torch.arange(1, len(error) + 1), error, style, label=name)
    ax.set(xlabel="steps of each learner", ylabel="RMS error of V (reward units)")
    ax.legend()


def plot_time_limit(
    ax: Axes, limits: Sequence[int], curves: Mapping[str, Sequence[float]], truth: Sequence[float]
) -> None:
    """Value of the start learned with each limit as the end of the world, and the true one, for two policies."""
    for (name, learned), true, color in zip(curves.items(), truth, (RED, BLUE), strict=True):
        ax.loglog(limits, learned, color=color, label=f"{name}, limit taken for an end")
        ax.axhline(float(true), color=color, linestyle="--", linewidth=1.2, label=f"{name}, true value")
    ax.set(xlabel="time limit (steps)", ylabel="value of the start (reward units)", ylim=(0.02, None))
    ax.legend(loc="lower right")


def plot_gae_error(ax: Axes, lam: Tensor, curves: Mapping[str, Tensor]) -> None:
    """Squared bias and variance of GAE, [2, N], and their sum against lambda [N], for several critics."""
    for (name, (bias, variance)), color in zip(curves.items(), (BLUE, GREEN, RED), strict=False):
        total = bias + variance
        best = int(total.argmin())
        ax.semilogy(lam, total, color=color, label=name)
        ax.semilogy(lam[bias > 1e-6], bias[bias > 1e-6], ":", color=color, linewidth=1.4)
        ax.semilogy(lam, variance, "--", color=color, linewidth=1.2)
        ax.plot(lam[best], total[best], "o", color=color)
    ax.plot([], [], ":", color=GRAY, label="bias²")
    ax.plot([], [], "--", color=GRAY, label="variance")
    ax.set(xlabel=r"trace decay $\lambda$", ylabel="squared error (reward units²)", ylim=(2e-3, 5.0))
    ax.legend(loc="lower left")


def drifting_critic(error: float) -> tuple[TabularMDP, Tensor, Tensor]:
    """A corridor of eight states, a policy that drifts right, its values with noise of `error` times their spread."""
    world = TabularMDP.chain(8, 0.95)
    policy = torch.tensor([[0.4, 0.6]], dtype=torch.float64).repeat(8, 1)
    value = world.value(policy)
    noise = torch.randn(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return world, policy, value + error * value.std() * noise


def plot_gae(ax: Axes, *, error: float, lam: float) -> None:
    """Two panels inside `ax`: the weights of the TD errors, and what they cost on a corridor with a wrong critic."""
    ax.set_axis_off()
    left, right = ax.inset_axes((0.0, 0.0, 0.4, 1.0)), ax.inset_axes((0.53, 0.0, 0.47, 1.0))
    world, policy, critic = drifting_critic(error)
    lags = torch.arange(25)
    left.bar(range(25), ((world.gamma * lam) ** lags).tolist(), color=BLUE, width=0.7, zorder=2)
    left.plot(
        lags, world.gamma**lags, color=GRAY, linewidth=1.2, zorder=3, label=r"$\gamma^l$, the weights at $\lambda = 1$"
    )
    left.set(xlabel="steps ahead $l$", ylabel=r"weight of $\delta_{t+l}$, $(\gamma\lambda)^l$", ylim=(0.0, 1.25))
    left.legend(loc="upper right")
    grid = torch.linspace(0.0, 1.0, 41).tolist()
    bias, variance = torch.tensor([[float(x) for x in world.gae_error(policy, critic, at)] for at in grid]).T
    here = [float(x) for x in world.gae_error(policy, critic, lam)]
    for name, values, at, color, style in (
        ("bias²", bias, here[0], RED, ":"),
        ("variance", variance, here[1], GREEN, "--"),
        ("sum", bias + variance, sum(here), "black", "-"),
    ):
        right.plot(grid, values, style, color=color, label=name, linewidth=1.6)
        right.plot([lam], [at], "o", color=color, markersize=6, zorder=3)
    right.axvline(lam, color=GRAY, linewidth=0.8)
    right.set(
        xlabel=r"trace decay $\lambda$", ylabel="squared error (reward units²)", ylim=(0.0, 1.5), xlim=(-0.02, 1.02)
    )
    right.set_title(f"here: {here[0]:.3f} + {here[1]:.3f} = {sum(here):.3f}", fontsize=10)
    right.legend(loc="upper center")


def plot_exact_returns(ax: Axes, curves: Mapping[str, Tensor], best: float) -> None:
    """Exact return after each update: mean and range over seeds, [seeds, N], of several learners."""
    for (name, runs), style in zip(curves.items(), ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1))), strict=False):
        at = torch.arange(1, runs.shape[1] + 1)
        (line,) = ax.plot(at, runs.mean(0), linestyle=style, label=name)
        ax.fill_between(at, runs.amin(0), runs.amax(0), color=line.get_color(), alpha=0.12, linewidth=0)
    ax.axhline(best, color=GRAY, linewidth=1.0)
    ax.annotate("best policy", (1.0, best), (-2, 2), ("axes fraction", "data"), "offset points", ha="right", color=GRAY)
    ax.set(xlabel="updates", ylabel=r"exact return $J(\pi)$ (reward units)", ylim=(0.0, 1.15 * best))
    ax.legend()


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
    """True error of the surrogate against its bound, log-log: a dot a random world, [N, 2] for each bound.

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


def plot_pinsker(ax: Axes, tv: Tensor, kl: Tensor) -> None:
    """Total variation against divergence [N] of many pairs, and the curve that Pinsker's inequality allows."""
    ax.semilogx(kl, tv, "o", color=BLUE, alpha=0.3, markersize=3, markeredgewidth=0, rasterized=True)
    bound = torch.logspace(-3, 1.3, 200, dtype=torch.float64)
    ax.semilogx(bound, (0.5 * bound).sqrt().clamp(max=1.0), color=RED, label=r"$\min(1, \sqrt{\mathrm{KL} / 2})$")
    ax.set(xlabel="KL(p || q) (nats)", ylabel="total variation (probability)", xlim=(1e-2, 20), ylim=(0.0, 1.05))
    ax.legend(loc="lower right")
