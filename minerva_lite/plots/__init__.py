"""Pictures: one function a picture, drawn on axes it is given, in the book's style (floor 7)."""

from ..style import book_style, use_book_style
from .gradients import plot_baseline, plot_direction_cosine, plot_gradient_noise
from .learning import plot_ablations, plot_diagnostics, plot_exact_returns, plot_learning_curve, plot_learning_curves
from .ppo import plot_clip_objective, plot_drift, plot_kl_estimators, plot_promise
from .trust_region import (
    plot_bounds,
    plot_cg_error,
    plot_conjugate_gradient,
    plot_improvement,
    plot_kl_kept,
    plot_minorizer,
    plot_pinsker,
    plot_reparametrization,
    plot_trust_region,
)
from .values import (
    plot_contraction,
    plot_discount,
    plot_gae,
    plot_gae_error,
    plot_grid_world,
    plot_time_limit,
    plot_value_error,
)

__all__ = [
    "book_style",
    "plot_ablations",
    "plot_baseline",
    "plot_bounds",
    "plot_cg_error",
    "plot_clip_objective",
    "plot_conjugate_gradient",
    "plot_contraction",
    "plot_diagnostics",
    "plot_direction_cosine",
    "plot_discount",
    "plot_drift",
    "plot_exact_returns",
    "plot_gae",
    "plot_gae_error",
    "plot_gradient_noise",
    "plot_grid_world",
    "plot_improvement",
    "plot_kl_estimators",
    "plot_kl_kept",
    "plot_learning_curve",
    "plot_learning_curves",
    "plot_minorizer",
    "plot_pinsker",
    "plot_promise",
    "plot_reparametrization",
    "plot_time_limit",
    "plot_trust_region",
    "plot_value_error",
    "use_book_style",
]
