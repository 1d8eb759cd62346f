"""Figures to read while an agent trains."""

from __future__ import annotations

import torch
from torch import Tensor

from ..checks import require_same_shape


def explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    r"""Share of the returns' variance that the values account for: scalar, at most 1, detached.

    1 is perfect, 0 is no better than a constant, below 0 is worse than one; NaN where the returns do not vary. It does
    not show a constant bias of V, so read it beside the value loss.
    Raises ValueError: shapes differ.
    """
    require_same_shape(value=value, returns=returns)
    with torch.no_grad():
        # LaTeX: \nu = \operatorname{Var}_t[R_t]
        variance = returns.var(correction=0)
        # LaTeX: \mathrm{EV} = 1 - \frac{\operatorname{Var}_t[R_t - V(s_t)]}{\nu}
        explained = 1.0 - (returns - value).var(correction=0) / variance
        return explained.masked_fill(variance == 0, torch.nan)


def effective_sample_size(weights: Tensor) -> Tensor:
    r"""The number of equally weighted samples whose mean would be as exact: [N, ...] to [...], from 1 to N, detached.

    weights: not negative; they need not sum to 1. NaN where all are 0.
    Source: Kong 1992, "A note on importance sampling using standardized weights".
    """
    with torch.no_grad():
        # LaTeX: \mathrm{ESS} = \frac{\left( \sum_i w_i \right)^2}{\sum_i w_i^2}
        return weights.sum(0).square() / weights.square().sum(0)
