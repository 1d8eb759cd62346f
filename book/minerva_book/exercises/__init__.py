"""Checks for the exercises: they say which entry is wrong and by how much, not how to mend it."""

from .homework import check_example, check_runs
from .implement import attempt
from .language import check_smoothed_labels, check_token_rewards
from .mpo import (
    check_binding_temperature,
    check_bounded_fit,
    check_bounded_mean,
    check_dual_curvature,
    check_estep,
    check_retrace,
    check_vtrace,
)
from .ppo import check_dials, check_walks_back
from .selfcheck import self_check
from .studies import check_closing, check_held_pole, check_ranks, check_remembered, check_student_interval
from .trpo import check_conjugate_gradient, check_coupling, check_dual_clip, check_fisher_product
from .values import (
    check_best_baseline,
    check_compatible,
    check_lambda_return,
    check_logsumexp,
    check_path_gradient,
    check_policy_evaluation,
    check_turning_point,
    check_visitation,
)
from .vmpo import check_batch_loss, check_mirror_step, check_refusing_temperature, check_risk_worth, check_top_k

__all__ = [name for name in dir() if not name.startswith("_")]  # the names above, and those of the files
