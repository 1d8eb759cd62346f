"""A run that diverges keeps its last good checkpoint, says where that is, and is never the best one."""

from __future__ import annotations

import copy
import math
import re
import signal
import warnings

import pytest
import torch

from minerva_lite.agents import AGENTS
from minerva_lite.training import loop
from minerva_lite.training.checkpoints import load, read, save
from minerva_lite.training.gpu import KNOWN, Accelerated
from tests.living import STEPPERS, live
from tests.runs import ROLLOUT, STEPS, at, contents, leaves, new, run

OFTEN = {"eval_every": 160}


def poison(agent):
    """One weight of the policy stops being a number: what a step that overflows leaves."""
    with torch.no_grad():
        next(agent.policy.parameters()).view(-1)[0] = math.nan


# What a checkpoint may not hold


@pytest.mark.parametrize("name", AGENTS)
def test_no_number_that_training_changes_is_saved_unless_it_is_finite(name, tmp_path):
    """Every floating-point leaf of the state in turn: parameters, multipliers, statistics, moments, the replay."""
    agent, env = new(name)
    live(agent, env, env.reset(), 3)
    save(agent, tmp_path / "agent.pt")
    before, state, checked = contents(tmp_path), copy.deepcopy(agent.state_dict()), set()
    twin = type("Twin", (), {"name": name, "state_dict": lambda self: state})()
    for where, holder, key in leaves(state):
        value, part = holder[key], where.split(".")[0]
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
            holder[key] = value.clone()
            holder[key].view(-1)[-1] = math.inf
        elif isinstance(value, float) and isinstance(holder, dict):
            holder[key] = math.nan
        else:
            continue
        if part in ("config", "spec"):  # a setting may be infinite
            save(twin, tmp_path / "other.pt")
        else:
            with pytest.raises(FloatingPointError, match=rf"^{re.escape(where)}: wanted finite numbers in a che"):
                save(twin, tmp_path / "agent.pt")
        holder[key] = value
        checked.add(part)
    assert {"config", "modules"} <= checked and ("optimizer" in str(checked) or name == "trpo")
    assert contents(tmp_path) == before | {"other.pt": (tmp_path / "other.pt").read_bytes()}
    save(twin, tmp_path / "agent.pt")


# What a run that diverges leaves


@pytest.mark.parametrize("name", AGENTS)
def test_a_diverged_run_leaves_its_last_good_checkpoint(name, tmp_path, same):
    path = tmp_path / "run.pt"
    for _ in range(2):  # then resumed, and it diverges again at once
        agent, env = new(name)
        with pytest.raises(FloatingPointError) as error:
            run(agent, env, path, callback=at(320, lambda agent=agent: poison(agent)), **OFTEN)
        told = r"modules\.policy\.\S+: wanted finite numbers in a checkpoint; "
        told += "got 1 that are NaN or infinite after 320 steps; "
        told += rf"{re.escape(str(path))} holds the last good checkpoint, of 256 steps; "
        assert re.fullmatch(told + r"\S*run\.best\.pt the agent of the best evaluation", str(error.value))
        assert read(path)["training"]["steps"] == 256 and not list(tmp_path.glob("*.part"))
    assert all(p.isfinite().all() for p in load(tmp_path / "run.best.pt", device="cpu").policy.parameters())
    # It is what a run that never diverged has there, and it is a place to go on from.
    run(*(again := new(name)), path, **OFTEN)
    run(*(whole := new(name)), **OFTEN)
    assert same(again[0].state_dict(), whole[0].state_dict())


def interrupted(agent):
    poison(agent)
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("act", "steps", "left", "told"),
    [
        (poison, ROLLOUT, None, "no good checkpoint was written$"),
        (poison, STEPS, STEPS - ROLLOUT, "run.pt holds the last good checkpoint, of 576 steps"),
        (interrupted, 320, 256, "run.pt holds the last good checkpoint, of 256 steps"),
    ],
)
def test_the_first_the_last_and_an_interrupted_checkpoint_are_checked_too(act, steps, left, told, terminal, tmp_path):
    agent, env = new("ppo")
    with pytest.raises(BaseException, match=f"after {steps} steps; .*{told}") as error:  # Ctrl-C would end the tests
        run(agent, env, tmp_path / "run.pt", callback=at(steps, lambda: act(agent)), eval_every=STEPS)
    assert isinstance(error.value, FloatingPointError)
    assert (tmp_path / "run.pt").exists() == (left is not None)
    assert left is None or read(tmp_path / "run.pt")["training"]["steps"] == left


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
    (agent, env), left, states = new("ppo"), iter(means), []
    monkeypatch.setattr(loop, "evaluate", lambda *args, **how: {"eval/mean": next(left)})

    def remember(row):
        if "eval/mean" in row:
            states.append(copy.deepcopy(agent.state_dict()))

    how = {"eval_every": ROLLOUT, "stop_at": 100.0, "callback": remember}
    run(agent, env, tmp_path / "run.pt", len(means) * ROLLOUT, **how)
    assert len(states) == len(means), "an infinite evaluation does not reach a goal either"
    if best is None:
        assert not (tmp_path / "run.best.pt").exists()
    else:
        assert same(load(tmp_path / "run.best.pt", device="cpu").state_dict(), states[best])


# What an update that is refused leaves


def spoiled_after(env, rollouts: int, monkeypatch, every: int = 1) -> None:
    """After so many rollouts the rewards of every `every`-th are so large that their squares overflow."""
    step, calls = env.step, []

    def huge(action):
        done, rollout = step(action), len(calls) * env.num_envs // ROLLOUT
        calls.append(1)
        return done._replace(reward=done.reward + 1e26) if rollout >= rollouts and rollout % every == 0 else done

    monkeypatch.setattr(env, "step", huge)


NAMED = dict.fromkeys(STEPPERS, "loss/value") | {"mpo": "loss/critic"}
# MPO's replay holds one rollout: a batch without a row of the spoiled one would be learned from.
PLAIN = {"normalize_reward": False, "anneal_lr": False, "replay_steps": ROLLOUT}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", STEPPERS)
def test_three_refused_updates_end_a_run_with_its_last_good_checkpoint(name, masked, tmp_path, monkeypatch, same):
    agent, env = new(name, **PLAIN)
    if masked and (type(agent) not in KNOWN or KNOWN[type(agent)].waits(agent.config)):
        return  # it runs plainly on a GPU too
    path = tmp_path / "run.pt"
    spoiled_after(env, 4, monkeypatch)
    if masked:
        as_on_a_gpu = {"masked": True, "record": False}
        monkeypatch.setattr(loop, "accelerate", lambda agent: Accelerated(agent, KNOWN[type(agent)], **as_on_a_gpu))
    with (
        pytest.warns(UserWarning, match=rf"^{NAMED[name]}: not finite in the update that ends at 320 ") as warned,
        pytest.raises(FloatingPointError, match=rf"^{NAMED[name]}: not finite in 3 batches in a row; refused so far"),
    ):
        run(agent, env, path, **OFTEN)
    assert sum("not finite" in str(warning.message) for warning in warned) == 1
    saved = read(path)
    assert saved["training"]["steps"] == 384 and saved["state"]["skipped_in_a_row"] == 2
    assert [row["train/skipped_batches"] for row in saved["training"]["updates"]] == [0, 0, 0, 0, 1, 2]
    run(*(clean := new(name, **PLAIN)), None, 256)
    assert same(load(path, device="cpu").policy.state_dict(), clean[0].policy.state_dict()), "nothing has moved since"
    again, env = new(name, **PLAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        history = run(again, env, path, **OFTEN)
    assert history.updates[-1]["train/skipped_batches"] == 2 and again.guard.in_a_row == 0, "a place to go on from"


def test_every_hundredth_refusal_is_told_again(monkeypatch):
    agent, env = new("a2c", normalize_reward=False)
    spoiled_after(env, 0, monkeypatch, every=2)
    with pytest.warns(UserWarning) as warned:
        run(agent, env, None, 220 * ROLLOUT, eval_every=10**9)
    told = r"^loss/value: not finite in the update that ends at (\d+) steps; "
    ends = [int(re.search(told, str(warning.message))[1]) for warning in warned]
    assert [steps // ROLLOUT for steps in ends] == [1, 199]
