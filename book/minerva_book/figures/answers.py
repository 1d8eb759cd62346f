"""Language models: what a verifier pays and what is right, weights of prompts, laws of answers, right against KL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from minerva_book.worlds.answer_tree import AnswerTree, paid_by_the_a, spell
from minerva_lite.formulas.preferences import best_of_n_law

from .style import BLUE, GRAY, GREEN, ORANGE, RED

LEGIBLE = (BLUE, RED, GREEN, ORANGE, "black")
LOOKS = ((BLUE, "-"), (RED, "--"), (GREEN, ":"), (ORANGE, "-."))


def plot_hacking(axes: Sequence[Axes], paid: Tensor, right: Tensor) -> None:
    """A verifier's mean pay and the share that is right, over updates [n]: two panels, each with its own axis."""
    for ax, curve, color, told in zip(axes, (paid, right), (BLUE, RED), ("mean pay", "share right"), strict=True):
        ax.plot(curve, color=color)
        ax.set(xlabel="updates (256 answers each)", ylabel=told)


def plot_prompt_weights(ax: Axes, chance: Tensor, curves: Mapping[str, Tensor]) -> None:
    """The weight of a prompt's gradient [n] over its chance of a right answer [n], a curve for each name."""
    for (name, weight), (color, style) in zip(curves.items(), LOOKS, strict=False):
        ax.plot(chance, weight, color=color, linestyle=style, label=name)
    ax.set(xlabel="chance $p$ of a right answer", ylabel="weight of the prompt's gradient", ylim=(0.0, None))
    ax.legend(loc="upper center")


def plot_sorting(ax: Axes, curves: Mapping[str, Tensor], levels: Mapping[str, float], width: int = 10) -> None:
    """Share of right answers over updates, as means of `width` updates; levels are dashed lines."""
    for (name, right), (color, style) in zip(curves.items(), LOOKS, strict=False):
        means = right.view(-1, width).mean(1)
        at = width * (torch.arange(len(means)) + 0.5)
        ax.plot(at, means, color=color, linestyle=style, label=name)
    for name, level in levels.items():
        ax.axhline(level, color=GRAY, linewidth=1.2, linestyle=(0, (4, 2)))
        across = ax.get_yaxis_transform()
        ax.annotate(name, (0.6, level), (0, 3), across, "offset points", color=GRAY, fontsize=9, ha="right")
    ax.set(xlabel="updates (32 prompts, 8 answers each)", ylabel="share of sampled answers that is right")
    ax.set_ylim(0.3, 1.0)
    ax.legend(loc="lower right")


def plot_rates(ax: Axes, updates: Tensor, curves: Mapping[str, Tensor]) -> None:
    """Share right [S, K] of S seeds at K numbers of updates, by learning rate: a line for each seed."""
    for (name, right), (color, style) in zip(curves.items(), LOOKS, strict=False):
        lines = ax.plot(updates, right.T, color=color, linestyle=style, linewidth=1.2)
        lines[0].set_label(name)
    ax.set(xlabel="updates (32 prompts, 8 answers each)", ylabel="share of sampled answers that is right")
    ax.set_ylim(-0.02, 1.02)
    ax.legend(loc="center right", title="learning rate")


def plot_update_time(ax: Axes, bars: Mapping[str, Mapping[str, float]]) -> None:
    """Seconds of an update by its parts, over all of the first bar's: a bar for each name, its parts side by side."""
    whole = sum(next(iter(bars.values())).values())
    bars = {name: {part: taken / whole for part, taken in bar.items()} for name, bar in bars.items()}
    parts = list(dict.fromkeys(part for bar in bars.values() for part in bar))
    for part, color in zip(parts, (BLUE, ORANGE, GREEN, GRAY), strict=False):
        width = [bar.get(part, 0.0) for bar in bars.values()]
        left = [sum(bar.get(each, 0.0) for each in parts[: parts.index(part)]) for bar in bars.values()]
        ax.barh(range(len(bars)), width, 0.6, left, color=color, label=part)
    ax.set(xlabel="time of an update (the upper one is 1)", yticks=range(len(bars)), ylim=(len(bars) - 0.5, -0.5))
    ax.set_yticklabels(bars)
    ax.grid(False, axis="y")
    ax.set_axisbelow(True)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=len(parts))


def plot_network_frontier(ax: Axes, points: Mapping[str, tuple[Tensor, Tensor]], least: tuple[Tensor, Tensor]) -> None:
    """Share right over nats from the reference: dots (nats [n], share [n]) by method, and what laws of answers need.

    least: nats [m] and share [m] of the policies that need the fewest nats, a line.
    """
    ax.plot(*least, color=GRAY, label="the fewest nats there are")
    for (name, (nats, right)), marker, color in zip(points.items(), "os^Dv", LEGIBLE, strict=False):
        ax.plot(nats, right, marker, color=color, label=name)
    ax.set(xlabel="KL to the base model (nats)", ylabel="share of sampled answers that is right", xscale="log")
    ax.set(xlim=(0.1, 20.0), xticks=[0.1, 0.3, 1.0, 3.0, 10.0])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter("")
    ax.legend(loc="lower left")


def plot_answer_law(ax: Axes, *, beta: float, n: int) -> None:
    """Laws of all answers of the small language: the reference, the optimum at a price beta, and the best of n.

    Answers are paid a third for each a, and stand in the order of their rewards.
    """
    tree, reference = paid_by_the_a()
    order, prior, tilted, best = _laws(tree, reference, beta, n)
    at = torch.arange(len(order))
    ax.bar(at - 0.27, prior[order], 0.27, color=GRAY, label=r"reference $\pi_{\mathrm{ref}}$")
    ax.bar(at, tilted[order], 0.27, color=BLUE, label=r"optimum at the price $\beta$")
    ax.bar(at + 0.27, best[order], 0.27, color=ORANGE, label="best of $n$")
    names = spell(tree)
    ax.set_axisbelow(True)
    ax.grid(False, axis="x")
    ax.set_xticks(at, [names[i] for i in order.tolist()], rotation=60)
    ax.set(ylabel="chance of the answer", xlabel="answers, from reward 0 to reward 1", ylim=(0.0, 0.7))
    ax.legend(loc="upper left")


def answer_law_words(*, beta: float, n: int) -> str:
    """What `plot_answer_law` shows, in numbers."""
    tree, reference = paid_by_the_a()
    _, prior, tilted, best = _laws(tree, reference, beta, n)
    told = [(law @ tree.reward, torch.xlogy(law, law / prior).sum()) for law in (tilted, best)]
    (first, one), (second, two) = [(float(reward), float(nats)) for reward, nats in told]
    return (
        f"Bars of the 15 answers. The reference earns {prior @ tree.reward:.2f}. The optimum at the price {beta:g} "
        f"earns {first:.2f} for {one:.2f} nats, the best of {n} earns {second:.2f} for {two:.2f} nats."
    )


def _laws(tree: AnswerTree, reference: Tensor, beta: float, n: int) -> Sequence[Tensor]:
    """The order of the answers by reward, and the laws [N] of the reference, the optimum and the best of n."""
    prior = tree.log_prob(reference).exp()
    order = (tree.reward + 1e-3 * prior).argsort()
    return order, prior, tree.optimum(reference, beta), best_of_n_law(prior, tree.reward, n)
