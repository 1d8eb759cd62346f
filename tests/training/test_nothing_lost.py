"""Nothing is lost or exchanged in silence: two writers, files that exist, seeds of a resumed run, the best agent."""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

from minerva_lite import History, PPOAgent, PPOConfig, __main__, load, make_env
from minerva_lite.training import checkpoints, loop, studies
from minerva_lite.training.checkpoints import read, save
from minerva_lite.training.loop import train
from tests.training.test_resume import run, same, told

SMALL = PPOConfig(num_envs=4, rollout_steps=16, minibatch_size=32, epochs=1, hidden=(8,))


def small(seed=2, env_seed=1, dtype=torch.float32, **where):
    env = make_env("CartPole-v1", 4, dtype=dtype, **where)
    env.seed = env_seed
    return PPOAgent(SMALL, env.spec, seed=seed, device="cpu", dtype=dtype), env


def go(path, made=None, steps=320, **options):
    settings = {"eval_every": 64, "eval_episodes": 1, "progress": False, "resume": True}
    return train(*(made or small()), steps, checkpoint=path, **settings | options)


class Stopped(Exception):
    """A training that ends before its time."""


def at(steps, act):
    """A callback that acts once, after the update that ends there."""
    return lambda row: act() if row["steps"] == steps and "eval/mean" not in row else None


def stop():
    raise Stopped


@pytest.fixture
def means(monkeypatch):
    """What evaluations give, one after another: a number, or an error to raise."""
    queue = []

    def pretend(agent, **how):
        if isinstance(mean := queue.pop(0) if queue else 0.0, BaseException):
            raise mean
        return {"eval/mean": mean}

    monkeypatch.setattr(loop, "evaluate", pretend)
    return queue


@pytest.fixture
def minerva(monkeypatch, tmp_path):
    """The command line in a folder of its own; what a training ends with is None, or the line of an error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(__main__, "evaluate", lambda agent, **how: {"eval/mean": 7.0})

    def command(words):
        if words.startswith("train"):
            words += " --env CartPole-v1 --device cpu --steps 320 --num-envs 4 --eval-every 64 --eval-episodes 1"
        monkeypatch.setattr(sys, "argv", ["minerva_lite", *words.split()])
        try:
            __main__.main()
        except SystemExit as end:
            return end.code

    return command


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# Two processes, one file


@pytest.mark.parametrize("locks", [True, False])
@pytest.mark.parametrize("second", ["run.pt", "run.best.pt", "link.pt"])
def test_a_second_training_of_a_file_is_refused_while_the_first_goes_on(second, locks, tmp_path, monkeypatch):
    if not locks:
        monkeypatch.setattr(checkpoints.fcntl, "flock", lambda *which: (_ for _ in ()).throw(OSError(errno.ENOLCK, "")))
    (tmp_path / "link.pt").symlink_to("run.pt")
    refusals = []

    def try_it():
        with pytest.raises(ValueError, match="^checkpoint: wanted a file that nothing else writes; run.*pt is taken"):
            go(tmp_path / second)
        refusals.append(second)

    go(tmp_path / "run.pt", callback=at(128, try_it))
    assert refusals == [second] and sorted(contents(tmp_path)) == ["link.pt", "run.best.pt", "run.pt"]


def test_a_study_of_a_file_that_another_one_writes_is_refused_before_anything_runs(tmp_path, monkeypatch):
    path, refusals = tmp_path / "s.csv", []

    def meanwhile(function, tasks, pool):
        with pytest.raises(ValueError, match=r"^path: wanted a file that nothing else writes; s.csv is taken"):
            studies.study("ppo", ["CartPole-v1"], [7], None, path, progress=False)
        refusals.append(7)
        for name in tasks:
            yield name, None, "Error: none"

    monkeypatch.setattr(studies, "outcomes", meanwhile)
    with pytest.warns(UserWarning, match="1 of 1 runs failed"):
        studies.study("ppo", ["CartPole-v1"], [0], {"preset": {}}, path, progress=False)
    assert refusals == [7] and list(contents(tmp_path)) == ["s.csv"]


def test_what_somebody_else_wrote_meanwhile_stands(tmp_path, monkeypatch):
    """As it may be where a file system has no locks."""
    other = b"of another process"
    with pytest.raises(OSError, match="^checkpoint: wanted run.pt as this run left it; somebody else has written it$"):
        go(tmp_path / "run.pt", callback=at(128, lambda: (tmp_path / "run.pt").write_bytes(other)))
    assert (tmp_path / "run.pt").read_bytes() == other

    def meanwhile(function, tasks, pool):
        for name in tasks:
            with (tmp_path / "s.csv").open("ab") as file:
                file.write(other + b"\n")
            yield name, [dict.fromkeys(studies.COLUMNS, name[3])], None

    monkeypatch.setattr(studies, "outcomes", meanwhile)
    with pytest.raises(OSError, match=r"^path: wanted s.csv as this study left it"):
        studies.study("ppo", ["CartPole-v1"], [5, 6], {"preset": {}}, tmp_path / "s.csv", progress=False)
    lines = (tmp_path / "s.csv").read_bytes().splitlines()[-4:]
    assert lines == [other, b",".join(12 * [b"5"]), other, b",".join(12 * [b"6"])]


def test_only_its_own_rests_of_a_killed_process_are_removed(tmp_path):
    name = "run[0-9].pt"
    own = [f"{name}.0123abcd.part", "run[0-9].best.pt.0123abcd.part"]
    others = ["run7.pt.0123abcd.part", f"{name}_b.0123abcd.part", "run[0-9]_b.pt.0123abcd.part", f"{name}.part"]
    for part in own + others:
        (tmp_path / part).touch()
    go(tmp_path / name)
    assert sorted(contents(tmp_path)) == sorted([*others, name, "run[0-9].best.pt"])


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


@pytest.mark.parametrize("kills", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_two_writers_killed_at_random_moments_lose_no_row_and_no_checkpoint(kills, tmp_path, monkeypatch):
    """Each time two processes begin the same training, and two the same study, and are killed."""

    def slowly(function, tasks, pool):
        for name in tasks:
            time.sleep(0.004)
            row = dict(zip(studies.COLUMNS, [*name, 64, time.time_ns(), 100, 1.5, 0.0, 1.5, 1.5, "-"], strict=True))
            yield name, [row | {"episodes": 10}, row], None

    monkeypatch.setattr(studies, "outcomes", slowly)
    table, path = tmp_path / "s.csv", tmp_path / "run.pt"
    seeds = range(10 * kills)

    def study():
        studies.study("ppo", ["CartPole-v1"], seeds, {"preset": {}}, table, progress=False)

    unbroken, history = run("ppo", None)
    clock, ends, rows, steps, best = random.Random(0), [], set(), 0, -1e9
    for _ in range(kills):
        children = [fork(work) for work in 2 * [study, lambda: run("ppo", path)]]
        time.sleep(clock.uniform(0.05, 0.25))
        for child in children:
            os.kill(child, signal.SIGKILL)
        ends += [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
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
    study()
    died, again = run("ppo", path)
    every = {tuple(row.values()) for row in studies.read_study(table)}
    assert len(every) == 2 * len(seeds) and rows <= every
    assert same(unbroken.state_dict(), died.state_dict()) == [] and told(history) == told(again)
    assert sorted(contents(tmp_path)) == ["run.best.pt", "run.pt", "s.csv"]


# What belongs to a run


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {"seed": 3}, "seed=3; run.pt holds one with seed=2"),
        ({}, {"env_seed": 3}, "env_seed=3; run.pt holds one with env_seed=1"),
        ({}, {"stagger": True}, "stagger=True; run.pt holds one with stagger=False"),
        ({}, {"dtype": torch.float64}, "dtype=torch.float64; run.pt holds one with dtype=torch.float32"),
        ({"backend": "parallel"}, {"backend": "gymnasium"}, "backend='GymEnv of SyncVectorEnv'; run.pt holds one with backend='GymEnv of AsyncVectorEnv'"),
        ({"backend": "parallel"}, {"backend": "parallel", "autoreset": "next_step"}, "autoreset='next_step'; run.pt holds one with autoreset='same_step'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("best_alone", [False, True])
def test_a_training_is_resumed_with_what_it_began_with(first, second, message, best_alone, tmp_path):
    with pytest.raises(Stopped):
        go(tmp_path / "run.pt", small(**first), callback=at(128, stop))
    if best_alone:
        (tmp_path / "run.pt").unlink()
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="^checkpoint: wanted a training with ") as error:
        go(tmp_path / "run.pt", small(**second))
    assert (message.replace("run.pt", "run.best.pt") if best_alone else message) in str(error.value)
    assert contents(tmp_path) == before


def test_a_file_that_tells_no_seed_is_resumed_as_before(tmp_path):
    with pytest.raises(Stopped):
        go(tmp_path / "run.pt", callback=at(128, stop))
    for file in tmp_path.iterdir():
        saved = read(file)
        del saved["training"]["seed"], saved["training"]["env_seed"]
        torch.save(saved, file)
    assert go(tmp_path / "run.pt", small(seed=9)).updates[-1]["steps"] == 320


def test_the_command_line_resumes_with_the_seed_of_the_file_and_refuses_another(minerva, tmp_path):
    words = "train a2c --out run.pt --resume"
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
        ("study a2c --env CartPole-v1 --out pipe", "--out: wanted a file; got pipe"),
        ("video old.pt --out old.gif", "--out: old.gif exists, and is not of this run; wanted another name"),
    ],
)  # fmt: skip
def test_a_file_of_another_run_and_one_of_two_names_is_refused(words, message, minerva, tmp_path, monkeypatch):
    assert minerva("train a2c --seed 4 --out old.pt --history old.csv --save-config old.json") is None
    (tmp_path / "old.gif").write_text("a film")
    (tmp_path / "link.pt").symlink_to("new.pt")
    os.mkfifo(tmp_path / "pipe")
    before = contents(tmp_path)
    monkeypatch.setattr(loop, "evaluate", lambda *who, **how: pytest.fail("training began"))
    assert minerva(words).startswith(message)
    assert contents(tmp_path) == before


def test_links_stay_and_devices_are_written_to(tmp_path):
    history = History(updates=[{"steps": 1, "seconds": 0.5, "a": 1.0}])
    for there in (True, False):
        link, target = tmp_path / f"link{there}", tmp_path / f"target{there}"
        link.symlink_to(target)
        if there:
            target.touch()
        history.to_csv(link)
        assert link.is_symlink() and target.read_bytes() == history.text().encode()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    history.to_csv(pipe)
    assert os.read(reader, 1000) == history.text().encode() and pipe.is_fifo()
    program = "import minerva_lite as m; print('first'); m.History().to_csv('/dev/stdout'); print('last')"
    with (tmp_path / "printed").open("wb") as file:
        subprocess.run([sys.executable, "-c", program], stdout=file, check=True)
    assert (tmp_path / "printed").read_text().split() == ["first", "steps,seconds,name,value", "last"]
    assert list(tmp_path.glob("*.part")) == []


# The best agent, the history, the rows


def test_the_best_agent_is_never_replaced_by_a_worse_one(means, tmp_path):
    """By a run that goes on from a checkpoint older than the best evaluation, and by one without a checkpoint."""
    path, best = tmp_path / "run.pt", tmp_path / "run.best.pt"
    means += [1.0, 500.0]
    with pytest.raises(Stopped):
        go(path, checkpoint_every=100, callback=at(192, stop))
    for checkpoint_is_there in (True, False):
        kept = best.read_bytes()
        assert path.exists() == checkpoint_is_there
        means[:] = [300.0, 500.0, 300.0, 300.0, 300.0]
        go(path)
        assert best.read_bytes() == kept and read(best)["training"]["best_mean"] == 500.0
        path.unlink()
    means[:] = [300.0, 501.0]
    go(path)
    assert read(best)["training"]["best_mean"] == 501.0 and load(best, device="cpu").name == "ppo"
    path.unlink()
    save(load(best, device="cpu"), best)  # as older versions wrote it
    with pytest.raises(ValueError, match=r"^checkpoint: wanted the best agent of .*; run.best.pt holds ppo alone"):
        go(path)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), FloatingPointError("reward: not finite"), ValueError("max_steps: wanted"), None]
)
def test_the_history_is_written_however_the_training_ends(error, means, minerva, tmp_path, monkeypatch, capsys):
    means += [1.0, error or 2.0]
    end = minerva("train a2c --history h.csv")
    assert end is None if error is None else end.startswith(str(error) or "stopped; ")
    rows = (tmp_path / "h.csv").read_text().splitlines()
    assert any(row.startswith("128,") and ",loss/" in row for row in rows)
    assert any(row.startswith("320,") for row in rows) == (error is None)
    if error is None:  # the last figures are told even where the history finds no room
        monkeypatch.setattr(History, "to_csv", lambda self, path: (_ for _ in ()).throw(OSError("path: wanted room")))
        assert minerva("train a2c --history full.csv") == 1
        told = capsys.readouterr()
        assert told.out == 2 * '{"eval/mean": 7.0}\n' and "\n--history: wanted room\n" in told.err


def test_a_callback_cannot_change_the_history_and_a_misspelled_figure_is_named():
    history = train(*small(), 64, eval_episodes=1, progress=False, callback=lambda row: row.clear())
    assert history.steps("eval/mean").tolist() == history.column("steps").tolist() == [64]
    with pytest.raises(ValueError, match=r"^name: wanted a figure .*; got 'eval/maen'; did you mean eval/mean"):
        history.column("eval/maen")
    assert History().column("eval/maen").shape == history.column("train/episode_return")[:0].shape == (0,)
