"""What TRL computed on given numbers, beside the formulas here: equal where they mean the same, else by what is named.

`peers_trl.json` holds what `run_trl.py` put into TRL's trainers and what came out. TRL keeps answers in rows, [B, L].
"""

from __future__ import annotations

import json
from functools import partial

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


def case(kind: str, **options):
    """What TRL told with these options and no others."""
    (found,) = (each for each in TOLD["cases"] if (each["kind"], each["options"]) == (kind, options))
    return found


def named(rows):
    """The rows of a table, each under its first word."""
    return [pytest.param(*row, id=name) for name, *row in rows]


def priced(beta: float) -> Tensor:
    """The advantages of RLOO with the price of the divergence in the reward, [B]."""
    return leave_one_out_advantage(kl_rewards(OLD, REFERENCE, MASK, REWARD, beta).sum(0), GROUP)


CENTERED, PRICED = group_advantage(REWARD, GROUP, scale=False), priced(0.05)
NORMALIZED = (PRICED - PRICED.mean()) / (PRICED.std() + 1e-4)  # over the batch, which TRL can do and we do not
ADVANTAGES = [
    ("sample spread, same eps", "grpo", {"beta": 0.1}, group_advantage(REWARD, GROUP, scale=True)),
    ("no spread", "grpo", {"scale_rewards": "none"}, CENTERED),
    # The spread of the batch is that of the rewards, not of what is divided.
    ("spread of the batch", "grpo", {"scale_rewards": "batch"}, CENTERED / (REWARD.std() + 1e-4)),
    ("no price", "rloo", {"beta": 0.0}, priced(0.0)),
    ("price", "rloo", {"beta": 0.05}, PRICED),
    ("normalized", "rloo", {"beta": 0.05, "normalize_advantages": True}, NORMALIZED),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "ours"), named(ADVANTAGES))
def test_advantages_are_trls(kind, options, ours):
    """TRL's are float32, because its rewards are."""
    told = case(kind, **{"loss_type": "dapo"} | options if kind == "grpo" else options)
    assert torch.allclose(ours, numbers(told["advantage"]), rtol=1e-6, atol=1e-7)


def tokens(new: Tensor, advantage: Tensor, *, old: Tensor = OLD, high: float = 0.2) -> Tensor:
    """The clipped gain of every token, [L, B]."""
    return clipped_token_objective(new - old, advantage, low=0.2, high=high)


def answers(new: Tensor, advantage: Tensor, *, whole: bool = False, high: float = 0.2) -> Tensor:
    """The clipped gain of every answer by one ratio, [B]: the mean over tokens in the exponent, or their sum."""
    return clipped_sequence_objective(new - OLD, MASK, advantage, low=0.2, high=high, per_token=not whole)


def averaged(loss_type: str, gain: Tensor, mask: Tensor = MASK) -> Tensor:
    """The loss by the average over tokens that a loss type of GRPO stands for."""
    return -average_tokens(gain, mask, AVERAGE[loss_type])


def k3(new: Tensor) -> Tensor:
    return kl_loss_terms(new, REFERENCE)[2]


def k3_times_ratio(new: Tensor, advantage: Tensor) -> Tensor:
    return averaged("dapo", tokens(new, advantage) - 0.1 * (new - OLD).exp() * k3(new))


def as_k2_at_the_first_step(new: Tensor, advantage: Tensor) -> Tensor:
    """So it pulls to the reference by KL(pi || pi_ref), as k2 does, while its value is k3's."""
    gain = tokens(new, advantage, old=new.detach())
    descended = averaged("dapo", gain - 0.1 * kl_loss_terms(new, REFERENCE)[1])
    return averaged("dapo", (gain - 0.1 * k3(new)).detach()) + descended - descended.detach()


def gspo_with_k3(new: Tensor, advantage: Tensor) -> Tensor:
    return averaged("grpo", -0.1 * k3(new)) - answers(new, advantage, high=0.28).mean()


def in_two_batches(loss_type: str, new: Tensor, advantage: Tensor) -> Tensor:
    """Of accumulated batches TRL takes the mean, but DAPO counts the tokens of all."""
    gain, half = tokens(new, advantage), COUNT // 2
    first, second = (averaged(loss_type, gain[:, rows], MASK[:, rows]) for rows in (slice(half), slice(half, None)))
    together, mean = averaged(loss_type, gain), (first + second) / 2
    assert torch.isclose(together, mean) == (loss_type in ("grpo", "dr_grpo"))
    return mean if loss_type == "bnpo" else together


def with_room(new: Tensor, advantage: Tensor) -> Tensor:
    """TRL's constant is the most tokens allowed, ours the number of rows: the same where answers have as many."""
    gain, room = tokens(new, advantage), torch.zeros_like(OLD)
    return averaged("dr_grpo", torch.cat([gain, room]), torch.cat([MASK, room.bool()]))


def log_ratios(new: Tensor, *, per_token: bool = False) -> list[Tensor]:
    """Of preferred and rejected answers, [N] each: the sum over their tokens, or its mean."""
    return list(((new - REFERENCE) * MASK).sum(0).div(MASK.sum(0) if per_token else 1).chunk(2))


def rloo(new: Tensor, advantage: Tensor, high: float = 0.2) -> Tensor:
    return -answers(new, advantage, whole=True, high=high).mean()


def dpo(new: Tensor, advantage: None, beta: float = 0.1) -> Tensor:
    return dpo_loss(*sequence_log_prob(new, MASK).chunk(2), *sequence_log_prob(REFERENCE, MASK).chunk(2), beta)


def robust(new: Tensor, advantage: None) -> Tensor:
    """Its mean over labels that are turned with the chance 0.2 is the loss of the true ones; it is no smoothing."""
    chosen, rejected = log_ratios(new)
    as_told, turned = (-logsigmoid(sign * 0.1 * (chosen - rejected)) for sign in (1, -1))
    return ((0.8 * as_told - 0.2 * turned) / 0.6).mean()


def ipo(new: Tensor, advantage: None) -> Tensor:
    chosen, rejected = log_ratios(new, per_token=True)
    return (chosen - rejected - 1 / (2 * 0.1)).square().mean()


def dpo_and_likelihood(new: Tensor, advantage: None) -> Tensor:
    """That of the preferred answers is a mean over their tokens."""
    preferred = MASK[:, : COUNT // 2]
    return dpo(new, advantage) - 0.1 * (new[:, : COUNT // 2] * preferred).sum() / preferred.sum()


def grpo(name: str, ours, loss_type: str = "dapo", **options):
    return name, "grpo", {"loss_type": loss_type} | options, ours


def in_every_way(name: str, ours, **options):
    """`ours` takes a loss type besides."""
    return [grpo(f"{name} by {way}", partial(ours, way), way, **options) for way in AVERAGE]


ASYMMETRIC, K3 = {"epsilon": 0.2, "epsilon_high": 0.28}, {"beta": 0.1, "use_bias_correction_kl": False}
ANSWER = {"importance_sampling_level": "sequence"}
TWICE = {"loss_type": "dr_grpo", "max_completion_length": 2 * LENGTH}
SFT = {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.1]}
LOSSES = [  # a name, TRL's trainer, its options, and our loss of the learner's log-probabilities and TRL's advantages
    *in_every_way("average", lambda way, new, a: averaged(way, tokens(new, a))),
    *in_every_way("k3", lambda way, new, a: averaged(way, tokens(new, a) - 0.1 * k3(new)), **K3),
    *in_every_way("two batches", in_two_batches, gradient_accumulation_steps=2),
    grpo("k3 times ratio", k3_times_ratio, beta=0.1),
    grpo("default at the first step", as_k2_at_the_first_step, beta=0.1, num_iterations=1),
    grpo("asymmetric", lambda new, a: averaged("dapo", tokens(new, a, high=0.28)), **ASYMMETRIC),
    # With one iteration TRL takes the learning policy for the one that answered.
    grpo("one iteration", lambda new, a: averaged("dapo", tokens(new, a, old=new.detach())), num_iterations=1),
    grpo("constant of twice as many", lambda new, a: averaged("dr_grpo", tokens(new, a)) / 2, **TWICE),
    grpo("constant with rows for them", with_room, **TWICE),
    grpo("GSPO", lambda new, a: -answers(new, a).mean(), "grpo", **ANSWER),
    grpo("GSPO, k3, asymmetric", gspo_with_k3, "grpo", **ANSWER | K3 | ASYMMETRIC),
    # With the default loss type the ratio of the answer counts long answers more.
    grpo("GSPO by tokens", lambda new, a: -(answers(new, a) * MASK.sum(0)).sum() / MASK.sum(), **ANSWER),
    # RLOO has the ratio of the whole answer.
    ("RLOO", "rloo", {"beta": 0.0}, rloo),
    ("RLOO with a price", "rloo", {"beta": 0.05}, rloo),
    ("RLOO, asymmetric", "rloo", {"beta": 0.05} | ASYMMETRIC, partial(rloo, high=0.28)),
    ("DPO", "dpo", {"beta": 0.1}, dpo),
    ("DPO at another price", "dpo", {"beta": 0.5}, partial(dpo, beta=0.5)),
    ("smoothing alone changes nothing", "dpo", {"beta": 0.1, "label_smoothing": 0.2}, dpo),
    ("robust", "dpo", {"beta": 0.1, "loss_type": ["robust"], "label_smoothing": 0.2}, robust),
    ("likelihood", "dpo", {"beta": 0.1} | SFT, dpo_and_likelihood),
    ("IPO averages over tokens", "dpo", {"beta": 0.1, "loss_type": ["ipo"]}, ipo),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "ours"), named(LOSSES))
def test_losses_and_their_gradients_are_trls(kind, options, ours):
    """To the precision of float64, from TRL's advantages."""
    told, new = case(kind, **options), NEW.clone().requires_grad_()
    loss = ours(new, numbers(told["advantage"]) if "advantage" in told else None)
    loss.backward()
    assert loss.item() == pytest.approx(told["loss"], rel=1e-12)
    assert torch.allclose(new.grad.T, numbers(told["gradient"]), rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize(("options", "ours"), named([
    ("k3 without the ratio", {"beta": 0.1}, lambda advantage: averaged("dapo", tokens(NEW, advantage) - 0.1 * k3(NEW))),
    ("mean over answers", ANSWER, lambda advantage: -answers(NEW, advantage).mean()),
]))  # fmt: skip
def test_trls_defaults_are_not_ours(options, ours):
    told = case("grpo", loss_type="dapo", **options)
    assert told["loss"] != pytest.approx(ours(numbers(told["advantage"])).item(), rel=1e-3)


def test_our_default_for_rloo_clips_tokens_and_divides_by_their_number_too():
    """At the first step, where all ratios are 1, its gradient is L times smaller; later the ratios differ as well."""
    advantage = numbers(case("rloo", beta=0.0)["advantage"])
    whole, apart = OLD.clone().requires_grad_(), OLD.clone().requires_grad_()
    answers(whole, advantage, whole=True).mean().backward()
    average_tokens(tokens(apart, advantage), MASK, "constant").backward()
    assert torch.allclose(whole.grad, LENGTH * apart.grad, rtol=1e-12)
    assert (sequence_log_ratio(NEW - OLD, MASK, per_token=False).abs() > (NEW - OLD).abs().amax(0)).any()


def test_what_is_compared_was_computed_by_the_pinned_versions():
    pins = (ROOT / "book/results/peers/requirements_trl.txt").read_text("utf8").split()
    for name in ("torch", "numpy", "trl", "transformers"):
        assert f"{name}=={TOLD['versions'][name].split('+')[0]}" in pins
