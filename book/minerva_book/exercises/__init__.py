"""Checks for the exercises: they say which entry is wrong and by how much, not how to mend it."""

from .homework import check_example, check_runs
from .mpo import (
    check_binding_temperature,
    check_bounded_mean,
    check_dual_curvature,
    check_estep,
    check_retrace,
    check_vtrace,
)
from .selfcheck import self_check
from .trpo import check_conjugate_gradient, check_coupling, check_dual_clip, check_fisher_product
from .values import (
    check_compatible,
    check_lambda_return,
    check_logsumexp,
    check_policy_evaluation,
    check_visitation,
)
from .vmpo import check_mirror_step, check_risk_worth, check_top_k

__all__ = [name for name in dir() if not name.startswith("_")]  # the names above, and those of the files
