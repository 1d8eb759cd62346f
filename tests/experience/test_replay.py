"""The replay: a ring by hand, sequences that were lived as they stand, uniform draws, a state that is complete."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import pytest
import scipy.stats
import torch

from minerva_lite.experience.replay import FIELDS, SequenceReplay
from minerva_lite.experience.rollout import Rollout
from tests.living import through_a_file

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


def test_what_was_withdrawn_is_held_no_more_and_what_it_replaced_neither():
    replay = SequenceReplay(5)
    replay.insert(lived(0, 2))
    replay.withdraw(2)
    assert (replay.size, replay.num_steps, replay.position, held(replay)) == (0, 0, 0, [])
    replay.insert(lived(0, 3))
    replay.insert(lived(3, 4))  # over 0 and 1
    assert (replay.size, replay.num_steps, replay.position, held(replay)) == (5, 15, 2, [2, 3, 4, 5, 6])
    replay.withdraw(4)
    assert (replay.size, replay.num_steps, replay.position, held(replay)) == (1, 3, 3, [2])
    replay.insert(lived(7, 4))
    assert held(replay) == [2, 7, 8, 9, 10]


@pytest.mark.parametrize("length", [1, 2, 4, 7])
@pytest.mark.parametrize(("capacity", "total"), [(7, 7), (7, 31), (12, 31), (40, 31)])
def test_a_sequence_is_one_environments_steps_in_the_order_lived(capacity, total, length):
    """No run crosses the place where new steps overwrite old ones; every column stays with its row."""
    batch = filled(capacity, total, 4 if total > 7 else 7).sample(500, length, torch.Generator().manual_seed(0))
    assert batch.reward.shape == (length, 500) and batch.behavior_params == () and batch.restart_weight is None
    env, step = batch.obs.unbind(-1)
    assert (env == env[0]).all() and (step[1:] - step[:-1] == 1).all()
    assert step.min() >= max(0, total - capacity) and step.max() <= total - 1
    for name in FIELDS:
        wanted = getattr(lived(0, total), name)[step.long(), env.long()]
        assert torch.equal(getattr(batch, name), wanted), name


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


def test_a_sample_is_a_copy_drawn_by_the_generator_alone_and_a_step_is_written_into_the_ring():
    replay = filled(12, 31, 4)
    before, places = torch.get_rng_state(), [column.data_ptr() for column in replay.columns.values()]
    one, two, other = (replay.sample(20, 3, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    replay.insert(lived(100, 12))
    assert torch.equal(one.obs, two.obs) and not torch.equal(one.obs, other.obs) and one.obs[..., 1].max() <= 30
    assert torch.equal(torch.get_rng_state(), before)
    assert places == [column.data_ptr() for column in replay.columns.values()], "however large, it stays where it lay"


@pytest.mark.parametrize("total", [3, 12, 31])
def test_a_restored_replay_goes_on_to_the_bit(total, same):
    """Also one that was saved in the middle of the ring, and when it wraps again afterwards."""
    replay = filled(12, total, 4)
    twin = SequenceReplay(12)
    twin.load_state_dict(through_a_file(replay.state_dict()))
    for start in (total, total + 5, total + 10):
        one, two = (each.sample(50, 3, torch.Generator().manual_seed(3)).tensors() for each in (replay, twin))
        assert same(one, two) and replay.num_steps == twin.num_steps and held(replay) == held(twin)
        replay.insert(lived(start, 5)), twin.insert(lived(start, 5))


def test_an_empty_replay_can_be_saved_and_takes_the_place_of_a_full_one():
    replay = filled(12, 12, 4)
    replay.load_state_dict(through_a_file(SequenceReplay(12).state_dict()))
    assert replay.size == replay.num_steps == 0


def test_a_state_is_no_larger_than_what_is_held():
    state = SequenceReplay(1000)
    state.insert(lived(0, 4))
    columns = state.state_dict()["columns"]
    assert all(len(column) == 4 and column.untyped_storage().nbytes() < 1000 for column in columns.values())


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda replay: SequenceReplay(0), r"capacity: wanted a whole number of at least 1; got 0"),
        (lambda replay: filled(12, 3, 3).sample(1, 4), r"length: wanted at most the 3 steps held .*\(capacity 12\); got 4"),
        (lambda replay: replay.sample(0, 1), r"sequences: wanted a whole number of at least 1; got 0"),
        (lambda replay: replay.sample(1, 0), r"length: wanted a whole number of at least 1; got 0"),
        (lambda replay: replay.insert(lived(0, 9)), r"rollout: wanted at most the replay's capacity, 8 steps; got 9"),
        (lambda replay: SequenceReplay(8).load_state_dict(filled(12, 12, 4).state_dict()), r"rollout: wanted at most the replay's capacity, 8 steps; got 12"),
        (lambda replay: replay.insert(lived(0, 2, restart_weight=torch.ones(2, 3))), r"restart_weight: wanted none, a replay holds real transitions only; .*autoreset=\"same_step\"$"),
        # Nothing is broadcast or cast on its way in.
        (lambda replay: replay.insert(lived(0, 2, envs=2)), r"obs: wanted shape \(2, 3, 2\); got \(2, 2, 2\)"),
        (lambda replay: replay.insert(lived(8, 2, next_obs=torch.zeros(2, 1, 2))), r"next_obs: wanted shape \(2, 3, 2\); got \(2, 1, 2\)"),
        (lambda replay: replay.insert(lived(8, 2, terminated=torch.zeros(2, 3))), r"terminated: wanted dtype torch.bool; got torch.float32"),
    ],
)  # fmt: skip
def test_errors_name_what_was_wrong_and_leave_every_column_as_it_was(attempt, message, same):
    replay = filled(8, 8, 4)
    before = replay.state_dict()
    with pytest.raises(ValueError, match=f"^{message}"):
        attempt(replay)
    assert same(before, replay.state_dict()) and replay.position == 0
