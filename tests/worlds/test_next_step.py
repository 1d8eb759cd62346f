"""Gymnasium's next-step autoreset: a phantom row after each end and nowhere else, and the same episodes around them."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import pytest
import torch

from minerva_lite.worlds.envs import make_env
from tests.laws import choose, lived
from tests.living import refusal

F64 = torch.float64


@pytest.mark.parametrize(
    ("env_id", "backend", "num_envs", "steps"),
    [
        ("ToyLottery-v0", "gymnasium", 6, 40),
        ("CartPole-v1", "gymnasium", 4, 300),
        ("CartPole-v1", "parallel", 2, 300),
        ("Pendulum-v1", "gymnasium", 2, 450),
    ],
)
def test_phantom_rows_are_those_after_ends_and_the_others_are_the_same_steps_own(env_id, backend, num_envs, steps):
    where = {"backend": backend, "seed": 3, "dtype": F64}
    rows = lived(make_env(env_id, num_envs, autoreset="next_step", **where), steps)
    same = lived(make_env(env_id, num_envs, **where), steps)
    assert same["phantom"] is None
    ended, phantom = rows["terminated"] | rows["truncated"], rows["phantom"]
    assert phantom.dtype == torch.bool and phantom.shape == (steps, num_envs)
    assert not phantom[0].any() and torch.equal(phantom[1:], ended[:-1])
    assert ended.any() and not (ended & phantom).any()
    # A phantom pays nothing, and leads from the last observation of an episode to the first one of the next.
    assert not rows["reward"][phantom].any()
    assert torch.equal(rows["obs"][1:], rows["next_obs"][:-1])
    for b in range(num_envs):
        real = ~phantom[:, b]
        for name in rows.keys() - {"phantom"}:
            assert torch.equal(rows[name][real, b], same[name][: int(real.sum()), b]), (env_id, b, name)


@pytest.mark.parametrize(
    ("autoreset", "places", "successors", "terminated", "truncated", "phantom"),
    [
        ("same_step", "00 01 02 10 11 12 20 21", "01 02 03 11 12 13 21 22", [2], [5], None),
        ("next_step", "00 01 02 03 10 11 12 13", "01 02 03 10 11 12 13 20", [2], [6], [3, 7]),
    ],
)
def test_the_rows_by_hand(autoreset, places, successors, terminated, truncated, phantom):
    """Episode e counts 1, 2, 3; in the next-step mode a row that no episode has stands between two, and pays nothing."""
    rows = lived(make_env("ToyCount-v0", 1, dtype=F64, autoreset=autoreset), 8)
    for name, wanted in (("obs", places), ("next_obs", successors)):
        assert rows[name][:, 0].tolist() == [[int(digit) for digit in place] for place in wanted.split()]
    assert rows["reward"][:, 0].tolist() == [int(place) * (place[1] != "0") for place in successors.split()]
    for name, wanted in (("terminated", terminated), ("truncated", truncated), ("phantom", phantom)):
        found = rows[name]
        assert found is None if wanted is None else found[:, 0].nonzero().flatten().tolist() == wanted


@pytest.mark.parametrize("at", [2, 3, 4, 5])
def test_a_saved_state_knows_who_is_about_to_be_reset_and_a_reset_forgets_it(at, same):
    """Environments of 1 to 6 steps, saved at a moment at which some stand before a phantom row; new ones go on."""
    env = make_env("ToyLottery-v0", 6, seed=0, autoreset="next_step")
    obs = env.reset()
    for _ in range(at):
        obs = env.step(choose(env, obs)).obs
    other, seen = make_env("ToyLottery-v0", 6, seed=0, autoreset="next_step"), 0
    other.load_state_dict(env.state_dict())
    for _ in range(20):
        ours, theirs = env.step(choose(env, obs)), other.step(choose(env, obs))
        assert same(ours, theirs)
        obs, seen = ours.obs, seen + int(ours.phantom.sum())
    assert seen > 10
    while not ours.terminated.any():
        ours = env.step(choose(env, ours.obs))
    assert not env.step(choose(env, env.reset())).phantom.any()


@pytest.mark.parametrize(("here", "there"), [("same_step", "next_step"), ("next_step", "same_step")])
def test_a_state_of_the_other_mode_is_refused(here, there):
    env, other = (make_env("ToyCount-v0", 2, autoreset=autoreset) for autoreset in (here, there))
    env.reset()
    told = f"autoreset: wanted the state of an environment with {there}; got {here}"
    assert refusal(other.load_state_dict, env.state_dict()).startswith(told)
