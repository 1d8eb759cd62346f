r"""The tables of symbols: the only hand-written part of the formula checks. table.py says how to read them.

To add a function: give it a table here and cases in inputs.py; `python -m tests.markers` says what is missing.
"""

from __future__ import annotations

from .table import Table

# The law of notation for on-policy data, [T, B]; a function's table takes what it has as parameters.
DATA = {
    r"r_t": "reward [t b]", r"V(s_t)": "value [t b]", r"V(s_{t+1})": "next_value [t b]", r"d_t": "terminated [t b]",
    r"z_t": "truncated [t b]", r"A_t": "advantage [t b]", r"\log \rho_t": "log_ratio [t b]",
    r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t b]", r"\varepsilon_{\mathrm{clip}}": "clip_eps",
    r"\gamma": "gamma", r"\lambda": "lam",
}
SAMPLES = {"t": "t b"}  # mean_t runs over all samples


def data(*names: str, **_: str) -> dict[str, str]:
    """These symbols of the notation."""
    return {name: DATA[name] for name in names}


GAUSSIAN = {r"a_i": "action [t b i]", r"\mu_i": "mean [t b i]", r"\sigma_i": "std [t b i]"}
LOG_PROB = {r"\log \pi(a \mid s)": "[t b]"}
MOVED = {
    r"\mu^{\mathrm{old}}_i": "mean_old [t b i]", r"\sigma^{\mathrm{old}}_i": "std_old [t b i]",
    r"\mu_i": "mean [t b i]", r"\sigma_i": "std [t b i]", r"\Delta_i": "[t b i]", r"r_i": "[t b i]",
}
# Where normalization is off, A' is A.
LOSS = {
    r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t]", "A_t'": "advantage [t]", "L^V": "critic_loss",
    "H_t": "entropy [t]", "c_V": "self.config.vf_coef", "c_H": "self.config.entropy_coef", "L": "[]",
}
RATIO = {r"\log \pi_b(a_t \mid s_t)": "batch.behavior_log_prob [t]", r"\log \rho_t": "[t]"}

TABLES: dict[str, Table] = {
    "formulas.returns.discounted_returns": Table(
        data("r_t", "V(s_{t+1})", "d_t", "z_t", r"\gamma") | {"e_t": "[t b]", "b_t": "[t b]", "G_t": "[t b]"},
        beyond={"G_t": "next_value[-1]"},
    ),
    "formulas.returns.gae": Table(
        data("r_t", "V(s_t)", "V(s_{t+1})", "d_t", "z_t", r"\gamma", r"\lambda")
        | {r"\delta_t": "[t b]", "w_t": "[t b]", "A_t": "[t b]"}
    ),
    "formulas.returns.leave_one_out_baseline": Table(
        {"G_{ti}": "returns [t i]", "m_{ti}": "mask [t i]", "S_{ti}": "[t i]", "n_{ti}": "[t i]", "b_{ti}": "[t i]"}
    ),
    "formulas.distributions.gaussian_log_prob": Table(GAUSSIAN | LOG_PROB | {"z_i": "[t b i]"}),
    "formulas.distributions.gaussian_entropy": Table({r"\sigma_i": "std [t b i]", "H": "[t b]"}),
    "formulas.distributions.gaussian_kl": Table(MOVED | {r"\mathrm{KL}_i": "[t b i]"}),
    "formulas.distributions.gaussian_sample": Table(
        {r"\mu_i": "mean [t b i]", r"\sigma_i": "std [t b i]", r"\xi_i": "noise [t b i]", "a_i": "[t b i]"}
    ),
    "formulas.distributions.squashed_log_prob": Table(
        LOG_PROB
        | {
            r"u_i": "pre_squash [t b i]", r"u": "pre_squash [t b i]", r"\mu": "mean [t b i]",
            r"\sigma": "std [t b i]", r"\ell_i": "[t b i]",
        }
    ),
    "formulas.distributions.categorical_log_prob": Table(
        LOG_PROB | {r"\ell_j": "logits [t b j]", r"\log p_j": "[t b j]", "a": "action [t b]"}
    ),
    "formulas.distributions.categorical_entropy": Table(
        {r"\ell_j": "logits [t b j]", r"\log p_j": "[t b j]", "H": "[t b]"}
    ),
    "formulas.distributions.categorical_kl": Table(
        {
            r"\ell^{\mathrm{old}}_j": "logits_old [t b j]", r"\ell_j": "logits [t b j]",
            r"\log p^{\mathrm{old}}_j": "[t b j]", r"\log p_j": "[t b j]", r"\mathrm{KL}": "[t b]",
        }
    ),
    "formulas.distributions.categorical_sample": Table(
        {r"\ell_j": "logits [t b j]", r"u_j": "noise [t b j]", r"\xi_j": "[t b j]", "a": "[t b]"}
    ),
    "formulas.distributions.kl_estimates": Table(
        data(r"\log \rho_t") | {"k_1": "[t b]", "k_2": "[t b]", "k_3": "[t b]"}
    ),
    "formulas.objectives.policy_gradient_loss": Table(
        data("A_t", r"\log \pi_\theta(a_t \mid s_t)") | {r"L^{\mathrm{PG}}": "[]"}, index=SAMPLES
    ),
    "formulas.objectives.importance_surrogate": Table(data("A_t", r"\log \rho_t") | {r"\hat{L}": "[]"}, index=SAMPLES),
    "formulas.objectives.vine_surrogate": Table(
        {r"\log \rho_{nk}": "log_ratio [n k]", "A_{nk}": "advantage [n k]", "w_{nk}": "[n k]", r"\hat{L}": "[]"}
    ),
    "formulas.objectives.ppo_clip_objective": Table(
        data(r"\log \rho_t", "A_t", r"\varepsilon_{\mathrm{clip}}")
        | {r"\rho_t": "[t b]", r"\bar{\rho}_t": "[t b]", "L_t": "[t b]"}
    ),
    "formulas.objectives.ppo_clip_loss": Table(
        data(r"\log \rho_t", "A_t", r"\varepsilon_{\mathrm{clip}}") | {"L_t": "[t b]", r"L^{\mathrm{clip}}": "[]"},
        index=SAMPLES,
    ),
    "formulas.objectives.ppo_clip_fraction": Table(
        data(r"\log \rho_t", r"\varepsilon_{\mathrm{clip}}") | {"f": "[]"}, index=SAMPLES
    ),
    "formulas.objectives.kl_penalty_loss": Table(
        data(r"\log \rho_t", "A_t")
        | {
            r"\mathrm{KL}_t": "kl [t b]", r"\beta_{\mathrm{KL}}": "kl_penalty", r"\rho_t": "[t b]",
            r"L^{\mathrm{pen}}": "[]",
        },
        index=SAMPLES,
    ),
    "formulas.objectives.adapt_kl_penalty": Table(
        {
            r"\mathrm{KL}": "kl", r"\delta_{\mathrm{KL}}": "kl_target", r"\beta_{\mathrm{KL}}": "kl_penalty",
            "n": "[]", r"\beta'_{\mathrm{KL}}": "[]",
        }
    ),
    "formulas.objectives.value_loss": Table(data("V(s_t)") | {"R_t": "value_target [t b]", "L^V": "[]"}, index=SAMPLES),
    "formulas.objectives.clipped_value_loss": Table(
        data("V(s_t)")
        | {
            r"V_{\mathrm{old}}(s_t)": "value_old [t b]", "R_t": "value_target [t b]",
            r"\varepsilon_V": "clip_range", r"\bar{V}_t": "[t b]", "m_t": "[t b]", "L^V": "[]",
        },
        index=SAMPLES,
    ),
    "formulas.objectives.normalize_advantage": Table(
        data("A_t") | {r"\varepsilon": "eps", "c_t": "[t b]", r"\hat{A}_t": "[t b]"}, index=SAMPLES
    ),
    "formulas.bounds.total_variation": Table(
        {"p_a": "policy_old [t b a]", "q_a": "policy [t b a]", r"\mathrm{TV}": "[t b]"}
    ),
    "formulas.bounds.cpi_bound": Table(
        {r"\varepsilon'": "max_expected_advantage", r"\alpha_{\mathrm{mix}}": "mixture", r"\gamma": "gamma", "B": "[]"}
    ),
    "formulas.bounds.penalty_constant": Table({r"\varepsilon_A": "max_advantage", r"\gamma": "gamma", "C": "[]"}),
    "formulas.bounds.tv_bound": Table(
        {r"\varepsilon_A": "max_advantage", r"\mathrm{TV}_{\mathrm{max}}": "max_tv", r"\gamma": "gamma", "B": "[]"}
    ),
    "formulas.bounds.max_kl_bound": Table(
        {r"\varepsilon_A": "max_advantage", r"\mathrm{KL}_{\mathrm{max}}": "max_kl", r"\gamma": "gamma", "B": "[]"}
    ),
    "formulas.bounds.average_kl_bound": Table(
        {
            r"\varepsilon'": "max_expected_advantage", r"\overline{\mathrm{KL}}": "average_kl", r"\gamma": "gamma",
            "B": "[]",
        }
    ),
    "formulas.bounds.visitation_kl_bound": Table(
        {r"\overline{\mathrm{KL}}": "average_kl", r"\gamma": "gamma", "D": "[]"}
    ),
    "formulas.bounds.average_kl_penalty": Table({r"\varepsilon_A": "max_advantage", r"\gamma": "gamma", "C'": "[]"}),
    "formulas.bounds.walk_kl_bound": Table(
        {r"\varepsilon_A": "max_advantage", r"\mathrm{KL}_{\mathrm{max}}": "max_kl", r"\gamma": "gamma", "B": "[]"}
    ),
    "formulas.diagnostics.explained_variance": Table(
        data("V(s_t)") | {"R_t": "returns [t b]", r"\nu": "[]", r"\mathrm{EV}": "[]"}, index=SAMPLES
    ),
    "experience.normalizer.Normalizer.normalize": Table(
        {
            r"\hat{x}": "[t b o]", "x": "x [t b o]", r"\mu": "self.mean [o]", r"\nu": "self.var [o]",
            r"\varepsilon": "self.eps", "c": "self.clip",
        }
    ),
    "experience.normalizer.Normalizer.absorb": Table(
        {
            "x_t": "x [t b o]", "n": "self.count", "m": "#[t b]", r"\mu": "self.mean [o]", r"\nu": "self.var [o]",
            r"\Delta": "[o]", r"\mu'": "[o]", r"\nu'": "[o]",
        },
        index=SAMPLES,
    ),
    "experience.normalizer.RewardScaler.scale": Table(
        {
            r"\hat{r}": "[t b]", "r": "reward [t b]", r"\nu": "self.stats.var", r"\varepsilon": "self.stats.eps",
            "c": "self.stats.clip",
        }
    ),
    "experience.normalizer.RewardScaler.absorb": Table(
        {r"\gamma": "self.gamma", "r_t": "reward [t b]", "e_t": "ended [t b]", "g_t": "[t b]", "g'_t": "[t b]"},
        beyond={"g'_t": "self.running"},
    ),
    "formulas.trust_region.conjugate_gradient": Table(
        {
            "M": "product.matrix @[i]", "b": "target [i]", r"\tau": "tolerance", "x_k": "[k i]", "r_k": "[k i]",
            "p_k": "[k i]", "s_k": "[k]", "c_k": "[k]", r"\alpha_k": "[k]", r"s_{\mathrm{stop}}": "[]",
        },
        passes={"k": "iterations"},
    ),
    # F is found by brute force in the cases.
    "formulas.trust_region.fisher_vector_product": Table(
        {
            "F": "kl_gradient.hessian @[i]", r"g_{\mathrm{KL}}": "kl_gradient [i]", "v": "vector [i]",
            r"\omega": "damping", "h": "[]", r"(F + \omega I) v": "[i]",
        }
    ),
    "formulas.trust_region.full_step": Table(
        {
            "g": "gradient [i]", "x": "direction [i]", r"\delta_{\mathrm{KL}}": "kl_bound", "q": "[]",
            r"\lambda_{\mathrm{KL}}": "[]", r"\Delta\theta": "[i]",
        }
    ),
    "formulas.trust_region.line_search": Table(
        {
            r"\beta": "backtrack", r"c_{\mathrm{accept}}": "accept_ratio", r"g^\top s": "expected_gain",
            "f_j": "[j]", r"g_{\mathrm{min}}": "[]",
        },
        passes={"j": "max_trials"},
    ),
    "formulas.trust_region.predicted_gain": Table({"g": "gradient [i]", "s": "step [i]", r"\Delta L": "[]"}),
    "formulas.trust_region.at_rounding_level": Table(
        {r"\delta_{\mathrm{KL}}": "kl_bound", "A_t": "advantage [t]", r"g_{\mathrm{max}}": "[]"}
    ),
    # With a torso that gives x: the other gives none.
    "agents.networks.GaussianPolicy.forward": Table(
        {r"\ell^\sigma_i": "self.log_std [i]", r"x^\sigma_i": "output[:,2:] [b i]", r"\sigma_i": "[b i]"}
    ),
    "agents.networks.SquashedGaussianPolicy.entropy": Table(
        {
            r"\mu_i": "params[0] [b i]", r"\sigma_i": "params[1] [b i]", r"\xi_i": "noise [b i]", "u_i": "[b i]",
            r"\log \pi(a \mid s)": "log_prob [b]", r"\hat{H}": "[b]",
        }
    ),
    "agents.networks.SquashedGaussianPolicy.to_env": Table({"u_i": "action [b i]", "a_i": "[b i]"}),
    "agents.networks.SquashedGaussianPolicy.from_env": Table({"a_i": "action [b i]", "u_i": "[b i]"}),
    "formulas.objectives.rounding_alone": Table(
        {"s": "spread", "m": "size", r"\epsilon": "eps", r"\mathrm{alone}": "[]"}
    ),
    "training.loop._passed": Table({"n": "before", "n'": "after", r"\Delta n": "every", r"\mathrm{due}": "[]"}),
    "agents.a2c.A2CAgent.loss": Table(LOSS | {r"L^\pi": "[]", "L'": "[]"}),
    "agents.reinforce.REINFORCEAgent.estimate": Table(
        {"G_t": "returns [t b]", "b_t": "baseline [t b]", "A_t": "[t b]"}
    ),
    "agents.reinforce.REINFORCEAgent.state_weight": Table(
        {r"\gamma": "self.config.gamma", "r_t": "reward [t b]", "w_t": "[t b]"}
    ),
    "agents.reinforce.REINFORCEAgent.loss": Table(LOSS | {"w_t": "batch.weight [t]"}),
    "agents.trpo.TRPOAgent.surrogate": Table(
        {
            r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t]", **RATIO,
            r"\log \pi_\theta(a_{nk} \mid s_n)": "branch_log_prob [n k]",
            r"\log q(a_{nk} \mid s_n)": "batch.proposal_log_prob [n k]", r"\log w_{nk}": "[n k]",
        }
    ),
    "agents.trpo.TRPOAgent.mean_kl": Table({r"\mathrm{KL}_t": "kl [t]", r"\overline{\mathrm{KL}}": "[]"}),
    "agents.on_policy.OnPolicyAgent.prepare": Table(
        {"A_t": "advantage [t b]", "V(s_t)": "value [t b]", "R_t": "[t b]"}
    ),
    "agents.mpo.MPOAgent.set_learning_rate": Table({"f_u": "[]", "p_u": "progress"}),
    "agents.base.GradientAgent.set_learning_rate": Table(
        {"f_u": "[]", "p_u": "progress", r"\alpha_u": "[]", r"\alpha_0": "self.config.learning_rate"}
    ),
    "agents.ppo.PPOAgent.loss": Table(
        LOSS
        | RATIO
        | {
            r"\mathrm{KL}_t": "kl [t]", r"\beta_{\mathrm{KL}}": "self.kl_penalty",
            r"\varepsilon_{\mathrm{clip}}": "self.config.clip_eps", r"L^\pi": "[]", "L'": "[]",
        }
    ),
}  # fmt: skip

ESTEP = {r"Q_{ib}": "q_value [i b]", r"\log p_{ib}": "log_prior [i b]", r"\eta": "eta", "c_b": "[b]"}
KEPT = {"A_t": "advantage [t]", "m_t": "mask [t]", r"\log w_t": "log_importance [t]", r"\eta": "eta"}
TABLES |= {
    "formulas.returns.retrace_targets": Table(
        data("r_t", "V(s_{t+1})", "d_t", "z_t", r"\log \rho_t", r"\gamma", r"\lambda")
        | {
            "Q(s_t, a_t)": "q_value [t b]", "c_t": "[t b]", r"\delta_t": "[t b]", "w_t": "[t b]",
            r"\Delta_t": "[t b]", r"Q^{\mathrm{ret}}_t": "[t b]",
        }
    ),
    "formulas.distributions.gaussian_kl_mean_std": Table(
        MOVED | {r"\mathrm{KL}^\mu_i": "[t b i]", r"\mathrm{KL}^\sigma_i": "[t b i]"}
    ),
    "formulas.objectives.weighted_nll": Table(
        {r"\log \pi_{ib}": "log_prob [i b]", "q_{ib}": "weights [i b]", r"L^\pi": "[]"}
    ),
    "formulas.diagnostics.effective_sample_size": Table({"w_i": "weights [i b]", r"\mathrm{ESS}": "[b]"}),
    "formulas.statistics.interquartile_mean": Table(
        {"x_i": "scores [i]", "n": "#[i]", "h": "[]", r"\mathrm{IQM}": "[]"}
    ),
    "formulas.statistics.stratified_bootstrap": Table({"q": "level", "p": "[]"}),
    "formulas.statistics.performance_profile": Table(
        {"x_{sk}": "scores [s k]", r"\tau_m": "threshold [m]", "F_m": "[m]"}
    ),
    "formulas.statistics.probability_of_improvement": Table(
        {"x_{sk}": "scores [s k]", "y_{rk}": "others [r k]", "P": "[]"}
    ),
    "formulas.statistics.welch_statistic": Table(
        {"g": "gap", "e_i": "squared_errors [i]", "n_i": "runs [i]", "e": "[]", "t": "[]", r"\nu": "[]"}
    ),
    "formulas.statistics.holm": Table({"p_i": "p_values [i]", "m": "#[i]", "h_i": "[i]", "p'_i": "[i]"}),
    "formulas.duals.positive": Table({r"\tilde{\eta}": "raw [i]", r"\eta": "[i]"}),
    "formulas.duals.project_raw": Table({r"\tilde{\eta}": "raw [i]", r"\tilde{\eta}'": "[i]"}),
    "formulas.duals.raw_of": Table({r"\eta": "value", "y": "[]", r"\tilde{\eta}": "[]"}),
    "formulas.duals.estep_weights": Table(ESTEP | {"q_{ib}": "[i b]"}),
    "formulas.duals.temperature_loss": Table(ESTEP | {r"\varepsilon_\eta": "eps_eta", r"\log Z_b": "[b]", "g": "[]"}),
    "formulas.duals.exponential_weights": Table(
        {"A_t": "advantage [t b]", r"\eta": "eta", r"w_{\max}": "max_weight", "w_t": "[t b]"}, index=SAMPLES
    ),
    "formulas.duals.weights_kl": Table(
        {"q_{ib}": "weights [i b]", r"\log p_{ib}": "log_prior [i b]", r"\mathrm{KL}_b": "[b]"}
    ),
    "formulas.duals.multiplier_loss": Table(
        {r"\alpha_i": "alpha [i]", r"\mathrm{KL}_i": "kl [i]", r"\varepsilon": "bound", r"L^\alpha": "[]"}
    ),
    "formulas.duals.kl_price": Table({r"\alpha_i": "alpha [i]", r"\mathrm{KL}_i": "kl [i]", r"L^{\mathrm{KL}}": "[]"}),
    "formulas.duals.top_k_mask": Table(
        {
            "A_t": "advantage [t]", r"w^{\mathrm{res}}_t": "eligible [t]", r"\kappa": "top_k_frac", "n": "[]",
            "k": "[]", "m_t": "[t]",
        }
    ),
    "formulas.duals._kept_logits": Table(KEPT | {"c": "[]", r"\ell_t": "[t]"}),
    "formulas.duals.vmpo_weights": Table({r"\ell_t": "logits [t]", r"\psi_t": "[t]"}),
    "formulas.duals.vmpo_temperature_loss": Table(
        {
            "m_t": "mask [t]", r"\log w_t": "log_importance [t]", r"\eta": "eta", r"\varepsilon_\eta": "eps_eta",
            r"\ell_t": "logits [t]", "c": "best", r"\log W": "[]", "g": "[]",
        }
    ),
    "agents.mpo.MPOAgent.critic_targets": Table(
        {
            "r_t": "batch.reward [t b]", "d_t": "batch.terminated [t b]", "V(s_{t+1})": "next_value [t b]",
            r"\gamma": "self.config.gamma", r"Q^{\mathrm{target}}_t": "[t b]",
        }
    ),
    "agents.mpo.MPOAgent.expected_value": Table(
        {r"\ell_a": "params[0] [t b a]", "Q'(s, a)": "values [t b a]", "Q'(s, a_i)": "q_value [i t b]", "V(s)": "[t b]"}
    ),
    "agents.mpo.MPOAgent.candidates": Table(
        {
            r"\ell_{ba}": "old[0] [b a]", "Q'_{ib}": "q_value [i b]", "N": "#[i]", r"\log p_{ab}": "[a b]",
            r"\log p_{ib}": "[i b]",
        }
    ),
    "agents.mpo.MPOAgent.critic_step": Table(
        {"Q(s_t, a_t)": "q_value [t b]", r"Q^{\mathrm{target}}_t": "target [t b]", "L^Q": "[]"}, index=SAMPLES
    ),
    # The actions of a finite set have no third axis, and no penalty.
    "agents.mpo.MPOAgent.estep": Table(
        {
            "a_{ib}": "action[:,:,:] [i b d]", "x_{ib}": "[i b]", "g^Q": "by_value", "g^x": "by_penalty",
            "q^Q_{ib}": "weights [i b]", "q^x_{ib}": "pull [i b]", "g": "[]", "q_{ib}": "[i b]",
        },
        inner="d",
    ),
    "agents.mpo.MPOAgent.policy_loss": Table(
        {
            "q_{ib}": "weights [i b]", r"\log \pi_\theta(a_i \mid s_b)": "log_prob [i b]",
            "a_{ib}": "action[:,:,:] [i b d]", r"\mu^{\mathrm{old}}_b": "old[0] [b d]",
            r"\sigma^{\mathrm{old}}_b": "old[1] [b d]", r"\mu_b": "params[0] [b d]", r"\sigma_b": "params[1] [b d]",
            r"L^\mu": "[]", r"L^\sigma": "[]", r"L^\pi": "[]", r"L^{\mathrm{KL}}": "price", "L": "[]",
        },
        inner="d",
    ),
    "agents.vmpo.VMPOAgent.estep": Table(
        {
            r"\log \pi_{\mathrm{old}}(a_t \mid s_t)": "log_prob [t]", **RATIO,
            r"w_{\max}": "self.config.importance_clip", r"\log w_t": "[t]",
        }
    ),
    "agents.vmpo.VMPOAgent.loss": Table(
        {
            r"\psi_t": "batch.psi [t]", r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t]", "L^V": "critic_loss",
            "c_V": "self.config.vf_coef", "g": "temperature", r"\mathrm{KL}_{ti}": "part [t i]",
            "m_t": "batch.kept [t]", r"\mathrm{KL}": "[]", r"L^{\mathrm{KL}}": "price", r"L^\alpha": "slack",
            r"L^\pi": "[]", "L": "[]",
        }
    ),
}  # fmt: skip

# Columns are answers: the axis i.
TOKEN = {r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t i]", "m_t": "mask [t i]"}
GROUPED = {"r_i": "reward [i]", r"\bar{r}_i": "mean [i]", "G": "group", "A_i": "[i]"}
CLIP = {r"\varepsilon_-": "low", r"\varepsilon_+": "high"}
PAIR = {
    r"\log \pi_\theta(y^+)": "chosen [i]", r"\log \pi_\theta(y^-)": "rejected [i]",
    r"\log \pi_{\mathrm{ref}}(y^+)": "reference_chosen [i]",
    r"\log \pi_{\mathrm{ref}}(y^-)": "reference_rejected [i]", r"\beta": "beta",
}
TABLES |= {
    "formulas.sequences.sequence_log_prob": Table(TOKEN | {r"\log \pi_\theta(y)": "[i]"}),
    "formulas.sequences.group_mean": Table({"x_i": "value [i]", "G": "group", r"\bar{x}_i": "[i]"}),
    "formulas.sequences.leave_one_out_advantage": Table(GROUPED),
    "formulas.sequences.group_advantage": Table(
        GROUPED
        | {"c_i": "[i]", r"\nu_i": "mean_square [i]", r"\sigma^{\mathrm{grp}}_i": "[i]", r"\varepsilon": "eps"}
    ),
    "formulas.sequences.spread_weight": Table(
        {"p": "probability [t b]", "G": "group", r"\bar{\sigma}^{\mathrm{grp}}": "[t b]", "w": "[t b]"}
    ),
    "formulas.sequences.kl_rewards": Table(
        TOKEN
        | {
            r"\log \pi_{\mathrm{ref}}(a_t \mid s_t)": "reference_log_prob [t i]", "r(y)": "reward [i]",
            r"\beta": "beta", "e_t": "last [t i]", "k_t": "[t i]", "r_t": "[t i]",
        }
    ),
    "formulas.sequences.last_token": Table({"m_t": "mask [t i]", "e_t": "[t i]"}),
    "formulas.sequences.kl_loss_terms": Table(
        {
            r"\log \pi_\theta": "log_prob [t i]", r"\log \pi_{\mathrm{ref}}": "reference_log_prob [t i]",
            r"\log \rho^{\mathrm{ref}}": "[t i]",
        }
    ),
    "formulas.sequences.clipped_token_objective": Table(
        {r"\log \rho_t": "log_ratio [t i]", "A_t": "advantage [i]", r"\rho_t": "[t i]", r"\bar{\rho}_t": "[t i]"}
        | CLIP
        | {"L_t": "[t i]"}
    ),
    "formulas.sequences.sequence_log_ratio": Table(
        {r"\log \rho_t": "log_ratio [t i]", "m_t": "mask [t i]", r"\log \rho(y)": "[i]", r"\log \tilde{\rho}(y)": "[i]"}
    ),
    "formulas.sequences.clipped_sequence_objective": Table(
        {r"\log \rho_i": "whole [i]", "A_i": "advantage [i]", "L_i": "[i]"} | CLIP
    ),
    "formulas.sequences.average_tokens": Table({"x_t": "value [t i]", "m_t": "mask [t i]", "L": "[]"}),
    "language.answering.AnsweringAgent.pretrain_loss": Table({r"\bar{\ell}": "likelihood", "L": "[]"}),
    "formulas.sequences.normalize_tokens": Table(
        {
            "A_t": "advantage [t i]", r"\bar{A}": "mean", "c_t": "[t i]", r"\nu": "mean_square",
            r"\varepsilon": "eps", r"\hat{A}_t": "[t i]",
        }
    ),
    "language.sequence.SequenceAgent.token_advantage": Table(
        {"A_t": "advantage [t i]", "V(s_t)": "value [t i]", "R_t": "[t i]"}
    ),
    "language.sequence.SequenceAgent.loss": Table(
        {
            r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t i]",
            r"\log \pi_b(a_t \mid s_t)": "batch.behavior_log_prob [t i]", r"\log \rho_t": "[t i]", "J": "objective",
            "J_i": "answer_gain [i]", r"L^{\mathrm{KL}}": "kl_loss", r"\beta": "self.config.beta",
            "V(s_t)": "value [t i]", "R_t": "batch.value_target [t i]", "x_t": "[t i]", r"\nu": "mean_square",
            "L^V": "[]", "c_V": "self.config.vf_coef", "L": "[]",
        }
    ),
    "language.sequence.SequenceAgent.kl_loss": Table({"k_i": "whole [i]", r"L^{\mathrm{KL}}": "[]"}),
    "formulas.preferences.bradley_terry_loss": Table(
        {"f(y^+)": "score_chosen [i]", "f(y^-)": "score_rejected [i]", r"L^{\mathrm{BT}}": "[]"}
    ),
    "formulas.preferences.dpo_loss": Table(PAIR | {"f(y^+)": "[i]", "f(y^-)": "[i]"}),
    "formulas.preferences.dpo_weight": Table(PAIR | {"h": "[i]", "v": "[i]"}),
    "formulas.preferences.best_of_n_law": Table(
        {"p_i": "probability [i]", "r_i": "reward [i]", "n": "n", "F_i": "[i]", "f_i": "[i]", "q_i": "[i]"}
    ),
    "formulas.preferences.best_of_n_kl": Table({"n": "n", r"\mathrm{KL}": "[]"}),
}  # fmt: skip
