"""What TRL computed on given numbers, beside the formulas here: equal where they mean the same, else by what is named.

`peers_trl.json` holds what `run_trl.py` put into TRL's trainers and what came out. TRL keeps answers in rows, [B, L].
"""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from book.results.peers.bench import ROOT
from minerva_lite.formulas.preferences import dpo_loss
from minerva_lite.formulas.sequences import (
    average_tokens,
    clipped_sequence_objective,
    clipped_token_objective,
    group_advantage,
    kl_loss_terms,
    kl_rewards,
    leave_one_out_advantage,
    sequence_log_prob,
    sequence_log_ratio,
)

TOLD = json.loads((ROOT / "book/results/peers_trl.json").read_text("utf8"))
GROUP = TOLD["group"]


def numbers(entries) -> Tensor:
    """JSON has every digit of a float64."""
    return torch.tensor(entries, dtype=torch.float64)


OLD, NEW, REFERENCE = (numbers(TOLD["inputs"][name]).T for name in ("old", "new", "reference"))
MASK = torch.tensor(TOLD["inputs"]["mask"]).T.bool()
REWARD = numbers(TOLD["inputs"]["reward"])
LENGTH, COUNT = MASK.shape
AVERAGE = {"grpo": "sequence", "bnpo": "token", "dapo": "token", "dr_grpo": "constant"}
CLIP = {"low": 0.2, "high": 0.2}


def case(kind: str, **options):
    """What TRL told with these options and no others."""
    (found,) = (each for each in TOLD["cases"] if (each["kind"], each["options"]) == (kind, options))
    return found


def advantage_of(told) -> Tensor:
    return numbers(told["advantage"])


def same(told, loss: Tensor, new: Tensor) -> None:
    """Loss and gradient are TRL's, to the precision of float64."""
    loss.backward()
    assert loss.item() == pytest.approx(told["loss"], rel=1e-12)
    assert torch.allclose(new.grad.T, numbers(told["gradient"]), rtol=1e-12, atol=1e-16)


def learner() -> Tensor:
    return NEW.clone().requires_grad_()


def clip_of(options) -> dict[str, float]:
    return {"low": options.get("epsilon", 0.2), "high": options.get("epsilon_high") or options.get("epsilon", 0.2)}


def test_the_numbers_tell_all_options_apart():
    """Both bounds bind, answers differ in length, one group is equal, and what stands behind an end is not 0."""
    ratio = (NEW - OLD).exp()[MASK]
    assert (ratio < 0.8).any() and (ratio > 1.28).any() and ((ratio > 1.2) & (ratio < 1.28)).any()
    assert MASK.sum(0).unique().tolist() == [1, 2, 3, 4, 5]
    assert (REWARD.view(-1, GROUP).std(1) == 0).tolist() == [False, True, False]
    assert (NEW[~MASK] != 0).all() and (OLD[~MASK] != NEW[~MASK]).all()


# Advantages. TRL's are float32, because its rewards are.


def test_the_advantage_of_grpo_is_trls_with_the_sample_spread_and_the_same_eps():
    told = advantage_of(case("grpo", loss_type="dapo", beta=0.1))
    assert torch.allclose(group_advantage(REWARD, GROUP, scale=True), told, rtol=1e-6, atol=1e-7)
    told = advantage_of(case("grpo", loss_type="dapo", scale_rewards="none"))
    assert torch.allclose(group_advantage(REWARD, GROUP, scale=False), told, rtol=1e-6, atol=1e-7)


def test_trls_spread_of_the_batch_is_that_of_the_rewards_and_not_of_what_is_divided():
    told = advantage_of(case("grpo", loss_type="dapo", scale_rewards="batch"))
    centered = group_advantage(REWARD, GROUP, scale=False)
    assert torch.allclose(centered / (REWARD.std() + 1e-4), told, rtol=1e-6, atol=1e-7)
    assert not torch.allclose(centered / (centered.std() + 1e-4), told, rtol=1e-2)


@pytest.mark.parametrize("beta", [0.0, 0.05])
def test_the_advantage_of_rloo_is_trls_with_the_price_in_the_reward(beta):
    told = advantage_of(case("rloo", beta=beta))
    whole = kl_rewards(OLD, REFERENCE, MASK, REWARD, beta).sum(0)
    assert torch.allclose(leave_one_out_advantage(whole, GROUP), told, rtol=1e-6, atol=1e-7)


def test_trl_can_normalize_rloos_advantages_over_the_batch_and_we_do_not():
    told = advantage_of(case("rloo", beta=0.05, normalize_advantages=True))
    ours = leave_one_out_advantage(kl_rewards(OLD, REFERENCE, MASK, REWARD, 0.05).sum(0), GROUP)
    assert torch.allclose((ours - ours.mean()) / (ours.std() + 1e-4), told, rtol=1e-6, atol=1e-7)


# Losses and their gradients, from TRL's advantages.


@pytest.mark.parametrize("options", [{}, {"beta": 0.1, "use_bias_correction_kl": False}], ids=["no price", "k3"])
@pytest.mark.parametrize("loss_type", AVERAGE)
def test_each_loss_type_of_grpo_is_one_way_to_average(loss_type, options):
    told, new = case("grpo", loss_type=loss_type, **options), learner()
    gain = clipped_token_objective(new - OLD, advantage_of(told), **CLIP)
    _, _, k3 = kl_loss_terms(new, REFERENCE)
    same(told, average_tokens(options.get("beta", 0.0) * k3 - gain, MASK, AVERAGE[loss_type]), new)


def test_trls_default_multiplies_k3_by_the_ratio_and_ours_does_not():
    told, new = case("grpo", loss_type="dapo", beta=0.1), learner()
    gain = clipped_token_objective(new - OLD, advantage_of(told), **CLIP)
    _, _, k3 = kl_loss_terms(new, REFERENCE)
    assert told["loss"] != pytest.approx(average_tokens(0.1 * k3 - gain, MASK, "token").item(), rel=1e-3)
    same(told, average_tokens(0.1 * (new - OLD).exp() * k3 - gain, MASK, "token"), new)


def test_at_the_first_step_the_gradient_of_trls_default_is_that_of_k2():
    """So it pulls to the reference by KL(pi || pi_ref), as k2 does, while its value is k3's."""
    told, new = case("grpo", loss_type="dapo", beta=0.1, num_iterations=1), learner()
    gain = clipped_token_objective(new - new.detach(), advantage_of(told), **CLIP)
    _, k2, k3 = kl_loss_terms(new, REFERENCE)
    value = average_tokens(0.1 * k3.detach() - gain.detach(), MASK, "token")
    descended = average_tokens(0.1 * k2 - gain, MASK, "token")
    same(told, value + descended - descended.detach(), new)


def test_the_asymmetric_clip_is_trls():
    told, new = case("grpo", loss_type="dapo", epsilon=0.2, epsilon_high=0.28), learner()
    gain = clipped_token_objective(new - OLD, advantage_of(told), **clip_of(told["options"]))
    same(told, -average_tokens(gain, MASK, "token"), new)


def test_with_one_iteration_trl_takes_the_learning_policy_for_the_one_that_answered():
    told, new = case("grpo", loss_type="dapo", num_iterations=1), learner()
    gain = clipped_token_objective(new - new.detach(), advantage_of(told), **CLIP)
    same(told, -average_tokens(gain, MASK, "token"), new)


def test_trls_constant_is_the_most_tokens_allowed_and_ours_the_number_of_rows():
    """They are the same where answers have as many rows as they may have tokens, which is so in the agent."""
    told, new = case("grpo", loss_type="dr_grpo", max_completion_length=2 * LENGTH), learner()
    gain = clipped_token_objective(new - OLD, advantage_of(told), **CLIP)
    same(told, -average_tokens(gain, MASK, "constant") / 2, new)
    new = learner()
    gain = clipped_token_objective(new - OLD, advantage_of(told), **CLIP)
    room = torch.zeros_like(gain)
    same(told, -average_tokens(torch.cat([gain, room]), torch.cat([MASK, room.bool()]), "constant"), new)


@pytest.mark.parametrize("loss_type", AVERAGE)
def test_of_accumulated_batches_trl_takes_the_mean_but_dapo_counts_the_tokens_of_all(loss_type):
    told, new = case("grpo", loss_type=loss_type, gradient_accumulation_steps=2), learner()
    gain = clipped_token_objective(new - OLD, advantage_of(told), **CLIP)
    half = COUNT // 2
    parts = [
        average_tokens(gain[:, rows], MASK[:, rows], AVERAGE[loss_type]) for rows in (slice(half), slice(half, None))
    ]
    together, mean = average_tokens(gain, MASK, AVERAGE[loss_type]), (parts[0] + parts[1]) / 2
    assert torch.isclose(together, mean) == (loss_type in ("grpo", "dr_grpo"))
    same(told, -mean if loss_type == "bnpo" else -together, new)


@pytest.mark.parametrize("options", [
    {},
    {"beta": 0.1, "use_bias_correction_kl": False, "epsilon": 0.2, "epsilon_high": 0.28},
], ids=["plain", "all"])  # fmt: skip
def test_trls_ratio_of_the_answer_is_gspos_with_the_loss_type_grpo(options):
    told, new = case("grpo", loss_type="grpo", importance_sampling_level="sequence", **options), learner()
    gain = clipped_sequence_objective(new - OLD, MASK, advantage_of(told), **clip_of(options), per_token=True)
    _, _, k3 = kl_loss_terms(new, REFERENCE)
    same(told, options.get("beta", 0.0) * average_tokens(k3, MASK, "sequence") - gain.mean(), new)


def test_with_trls_default_loss_type_the_ratio_of_the_answer_counts_long_answers_more():
    told, new = case("grpo", loss_type="dapo", importance_sampling_level="sequence"), learner()
    gain = clipped_sequence_objective(new - OLD, MASK, advantage_of(told), **CLIP, per_token=True)
    length = MASK.sum(0)
    assert told["loss"] != pytest.approx(-gain.mean().item(), rel=0.05), "ours is the mean over answers"
    same(told, -(gain * length).sum() / length.sum(), new)


@pytest.mark.parametrize("options", [
    {"beta": 0.0},
    {"beta": 0.05},
    {"beta": 0.05, "epsilon": 0.2, "epsilon_high": 0.28},
], ids=["no price", "price", "asymmetric"])  # fmt: skip
def test_the_loss_of_rloo_is_ours_with_the_ratio_of_the_whole_answer(options):
    told, new = case("rloo", **options), learner()
    gain = clipped_sequence_objective(new - OLD, MASK, advantage_of(told), **clip_of(options), per_token=False)
    same(told, -gain.mean(), new)


def test_our_default_for_rloo_clips_tokens_and_divides_by_their_number_too():
    """At the first step, where all ratios are 1, its gradient is L times smaller; later the ratios differ as well."""
    advantage = advantage_of(case("rloo", beta=0.0))
    whole, tokens = OLD.clone().requires_grad_(), OLD.clone().requires_grad_()
    clipped_sequence_objective(whole - OLD, MASK, advantage, **CLIP, per_token=False).mean().backward()
    average_tokens(clipped_token_objective(tokens - OLD, advantage, **CLIP), MASK, "constant").backward()
    assert torch.allclose(whole.grad, LENGTH * tokens.grad, rtol=1e-12)
    assert (sequence_log_ratio(NEW - OLD, MASK, per_token=False).abs() > (NEW - OLD).abs().amax(0)).any()


@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_the_loss_of_dpo_is_trls(beta):
    told, new = case("dpo", beta=beta), learner()
    chosen, rejected = sequence_log_prob(new, MASK).chunk(2)
    reference_chosen, reference_rejected = sequence_log_prob(REFERENCE, MASK).chunk(2)
    same(told, dpo_loss(chosen, rejected, reference_chosen, reference_rejected, beta), new)


def log_ratios(new: Tensor, *, per_token: bool = False) -> list[Tensor]:
    """Of preferred and rejected answers, [N] each: the sum over their tokens, or its mean."""
    return list(((new - REFERENCE) * MASK).sum(0).div(MASK.sum(0) if per_token else 1).chunk(2))


def test_trls_ipo_averages_log_ratios_over_tokens():
    told, new = case("dpo", beta=0.1, loss_type=["ipo"]), learner()
    chosen, rejected = log_ratios(new, per_token=True)
    same(told, (chosen - rejected - 1 / (2 * 0.1)).square().mean(), new)


def test_trls_label_smoothing_changes_nothing_without_the_loss_type_robust():
    told = [case("dpo", beta=0.1, **more) for more in ({}, {"label_smoothing": 0.2})]
    assert told[0]["loss"] == told[1]["loss"] and told[0]["gradient"] == told[1]["gradient"]


def test_trls_robust_loss_takes_the_turned_labels_off():
    """Its mean over labels that are turned with the chance 0.2 is the loss of the true ones; it is no smoothing."""
    told, new = case("dpo", beta=0.1, loss_type=["robust"], label_smoothing=0.2), learner()
    chosen, rejected = log_ratios(new)
    as_told, turned = (-logsigmoid(sign * 0.1 * (chosen - rejected)) for sign in (1, -1))
    true = 0.8 * (0.8 * as_told - 0.2 * turned) / 0.6 + 0.2 * (0.8 * turned - 0.2 * as_told) / 0.6
    assert torch.allclose(true, as_told)
    same(told, ((0.8 * as_told - 0.2 * turned) / 0.6).mean(), new)


def test_trls_likelihood_of_the_preferred_is_a_mean_over_tokens():
    told, new = case("dpo", beta=0.1, loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.1]), learner()
    chosen, rejected = log_ratios(new)
    preferred = MASK[:, : COUNT // 2]
    likelihood = -(new[:, : COUNT // 2] * preferred).sum() / preferred.sum()
    same(told, -logsigmoid(0.1 * (chosen - rejected)).mean() + 0.1 * likelihood, new)


def test_what_is_compared_was_computed_by_the_pinned_versions():
    pins = (ROOT / "book/results/peers/requirements_trl.txt").read_text("utf8").split()
    for name in ("torch", "numpy", "trl", "transformers"):
        assert f"{name}=={TOLD['versions'][name].split('+')[0]}" in pins
