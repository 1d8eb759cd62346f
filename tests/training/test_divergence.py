"""A run that diverges keeps its last good checkpoint, says where that is, and is never the best one."""

from __future__ import annotations

import copy
import dataclasses
import math
import os
import re
import signal
import warnings

import pytest
import torch

from minerva_lite.agents import AGENTS
from minerva_lite.training import loop
from minerva_lite.training.checkpoints import load, read, save
from minerva_lite.training.gpu import KNOWN, Accelerated
from minerva_lite.training.loop import train
from minerva_lite.worlds.envs import make_env
from tests.living import ANSWERS, STEPPERS

SMALL = {"num_envs": 4, "rollout_steps": 16, "hidden": (8,), "normalize_obs": True, "normalize_reward": True}
SMALL |= ANSWERS | {"group": 16}
SMALL |= {"minibatch_size": 16, "warmup_steps": 64, "learner_steps": 2, "replay_steps": 640, "epochs": 2}
ROLLOUT, STEPS = 64, 640


def make(name: str, env_id: str = "Pendulum-v1", **options):
    """A small agent of any algorithm, with whichever of the settings it has, and its environments."""
    kind, settings = AGENTS[name]
    env_id = "tokens/copy" if kind.name == "sequence" else env_id
    known = {field.name for field in dataclasses.fields(settings)}
    changed = {key: value for key, value in (SMALL | options).items() if key in known}
    changed |= {"whole_episodes": False} if "whole_episodes" in known else {}
    env = make_env(env_id, SMALL["num_envs"], seed=1)
    return kind(settings(**changed), env.spec, seed=2, device="cpu"), env


def poison(agent, number: float = math.nan) -> None:
    """One weight of the policy stops being a number: what a step that overflows leaves."""
    with torch.no_grad():
        next(agent.policy.parameters()).view(-1)[0] = number


def run(agent, env, path, poisoned_at: int | None = None, total_steps: int = STEPS, **options):
    """Train with a checkpoint after every rollout; the policy is poisoned in the update that ends at `poisoned_at`."""

    def callback(row):
        if row["steps"] == poisoned_at and "eval/mean" not in row:
            poison(agent)

    settings = {"eval_every": 160, "eval_episodes": 1, "checkpoint_every": ROLLOUT, "resume": True}
    return train(agent, env, total_steps, callback=callback, checkpoint=path, progress=False, **settings | options)


def leaves(state, path: str):
    """Every tensor and number of a nested state: its path, and the container and key where it lies."""
    items = state.items() if isinstance(state, dict) else enumerate(state)
    for key, value in items:
        where = f"{path}.{key}" if path else str(key)
        if isinstance(value, (dict, list, tuple)):
            yield from leaves(value, where)
        else:
            yield where, state, key


# What a checkpoint may not hold


@pytest.mark.parametrize("name", AGENTS)
def test_no_number_that_training_changes_is_saved_unless_it_is_finite(name, tmp_path):
    """Every floating-point leaf of the state in turn: parameters, multipliers, statistics, moments, the replay."""
    agent, env = make(name)
    obs = env.reset()
    for _ in range(3):
        rollout, obs = agent.collect(env, obs)
        agent.update(rollout)
    save(agent, tmp_path / "agent.pt")
    before, state = (tmp_path / "agent.pt").read_bytes(), copy.deepcopy(agent.state_dict())

    class Twin:
        name = agent.name

        def state_dict(self):
            return state

    checked = set()
    for where, holder, key in leaves(state, ""):
        kept, part = holder[key], where.split(".")[0]
        if isinstance(kept, torch.Tensor) and kept.is_floating_point() and kept.numel():
            holder[key] = kept.clone()
            holder[key].view(-1)[-1] = math.inf
        elif isinstance(kept, float) and isinstance(holder, dict):
            holder[key] = math.nan
        else:
            continue
        if part in ("config", "spec"):  # a setting may be infinite
            save(Twin(), tmp_path / "other.pt")
        else:
            with pytest.raises(FloatingPointError, match=rf"^{re.escape(where)}: wanted finite numbers in a che"):
                save(Twin(), tmp_path / "agent.pt")
        holder[key] = kept
        checked.add(part)
    assert {"config", "modules"} <= checked and ("optimizer" in str(checked) or name == "trpo")
    assert (tmp_path / "agent.pt").read_bytes() == before and not list(tmp_path.glob("*.part"))
    save(Twin(), tmp_path / "agent.pt")


# What a run that diverges leaves


@pytest.mark.parametrize("name", AGENTS)
def test_a_diverged_run_leaves_its_last_good_checkpoint(name, tmp_path, same):
    agent, env = make(name)
    size, path = agent.config.batch_size, tmp_path / "run.pt"
    with pytest.raises(FloatingPointError) as told:
        run(agent, env, path, poisoned_at=5 * size, checkpoint_every=size)
    assert re.fullmatch(
        r"modules\.policy\.\S+: wanted finite numbers in a checkpoint; got 1 that are NaN or infinite after "
        rf"{5 * size} steps; {re.escape(str(path))} holds the last good checkpoint, of {4 * size} steps.*",
        str(told.value),
    )
    assert read(path)["training"]["steps"] == 4 * size
    assert not list(tmp_path.glob("*.part"))
    # It is what a run that never diverged has there, and it is a place to go on from.
    assert all(p.isfinite().all() for p in load(path, device="cpu").policy.parameters())
    again, env = make(name)
    run(again, env, path, checkpoint_every=size)
    whole, env = make(name)
    run(whole, env, None)
    assert same(again.state_dict(), whole.state_dict())


def test_a_run_that_diverges_before_its_first_checkpoint_writes_none(tmp_path):
    agent, env = make("ppo")
    with pytest.raises(FloatingPointError, match=rf"after {ROLLOUT} steps; no good checkpoint was written$"):
        run(agent, env, tmp_path / "run.pt", poisoned_at=ROLLOUT)
    assert os.listdir(tmp_path) == []


def test_the_last_checkpoint_of_a_run_is_checked_too(tmp_path):
    agent, env = make("ppo")
    with pytest.raises(FloatingPointError, match=f"after {STEPS} steps; .*run.pt holds .*, of {STEPS - ROLLOUT} steps"):
        run(agent, env, tmp_path / "run.pt", poisoned_at=STEPS)
    assert read(tmp_path / "run.pt")["training"]["steps"] == STEPS - ROLLOUT


def test_a_resumed_run_that_diverges_at_once_names_the_checkpoint_it_came_from(tmp_path):
    agent, env = make("ppo")
    with pytest.raises(FloatingPointError):
        run(agent, env, tmp_path / "run.pt", poisoned_at=3 * ROLLOUT)
    before = (tmp_path / "run.pt").read_bytes()
    again, env = make("ppo")
    with pytest.raises(FloatingPointError, match=f"run.pt holds the last good checkpoint, of {2 * ROLLOUT} steps"):
        run(again, env, tmp_path / "run.pt", poisoned_at=3 * ROLLOUT)
    assert (tmp_path / "run.pt").read_bytes() == before


def test_ctrl_c_on_a_diverged_run_says_so_and_keeps_the_good_checkpoint(tmp_path):
    agent, env = make("ppo")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def press(row):
        if row["steps"] == 5 * ROLLOUT and "eval/mean" not in row:
            poison(agent)
            signal.raise_signal(signal.SIGINT)

    try:
        with pytest.raises(BaseException) as told:  # a KeyboardInterrupt would end the tests
            train(
                agent, env, STEPS, eval_every=STEPS, eval_episodes=1, callback=press, checkpoint=tmp_path / "run.pt",
                checkpoint_every=2 * ROLLOUT, progress=False,
            )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)
    assert isinstance(told.value, FloatingPointError)
    assert f"run.pt holds the last good checkpoint, of {4 * ROLLOUT} steps" in str(told.value)
    assert read(tmp_path / "run.pt")["training"]["steps"] == 4 * ROLLOUT


# Which evaluation is the best


@pytest.mark.parametrize(
    ("means", "best"),
    [
        ([math.nan, 5.0, 3.0], 1),
        ([5.0, math.nan, 3.0], 0),
        ([5.0, math.inf, 3.0, 7.0], 3),
        ([math.inf, -5.0, -7.0], 1),
        ([-math.inf, -5.0, math.nan], 1),
        ([math.nan, math.inf, -math.inf], None),
    ],
)
def test_an_evaluation_that_is_not_finite_is_never_the_best(means, best, tmp_path, monkeypatch, same):
    agent, env = make("ppo")
    left, states = iter(means), []
    monkeypatch.setattr(loop, "evaluate", lambda *args, **how: {"eval/mean": next(left)})

    def remember(row):
        if "eval/mean" in row:
            states.append(copy.deepcopy(agent.state_dict()))

    train(
        agent, env, len(means) * ROLLOUT, eval_every=ROLLOUT, callback=remember, checkpoint=tmp_path / "run.pt",
        stop_at=100.0, progress=False,
    )  # fmt: skip
    assert len(states) == len(means), "an infinite evaluation does not reach a goal either"
    if best is None:
        assert not (tmp_path / "run.best.pt").exists()
    else:
        assert same(load(tmp_path / "run.best.pt", device="cpu").state_dict(), states[best])


def test_the_error_names_the_best_agent_where_there_is_one(tmp_path):
    agent, env = make("ppo")
    with pytest.raises(FloatingPointError, match=r"; \S*run\.best\.pt the agent of the best evaluation$"):
        run(agent, env, tmp_path / "run.pt", poisoned_at=5 * ROLLOUT)
    assert all(p.isfinite().all() for p in load(tmp_path / "run.best.pt", device="cpu").policy.parameters())


# What an update that is refused leaves


def spoiled_after(env, rollouts: int, monkeypatch, size: int = ROLLOUT, every: int = 1) -> None:
    """After so many rollouts the rewards of every `every`-th are so large that their squares overflow."""
    step, calls = env.step, []

    def huge(action):
        done, rollout = step(action), len(calls) * env.num_envs // size
        calls.append(1)
        return done._replace(reward=done.reward + 1e26) if rollout >= rollouts and rollout % every == 0 else done

    monkeypatch.setattr(env, "step", huge)


TOLD = dict.fromkeys(STEPPERS, "loss/value") | {"mpo": "loss/critic"}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", STEPPERS)
def test_three_refused_updates_end_a_run_with_its_last_good_checkpoint(name, masked, tmp_path, monkeypatch, same):
    if masked and (AGENTS[name][0] not in KNOWN or KNOWN[AGENTS[name][0]].waits(make(name)[0].config)):
        return  # it runs plainly on a GPU too
    # MPO's replay holds one rollout: a batch without a row of the spoiled one would be learned from.
    options = {"normalize_reward": False, "anneal_lr": False, "replay_steps": ROLLOUT}
    agent, env = make(name, **options)
    size, path = agent.config.batch_size, tmp_path / "run.pt"
    spoiled_after(env, 4, monkeypatch, size)
    if masked:
        monkeypatch.setattr(
            loop, "accelerate", lambda agent: Accelerated(agent, KNOWN[type(agent)], masked=True, record=False)
        )
    with (
        pytest.warns(UserWarning, match=rf"^{TOLD[name]}: not finite in the update that ends at {5 * size} ") as warned,
        pytest.raises(FloatingPointError, match=rf"^{TOLD[name]}: not finite in 3 batches in a row; refused so far"),
    ):
        run(agent, env, path, checkpoint_every=size)
    assert sum("not finite" in str(each.message) for each in warned) == 1, "told once"
    saved = read(path)
    assert saved["training"]["steps"] == 6 * size and saved["state"]["skipped_in_a_row"] == 2
    assert [row["train/skipped_batches"] for row in saved["training"]["updates"]] == [0, 0, 0, 0, 1, 2]
    clean, env = make(name, **options)
    run(clean, env, None, total_steps=4 * size)
    assert same(load(path, device="cpu").policy.state_dict(), clean.policy.state_dict()), "nothing has moved since"
    again, env = make(name, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = run(again, env, path, checkpoint_every=size)
    assert told.updates[-1]["train/skipped_batches"] == 2 and again.guard.in_a_row == 0, "a place to go on from"


def test_every_hundredth_refusal_is_told_again(monkeypatch):
    agent, env = make("a2c", normalize_reward=False)
    spoiled_after(env, 0, monkeypatch, agent.config.batch_size, every=2)
    with pytest.warns(UserWarning) as told:
        run(agent, env, None, total_steps=220 * ROLLOUT, eval_every=10**9)
    ends = [
        re.search(r"^loss/value: not finite in the update that ends at (\d+) steps; ", str(t.message)) for t in told
    ]
    assert [int(end[1]) // ROLLOUT for end in ends] == [1, 199]
