"""What every formula promises of its arguments, asked of each function that has a table in the formula checks.

A case of the formula checks is taken, and one argument of it changed. So a new function is asked at once.
"""

from __future__ import annotations

import math
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from minerva_lite.formulas import duals, preferences, sequences, statistics
from tests.living import vector
from tests.markers.inputs import CASES
from tests.markers.symbols import TABLES

NAN = math.nan
KEYS = [key for key in TABLES if key.startswith("formulas.") and "._" not in key]
functions = pytest.mark.parametrize("key", KEYS, ids=lambda key: key.removeprefix("formulas."))
# Arguments that are taken as they come: the callers have checked them, or any number is one.
AS_IT_COMES = {
    ("gaussian_sample", "mean"), ("gaussian_sample", "std"), ("gaussian_sample", "noise"),
    ("categorical_sample", "logits"), ("categorical_sample", "noise"), ("kl_penalty_loss", "kl_penalty"),
    ("adapt_kl_penalty", "kl"), ("normalize_advantage", "eps"), ("normalize_tokens", "eps"), ("rounding_alone", "eps"),
    ("at_rounding_level", "kl_bound"),
}  # fmt: skip
# By the name of a number: what it may not be, beyond -1 and NaN, which none may be.
UNIT, POSITIVE, COUNT, FINITE = (-0.1, 1.1), (0.0, math.inf), (0, 1.5, True), (math.inf,)
REFUSED = {"gamma": UNIT, "lam": UNIT, "mixture": UNIT, "max_tv": UNIT, "backtrack": UNIT, "accept_ratio": UNIT}
REFUSED |= {"low": UNIT, "level": (0.0, 1.0, 95.0), "top_k_frac": (0.0, 1.5), "value": (0.0, math.inf, 1e-8, 2e-8)}
REFUSED |= dict.fromkeys(["clip_eps", "clip_range", "kl_target", "kl_bound", "expected_gain", "eps"], POSITIVE)
REFUSED |= dict.fromkeys(["eps_eta", "bound", "high", "kl_penalty", "eta", "beta"], POSITIVE) | {"max_weight": (0.0,)}
REFUSED |= dict.fromkeys(["iterations", "max_trials", "resamples", "n"], COUNT) | {"group": (0, 1, 1.5, True)}
REFUSED |= dict.fromkeys(["max_advantage", "max_expected_advantage", "max_kl", "average_kl", "tolerance"], FINITE)
REFUSED |= {"damping": FINITE, "kl_rewards.beta": FINITE, "normalizer": ("sum",), "average": ("mean",)}


def case_of(key: str) -> tuple[Callable, dict[str, Any]]:
    return pkgutil.resolve_name(f"minerva_lite.{key}"), next(iter(CASES[key](torch.Generator().manual_seed(0))))


def arguments(key: str, kind: type | tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in case_of(key)[1].items():
        if isinstance(value, kind) and (key.rpartition(".")[2], name) not in AS_IT_COMES:
            yield name, value


def refused(key: str, name: str, value: Any, message: str) -> None:
    function, case = case_of(key)
    with pytest.raises(ValueError, match=message):
        function(**case | {name: value})


@functions
def test_a_tensor_of_another_shape_is_refused_not_broadcast(key):
    """Where two tensors have their first axis in common, one of them is cut, or has an axis more."""
    axes = {symbol.source: symbol.axes for symbol in TABLES[key].declared.values()}
    tensors = {name: value for name, value in arguments(key, Tensor) if value.dim()}
    for name, value in tensors.items():
        if any(axes.get(other, axes.get(name)) == axes.get(name) for other in tensors if other != name):
            for wrong in (value[:-1], value.unsqueeze(-1)):
                refused(key, name, wrong, rf"^({'|'.join(tensors)}|action|value): wanted .*; got")


@functions
def test_a_flag_that_is_a_number_is_refused(key):
    for name, value in arguments(key, Tensor):
        if value.dtype == torch.bool:
            refused(key, name, value.double(), rf"^{name}: wanted dtype torch.bool; got torch.float64")


@functions
def test_a_number_out_of_its_range_is_refused(key):
    for name, value in arguments(key, (int, float, str)):
        if not isinstance(value, bool):
            wrong = () if isinstance(value, str) else (-1.0, NAN)
            for bad in (*REFUSED.get(f"{key.rpartition('.')[2]}.{name}", REFUSED[name]), *wrong):
                refused(key, name, bad, rf"^{name}: wanted .*; got")
    if key.startswith("formulas.bounds.") and "gamma" in case_of(key)[1]:
        refused(key, "gamma", 1.0, "^gamma: wanted a number below 1, or no bound exists; got 1.0$")


@functions
def test_single_precision_stays_single_and_what_came_in_stays_as_it_was(key):
    function, case = case_of(key)
    single = {n: v.float() if isinstance(v, Tensor) and v.is_floating_point() else v for n, v in case.items()}
    before = {name: value.clone() for name, value in single.items() if isinstance(value, Tensor)}
    if key.endswith(("project_raw", "fisher_vector_product", "conjugate_gradient", "stratified_bootstrap")):
        return  # changes its argument, and that is what it is for; the case brings something in double precision
    found = function(**single)
    for value in found if isinstance(found, tuple) else (found,):
        assert not isinstance(value, Tensor) or value.dtype in (torch.float32, torch.bool, torch.int64)
    assert all(torch.equal(single[name], value) or value.isnan().any() for name, value in before.items())


NO_GRADIENT = {
    "discounted_returns", "gae", "retrace_targets", "leave_one_out_baseline", "gaussian_sample", "categorical_sample",
    "ppo_clip_fraction", "rounding_alone", "explained_variance", "effective_sample_size", "performance_profile",
    "probability_of_improvement", "stratified_bootstrap", "estep_weights", "weights_kl", "top_k_mask", "vmpo_weights",
    "leave_one_out_advantage", "group_advantage", "kl_rewards", "last_token", "dpo_weight", "best_of_n_law",
}  # fmt: skip


@functions
def test_a_gradient_leaves_all_formulas_but_those_whose_values_are_taken_as_given(key):
    function, case = case_of(key)
    for value in case.values():
        if isinstance(value, Tensor) and value.is_floating_point() and value.is_leaf:
            value.requires_grad_()
    found = function(**case)
    tensors = [value for value in (found if isinstance(found, tuple) else (found,)) if isinstance(value, Tensor)]
    assert {value.requires_grad for value in tensors} <= {key.rpartition(".")[2] not in NO_GRADIENT}


# What an argument may not be beside the others.

MASK = torch.tensor([[1, 1, 1], [1, 0, 1], [1, 0, 0]], dtype=torch.bool)  # answers of 3, 1 and 2 tokens
TOKENS, ONES, NONE = torch.zeros(3, 3), torch.ones(2), torch.empty(0, 2)
NO = torch.zeros(2, dtype=torch.bool)
SCORES = torch.ones(3, 2)
BESIDE = [
    (lambda: duals.top_k_mask(torch.ones(3), MASK[1], 0.4), "top_k_frac: wanted one that keeps .* 0.4 of 2"),
    (lambda: duals.top_k_mask(ONES, NO, 1.0), "top_k_frac: wanted one that keeps at least one sample; 1.0 of 0"),
    (lambda: duals.vmpo_weights(ONES, NO, ONES, ONES[0]), "mask: wanted at least one sample kept; got none"),
    (lambda: sequences.leave_one_out_advantage(torch.zeros(10), 4), "reward: wanted a multiple of group = 4"),
    (lambda: sequences.group_advantage(torch.zeros(0), 2, scale=False), "reward: wanted a multiple of group = 2"),
    (lambda: sequences.group_mean(torch.zeros(2, 2), 2), r"value: wanted shape \(any,\); got \(2, 2\)"),
    (lambda: sequences.leave_one_out_advantage(vector(1, NAN), 2), "reward: wanted finite numbers"),
    (lambda: sequences.kl_rewards(TOKENS, TOKENS, MASK, vector(1, NAN, 1), 0.1), "reward: wanted finite numbers"),
    (lambda: sequences.kl_rewards(TOKENS, TOKENS, MASK, torch.zeros(2), 0.1), r"reward: wanted shape \(3,\); got"),
    (lambda: sequences.clipped_token_objective(TOKENS, ONES, 0.2, 0.2), r"advantage: wanted shape \(3,\); got"),
    (lambda: sequences.clipped_token_objective(TOKENS, TOKENS[:2], 0.2, 0.2), r"advantage: wanted shape \(3, 3\)"),
    (lambda: sequences.spread_weight(vector(0.5, 1.0), 4), r"probability: wanted numbers inside \(0, 1\)"),
    (lambda: sequences.sequence_log_prob(TOKENS, MASK & MASK.new_tensor([True, False, True])),
     "mask: wanted at least one token in every answer; got none in answer 1"),
    (lambda: sequences.sequence_log_prob(TOKENS, MASK.flip(0)),
     "mask: wanted every answer to begin in row 0 and go on without a gap; answer 1 does not"),
    (lambda: sequences.sequence_log_prob(torch.zeros(3), MASK[0]), r"mask: wanted shape \(any, any\); got \(3,\)"),
    (lambda: preferences.best_of_n_law(ONES.view(1, 2), ONES.view(1, 2), 2), r"probability: wanted shape \(any,\)"),
    (lambda: preferences.best_of_n_law(ONES[:1], vector(NAN), 2), "reward: wanted finite numbers; got 1"),
    (lambda: statistics.interquartile_mean(NONE), "scores: wanted at least one score; got none"),
    (lambda: statistics.performance_profile(NONE, torch.zeros(1)), "scores: wanted at least one score; got none"),
    (lambda: statistics.probability_of_improvement(NONE, SCORES), "scores: wanted at least one score; got none"),
    (lambda: statistics.probability_of_improvement(SCORES, SCORES[:, :1]), "others: wanted as many tasks as scores"),
    (lambda: statistics.stratified_bootstrap(torch.mean, [NONE], generator=torch.Generator()),
     r"scores\[0\]: wanted at least one score"),
    (lambda: statistics.welch_statistic(ONES[0], ONES, vector(1.0, 3.0)), r"runs: wanted at least 2 of each"),
    (lambda: statistics.holm(vector(0.5, 1.5)), r"p_values: wanted numbers in \[0, 1\]; got"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BESIDE)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
