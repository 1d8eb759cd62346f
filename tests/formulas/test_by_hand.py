"""Numbers that a reader can work out by hand: what a formula gives, and what slope it has in each argument."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from minerva_lite.formulas import bounds, distributions, duals, objectives, preferences, sequences, statistics
from minerva_lite.formulas import trust_region as trust
from minerva_lite.formulas.diagnostics import effective_sample_size, explained_variance
from tests.living import vector

F64, NAN = torch.float64, math.nan
LOG2, E = math.log(2), math.e


def rows(*numbers) -> torch.Tensor:
    return torch.tensor(numbers, dtype=F64)


def logs(*numbers: float) -> torch.Tensor:
    return vector(*numbers).log()


def flags(*ones) -> torch.Tensor:
    return torch.tensor(ones, dtype=torch.bool)


HALVED = rows([0.0, 4.0], [2 * math.log(3), 4.0])  # in the first column odds of 3 at a temperature of 2
EVEN = torch.full((2, 2), -LOG2, dtype=F64)
ANSWERS = flags([1, 1, 1], [1, 0, 1], [1, 0, 0])  # of 3, 1 and 2 tokens
GROUPS = vector(1, 0, 0, 1, 1, 1, 0, 1)  # means 1/2 and 3/4; the second deviation is 1/2
SCORES = rows([1.0, 10.0], [2.0, 20.0], [3.0, -900.0], [4.0, 40.0])  # sorted: -900 1 | 2 3 4 10 | 20 40
# Kept odds are w exp(A / 3): 2 exp(0) against 1 exp(log 6). One unkept far above changes nothing.
SELECTED = vector(0, 60, 3 * math.log(6), -5), flags(1, 0, 1, 0), vector(LOG2, math.log(3), 0, 0), rows(3.0)[0]
TEN_PERCENT = logs(1.1).expand(3, 3).masked_fill(~ANSWERS, NAN)  # ratios of 1.1: three make 1.331, their mean is 1.1
PAIRS = [vector(x) for x in (-1.0 + LOG2, -3.0 - LOG2, -1.0, -3.0)]  # log-ratios log 2 and -log 2
TOKENS = rows([-1.0, -2.0, -3.0], [-1.0, NAN, -1.0], [-1.0, NAN, NAN])

# Function, arguments, what it gives, and the slope of its sum in each tensor of numbers (None: no gradient enters it).
BY_HAND = [
    (bounds.total_variation, (rows([0.5, 0.5, 0], [0.2, 0.3, 0.5], [1, 0, 0]),
                              rows([0.1, 0.2, 0.7], [0.2, 0.3, 0.5], [0, 0.4, 0.6])), [0.7, 0.0, 1.0]),
    (bounds.penalty_constant, (3.0, 0.5), 24.0),
    (bounds.cpi_bound, (3.0, 0.2, 0.5), 0.48),
    (partial(bounds.cpi_bound, sharp=True), (3.0, 0.2, 0.5), 0.4),
    (bounds.tv_bound, (3.0, 0.2, 0.5), 0.96),
    (partial(bounds.tv_bound, sharp=True), (3.0, 0.2, 0.5), 0.8),
    (bounds.max_kl_bound, (3.0, 0.1, 0.5), 2.4),
    (partial(bounds.max_kl_bound, pinsker=True), (3.0, 0.1, 0.5), 1.2),
    (bounds.average_kl_bound, (3.0, 0.08, 0.5), 2.4),
    # gamma = 4/5: gamma / (1 - gamma) = 4 and its root is 2, so C' = 5 * (4 + 4), half of the paper's C.
    (bounds.average_kl_penalty, (1.0, 0.8), 40.0),
    (bounds.visitation_kl_bound, (0.3, 0.75), 0.9),
    # gamma = 3/4: sqrt(3)/2 over 1/8, twice that, times 0.1.
    (bounds.walk_kl_bound, (1.0, 0.1, 0.75), 0.8 * 3.0**0.5),
    (explained_variance, (vector(1, 2), vector(4, 4)), NAN),  # returns that never vary
    # Equal weights count all, one counts one; (1 + 2 + 3)^2 / (1 + 4 + 9).
    (effective_sample_size, (rows([1, 0, 1, 0], [1, 5, 2, 0], [1, 0, 3, 0]),), [3, 1, 36 / 14, NAN]),
    # KL(N(3, 2^2) || N(5, 4^2)) = log 2 + (4 + 4) / 32 - 1/2.
    (distributions.gaussian_kl, (vector(3), vector(2), vector(5), vector(4)), LOG2 + 1 / 4 - 0.5),
    # p = (1/4, 3/4) against (1/2, 1/2); a constant added to the logits changes nothing.
    (distributions.categorical_kl, (logs(1, 3) + 5.0, vector(0, 0)), 0.25 * math.log(0.5) + 0.75 * math.log(1.5)),
    (distributions.categorical_entropy, (logs(1, 3) + 5.0,), -0.25 * math.log(0.25) - 0.75 * math.log(0.75)),
    (distributions.kl_estimates, (logs(2.0, 0.5),), [[-LOG2, LOG2], [LOG2**2 / 2] * 2, [1 - LOG2, LOG2 - 0.5]]),
    # softplus(0) = log 2, softplus(log(e - 1)) = 1; the floor shows in the eighth digit, and far below alone.
    (duals.positive, (vector(0, math.log(E - 1), -40),), [LOG2 + 1e-8, 1 + 1e-8, 1e-8 + math.exp(-40)]),
    (duals.raw_of, (LOG2 + 1e-8,), 0.0),
    # eta (eps + log mean exp(Q / eta)); its slope is the bound less the mean KL of the weights.
    (partial(duals.temperature_loss, eps_eta=0.1), (HALVED, EVEN, rows(2.0)[0]), (2 * (0.1 + LOG2) + 2 * 0.1 + 4) / 2,
     (None, None, [0.1 - (0.25 * math.log(0.5) + 0.75 * math.log(1.5)) / 2])),
    # A quarter and three quarters from even; an outcome of no weight counts nothing, whatever its prior.
    (duals.weights_kl, (rows([0.25, 1.0], [0.75, 0.0]), rows([0.5, 1.0], [0.5, 0.0]).log()),
     [0.25 * math.log(0.5) + 0.75 * math.log(1.5), 0.0]),
    (duals.vmpo_weights, SELECTED, [1 / 4, 0.0, 3 / 4, 0.0]),
    # eta (eps + log [sum w exp(A / eta) / W]), W the kept samples' sum of w, or their number.
    (partial(duals.vmpo_temperature_loss, eps_eta=0.1), SELECTED, 3 * (0.1 + math.log(8 / 3)),
     (None, None, [0.1 - 0.25 * math.log(3 / 8) - 0.75 * math.log(9 / 4)])),
    (partial(duals.vmpo_temperature_loss, eps_eta=0.1, normalizer="count"), SELECTED, 3 * (0.1 + math.log(8 / 2)),
     (None, None, [0.1 + math.log(4) - 0.75 * math.log(6)])),
    # exp(A / 2) of 0, log 4 and -log 9; what would overflow is the cut, and infinity cuts nothing.
    (duals.exponential_weights, (vector(0, math.log(4), -math.log(9), 4000), 2.0, 20.0), [1, 2, 1 / 3, 20]),
    (duals.exponential_weights, (vector(0, math.log(4)), 2.0, math.inf), [1.0, 2.0]),
    (objectives.policy_gradient_loss, (vector(-1.0, -2.0), vector(3.0, -4.0)), -(-3.0 + 8.0) / 2, ([-1.5, 2.0], None)),
    # -(mean of (2*3 - 0.5*0.4, 0.5*(-1) - 0.5*0.2)).
    (objectives.kl_penalty_loss, (logs(2.0, 0.5), vector(3.0, -1.0), vector(0.4, 0.2), 0.5), -(5.8 - 0.6) / 2,
     ([-3.0, 0.25], [-1.0, -0.25], [0.25, 0.25])),
    # Target 0.01: doubled above 0.015, halved below 0.00667.
    *((objectives.adapt_kl_penalty, (3.0, kl, 0.01), wanted)
      for kl, wanted in ((0.0151, 6), (0.0149, 3), (0.01, 3), (0.0067, 3), (0.0066, 1.5), (0.0, 1.5), (9.0, 6))),
    # Two columns: -(0.25 * 2 + 0.75 * 4) and -(1 * -1 + 0 * 9), their mean.
    (objectives.weighted_nll, (rows([2, -1], [4, 9]), rows([0.25, 1.0], [0.75, 0.0])), (-3.5 + 1.0) / 2,
     ([[-0.125, -0.5], [-0.375, 0.0]], None)),
    (objectives.normalize_advantage, (vector(5.0, 5.0, 5.0),), [0.0, 0.0, 0.0]),
    (objectives.value_loss, (vector(1.0, 5.0), vector(3.0, 4.0)), 0.5 * (4.0 + 1.0) / 2),
    *((partial(objectives.clipped_value_loss, clip_range=1.0), (vector(value), vector(0.0), vector(target)), half,
       ([slope], ..., [-slope])) for value, target, half, slope in (
        (0.5, 3.0, 2.5**2 / 2, -2.5),  # inside the range
        (-2.0, 3.0, 5.0**2 / 2, -5.0),  # moved past the range away from the target: come back
        (9.0, 3.0, 6.0**2 / 2, 6.0),  # overshot so far that the plain error is the worse one
    )),
    # Moved past the range toward the target, on either side: stop.
    *((partial(objectives.clipped_value_loss, clip_range=1.0), (vector(2.0 * side), vector(0.0), vector(3.0 * side)),
       2.0, ([0.0], [-2.0 * side], [2.0 * side])) for side in (1, -1)),
    # Differences log 3 and 0: the better one wins with chance 3/4 and 1/2.
    (preferences.bradley_terry_loss, (vector(1 + math.log(3), 2), vector(1, 2)), -(math.log(3 / 4) - LOG2) / 2),
    # Far apart, nothing overflows and no gradient is lost.
    (preferences.bradley_terry_loss, (torch.tensor([300.0, -300.0]), torch.zeros(2)), 150.0, ([0, -0.5], [0, 0.5])),
    # At beta 1/2 the implicit rewards differ by log 2, so the chosen one wins 2/3; slope -1/2 of the other third.
    (partial(preferences.dpo_loss, beta=0.5), PAIRS, -math.log(2 / 3), ([-0.5 / 3], [0.5 / 3], None, None)),
    (partial(preferences.dpo_weight, beta=0.5), PAIRS, [0.5 / 3]),
    # The best of two is the first with 1/4, and the rest is shared 2 to 1.
    (preferences.best_of_n_law, (vector(1 / 2, 1 / 3, 1 / 6), vector(0, 1, 1), 2), [1 / 4, 1 / 2, 1 / 4]),
    (preferences.best_of_n_law, (vector(0.5, 0.5, 0, 0), vector(0, 1, 2, -1), 3), [1 / 8, 7 / 8, 0, 0]),
    # What stands behind the end of an answer counts nowhere.
    (sequences.sequence_log_prob, (rows([-1, -2, -3], [-0.5, NAN, -0.25], [-0.125, -math.inf, NAN]), ANSWERS),
     [-1.625, -2.0, -3.25], ([[1, 1, 1], [1, 0, 1], [1, 0, 0]],)),
    *((partial(sequences.sequence_log_ratio, per_token=per_token),
       (rows([0.3, 0.2, -0.4], [0.1, NAN, 0.2], [-0.1, NAN, NAN]), ANSWERS), wanted)
      for per_token, wanted in ((False, [0.3, 0.2, -0.2]), (True, [0.1, 0.2, -0.1]))),
    (sequences.leave_one_out_advantage, (GROUPS, 4), [2 / 3, -2 / 3, -2 / 3, 2 / 3, 1 / 3, 1 / 3, -1, 1 / 3]),
    (partial(sequences.group_advantage, scale=False), (GROUPS, 4),
     [0.5, -0.5, -0.5, 0.5, 0.25, 0.25, -0.75, 0.25]),
    (partial(sequences.group_advantage, scale=True, eps=0.5), (GROUPS[4:], 4), [0.25, 0.25, -0.75, 0.25]),
    (sequences.kl_rewards, (TOKENS, torch.full((3, 3), -2.0).double(), ANSWERS, vector(1.0, 0.5, -1.0), 0.1),
     [[-0.1, 0.5, 0.1], [-0.1, 0.0, -1.1], [0.9, 0.0, 0.0]]),
    # Between 0.8 and 1.4: ratio, advantage, objective, does the gradient live?
    *((partial(sequences.clipped_token_objective, low=0.2, high=0.4), (rows([ratio], [ratio]).log(), vector(gain)),
       [[wanted]] * 2, ([[ratio * gain * alive]] * 2, [2 * wanted / gain])) for ratio, gain, wanted, alive in (
        (1.5, 2.0, 2.8, 0), (1.3, 2.0, 2.6, 1), (1.5, -2.0, -3.0, 1),
        (0.7, -2.0, -1.6, 0), (0.85, -2.0, -1.7, 1), (0.7, 2.0, 1.4, 1),
    )),
    *((partial(sequences.clipped_sequence_objective, low=0.2, high=0.3, per_token=per_token),
       (TEN_PERCENT, ANSWERS, vector(1.0, 2.0, -1.0)), wanted)
      for per_token, wanted in ((False, [1.3, 2.2, -1.21]), (True, [1.1, 2.2, -1.1]))),
    *((sequences.average_tokens, (rows([1, 6, 2], [2, NAN, 4], [3, NAN, NAN]), ANSWERS, average), wanted)
      for average, wanted in (("token", 18 / 6), ("sequence", (2 + 6 + 3) / 3), ("constant", 18 / 9))),
    # Equal advantages divide by no zero.
    (lambda x: sequences.normalize_tokens(x, flags([1, 1], [1, 0]))[:, 0], (rows([1, 1], [1, 7]),), [0.0, 0.0]),
    (statistics.interquartile_mean, (SCORES,), (2 + 3 + 4 + 10) / 4),
    # What lies above counts, and not what lies on the threshold.
    (statistics.performance_profile, (SCORES, vector(-1000, 0, 4, 40)), [1, 7 / 8, 3 / 8, 0]),
    # First task: 2 beats 1 and ties 2; 3 beats both. Second task: neither beats any.
    (statistics.probability_of_improvement, (rows([2, 0], [3, 0]), rows([1, 5], [2, 5])), (3.5 / 4 + 0) / 2),
    # In order .01, .03, .04 are multiplied by 3, 2, 1: .03, .06, .04; and none may be less than one before it.
    (statistics.holm, (vector(0.04, 0.01, 0.03),), [0.06, 0.03, 0.06]),
    # Advantages (3, 4), delta 0.01: no gain exceeds sqrt(0.02 * 12.5) = 1/2, and 4096 epsilons of that are 2^-41.
    *((trust.at_rounding_level, (rows(gain * 2.0**-41)[0], vector(3.0, 4.0), 0.01), wanted) for gain, wanted in
      ((0.999, True), (1.001, False), (0.0, True), (-5.0, True), (NAN, True), (1e30, False))),
    *((trust.at_rounding_level, (torch.tensor(gain * 2.0**-12), torch.tensor([3.0, 4.0]), 0.01), wanted)
      for gain, wanted in ((0.999, True), (1.001, False))),  # float32 rounds at 2^-23
    (trust.at_rounding_level, (rows(0.0)[0], vector(0.0, 0.0), 0.01), True),  # nothing to gain from advantages of zero
]  # fmt: skip


def numbers(found) -> list:
    """What a formula gave, flat."""
    if isinstance(found, list | tuple):
        return [number for part in found for number in numbers(part)]
    return found.double().flatten().tolist() if isinstance(found, torch.Tensor) else [found]


@pytest.mark.parametrize(("function", "arguments", "wanted", "slopes"), [(*row, None)[:4] for row in BY_HAND])
def test_a_formula_by_hand(function, arguments, wanted, slopes):
    leaves = [a.clone().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
              for a in arguments]  # fmt: skip
    found = function(*leaves)
    assert numbers(found) == pytest.approx(numbers(wanted), rel=1e-13, abs=2e-15, nan_ok=True)
    if slopes is not None:
        found.sum().backward()
        for leaf, slope in zip([a for a in leaves if getattr(a, "requires_grad", False)], slopes, strict=True):
            if slope is not ...:
                assert (leaf.grad is None) == (slope is None)
                assert slope is None or numbers(leaf.grad) == pytest.approx(numbers(slope), rel=1e-13, abs=1e-15)
