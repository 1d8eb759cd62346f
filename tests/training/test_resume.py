"""A training that was killed goes on as if it had not been, to the bit, and nothing is lost or exchanged in silence."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import signal
import time
from functools import partial

import gymnasium as gym
import pytest
import torch

from minerva_lite import History, __main__, load
from minerva_lite.agents import AGENTS
from minerva_lite.training import checkpoints, loop, studies
from minerva_lite.training.checkpoints import read, save
from tests.runs import ROLLOUT, STEPS, at, contents, new, run, stopped, timeless

KINDS = tuple(f"gymnasium.envs.{kind}" for kind in ("classic_control", "toy_text", "box2d", "mujoco"))
NOT = {"CarRacing-v3", "Pusher-v4"}  # pixels; a version of MuJoCo that is gone
VECTORS = [name for name, spec in gym.registry.items() if str(spec.entry_point).startswith(KINDS) and name not in NOT]
QUICK = {"CartPole-v1", "MountainCar-v0", "Blackjack-v1", "LunarLander-v3", "Hopper-v5"}
assert len(VECTORS) == 37 and set(VECTORS) > QUICK
RUNS = [(name, "Pendulum-v1", "auto") for name in AGENTS]
RUNS += [("a2c", "CartPole-v1", backend) for backend in ("auto", "parallel", "envpool")]
RUNS += [("a2c", "dm_control/cartpole/swingup", "auto")]
RUNS += [pytest.param("a2c", "dm_control/cheetah/run", "auto", marks=pytest.mark.slow)]
RUNS += [pytest.param("a2c", name, "gymnasium", marks=[] if name in QUICK else pytest.mark.slow) for name in VECTORS]


@pytest.mark.parametrize(("name", "env_id", "backend"), RUNS)
def test_a_run_that_died_twice_ends_as_if_it_had_not(name, env_id, backend, tmp_path, same, recwarn):
    """Where the state of an environment cannot be saved it goes on with fresh episodes, and warns."""
    path, make = tmp_path / "run.pt", partial(new, name, env_id, backend=backend)
    history = run(*(whole := make()))
    for steps in (150, 400):
        stopped(*make(), path, steps)
    again = run(*(died := make()), path)
    known = not env_id.startswith(("LunarLander", "Bipedal")) and backend not in ("parallel", "envpool")
    fresh = f"{env_id} goes on with fresh episodes: its state cannot be saved "
    assert any(str(warning.message).startswith(fresh) for warning in recwarn) != known
    assert (read(path)["training"]["env"] is not None) == known and load(path, device="cpu").spec == whole[0].spec
    assert same(died[0].state_dict(), whole[0].state_dict()) == known
    assert (timeless(again) == timeless(history)) == known
    assert [row["steps"] for row in again.updates] == [*range(ROLLOUT, STEPS + 1, ROLLOUT)]


def test_a_file_from_before_a_setting_was_there_goes_on_with_its_default(tmp_path, same):
    before = {"critic_hidden": None, "temperature_learning_rate": None, "value_target": "advantage"}
    history, path = run(*(whole := new("vmpo", "CartPole-v1"))), tmp_path / "run.pt"
    stopped(*new("vmpo", "CartPole-v1"), path)
    for file in (path, tmp_path / "run.best.pt"):
        saved = read(file)
        for name in before:
            del saved["state"]["config"][name]
        torch.save(saved, file)
    assert {name: getattr(load(path, device="cpu").config, name) for name in before} == before
    again = run(*(resumed := new("vmpo", "CartPole-v1")), path)
    assert same(resumed[0].state_dict(), whole[0].state_dict()) and timeless(again) == timeless(history)


# What belongs to a run


@pytest.mark.parametrize("file", ["run.pt", "run.best.pt"])
@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {"seed": 3}, "a training with seed=3; FILE holds one with seed=2: go on with its settings, or under another name"),
        ({}, {"env_seed": 3}, "a training with env_seed=3; FILE holds one with env_seed=1"),
        ({}, {"learning_rate": 0.1}, "a training with learning_rate=0.1; FILE holds one with learning_rate=0.0003"),
        ({}, {"stagger": True}, "a training with stagger=True; FILE holds one with stagger=False"),
        ({}, {"dtype": torch.float64}, "a training with dtype=torch.float64; FILE holds one with dtype=torch.float32"),
        ({"device": "cuda"}, {}, "a training with device='cpu'; FILE holds one with device='cuda'"),
        ({}, {"backend": "envpool"}, "backend='EnvPoolEnv of CartPoleGymnasiumEnvPool'; FILE holds one with backend='TorchCartPole'"),
        ({"backend": "gymnasium"}, {"backend": "parallel"}, "backend='GymEnv of AsyncVectorEnv'; FILE holds one with backend='GymEnv of SyncVectorEnv'"),
        ({"backend": "gymnasium"}, {"backend": "gymnasium", "autoreset": "next_step"}, "autoreset='next_step'; FILE holds one with autoreset='same_step'"),
        ({}, {"steps": 1280}, "a training of ppo over 1280 steps; FILE holds one of ppo over 640 steps: go on with that, or under another name"),
        ({}, {"name": "a2c"}, "a training of a2c over 640 steps; FILE holds one of ppo over 640 steps"),
    ],
)  # fmt: skip
def test_a_training_is_resumed_with_what_it_began_with(first, second, message, file, tmp_path):
    path, second = tmp_path / "run.pt", {"name": "ppo", "env_id": "CartPole-v1", "steps": STEPS} | second
    here = {name: value for name, value in first.items() if name != "device"}  # there may be no such device
    stopped(*new("ppo", "CartPole-v1", **here), path)
    if file == "run.best.pt":
        path.unlink()
        message = message.replace("a training of", "the best agent of a training of")
    saved = read(tmp_path / file)
    saved["training"] |= {name: first[name] for name in first if name not in here}
    torch.save(saved, tmp_path / file)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="^checkpoint: wanted ") as error:
        steps = second.pop("steps")
        run(*new(**second), path, steps)
    assert message.replace("FILE", file) in str(error.value) and contents(tmp_path) == before


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (("run.pt", "run.best.pt"), "run.pt exists; wanted resume=True to go on from it, or"),
        (("run.best.pt",), "run.best.pt exists, the best agent of another run; wanted"),
    ],
)
def test_a_file_is_not_written_over_without_resume(left, told, means, tmp_path):
    for name in left:
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=f"^checkpoint: {told} another name$"):
        run(*new("ppo"), tmp_path / "run.pt", ROLLOUT, resume=False)
    assert contents(tmp_path) == dict.fromkeys(left, b"")


def test_the_command_line_resumes_with_the_seed_of_the_file_and_refuses_another(minerva, means, monkeypatch, tmp_path):
    monkeypatch.setattr(__main__, "evaluate", lambda agent, **how: {})
    words = "train a2c --env CartPole-v1 --device cpu --steps 320 --num-envs 4 --out run.pt --resume"
    assert minerva(f"{words} --seed 3 --history h.csv --save-config c.json") is None
    before = contents(tmp_path)
    refusal = minerva(f"{words} --seed 1 --history h1.csv --save-config c1.json")
    assert refusal.startswith("--out: wanted a training with seed=1") and "run.pt holds one with seed=3" in refusal
    assert contents(tmp_path) == before
    assert minerva(f"{words} --history h.csv --save-config c.json") is None and contents(tmp_path) == before
    assert json.loads(before["c.json"])["seed"] == 3 and read(tmp_path / "run.pt")["training"]["seed"] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train a2c --history old.csv", "--history: old.csv exists, and is not of this run; wanted another name"),
        ("train a2c --out new.pt --resume --history old.csv", "--history: old.csv exists"),
        ("train a2c --out old.pt --resume --history old.best.pt", "--history: old.best.pt exists"),
        ("train a2c --save-config old.json", "--save-config: old.json exists, and is not of this run"),
        ("train a2c --seed 5 --config old.json --save-config old.json", "--save-config: old.json exists"),
        ("train a2c --out new.pt --history new.pt", "--out: wanted a file that nothing else writes; new.pt is taken"),
        ("train a2c --out new.pt --history new.best.pt", "--out: wanted a file that nothing else writes; new.best.pt is taken"),
        ("train a2c --out new.pt --save-config link.pt", "--out: wanted a file that nothing else writes; new.pt is taken"),
        ("train a2c --history new --save-config new", "--save-config: wanted a file that nothing else writes; new is taken"),
        ("train a2c --out pipe --resume", "--out: wanted a file; got pipe"),
        ("study a2c --out pipe", "--out: wanted a file; got pipe"),
        ("video old.pt --out old.gif", "--out: old.gif exists, and is not of this run; wanted another name"),
    ],
)  # fmt: skip
def test_a_file_of_another_run_and_one_of_two_names_is_refused(words, message, minerva, means, tmp_path, monkeypatch):
    monkeypatch.setattr(__main__, "evaluate", lambda agent, **how: {})
    usual = " --env CartPole-v1 --steps 320 --num-envs 4"
    assert minerva("train a2c --seed 4 --out old.pt --history old.csv --save-config old.json" + usual) is None
    (tmp_path / "old.gif").write_text("a film")
    (tmp_path / "link.pt").symlink_to("new.pt")
    os.mkfifo(tmp_path / "pipe")
    before = contents(tmp_path)
    monkeypatch.setattr(loop, "evaluate", lambda *who, **how: pytest.fail("training began"))
    assert minerva(words + usual * (not words.startswith("video"))).startswith(message)
    assert contents(tmp_path) == before


# Two processes, one file


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("second", ["run.pt", "run.best.pt", "link.pt"])
def test_a_second_training_of_a_file_is_refused_while_the_first_goes_on(second, locks, means, tmp_path, monkeypatch):
    if not locks:
        monkeypatch.setattr(checkpoints.fcntl, "flock", lambda *which: (_ for _ in ()).throw(OSError(errno.ENOLCK, "")))
    (tmp_path / "link.pt").symlink_to("run.pt")
    refusals = []

    def try_it():
        with pytest.raises(ValueError, match="^checkpoint: wanted a file that nothing else writes; run.*pt is taken"):
            run(*new("ppo"), tmp_path / second)
        refusals.append(second)

    run(*new("ppo"), tmp_path / "run.pt", callback=at(128, try_it))
    assert refusals == [second] and sorted(contents(tmp_path)) == ["link.pt", "run.best.pt", "run.pt"]


def study(table, seeds):
    studies.study("ppo", ["CartPole-v1"], seeds, {"preset": {}}, table, progress=False)


def test_what_somebody_else_wrote_meanwhile_stands(means, tmp_path, monkeypatch):
    """As it may be where a file system has no locks."""
    other, path, table = b"of another process", tmp_path / "run.pt", tmp_path / "s.csv"
    with pytest.raises(OSError, match="^checkpoint: wanted run.pt as this run left it; somebody else has written it$"):
        run(*new("ppo"), path, callback=at(128, lambda: path.write_bytes(other)))
    assert path.read_bytes() == other

    def meanwhile(function, tasks, pool):
        for name in tasks:
            with table.open("ab") as file:
                file.write(other + b"\n")
            yield name, [dict.fromkeys(studies.COLUMNS, name[3])], None

    monkeypatch.setattr(studies, "outcomes", meanwhile)
    with pytest.raises(OSError, match=r"^path: wanted s.csv as this study left it"):
        study(table, [5, 6])
    lines = table.read_bytes().splitlines()[-4:]
    assert lines == [other, b",".join(12 * [b"5"]), other, b",".join(12 * [b"6"])]


def test_a_study_of_a_file_that_another_one_writes_is_refused_before_anything_runs(tmp_path, monkeypatch):
    path, refusals = tmp_path / "s.csv", []

    def meanwhile(function, tasks, pool):
        with pytest.raises(ValueError, match=r"^path: wanted a file that nothing else writes; s.csv is taken"):
            study(path, [7])
        refusals.append(7)
        for name in tasks:
            yield name, None, "Error: none"

    monkeypatch.setattr(studies, "outcomes", meanwhile)
    with pytest.warns(UserWarning, match="1 of 1 runs failed"):
        study(path, [0])
    assert refusals == [7] and list(contents(tmp_path)) == ["s.csv"]


def test_only_what_a_killed_run_of_this_name_left_is_removed(means, tmp_path):
    name, others = "run[0-9].pt", ["run1.pt.0123abcd.part", "run[0-9]_b.pt.0123abcd.part"]
    others += [f"{name}{rest}.part" for rest in ("", ".x", "2.0123abcd", "_b.0123abcd", ".old.0123abcd")]
    for part in [f"{name}.0123abcd.part", "run[0-9].best.pt.0123abcd.part", *others]:
        (tmp_path / part).touch()
    run(*new("ppo"), tmp_path / name, ROLLOUT)
    assert set(contents(tmp_path)) == {name, "run[0-9].best.pt", *others}


# Kills


def fork(work) -> int:
    """A process that does this and ends; 3 tells that it was refused."""
    if pid := os.fork():
        return pid
    code = 1
    try:
        work()
        code = 0
    except ValueError as error:
        code = 3 if "wanted a file that nothing else writes" in str(error) else 1
    finally:
        os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


OTHERS = [pytest.param(name, 20, marks=pytest.mark.slow) for name in AGENTS if name != "ppo"]


def test_a_kill_between_writing_and_renaming_harms_nothing(tmp_path, monkeypatch, same):
    path, replace, calls = tmp_path / "run.pt", os.replace, itertools.count(1)

    def torn(source, target):
        if next(calls) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", torn)
        assert ended(fork(lambda: run(*new("ppo"), path))) == -signal.SIGKILL
    assert list(tmp_path.glob("*.part")), "killed at the right moment"
    run(*(whole := new("ppo")))
    run(*(died := new("ppo")), path)
    assert same(whole[0].state_dict(), died[0].state_dict()) and not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(("name", "kills"), [("ppo", 6), pytest.param("ppo", 50, marks=pytest.mark.slow), *OTHERS])
def test_two_writers_killed_at_random_moments_lose_no_row_and_no_checkpoint(name, kills, tmp_path, monkeypatch, same):
    """Each time two processes begin the same training, and two the same study, and are killed."""

    def slowly(function, tasks, pool):
        for task in tasks:
            time.sleep(0.004)
            row = dict(zip(studies.COLUMNS, [*task, 64, time.time_ns(), 100, 1.5, 0.0, 1.5, 1.5, "-"], strict=True))
            yield task, [row | {"episodes": 10}, row], None

    monkeypatch.setattr(studies, "outcomes", slowly)
    table, path, seeds = tmp_path / "s.csv", tmp_path / "run.pt", range(10 * kills)
    history = run(*(whole := new(name)))
    clock, ends, rows, steps, best = random.Random(0), [], set(), 0, -1e9
    for _ in range(kills):
        children = [fork(work) for work in 2 * [lambda: study(table, seeds), lambda: run(*new(name), path)]]
        time.sleep(clock.uniform(0.05, 0.25))
        for child in children:
            os.kill(child, signal.SIGKILL)
        ends += [ended(child) for child in children]
        if table.exists():
            before, rows = rows, {tuple(row.values()) for row in studies.read_study(table)}
            assert before <= rows, "a finished row is lost"
        if path.exists():
            before, steps = steps, read(path)["training"]["steps"]
            assert steps >= before, "a checkpoint is lost"
        if (tmp_path / "run.best.pt").exists():
            before, best = best, read(tmp_path / "run.best.pt")["training"]["best_mean"]
            assert best >= before, "a better agent is lost"
    assert {3, -signal.SIGKILL} <= set(ends) <= {0, 3, -signal.SIGKILL}
    study(table, seeds)
    again = run(*(died := new(name)), path)
    every = {tuple(row.values()) for row in studies.read_study(table)}
    assert len(every) == 2 * len(seeds) and rows <= every
    assert same(whole[0].state_dict(), died[0].state_dict()) and timeless(history) == timeless(again)
    assert sorted(contents(tmp_path)) == ["run.best.pt", "run.pt", "s.csv"]


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_finishes_the_update_and_leaves_a_checkpoint(times, terminal, tmp_path, same):
    """A second one does not wait."""

    def press():
        for _ in range(times):
            handler, deadline = signal.getsignal(signal.SIGINT), time.monotonic() + 10
            signal.raise_signal(signal.SIGINT)
            # Another thread may put off the handling, and two signals that wait are one.
            while signal.getsignal(signal.SIGINT) is handler and time.monotonic() < deadline:
                time.sleep(0.001)

    (agent, env), before = new("ppo"), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(agent, env, tmp_path / "run.pt", callback=at(256, press), checkpoint_every=STEPS)
    assert signal.getsignal(signal.SIGINT) is before
    assert (tmp_path / "run.pt").exists() == (times == 1)
    if times == 1:
        saved = read(tmp_path / "run.pt")
        assert saved["training"]["steps"] == 256 and same(saved["state"], agent.state_dict())


# The best agent, the history


def test_the_best_agent_is_never_replaced_by_a_worse_one(means, tmp_path):
    """By a run that goes on from a checkpoint older than the best evaluation, and by one without a checkpoint."""
    path, best, how = tmp_path / "run.pt", tmp_path / "run.best.pt", {"eval_every": 64, "steps": 320}
    means += [1.0, 2.0, 500.0]
    stopped(*new("ppo"), path, 256, checkpoint_every=100, **how)
    assert read(path)["training"]["steps"] == 128, "the best evaluation was at 192"
    for checkpoint_is_there in (True, False):
        before = best.read_bytes()
        assert path.exists() == checkpoint_is_there
        means[:] = [300.0, 500.0, 300.0, 300.0, 300.0]
        run(*new("ppo"), path, **how)
        assert best.read_bytes() == before and read(best)["training"]["best_mean"] == 500.0
        path.unlink()
    means[:] = [300.0, 501.0]
    run(*new("ppo"), path, **how)
    assert read(best)["training"]["best_mean"] == 501.0 and load(best, device="cpu").name == "ppo"
    path.unlink()
    save(load(best, device="cpu"), best)  # as older versions wrote it
    with pytest.raises(ValueError, match=r"^checkpoint: wanted the best agent of .*; run.best.pt holds ppo alone"):
        run(*new("ppo"), path, **how)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), FloatingPointError("reward: not finite"), ValueError("max_steps: wanted"), None]
)
def test_the_history_is_written_however_the_training_ends(error, means, minerva, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(__main__, "evaluate", lambda agent, **how: {"eval/mean": 7.0})
    words = "train a2c --env CartPole-v1 --device cpu --steps 320 --num-envs 4 --eval-every 64 --eval-episodes 1"
    means += [1.0, error or 2.0]
    end = minerva(f"{words} --history h.csv")
    assert end is None if error is None else end.startswith(str(error) or "stopped; ")
    rows = (tmp_path / "h.csv").read_text().splitlines()
    assert any(row.startswith("128,") and ",loss/" in row for row in rows)
    assert any(row.startswith("320,") for row in rows) == (error is None)
    if error is None:  # the last figures are told even where the history finds no room
        full = OSError("--history: wanted room")
        monkeypatch.setattr(__main__, "write_text", lambda path, text, name: (_ for _ in ()).throw(full))
        assert minerva(f"{words} --history full.csv") == 1
        out, err = capsys.readouterr()
        assert out == 2 * '{"eval/mean": 7.0}\n' and "\n--history: wanted room\n" in err


def test_links_stay_and_devices_are_written_to(tmp_path, capfd):
    history = History(updates=[{"steps": 1, "seconds": 0.5, "a": 1.0}])
    (tmp_path / "there").touch()
    for name in ("there", "missing"):
        (tmp_path / f"to {name}").symlink_to(tmp_path / name)
        history.to_csv(tmp_path / f"to {name}")
        assert (tmp_path / f"to {name}").is_symlink() and (tmp_path / name).read_bytes() == history.text().encode()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    history.to_csv(pipe)
    assert os.read(reader, 1000) == history.text().encode() and pipe.is_fifo()
    print("first")  # the standard output is a file here
    History().to_csv("/dev/stdout")
    print("last")
    assert capfd.readouterr().out.split() == ["first", "steps,seconds,name,value", "last"]
    assert list(tmp_path.glob("*.part")) == []
