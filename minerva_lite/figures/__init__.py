"""Pictures: each function draws one, on the axes that it is given; and interactive figures."""

from .estep import plot_sample_bias, plot_simplex, plot_sweeps, plot_temperature, plot_thermostat
from .gradients import plot_baseline, plot_direction_cosine, plot_gradient_noise
from .learning import plot_ablations, plot_diagnostics, plot_exact_returns, plot_learning_curve, plot_learning_curves
from .mirror import plot_luck, plot_multiplier_sign, plot_projections, plot_vmpo_diagnostics
from .mstep import plot_chase, plot_collapse, plot_decoupled_kl, plot_mpo_diagnostics, plot_multiplier, plot_period
from .overview import plot_family
from .ppo import plot_clip_objective, plot_drift, plot_kl_estimators, plot_promise
from .retrace import plot_contraction_factors, plot_ratio_products, plot_target_error
from .style import book_style, use_book_style
from .top_k import plot_dual_slope, plot_state_weights, plot_top_k
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
from .widgets import (
    explore_baseline,
    explore_conjugate_gradient,
    explore_decoupled_kl,
    explore_discount,
    explore_gae,
    explore_ppo_clip,
    explore_temperature,
    explore_top_k,
    explore_trust_region,
    frames_figure,
)

__all__ = [
    "explore_baseline",
    "explore_conjugate_gradient",
    "explore_decoupled_kl",
    "explore_discount",
    "explore_gae",
    "explore_ppo_clip",
    "explore_temperature",
    "explore_top_k",
    "explore_trust_region",
    "frames_figure",
    "book_style",
    "plot_ablations",
    "plot_baseline",
    "plot_bounds",
    "plot_cg_error",
    "plot_chase",
    "plot_clip_objective",
    "plot_collapse",
    "plot_conjugate_gradient",
    "plot_contraction",
    "plot_contraction_factors",
    "plot_decoupled_kl",
    "plot_diagnostics",
    "plot_direction_cosine",
    "plot_discount",
    "plot_drift",
    "plot_dual_slope",
    "plot_exact_returns",
    "plot_family",
    "plot_gae",
    "plot_gae_error",
    "plot_gradient_noise",
    "plot_grid_world",
    "plot_improvement",
    "plot_kl_estimators",
    "plot_kl_kept",
    "plot_learning_curve",
    "plot_learning_curves",
    "plot_luck",
    "plot_minorizer",
    "plot_mpo_diagnostics",
    "plot_multiplier",
    "plot_multiplier_sign",
    "plot_period",
    "plot_pinsker",
    "plot_projections",
    "plot_promise",
    "plot_ratio_products",
    "plot_reparametrization",
    "plot_sample_bias",
    "plot_simplex",
    "plot_state_weights",
    "plot_sweeps",
    "plot_target_error",
    "plot_temperature",
    "plot_thermostat",
    "plot_time_limit",
    "plot_top_k",
    "plot_trust_region",
    "plot_value_error",
    "plot_vmpo_diagnostics",
    "use_book_style",
]
