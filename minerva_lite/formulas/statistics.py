"""What several runs say together: one number for many scores, how far it can be trusted, and who is ahead.

Scores are [S, K]: one row per seed, one column per task, in units in which tasks can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from ..checks import require_count, require_shape


def interquartile_mean(scores: Tensor) -> Tensor:
    r"""Mean of the middle half of all scores [...]: scalar.

    A quarter of them, rounded down, is left out at each end, so that one lucky or one failed run decides nothing,
    while more than the two runs around a median count.
    Source: Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice", section 4.3.
    Raises ValueError: no scores.
    """
    _require_scores(scores=scores)
    x = scores.flatten().sort().values
    # LaTeX: h = \left\lfloor \frac{n}{4} \right\rfloor
    cut = len(x) // 4
    # LaTeX: \mathrm{IQM} = \frac{1}{n - 2 h} \sum_i x_i \left( 1 - \mathbf{1}[i \in \mathrm{top}_h(x_i)] - \mathbf{1}[i \in \mathrm{top}_h(-x_i)] \right)
    return x[cut : len(x) - cut].mean()


def performance_profile(scores: Tensor, threshold: Tensor) -> Tensor:
    r"""Share of the scores [S, K] above each threshold [M]: [M], from 1 down to 0.

    Where one agent's profile lies above another's everywhere, it is ahead by every quantile at once.
    Source: Agarwal et al. 2021, equation for the score distribution in section 4.2.
    Raises ValueError: no scores.
    """
    _require_scores(scores=scores)
    # LaTeX: F_m = \mathrm{mean}_s\, \mathrm{mean}_k\, \mathbf{1}[x_{sk} > \tau_m]
    return (scores[..., None] > threshold).to(threshold).mean((0, 1))


def probability_of_improvement(scores: Tensor, others: Tensor) -> Tensor:
    r"""How often a run of the first agent beats one of the second on the same task, ties half: scalar in [0, 1].

    scores: [S, K]. others: [R, K], the same tasks, any number of seeds. Every run meets every other of its task, and
    tasks count alike. It says how often, not by how much.
    Source: Agarwal et al. 2021, section 4.3; per task it is the statistic of Mann and Whitney over S R.
    Raises ValueError: no scores, or another number of tasks.
    """
    _require_scores(scores=scores, others=others)
    if scores.shape[1] != others.shape[1]:
        raise ValueError(f"others: wanted as many tasks as scores, {scores.shape[1]}; got {others.shape[1]}")
    x, y = scores[:, None], others[None]
    # LaTeX: P = \mathrm{mean}_k\, \mathrm{mean}_s\, \mathrm{mean}_r\, \left( \mathbf{1}[x_{sk} > y_{rk}] + \frac{1}{2} \mathbf{1}[x_{sk} = y_{rk}] \right)
    return ((x > y).to(scores) + 0.5 * (x == y).to(scores)).mean()


def stratified_bootstrap(
    statistic: Callable[..., Tensor],
    scores: Sequence[Tensor],
    *,
    generator: Generator,
    resamples: int = 2_000,
    level: float = 0.95,
) -> tuple[Tensor, Tensor]:
    r"""The interval of a statistic of runs, by the percentiles of what it is on resampled runs: (low, high).

    statistic: takes as many tensors as there are `scores`, each [S, K]: one agent's, or those of two to compare. Each
    resample draws S runs of every task with replacement, for each task anew, because the runs of different tasks have
    nothing to do with one another and each task keeps its number of runs. level: the share of resamples that lies
    between the two ends, in (0, 1).
    The interval says what other seeds might have given, and nothing of other tasks. With three seeds it is too
    narrow, because resampling cannot invent a run worse than the worst.
    Source: Agarwal et al. 2021, section 4.1; Efron 1979, "Bootstrap methods: another look at the jackknife".
    Raises ValueError: no scores, fewer than one resample, a level outside (0, 1).
    """
    require_count(resamples=resamples)
    _require_scores(**{f"scores[{i}]": each for i, each in enumerate(scores)})
    if not 0.0 < level < 1.0:
        raise ValueError(f"level: wanted a number in (0, 1); got {level}")
    found = torch.stack([statistic(*(_resampled(each, generator) for each in scores)) for _ in range(resamples)])
    # LaTeX: p = \frac{1 - q}{2}
    tail = 0.5 * (1.0 - level)
    low, high = found.quantile(torch.tensor([tail, 1.0 - tail], dtype=found.dtype), 0)
    return low, high


def welch_statistic(gap: Tensor, squared_errors: Tensor, runs: Tensor) -> tuple[Tensor, Tensor]:
    r"""How many standard errors two means are apart, and the degrees of freedom to judge it by: two scalars.

    gap: scalar, one mean less the other. squared_errors: [2], of each mean, its runs' variance (with n - 1) over their
    number. runs: [2], how many each has, at least 2. The spreads may differ, and so may the numbers of runs. For normal
    scores with equal true means t follows Student's law with these degrees of freedom, nearly.
    Source: Welch 1947, "The generalization of Student's problem when several different population variances are
    involved"; Satterthwaite 1946. Book: eq. tasks-welch.
    Raises ValueError: other shapes, or fewer than two runs.
    """
    require_shape((2,), squared_errors=squared_errors, runs=runs)
    if bool((runs < 2).any()):
        raise ValueError(f"runs: wanted at least 2 of each; got {runs.tolist()}")
    # LaTeX: e = \sum_i e_i
    total = squared_errors.sum()
    # LaTeX: t = \frac{g}{\sqrt{e}}
    t = gap / total.sqrt()
    # LaTeX: \nu = \frac{e^2}{\sum_i \frac{e_i^2}{n_i - 1}}
    freedom = total**2 / (squared_errors**2 / (runs - 1)).sum()
    return t, freedom


def holm(p_values: Tensor) -> Tensor:
    r"""p-values [m] corrected for being m at once: [m], each as large as it was or larger, at most 1.

    Whoever calls all those below 5 % real is wrong about one or more of them in at most 5 % of all studies, however the
    comparisons hang together.
    Source: Holm 1979, "A simple sequentially rejective multiple test procedure". Book: eq. tasks-holm.
    Raises ValueError: no p-value, or one outside [0, 1].
    """
    require_shape((None,), p_values=p_values)
    _require_scores(p_values=p_values)
    if not bool(((p_values >= 0) & (p_values <= 1)).all()):
        raise ValueError(f"p_values: wanted numbers in [0, 1]; got {p_values.tolist()}")
    below = p_values < p_values[:, None]  # [i, k]: whether p_k is smaller than p_i
    # LaTeX: h_i = \min\left(1, p_i \left(m - \sum_k \mathbf{1}[p_k < p_i]\right)\right)
    corrected = (p_values * (len(p_values) - below.sum(1))).clamp(max=1.0)
    # LaTeX: p'_i = \max_j \left[ h_j \left(1 - \mathbf{1}[p_j > p_i]\right) \right]
    return corrected.masked_fill(p_values > p_values[:, None], 0.0).amax(1)


def _resampled(scores: Tensor, generator: Generator) -> Tensor:
    """As many runs of each task, drawn with replacement: [S, K]."""
    chosen = torch.randint(len(scores), scores.shape, generator=generator)
    return scores.gather(0, chosen)


def _require_scores(**named: Tensor) -> None:
    for name, scores in named.items():
        if scores.numel() == 0:
            raise ValueError(f"{name}: wanted at least one score; got none")
