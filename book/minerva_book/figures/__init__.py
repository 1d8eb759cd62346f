"""Pictures: each function draws one, on the axes that it is given; and interactive figures."""

from .answers import (
    answer_law_words,
    plot_answer_law,
    plot_hacking,
    plot_network_frontier,
    plot_prompt_weights,
    plot_rates,
    plot_sorting,
    plot_update_time,
)
from .comparison import plot_bands, plot_improvements, plot_intervals, plot_order, plot_profiles, plot_sensitivity
from .drawings import draw_backup, draw_corridor, draw_grid, draw_loop, draw_two_states, draw_vine
from .estep import plot_estep, plot_simplex, plot_sweeps, plot_temperature, plot_thermostat
from .gradients import (
    draw_cart_pole,
    draw_seen_once,
    plot_baseline,
    plot_climbs,
    plot_direction_cosine,
    plot_dropped_factor,
    plot_escape,
    plot_gradient_noise,
    plot_push,
    plot_seeds,
)
from .learning import (
    plot_ablations,
    plot_diagnostics,
    plot_exact_returns,
    plot_quartiles,
)
from .luck import plot_arms, plot_price, plot_vmpo_diagnostics, plot_worth
from .mirror import plot_projections
from .mstep import plot_chase, plot_collapse, plot_decoupled_kl, plot_mpo_diagnostics, plot_mpo_dip, plot_multiplier
from .overview import plot_family
from .ppo import plot_along_batch, plot_clip_objective, plot_drift, plot_kl_estimators, plot_promise
from .preferences import (
    learned_law_words,
    plot_departure,
    plot_learned_law,
    plot_over_optimization,
    plot_pair_fit,
)
from .relatives import plot_offline, plot_relatives
from .retrace import (
    draw_off_policy_backup,
    leaf_weights,
    plot_contraction_factors,
    plot_error_grid,
    plot_ratio_products,
    plot_total_error,
    plot_traces_along,
)
from .rollout import FAULTS, draw_rollout, draw_rollout_key, draw_truncated_backups, example_flags
from .style import book_style, use_book_style
from .top_k import draw_vmpo_flow, plot_duals, plot_state_factors, plot_top_k
from .trpo import (
    draw_ledge,
    draw_trap,
    draw_two_networks,
    plot_bounds,
    plot_cg_error,
    plot_conjugate_gradient,
    plot_convergence,
    plot_damping,
    plot_improvement,
    plot_jumps,
    plot_kept,
    plot_minorizer,
    plot_pinsker,
    plot_reparametrization,
    plot_step_rules,
    plot_trap,
    plot_trust_region,
)
from .values import (
    plot_contraction,
    plot_discount,
    plot_error_kinds,
    plot_gae,
    plot_readings,
    plot_rollout_bias,
    plot_start_values,
    plot_time_limit,
    plot_value_error,
)
from .widgets import (
    explore_baseline,
    explore_conjugate_gradient,
    explore_decoupled_kl,
    explore_discount,
    explore_dropped_factor,
    explore_gae,
    explore_ppo_clip,
    explore_readings,
    explore_seeds,
    explore_temperature,
    explore_top_k,
    explore_trap,
    explore_trust_region,
    frames_figure,
)

__all__ = [name for name in dir() if not name.startswith("_")]  # the names above, and those of the files
