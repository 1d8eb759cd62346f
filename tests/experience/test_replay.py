"""The replay: a ring by hand, sequences that were lived as they stand, uniform draws, a state that is complete."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import time

import pytest
import scipy.stats
import torch

from minerva_lite.experience.replay import FIELDS, SequenceReplay
from minerva_lite.experience.rollout import Rollout
from tests.living import live, make_agent, through_a_file

ENVS = 3


def lived(start: int, steps: int, envs: int = ENVS, **changes) -> Rollout:
    """Steps that know where they belong: obs (env, step), the reward step, the successor's step one later.

    The episode of environment b terminates at every fifth step of its own count, and is truncated at every seventh.
    """
    step = torch.arange(start, start + steps).unsqueeze(1).expand(steps, envs)
    env = torch.arange(envs).expand(steps, envs)
    ended = {"terminated": (step + env) % 5 == 4, "truncated": (step + env) % 7 == 6}
    over = ended["terminated"] | ended["truncated"]
    fields = {
        "obs": torch.stack([env, step], -1).float(),
        "action": 1000.0 * env.unsqueeze(-1) + step.unsqueeze(-1),
        "behavior_log_prob": -step.float(),
        "behavior_params": (),
        "reward": step.float(),
        # The true successor of a last step is no later row: half a step further, so that a mix-up shows.
        "next_obs": torch.stack([env, step + torch.where(over, 0.5, 1.0)], -1).float(),
    }
    return Rollout(**fields | ended | changes)


def filled(capacity: int, total: int, chunk: int) -> SequenceReplay:
    replay = SequenceReplay(capacity)
    for start in range(0, total, chunk):
        replay.insert(lived(start, min(chunk, total - start)))
    return replay


def held(replay: SequenceReplay) -> list[int]:
    """The steps of environment 0, oldest first."""
    return replay.state_dict()["columns"]["reward"][:, 0].int().tolist()


def test_the_ring_by_hand():
    replay = SequenceReplay(5)
    assert replay.size == replay.num_steps == 0
    replay.insert(lived(0, 3))
    assert (replay.size, replay.position, replay.num_steps, held(replay)) == (3, 3, 9, [0, 1, 2])
    replay.insert(lived(3, 3))  # over the end of the ring
    assert (replay.size, replay.position, replay.num_steps, held(replay)) == (5, 1, 15, [1, 2, 3, 4, 5])
    assert replay.columns["reward"][:, 0].tolist() == [5, 1, 2, 3, 4]
    replay.insert(lived(6, 5))  # the whole ring at once
    assert held(replay) == [6, 7, 8, 9, 10] and replay.size == 5


def test_what_was_withdrawn_is_held_no_more_and_what_it_replaced_neither():
    replay = SequenceReplay(5)
    replay.insert(lived(0, 2))
    replay.withdraw(2)
    assert (replay.size, replay.position, held(replay)) == (0, 0, [])
    replay.insert(lived(0, 3))
    replay.insert(lived(3, 4))  # over 0 and 1
    replay.withdraw(4)
    assert (replay.size, replay.position, held(replay)) == (1, 3, [2])
    replay.insert(lived(7, 4))
    assert held(replay) == [2, 7, 8, 9, 10]


@pytest.mark.parametrize("capacity", [7, 12, 40])
@pytest.mark.parametrize("chunk", [1, 4, 7])
def test_the_ring_holds_the_last_steps(capacity, chunk):
    replay = filled(capacity, 31, chunk)
    assert held(replay) == list(range(max(0, 31 - capacity), 31))


@pytest.mark.parametrize("length", [1, 2, 4, 7])
@pytest.mark.parametrize(("capacity", "total"), [(7, 7), (7, 31), (12, 31), (40, 31)])
def test_a_sequence_is_one_environments_steps_in_the_order_lived(capacity, total, length):
    """No run crosses the place where new steps overwrite old ones; every column stays with its row."""
    batch = filled(capacity, total, 4 if total > 7 else 7).sample(500, length, torch.Generator().manual_seed(0))
    assert batch.reward.shape == (length, 500) and batch.behavior_params == () and batch.restart_weight is None
    env, step = batch.obs.unbind(-1)
    assert (env == env[0]).all() and (step[1:] - step[:-1] == 1).all()
    assert step.min() >= max(0, total - capacity) and step.max() <= total - 1
    again = {int(s): lived(int(s), 1) for s in step.unique()}
    for name in FIELDS:
        column = getattr(batch, name)
        for t in range(length):
            for i in range(0, 500, 25):
                wanted = getattr(again[int(step[t, i])], name)[0, int(env[t, i])]
                assert torch.equal(column[t, i], wanted), name


def test_a_sample_keeps_terminated_apart_from_truncated_and_true_successors():
    batch = filled(40, 31, 4).sample(400, 3, torch.Generator().manual_seed(0))
    env, step = (x.long() for x in batch.obs.unbind(-1))
    assert torch.equal(batch.terminated, (step + env) % 5 == 4)
    assert torch.equal(batch.truncated, (step + env) % 7 == 6)
    assert (batch.terminated & ~batch.truncated).any() and (batch.truncated & ~batch.terminated).any()
    over = batch.terminated | batch.truncated
    assert torch.equal(batch.next_obs[..., 1] - step, torch.where(over, 0.5, 1.0))
    inside = ~over[:-1]
    assert torch.equal(batch.next_obs[:-1][inside], batch.obs[1:][inside])


@pytest.mark.parametrize(("capacity", "total", "length"), [(12, 31, 1), (12, 31, 4), (40, 31, 5), (12, 12, 12)])
def test_draws_are_uniform_over_all_runs(capacity, total, length):
    """A chi-square test over every start and environment; the newest and the oldest run come as often as others."""
    replay = filled(capacity, total, 4)
    batch = replay.sample(30_000, length, torch.Generator().manual_seed(0))
    size = min(capacity, total)
    first = batch.obs[0, :, 1].long() - (total - size)
    starts = size - length + 1
    counts = torch.bincount(first * ENVS + batch.obs[0, :, 0].long(), minlength=starts * ENVS)
    assert len(counts) == starts * ENVS and (counts > 0).all()
    assert scipy.stats.chisquare(counts.numpy()).pvalue > 0.001


def test_draws_come_from_the_generator_alone():
    replay = filled(12, 31, 4)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, two, other = (replay.sample(20, 3, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one.obs, two.obs) and not torch.equal(one.obs, other.obs)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_sample_is_a_copy():
    replay = filled(12, 12, 4)
    batch = replay.sample(20, 3)
    kept = batch.obs.clone()
    replay.insert(lived(100, 12))
    assert torch.equal(batch.obs, kept)


def test_inserting_costs_the_same_however_much_is_held():
    """One step into a ring of a thousand and of a million: by the clock within a factor of 20, and not a copy of it."""
    seconds = {}
    for capacity in (1_000, 1_000_000):
        replay, step = SequenceReplay(capacity), lived(0, 1)
        replay.insert(step)
        columns = {name: column.data_ptr() for name, column in replay.columns.items()}
        times = []
        for _ in range(200):
            start = time.perf_counter()
            replay.insert(step)
            times.append(time.perf_counter() - start)
        seconds[capacity] = sorted(times)[20]
        assert columns == {name: column.data_ptr() for name, column in replay.columns.items()}
    assert seconds[1_000_000] < 20 * seconds[1_000]


@pytest.mark.parametrize("total", [3, 12, 31])
def test_a_restored_replay_goes_on_to_the_bit(total):
    """Also one that was saved in the middle of the ring, and when it wraps again afterwards."""
    replay = filled(12, total, 4)
    twin = SequenceReplay(12)
    twin.load_state_dict(through_a_file(replay.state_dict()))
    for start in (total, total + 5, total + 10):
        g, h = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
        one, two = replay.sample(50, 3, g), twin.sample(50, 3, h)
        for name in FIELDS:
            assert torch.equal(getattr(one, name), getattr(two, name)), name
        assert replay.num_steps == twin.num_steps and held(replay) == held(twin)
        for each in (replay, twin):
            each.insert(lived(start, 5))


def test_an_empty_replay_can_be_saved_and_takes_the_place_of_a_full_one():
    replay = filled(12, 12, 4)
    replay.load_state_dict(through_a_file(SequenceReplay(12).state_dict()))
    assert replay.size == replay.num_steps == 0
    with pytest.raises(ValueError, match="^length: wanted at most the 0 steps held"):
        replay.sample(1, 1)


def test_a_state_larger_than_the_ring_is_not_taken():
    with pytest.raises(ValueError, match="^rollout: wanted at most the replay's capacity, 8 steps; got 12"):
        SequenceReplay(8).load_state_dict(filled(12, 12, 4).state_dict())


def test_a_state_is_no_larger_than_what_is_held():
    state = SequenceReplay(1000)
    state.insert(lived(0, 4))
    columns = state.state_dict()["columns"]
    assert all(len(column) == 4 and column.untyped_storage().nbytes() < 1000 for column in columns.values())


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_real_rollouts_come_back_as_they_went_in(env_id):
    agent, env, obs = make_agent("mpo", env_id, num_envs=2, rollout_steps=16, warmup_steps=10_000)
    rollout, _ = agent.collect(env, obs)
    replay = SequenceReplay(16)
    replay.insert(rollout)
    batch = replay.sample(64, 16, torch.Generator().manual_seed(0))
    for i in range(64):
        b = [j for j in range(2) if torch.equal(rollout.obs[:, j], batch.obs[:, i])]
        assert len(b) == 1, "one start only: the whole rollout of one environment"
        for name in FIELDS:
            assert torch.equal(getattr(batch, name)[:, i], getattr(rollout, name)[:, b[0]]), name
    live(agent, env, obs, 1)
    assert agent.replay.num_steps == 32


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: SequenceReplay(0), r"capacity: wanted a whole number of at least 1; got 0"),
        (
            lambda: SequenceReplay(5).insert(lived(0, 6)),
            r"rollout: wanted at most the replay's capacity, 5 steps; got 6",
        ),
        (lambda: SequenceReplay(5).sample(1, 1), r"length: wanted at most the 0 steps held .*\(capacity 5\); got 1"),
        (lambda: filled(12, 3, 3).sample(1, 4), r"length: wanted at most the 3 steps held .*\(capacity 12\); got 4"),
        (
            lambda: filled(12, 31, 3).sample(1, 13),
            r"length: wanted at most the 12 steps held .*\(capacity 12\); got 13",
        ),
        (lambda: filled(12, 12, 3).sample(0, 1), r"sequences: wanted a whole number of at least 1; got 0"),
        (lambda: filled(12, 12, 3).sample(1, 0), r"length: wanted a whole number of at least 1; got 0"),
        (lambda: filled(12, 12, 3).insert(lived(0, 2, envs=2)), r"obs: wanted shape \(2, 3, 2\); got \(2, 2, 2\)"),
        (
            lambda: filled(12, 12, 3).insert(lived(0, 2, restart_weight=torch.ones(2, 3))),
            r"restart_weight: wanted none, a replay holds real transitions only",
        ),
    ],
)
def test_errors_name_what_was_wrong(attempt, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        attempt()


@pytest.mark.parametrize(
    "bad",
    [lambda: lived(0, 9), lambda: lived(0, 2, envs=2), lambda: lived(0, 2, restart_weight=torch.ones(2, 3))],
)
def test_a_refused_rollout_leaves_the_replay_unchanged(bad):
    replay = filled(8, 8, 4)
    before = replay.state_dict()
    with pytest.raises(ValueError, match="wanted"):
        replay.insert(bad())
    after = replay.state_dict()
    assert after["size"] == before["size"] and replay.position == 0
    assert all(torch.equal(after["columns"][name], column) for name, column in before["columns"].items())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": torch.zeros(2, 3, 1)}, r"obs: wanted shape \(2, 3, 2\); got \(2, 3, 1\)"),
        ({"next_obs": torch.zeros(2, 1, 2)}, r"next_obs: wanted shape \(2, 3, 2\); got \(2, 1, 2\)"),
        ({"truncated": torch.zeros(1, 3, dtype=torch.bool)}, r"truncated: wanted shape \(2, 3\); got \(1, 3\)"),
        ({"terminated": torch.zeros(2, 3)}, r"terminated: wanted dtype torch.bool; got torch.float32"),
    ],
)
def test_every_column_has_to_fit(change, message):
    """Nothing is broadcast or cast on its way in, and what does not fit leaves every column as it was."""
    replay = filled(8, 8, 4)
    before = replay.state_dict()
    with pytest.raises(ValueError, match=f"^{message}"):
        replay.insert(lived(8, 2, **change))
    after = replay.state_dict()
    assert all(torch.equal(after["columns"][name], column) for name, column in before["columns"].items())
