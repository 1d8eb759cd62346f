"""What each setting may be: for every field of every agent the values that it refuses, and in which words."""

from __future__ import annotations

import math
import re
from dataclasses import fields

import pytest

from minerva_lite.agents import AGENTS

NAN, INF = math.nan, math.inf
# What is wanted -> what is refused, and of which settings.
RANGES = {
    "a whole number of at least 1": ((0, -1, 1.5), """
        num_envs rollout_steps cg_iterations max_trials vine_states vine_actions vine_steps value_iterations
        value_minibatch minibatch_size epochs learner_steps replay_steps sequence_length action_samples value_samples
        policy_steps target_period inner_steps group minibatch_prompts width layers heads pretrain_batch pretrain_steps
    """),
    "a finite number above 0": ((0.0, -0.1, NAN, INF), """
        max_grad_norm learning_rate kl_bound natural_step value_learning_rate clip_eps kl_penalty_init eps_eta eps_mean
        eps_std eta_init alpha_mean_init alpha_std_init dual_learning_rate eps_penalty eta_penalty_init
        critic_learning_rate policy_learning_rate clip_low clip_high temperature pretrain_learning_rate
        temperature_learning_rate importance_clip
    """),
    "a finite number of at least 0": ((-0.1, NAN, INF), """
        momentum vf_coef entropy_coef damping cg_tolerance value_l2 beta warmup_steps
    """),
    "a number in [0, 1]": ((-0.1, 1.1, NAN), "gamma lam accept_ratio"),
    "a number in (0, 1]": ((0.0, 1.1, NAN), "top_k_frac"),
    "a factor between 0 and 1, both excluded": ((0.0, 1.0, NAN), "backtrack"),
    "a number in [-20.0, 2.0], where the policy clamps it": ((2.1, -20.1, NAN), "log_std_init"),
    "None or a finite number": ((NAN, INF), "target_kl"),
    "a tuple of whole numbers": ((64, "64"), "hidden critic_hidden"),
    "bool": ((0, 1, None, "False"), """
        anneal_lr normalize_obs whole_episodes normalize_reward normalize_advantage squash reward_to_go discount_states
        anneal_kl clip_value recompute_advantage per_dimension action_penalty shared_encoder
    """),
    **{f"one of {words}": (("none of them", 3), name) for name, words in {
        "optimizer": "adam, sgd", "estimator": "gae, returns, td", "value_target": "advantage, returns",
        "head_init": "orthogonal, small", "baseline": "value, others, none", "step_rule": "trpo, natural, fixed",
        "sampling": "single_path, vine", "vine_proposal": "policy, uniform", "value_fit": "lbfgs, adam",
        "objective": "clip, kl_penalty", "stop_test": "minibatch, epoch", "critic_target": "one_step, retrace",
        "learn_from": "all, first", "kl_over": "all, kept", "log_normalizer": "weights, count",
        "act_by": "target, online", "torso": "tanh, layernorm", "advantage": "rloo, grpo, critic",
        "average": "constant, sequence, token", "kl": "none, reward, loss", "kl_estimate": "k3, k1, k2",
    }.items()},
}  # fmt: skip
OTHERS = {
    ("reinforce", "estimator"): "one of returns, gae, td",
    ("sequence", "objective"): "one of token, sequence, gspo",
}
WANTED = {name: (wanted, values) for wanted, (values, names) in RANGES.items() for name in names.split()}
# A value of another type than the setting's own is refused by the check or by the type, whichever comes first.
OF_ANOTHER_TYPE = {
    "int": ("3", None),
    "int | None": ("9",),
    "float": ("0.5", None, True),
    "float | None": ("0.5", True),
}
OURS = {name: config for name, (_, config) in AGENTS.items() if config.__module__.startswith("minerva_lite.")}
EVERY = [(name, each.name, each.type) for name, config in OURS.items() for each in fields(config)]


@pytest.mark.parametrize(("agent", "setting", "kind"), EVERY, ids=lambda each: each)
def test_a_setting_is_refused_by_name(agent, setting, kind):
    wanted, values = WANTED[setting]
    wanted = OTHERS.get((agent, setting), wanted)
    for value in values:
        with pytest.raises(ValueError, match=f"^{setting}: wanted {re.escape(wanted)}.*; got "):
            AGENTS[agent][1](**{setting: value})
    for value in OF_ANOTHER_TYPE.get(kind, ()):
        with pytest.raises(ValueError, match=f"^{setting}: wanted .*; got "):
            AGENTS[agent][1](**{setting: value})


@pytest.mark.parametrize("setting", ["hidden", "critic_hidden"])
@pytest.mark.parametrize("agent", sorted(set(AGENTS) - {"sequence"}))
def test_a_layer_without_units_is_refused_by_its_place(agent, setting):
    with pytest.raises(ValueError, match=rf"^{setting}\[1\]: wanted a whole number of at least 1; got 0"):
        AGENTS[agent][1](**{setting: (8, 0)})


@pytest.mark.parametrize(("agent", "word", "here"), [
    ("ppo", "monte_carlo", "returns"), ("a2c", "dae", "td"), ("vmpo", "dae", "td"), ("reinforce", "dae", "td"),
])  # fmt: skip
def test_another_librarys_word_is_told_this_ones(agent, word, here):
    with pytest.raises(ValueError, match=f"^estimator: wanted .*; got '{word}', which is '{here}' here$"):
        AGENTS[agent][1](estimator=word)


@pytest.mark.parametrize("agent", [name for name, setting, _ in EVERY if setting == "momentum"])
def test_adam_takes_no_momentum_besides(agent):
    with pytest.raises(ValueError, match="^momentum: wanted 0 with adam, which has its own; got 0.9"):
        AGENTS[agent][1](momentum=0.9)
    assert AGENTS[agent][1](optimizer="sgd", momentum=0.9).momentum == 0.9
