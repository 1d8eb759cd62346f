r"""What the symbols of the formulas stand for: the only hand-written part of the checks. table.py says how to read it.

A module has one notation. A function has those of its symbols that its formulas use: what a marker of the function
computes is a left side there, whatever it is called elsewhere, and the others are inputs. OWN has what a function means
otherwise.
"""

from __future__ import annotations

from typing import Any

from .latex import tokens_of
from .markers import Marker, markers_of, module_names
from .parse import split_equation
from .table import Table

# The law of notation for on-policy data, [T, B].
DATA = {
    r"r_t": "reward [t b]", r"V(s_t)": "value [t b]", r"V(s_{t+1})": "next_value [t b]", r"d_t": "terminated [t b]",
    r"z_t": "truncated [t b]", r"A_t": "advantage [t b]", r"\log \rho_t": "log_ratio [t b]",
    r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t b]", r"\varepsilon_{\mathrm{clip}}": "clip_eps",
    r"\gamma": "gamma", r"\lambda": "lam",
}  # fmt: skip
# Where normalization is off, A' is A.
LOSS = {
    r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t]", "A_t'": "advantage [t]", "L^V": "critic_loss",
    "H_t": "entropy [t]", "c_V": "self.config.vf_coef", "c_H": "self.config.entropy_coef", "L": "[]",
    r"\log \pi_b(a_t \mid s_t)": "batch.behavior_log_prob [t]", r"\log \rho_t": "[t]", r"\mathrm{KL}_t": "kl [t]",
    r"L^\pi": "[]", "L'": "[]",
}  # fmt: skip
RATE = {"f_u": "[]", "p_u": "progress", r"\alpha_u": "[]", r"\alpha_0": "self.config.learning_rate"}
NOTATION: dict[str, dict[str, str]] = {
    "formulas.returns": DATA
    | {
        "e_t": "[t b]", "b_t": "[t b]", "G_t": "[t b]", r"\delta_t": "[t b]", "w_t": "[t b]", "A_t": "[t b]",
        "G_{ti}": "returns [t i]", "m_{ti}": "mask [t i]", "S_{ti}": "[t i]", "n_{ti}": "[t i]", "b_{ti}": "[t i]",
        "Q(s_t, a_t)": "q_value [t b]", "c_t": "[t b]", r"\Delta_t": "[t b]", r"Q^{\mathrm{ret}}_t": "[t b]",
    },
    "formulas.distributions": {
        "a_i": "action [t b i]", r"\mu_i": "mean [t b i]", r"\sigma_i": "std [t b i]", r"\log \pi(a \mid s)": "[t b]",
        "z_i": "[t b i]", "H": "[t b]", r"\mu^{\mathrm{old}}_i": "mean_old [t b i]",
        r"\sigma^{\mathrm{old}}_i": "std_old [t b i]", r"\Delta_i": "[t b i]", "r_i": "[t b i]",
        r"\mathrm{KL}_i": "[t b i]", r"\xi_i": "noise [t b i]", "u_i": "pre_squash [t b i]", "u": "pre_squash [t b i]",
        r"\mu": "mean [t b i]", r"\sigma": "std [t b i]", r"\ell_i": "[t b i]", r"\ell_j": "logits [t b j]",
        r"\log p_j": "[t b j]", "a": "action [t b]", r"\ell^{\mathrm{old}}_j": "logits_old [t b j]",
        r"\log p^{\mathrm{old}}_j": "[t b j]", r"\mathrm{KL}": "[t b]", "u_j": "noise [t b j]", r"\xi_j": "[t b j]",
        r"\log \rho_t": "log_ratio [t b]", "k_1": "[t b]", "k_2": "[t b]", "k_3": "[t b]",
        r"\mathrm{KL}^\mu_i": "[t b i]", r"\mathrm{KL}^\sigma_i": "[t b i]",
    },
    "formulas.objectives": DATA
    | {
        r"L^{\mathrm{PG}}": "[]", r"\hat{L}": "[]", r"\log \rho_{nk}": "log_ratio [n k]", "w_{nk}": "[n k]",
        "A_{nk}": "advantage [n k]", r"\rho_t": "[t b]", r"\bar{\rho}_t": "[t b]", "L_t": "[t b]", "f": "[]",
        r"L^{\mathrm{clip}}": "[]", r"\mathrm{KL}_t": "kl [t b]", r"\beta_{\mathrm{KL}}": "kl_penalty",
        r"L^{\mathrm{pen}}": "[]", r"\mathrm{KL}": "kl", r"\delta_{\mathrm{KL}}": "kl_target", "n": "[]",
        r"\beta'_{\mathrm{KL}}": "[]", "R_t": "value_target [t b]", "L^V": "[]",
        r"V_{\mathrm{old}}(s_t)": "value_old [t b]", r"\varepsilon_V": "clip_range", r"\bar{V}_t": "[t b]",
        "m_t": "[t b]", r"\varepsilon": "eps", "c_t": "[t b]", r"\hat{A}_t": "[t b]", "s": "spread", "m": "size",
        r"\epsilon": "eps", r"\mathrm{alone}": "[]", r"\log \pi_{ib}": "log_prob [i b]", "q_{ib}": "weights [i b]",
        r"L^\pi": "[]",
    },
    "formulas.bounds": {
        "p_a": "policy_old [t b a]", "q_a": "policy [t b a]", r"\mathrm{TV}": "[t b]",
        r"\varepsilon'": "max_expected_advantage", r"\alpha_{\mathrm{mix}}": "mixture", r"\gamma": "gamma", "B": "[]",
        r"\varepsilon_A": "max_advantage", "C": "[]", r"\mathrm{TV}_{\mathrm{max}}": "max_tv",
        r"\mathrm{KL}_{\mathrm{max}}": "max_kl", r"\overline{\mathrm{KL}}": "average_kl", "D": "[]", "C'": "[]",
    },
    "formulas.diagnostics": {
        "V(s_t)": "value [t b]", "R_t": "returns [t b]", r"\nu": "[]", r"\mathrm{EV}": "[]", "w_i": "weights [i b]",
        r"\mathrm{ESS}": "[b]",
    },
    "experience.normalizer": {
        r"\hat{x}": "[t b o]", "x": "x [t b o]", r"\mu": "self.mean [o]", r"\nu": "self.var [o]",
        r"\varepsilon": "self.eps", "c": "self.clip", "x_t": "x [t b o]", "n": "self.count", "m": "#[t b]",
        r"\Delta": "[o]", r"\mu'": "[o]", r"\nu'": "[o]", r"\hat{r}": "[t b]", "r": "reward [t b]",
        r"\gamma": "self.gamma", "r_t": "reward [t b]", "e_t": "ended [t b]", "g_t": "[t b]", "g'_t": "[t b]",
    },
    "formulas.trust_region": {  # the cases find F by brute force
        "M": "product.matrix @[i]", "b": "target [i]", r"\tau": "tolerance", "x_k": "[k i]", "r_k": "[k i]",
        "p_k": "[k i]", "s_k": "[k]", "c_k": "[k]", r"\alpha_k": "[k]", r"s_{\mathrm{stop}}": "[]",
        "F": "kl_gradient.hessian @[i]", r"g_{\mathrm{KL}}": "kl_gradient [i]", "v": "vector [i]", r"\omega": "damping",
        "h": "[]", r"(F + \omega I) v": "[i]", "g": "gradient [i]", "x": "direction [i]",
        r"\delta_{\mathrm{KL}}": "kl_bound", "q": "[]", r"\lambda_{\mathrm{KL}}": "[]", r"\Delta\theta": "[i]",
        r"\beta": "backtrack", r"c_{\mathrm{accept}}": "accept_ratio", "f_j": "[j]",
        r"g_{\mathrm{min}}": "[]", "s": "step [i]", r"\Delta L": "[]", "A_t": "advantage [t]",
        r"g_{\mathrm{max}}": "[]",
    },
    "agents.networks": {  # with a torso that gives x: the other gives none
        r"\ell^\sigma_i": "self.log_std [i]", r"x^\sigma_i": "output[:,2:] [b i]", r"\sigma_i": "params[1] [b i]",
        r"\mu_i": "params[0] [b i]", r"\xi_i": "noise [b i]", "u_i": "action [b i]",
        r"\log \pi(a \mid s)": "log_prob [b]", r"\hat{H}": "[b]", "a_i": "action [b i]",
    },
    "training.loop": {"n": "before", "n'": "after", r"\Delta n": "every", r"\mathrm{due}": "[]"},
    "agents.a2c": LOSS,
    "agents.reinforce": LOSS
    | {
        "G_t": "returns [t b]", "b_t": "baseline [t b]", "A_t": "[t b]", r"\gamma": "self.config.gamma",
        "r_t": "reward [t b]", "w_t": "batch.weight [t]",
    },
    "agents.trpo": LOSS
    | {
        r"\log \pi_\theta(a_{nk} \mid s_n)": "branch_log_prob [n k]",
        r"\log q(a_{nk} \mid s_n)": "batch.proposal_log_prob [n k]", r"\log w_{nk}": "[n k]",
        r"\overline{\mathrm{KL}}": "[]",
    },
    "agents.on_policy": {"A_t": "advantage [t b]", "V(s_t)": "value [t b]", "R_t": "[t b]"},
    "agents.mpo": RATE
    | {
        "r_t": "batch.reward [t b]", "d_t": "batch.terminated [t b]",
        "V(s_{t+1})": "next_value [t b]", r"\gamma": "self.config.gamma", r"Q^{\mathrm{target}}_t": "target [t b]",
        r"\ell_a": "params[0] [t b a]", "Q'(s, a)": "values [t b a]", "Q'(s, a_i)": "q_value [i t b]", "V(s)": "[t b]",
        r"\ell_{ba}": "old[0] [b a]", "Q'_{ib}": "q_value [i b]", "N": "#[i]", r"\log p_{ab}": "[a b]",
        r"\log p_{ib}": "[i b]", "Q(s_t, a_t)": "q_value [t b]", "L^Q": "[]", "a_{ib}": "action[:,:,:] [i b d]",
        "x_{ib}": "[i b]", "g^Q": "by_value", "g^x": "by_penalty", "q^Q_{ib}": "weights [i b]",
        "q^x_{ib}": "pull [i b]", "g": "[]", "q_{ib}": "weights [i b]",
        r"\log \pi_\theta(a_i \mid s_b)": "log_prob [i b]", r"\mu^{\mathrm{old}}_b": "old[0] [b d]",
        r"\sigma^{\mathrm{old}}_b": "old[1] [b d]", r"\mu_b": "params[0] [b d]", r"\sigma_b": "params[1] [b d]",
        r"L^\mu": "[]", r"L^\sigma": "[]", r"L^\pi": "[]", r"L^{\mathrm{KL}}": "price", "L": "[]",
    },
    "agents.base": RATE,
    "agents.ppo": LOSS
    | {r"\beta_{\mathrm{KL}}": "self.kl_penalty", r"\varepsilon_{\mathrm{clip}}": "self.config.clip_eps"},
    "formulas.statistics": {
        "x_i": "scores [i]", "n": "#[i]", "h": "[]", r"\mathrm{IQM}": "[]", "q": "level", "p": "[]",
        "x_{sk}": "scores [s k]", r"\tau_m": "threshold [m]", "F_m": "[m]", "y_{rk}": "others [r k]", "P": "[]",
        "g": "gap", "e_i": "squared_errors [i]", "n_i": "runs [i]", "e": "[]", "t": "[]", r"\nu": "[]",
        "p_i": "p_values [i]", "m": "#[i]", "h_i": "[i]", "p'_i": "[i]",
    },
    "formulas.duals": {
        r"\tilde{\eta}": "raw [i]", r"\eta": "eta", r"\tilde{\eta}'": "[i]", "y": "[]", "Q_{ib}": "q_value [i b]",
        r"\log p_{ib}": "log_prior [i b]", "c_b": "[b]", "q_{ib}": "weights [i b]", r"\varepsilon_\eta": "eps_eta",
        r"\log Z_b": "[b]", "g": "[]", "A_t": "advantage [t]", r"w_{\max}": "max_weight", "w_t": "[t b]",
        r"\mathrm{KL}_b": "[b]", r"\alpha_i": "alpha [i]", r"\mathrm{KL}_i": "kl [i]", r"\varepsilon": "bound",
        r"L^\alpha": "[]", r"L^{\mathrm{KL}}": "[]", r"w^{\mathrm{res}}_t": "eligible [t]", r"\kappa": "top_k_frac",
        "n": "[]", "k": "[]", "m_t": "mask [t]", r"\log w_t": "log_importance [t]", "c": "best",
        r"\ell_t": "logits [t]", r"\psi_t": "[t]", r"\log W": "[]",
    },
    "agents.vmpo": LOSS
    | {
        r"\log \pi_{\mathrm{old}}(a_t \mid s_t)": "log_prob [t]", r"w_{\max}": "self.config.importance_clip",
        r"\log w_t": "[t]", r"\psi_t": "batch.psi [t]", "g": "temperature", r"\mathrm{KL}_{ti}": "part [t i]",
        "m_t": "batch.kept [t]", r"\mathrm{KL}": "[]", r"L^{\mathrm{KL}}": "price", r"L^\alpha": "slack",
    },
    "formulas.sequences": {  # columns are answers: the axis i
        r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t i]", "m_t": "mask [t i]", r"\log \pi_\theta(y)": "[i]",
        "x_i": "value [i]", "G": "group", r"\bar{x}_i": "[i]", "r_i": "reward [i]", r"\bar{r}_i": "mean [i]",
        "A_i": "advantage [i]", "c_i": "[i]", r"\nu_i": "mean_square [i]", r"\sigma^{\mathrm{grp}}_i": "[i]",
        r"\varepsilon": "eps", "p": "probability [t b]", r"\bar{\sigma}^{\mathrm{grp}}": "[t b]", "w": "[t b]",
        r"\log \pi_{\mathrm{ref}}(a_t \mid s_t)": "reference_log_prob [t i]", "r(y)": "reward [i]", r"\beta": "beta",
        "e_t": "last [t i]", "k_t": "[t i]", "r_t": "[t i]", r"\log \pi_\theta": "log_prob [t i]",
        r"\log \pi_{\mathrm{ref}}": "reference_log_prob [t i]", r"\log \rho^{\mathrm{ref}}": "[t i]",
        r"\log \rho_t": "log_ratio [t i]", "A_t": "advantage [i]", r"\rho_t": "[t i]", r"\bar{\rho}_t": "[t i]",
        r"\varepsilon_-": "low", r"\varepsilon_+": "high", "L_t": "[t i]", r"\log \rho(y)": "[i]",
        r"\log \tilde{\rho}(y)": "[i]", r"\log \rho_i": "whole [i]", "L_i": "[i]", "x_t": "value [t i]", "L": "[]",
        r"\bar{A}": "mean", "c_t": "[t i]", r"\nu": "mean_square", r"\hat{A}_t": "[t i]",
    },
    "language.answering": {r"\bar{\ell}": "likelihood", "L": "[]"},
    "language.sequence": {
        "A_t": "advantage [t i]", "V(s_t)": "value [t i]", "R_t": "batch.value_target [t i]",
        r"\log \pi_\theta(a_t \mid s_t)": "log_prob [t i]",
        r"\log \pi_b(a_t \mid s_t)": "batch.behavior_log_prob [t i]", r"\log \rho_t": "[t i]", "J": "objective",
        "J_i": "answer_gain [i]", r"L^{\mathrm{KL}}": "kl_loss", r"\beta": "self.config.beta", "x_t": "[t i]",
        r"\nu": "mean_square", "L^V": "[]", "c_V": "self.config.vf_coef", "L": "[]", "k_i": "whole [i]",
    },
    "formulas.preferences": {
        "f(y^+)": "score_chosen [i]", "f(y^-)": "score_rejected [i]", r"L^{\mathrm{BT}}": "[]",
        r"\log \pi_\theta(y^+)": "chosen [i]", r"\log \pi_\theta(y^-)": "rejected [i]",
        r"\log \pi_{\mathrm{ref}}(y^+)": "reference_chosen [i]",
        r"\log \pi_{\mathrm{ref}}(y^-)": "reference_rejected [i]", r"\beta": "beta", "h": "[i]", "v": "[i]",
        "p_i": "probability [i]", "r_i": "reward [i]", "n": "n", "F_i": "[i]", "f_i": "[i]", "q_i": "[i]",
        r"\mathrm{KL}": "[]",
    },
}  # fmt: skip
OWN: dict[str, dict[str, Any]] = {
    "formulas.returns.discounted_returns": {"beyond": {"G_t": "next_value[-1]"}},
    "formulas.duals.positive": {"symbols": {r"\eta": "[i]"}},
    "formulas.duals.raw_of": {"symbols": {r"\eta": "value", r"\tilde{\eta}": "[]"}},
    "formulas.duals.exponential_weights": {"symbols": {"A_t": "advantage [t b]"}},
    "formulas.sequences.normalize_tokens": {"symbols": {"A_t": "advantage [t i]"}},
    "formulas.trust_region.conjugate_gradient": {"passes": {"k": "iterations"}},
    "formulas.trust_region.line_search": {
        "symbols": {r"g^\top s": "expected_gain"},
        "passes": {"j": "max_trials"},
    },
    "experience.normalizer.RewardScaler.scale": {
        "symbols": {r"\nu": "self.stats.var", r"\varepsilon": "self.stats.eps", "c": "self.stats.clip"},
    },
    "experience.normalizer.RewardScaler.absorb": {"beyond": {"g'_t": "self.running"}},
    # Arguments whose axes count, though no formula has them.
    "formulas.objectives.ppo_clip_loss": {"symbols": {r"\log \rho_t": "log_ratio [t b]"}},
    "agents.reinforce.REINFORCEAgent.state_weight": {"symbols": {"r_t": "reward [t b]", "w_t": "[t b]"}},
    "agents.mpo.MPOAgent.candidates": {"symbols": {"Q'_{ib}": "q_value [i b]"}},
    # The actions of a finite set have no third axis, and no penalty.
    "agents.mpo.MPOAgent.estep": {"inner": "d"},
    "agents.mpo.MPOAgent.policy_loss": {"inner": "d"},
}


def table_of(key: str, module: str, markers: list[Marker]) -> Table:
    """The symbols that stand in the formulas of one function."""
    own = OWN.get(key, {})
    told, sides = own.get("symbols", {}), [split_equation(marker.latex) for marker in markers]
    symbols, computed = NOTATION.get(module, {}) | told, set()
    for latex, symbol in Table(symbols).declared.items():
        if latex not in told and any(symbol.is_all_of(left) for left, *_ in sides):
            computed.add(latex)
            symbols[latex] = f"[{' '.join(symbol.axes)}]"
        elif not (latex in told or symbol.source or symbol.is_size or symbol.definition):
            del symbols[latex]  # another function computes it
    law = Table(symbols)
    used = {*told}.union(*(law.used(side) for equation in sides for side in equation))
    used |= {latex for latex in computed if any(tokens_of(latex) == left for left, *_ in sides)}
    symbols = {latex: spec for latex, spec in symbols.items() if latex in used}
    # A mean over t runs over all samples.
    samples = {"t": "t b"} if any(symbol.axes == ("t", "b") for symbol in Table(symbols).declared.values()) else {}
    return Table(**{"index": samples} | own | {"symbols": symbols})


TABLES: dict[str, Table] = {
    key: table_of(key, module, markers)
    for module in sorted(module_names(), key=lambda name: [*NOTATION, name].index(name))
    for key, markers in markers_of(module).items()
}
