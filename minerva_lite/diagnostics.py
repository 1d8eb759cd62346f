"""What a practitioner reads while an agent trains (floor 1)."""

from __future__ import annotations

import torch
from torch import Tensor

from .checks import require_same_shape


def explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    r"""Share of the returns' variance that the values account for: scalar, at most 1, detached.

    1 is perfect, 0 no better than a constant, below 0 worse than a constant. NaN where the returns do not vary.
    Blind to a constant bias of V: read it beside the value loss.
    Raises ValueError: shapes differ.
    """
    require_same_shape(value=value, returns=returns)
    with torch.no_grad():
        # LaTeX: \nu = \operatorname{Var}_t[R_t]
        variance = returns.var(correction=0)
        # LaTeX: \mathrm{EV} = 1 - \frac{\operatorname{Var}_t[R_t - V(s_t)]}{\nu}
        explained = 1.0 - (returns - value).var(correction=0) / variance
        return explained.masked_fill(variance == 0, torch.nan)
