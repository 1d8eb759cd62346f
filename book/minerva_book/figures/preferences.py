"""Preferences: what a fit to pairs does to both answers, what a learned reward selects, and its truth over the KL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from minerva_book.worlds.answer_tree import AnswerTree, count_a, rare_a, spell

from .answers import LOOKS
from .style import BLUE, GRAY, GREEN, RED


def plot_pair_fit(
    axes: Sequence[Axes], chosen: Tensor, rejected: Tensor, right: Tensor, seeds: Sequence[Tensor] = ()
) -> None:
    """Over passes [n]: mean log-ratios of preferred and rejected answers, nats, and beside them the share right.

    seeds: the same three of other runs, [S, n] each, drawn thin.
    """
    names = "preferred answers, all right", "rejected answers, all wrong", "new answers"
    looks = (BLUE, "-", "o"), (RED, "--", "s"), (GREEN, "-", "o")
    for i, (curve, name, (color, style, marker)) in enumerate(
        zip((chosen, rejected, right), names, looks, strict=True)
    ):
        ax = axes[i // 2]
        for other in seeds[i] if seeds else ():
            ax.plot(other, color=color, linestyle=style, linewidth=0.8, alpha=0.4)
        ax.plot(curve, color=color, linestyle=style, marker=marker, markersize=4, label=name)
        ax.axhline(float(curve[0]), color=GRAY, linewidth=1.2, linestyle=(0, (4, 2)))
        ax.set(xlabel="passes over the pairs")
    axes[0].set(ylabel=r"mean of $\log\,(\pi_\theta / \pi_{\mathrm{ref}})$, nats")
    axes[0].legend(loc="lower left")
    axes[1].set(ylabel="share of right answers", ylim=(0.0, 0.6))
    axes[1].legend(loc="upper right")


def plot_departure(ax: Axes, lengths: Tensor, right: Tensor, wrong: Tensor, both: Tensor) -> None:
    """Mean log-ratios [n], nats, of the base model's right and wrong answers and of all, over how far weights moved."""
    ax.axhline(0.0, color=GRAY, linewidth=1.2, linestyle=(0, (4, 2)))
    looks = (
        (right, BLUE, "-", "its right answers"),
        (wrong, RED, "--", "its wrong answers"),
        (both, "black", ":", "all"),
    )
    for curve, color, style, name in looks:
        ax.plot(1e4 * lengths, curve, color=color, linestyle=style, label=name)
    ax.set(xlabel=r"how far each weight is moved, $10^{-4}$")
    ax.set(ylabel=r"mean of $\log\,(\pi_\theta / \pi_{\mathrm{ref}})$, nats")
    ax.legend(loc="lower left")


def plot_learned_law(ax: Axes, *, beta: float, learned: bool) -> None:
    """Laws of all answers: the reference, and its optimum at a price beta for the true or the learned reward.

    The learned reward counts the a's, and exactly one is right. Answers stand in the order of that number.
    """
    tree, order, prior, tilted = _learned_law(beta, learned)
    at = torch.arange(len(order))
    ax.bar(at - 0.2, prior[order], 0.4, color=GRAY, label=r"reference $\pi_{\mathrm{ref}}$")
    color, name = (BLUE, "learned") if learned else (GREEN, "true")
    ax.bar(at + 0.2, tilted[order], 0.4, color=color, label=f"optimum of the {name} reward")
    names = spell(tree)
    ax.set_axisbelow(True)
    ax.grid(False, axis="x")
    ax.set_xticks(at, [names[i] + ("*" if tree.reward[i] else "") for i in order.tolist()], rotation=60)
    ax.set(ylabel="chance of the answer", xlabel="answers, by their number of a's; * right", ylim=(0.0, 1.0))
    ax.legend(loc="upper center")


def learned_law_words(*, beta: float, learned: bool) -> str:
    """What `plot_learned_law` shows, in numbers."""
    tree, _, prior, tilted = _learned_law(beta, learned)
    nats = torch.xlogy(tilted, tilted / prior).sum()
    counted = tilted @ count_a(tree.token, tree.mask)
    return (
        f"Bars of the 15 answers. The reference is right with chance {prior @ tree.reward:.2f}. The optimum of the "
        f"{'learned' if learned else 'true'} reward at the price {beta:g} is right with chance "
        f"{tilted @ tree.reward:.2f} for {nats:.2f} nats, and writes {counted:.2f} a's on average."
    )


def plot_over_optimization(
    axes: Sequence[Axes], curves: Mapping[str, Tensor], dots: Tensor, *, gains: Collection[str]
) -> None:
    """Over the KL to the reference, beside each other: the learned reward's gain, and the chance of a right answer.

    curves: by name, the divergence, the chance and the gain [3, n]. dots: the same of the best of 2, 4, 8, …. gains:
    which curves have the same learned reward as the dots, so that their gains can stand in one picture.
    """
    for (name, (nats, right, gain)), (color, style) in zip(curves.items(), LOOKS, strict=False):
        axes[1].plot(nats, right, color=color, linestyle=style, label=name)
        if name in gains:
            axes[0].plot(nats, gain, color=color, linestyle=style)
    for ax, y in zip(axes, (dots[2], dots[1]), strict=True):
        ax.plot(dots[0], y, "o", color="black", markersize=5, label="best of 2, 4, 8, …, learned reward")
        ax.set(xlabel="KL to the reference (nats)")
    axes[0].set(ylabel="what is maximized: learned reward, gain", xlim=(-0.1, 4.4))
    axes[1].set(ylabel="what was meant: chance of a right answer", ylim=(-0.02, 1.6))
    axes[1].set_yticks([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    axes[1].legend(loc="upper right")


def _learned_law(beta: float, learned: bool) -> tuple[AnswerTree, Tensor, Tensor, Tensor]:
    """The tree, the order of its answers, and the laws [N] of the reference and of the optimum."""
    tree, reference = rare_a()
    count, log_prior = count_a(tree.token, tree.mask), tree.log_prob(reference)
    order = (count + 1e-3 * log_prior).argsort()
    tilted = (log_prior + (count if learned else tree.reward) / beta).softmax(0)
    return tree, order, log_prior.exp(), tilted
