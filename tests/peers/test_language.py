"""Can the race on language models be believed? Its arithmetic, its table, and that both sides get the same."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
import torch

from book.results.peers import measure, speed_sequence
from book.results.peers.language import BASE, COLUMNS, ratios, runs_of, save_base_for_trl, summary
from book.results.peers.language_task import ADAM_EPS, GROUP, LEARNING_RATE, LENGTH, PROMPTS, TOKENS, Watch
from minerva_lite.language.base_model import load_base
from minerva_lite.language.tokens import TASKS


def rows_of(right, *, runner="torch", seed=0, pace=1.0):
    """Updates that are `pace` seconds apart, with the share of right answers of each."""
    points = [(i, pace * i, 0.8 * pace * i, share) for i, share in enumerate(right, start=1)]
    return [dict(zip(COLUMNS, ("grpo", runner, seed, *point), strict=True)) for point in points]


@pytest.mark.parametrize(("right", "updates"), [
    ([0.5] * 10 + [0.9] * 10, 20),  # the mean of ten, and not a single update
    ([0.5] * 10 + [1.0] * 10, 18),
    ([0.9] * 10, 10),
    ([1.0] * 9, inf),  # too few to say
    ([0.8] * 30, inf),
])  # fmt: skip
def test_the_target_is_reached_by_the_mean_of_ten_updates(right, updates):
    (run,) = runs_of(rows_of(right, pace=0.5))
    assert (run.solve_updates, run.solve_seconds) == (updates, updates / 2)
    assert run.update_seconds == 0.5 and run.tokens_per_second == TOKENS / 0.5
    assert run.final == pytest.approx(sum(right[-10:]) / len(right[-10:])) and run.wall_over_cpu == 1.25


def test_seconds_are_compared_seed_by_seed():
    slow, fast = [0.5] * 10 + [1.0] * 10, [1.0] * 20
    rows = rows_of(slow, runner="trl", pace=4.0) + rows_of(fast, runner="trl", seed=1, pace=6.0)
    rows += rows_of(slow, pace=1.0) + rows_of(slow, seed=1, pace=1.0) + rows_of(fast, seed=2, pace=0.1)
    # Updates: 4 and 6. To the target: 72 / 18 = 4 and 60 / 18; the third seed has nobody to race.
    assert ratios(runs_of(rows), "grpo") == pytest.approx((5.0, (4 + 60 / 18) / 2))
    never = rows_of([0.0] * 20, runner="trl") + rows_of([0.0] * 20)
    assert ratios(runs_of(never), "grpo") == (1.0, 0.0)


def test_the_summary_shows_medians_the_worst_seed_and_the_ratios():
    rows = [row for seed, pace in enumerate((0.25, 0.5, 1.0)) for row in rows_of([1.0] * 20, seed=seed, pace=pace)]
    rows += rows_of([1.0] * 20, runner="trl", pace=2.0)
    head, trl, ours, told = summary(runs_of(rows)).splitlines()
    assert head.startswith(f"{'':12}ms per update  tokens/s")
    assert trl.split() == ["grpo", "trl", "2000.0", "768", "20.00", "(20.00)", "10", "(10)", "1.000", "1.25"]
    assert ours.split() == ["grpo", "torch", "500.0", "3072", "5.00", "(10.00)", "10", "(10)", "1.000", "1.25"]
    assert told == "grpo: TRL's seconds over ours, paired: 8.00 per update, 8.00 to 0.9"


@pytest.fixture
def hour(monkeypatch):
    """What the clock shows: seconds, and half as many CPU seconds."""
    hour = {"now": 0.0}
    monkeypatch.setattr(measure.Clock, "now", staticmethod(lambda: (hour["now"], hour["now"] / 2)))
    return hour


@pytest.mark.parametrize("algorithm", ["grpo", "rloo"])
def test_our_side_trains_from_the_base_model_and_counts_what_trl_counts(algorithm, hour, monkeypatch):
    made = speed_sequence.SequenceAgent.start_from

    def slow_building(agent, base):
        hour["now"] += 1000.0
        made(agent, base)

    monkeypatch.setattr(speed_sequence.SequenceAgent, "start_from", slow_building)
    watch = speed_sequence.run(algorithm, 0, 2, BASE)
    assert [row[:3] for row in watch.rows] == [(1, 0.0, 0.0), (2, 0.0, 0.0)], "building is off the clock"
    # Of an untrained model's answers one in a million would be right, of the base model's some 40 %.
    assert all(0.05 < row[3] < 0.95 and (row[3] * PROMPTS * GROUP).is_integer() for row in watch.rows)
    config, sort = speed_sequence.config_of(algorithm), TASKS[speed_sequence.ENV]
    assert config.batch_size * sort.answer_length == TOKENS and sort.prompt_length == LENGTH
    assert (config.epochs, config.clip_low, config.clip_high, config.kl) == (1, 0.2, 0.2, "none")
    assert config.objective == {"grpo": "token", "rloo": "sequence"}[algorithm]


def test_the_watch_begins_with_the_training(hour):
    watch = Watch()
    hour["now"] = 10.0
    watch.start()
    for right in (0.25, 0.5):
        hour["now"] += 2.0
        watch.update_is_over(right)
    assert watch.rows == [(1, 2.0, 1.0, 0.25), (2, 4.0, 2.0, 0.5)]


def test_trl_gets_the_base_model_whose_last_normalization_can_take_over_the_bias_of_the_head(tmp_path):
    save_base_for_trl(tmp_path / "base.npz")
    told, base = dict(np.load(tmp_path / "base.npz")), load_base(BASE)
    assert set(told) == {*base.state_dict(), "prompt", "answer", "log_prob"}
    assert told["prompt"].shape == told["answer"].shape == told["log_prob"].shape == (64, LENGTH)
    assert (np.sort(told["prompt"], 1) == told["answer"]).all()
    with torch.no_grad():
        base.norm.bias += torch.linalg.pinv(base.head.weight) @ base.head.bias
        base.head.bias.zero_()
        prompt, answer = (torch.from_numpy(told[name]).T for name in ("prompt", "answer"))
        log_prob = base.log_prob(prompt, answer).T.numpy()
    assert np.abs(log_prob - told["log_prob"]).max() < 1e-5


def test_both_sides_have_the_same_adam():
    agent = speed_sequence.SequenceAgent(
        speed_sequence.config_of("grpo"), TASKS[speed_sequence.ENV].spec, seed=0, device="cpu"
    )
    defaults = agent.optimizer.defaults
    assert (defaults["lr"], defaults["eps"], defaults["betas"]) == (LEARNING_RATE, ADAM_EPS, (0.9, 0.999))
    assert defaults["weight_decay"] == 0
