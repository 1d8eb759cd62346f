"""Gymnasium's next-step autoreset: a phantom row after each end and nowhere else, and the same episodes around them."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import pytest
import torch

from minerva_lite.worlds.envs import TORCH_ENVS, make_env

F64 = torch.float64
COLUMNS = ("obs", "action", "reward", "next_obs", "terminated", "truncated", "phantom")


def choose(env, obs):
    """A deterministic policy that makes episodes of different lengths."""
    if env.spec.num_actions:
        return (obs[:, -1] > 0).long()
    return obs[:, -1:]


def lived(env, steps: int, act=choose):
    """The rows of `steps` steps, each column [T, B, ...]; `phantom` is None in the same-step mode."""
    obs, rows = env.reset(), []
    for _ in range(steps):
        action = act(env, obs)
        step = env.step(action)
        rows.append((obs, action, step.reward, step.next_obs, step.terminated, step.truncated, step.phantom))
        obs = step.obs
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    env.close()
    return {name: None if c[0] is None else torch.stack(c) for name, c in columns.items()}


@pytest.mark.parametrize(
    ("env_id", "backend", "num_envs", "steps"),
    [
        ("ToyCount-v0", "gymnasium", 2, 30),
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
        for name in COLUMNS[:-1]:
            assert torch.equal(rows[name][real, b], same[name][: int(real.sum()), b]), (env_id, b, name)


def test_the_rows_by_hand():
    """Episode e counts 1, 2, 3; between two episodes stands a row that no episode has."""
    rows = lived(make_env("ToyCount-v0", 1, dtype=F64, autoreset="next_step"), 9)
    assert rows["obs"][:, 0].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3], [2, 0]]
    assert rows["next_obs"][:, 0].tolist() == [[0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [1, 2], [1, 3], [2, 0], [2, 1]]
    assert rows["reward"][:, 0].tolist() == [1, 2, 3, 0, 11, 12, 13, 0, 21]
    assert rows["terminated"][:, 0].tolist() == [t == 2 for t in range(9)]
    assert rows["truncated"][:, 0].tolist() == [t == 6 for t in range(9)]
    assert rows["phantom"][:, 0].tolist() == [t in (3, 7) for t in range(9)]


def test_the_action_of_a_phantom_row_is_ignored():
    """The observation of this environment is the action that arrived: a phantom row shows the first one, whatever was done."""
    for action in (0, 1, 2):
        rows = lived(make_env("ToyEchoDiscrete-v0", 2, autoreset="next_step"), 8, lambda env, obs, a=action: torch.full((2,), a))  # fmt: skip
        assert rows["phantom"][:, 0].tolist() == [False, False, False, True] * 2
        assert not rows["next_obs"][rows["phantom"]].any()
        assert (rows["next_obs"][~rows["phantom"]][:, 0] == action + 5).all()


def test_a_reset_between_leaves_no_phantom():
    env = make_env("ToyCount-v0", 2, dtype=F64, autoreset="next_step")
    env.reset()
    for _ in range(3):
        step = env.step(torch.zeros(2, 1))
    assert (step.terminated | step.truncated).all()
    env.reset()
    assert not env.step(torch.zeros(2, 1)).phantom.any()


@pytest.mark.parametrize("at", [2, 3, 4, 5])
def test_a_saved_state_knows_who_is_about_to_be_reset(at):
    """Environments of 1 to 6 steps, saved at a moment at which some stand before a phantom row; new ones go on."""
    env = make_env("ToyLottery-v0", 6, seed=0, autoreset="next_step")
    obs = env.reset()
    for _ in range(at):
        obs = env.step(choose(env, obs)).obs
    saved = env.state_dict()
    other = make_env("ToyLottery-v0", 6, seed=0, autoreset="next_step")
    other.load_state_dict(saved)
    seen = 0
    for _ in range(20):
        ours, theirs = env.step(choose(env, obs)), other.step(choose(env, obs))
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
        obs, seen = ours.obs, seen + int(ours.phantom.sum())
    assert seen > 10


def test_a_state_of_the_other_mode_is_refused():
    states = {}
    for autoreset in ("same_step", "next_step"):
        env = make_env("ToyCount-v0", 2, autoreset=autoreset)
        env.reset()
        states[autoreset] = env.state_dict()
    with pytest.raises(
        ValueError, match=r"^autoreset: wanted the state of an environment with next_step; got same_step"
    ):
        env.load_state_dict(states["same_step"])
    with pytest.raises(
        ValueError, match=r"^autoreset: wanted the state of an environment with same_step; got next_step"
    ):
        make_env("ToyCount-v0", 2).load_state_dict(states["next_step"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"env_id": "ToyCount-v0", "autoreset": "NextStep"}, r"^autoreset: wanted one of same_step, next_step; got 'NextStep'"),
        ({"env_id": "Pendulum-v1", "autoreset": "next_step"}, r"^autoreset: wanted same_step for back end torch; got next_step, which gymnasium and"),
        ({"env_id": "CartPole-v1", "backend": "torch", "autoreset": "next_step"}, r"^autoreset: wanted same_step for back end torch"),
        ({"env_id": "CartPole-v1", "backend": "envpool", "autoreset": "next_step"}, r"^autoreset: wanted same_step for back end envpool"),
    ],
)  # fmt: skip
def test_a_back_end_that_cannot_says_so(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_env(**arguments)


@pytest.mark.parametrize("env_id", TORCH_ENVS)
def test_what_resets_in_the_same_step_has_no_phantoms_to_tell_of(env_id):
    for backend in ("torch", "gymnasium"):
        assert lived(make_env(env_id, 2, backend=backend, dtype=F64), 3)["phantom"] is None
