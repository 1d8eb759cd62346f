"""Can the bench be believed? Its arithmetic, its table, and that both sides are watched alike."""

from __future__ import annotations

import csv
import dataclasses
import re
import shlex
import shutil
import sys
from math import inf

import pytest
import torch

import minerva_lite
from book.results.peers import bench, bench_gpu, language, measure, speed_minerva, throughput
from book.results.peers.bench import COLUMNS, ROOT, paired_speedup, runs_of, summary
from book.results.peers.run_minerva import Watch
from book.results.peers.throughput_rows import TASKS
from tests.living import live
from tests.runs import new


def rows_of(means, final, *, runner="torch", seed=0, pace=1.0):
    """Evaluations every 100 Pendulum steps, `pace` seconds apart, then the final one."""
    points = [(100 * i, pace * i, 0.9 * pace * i, 20, mean) for i, mean in enumerate(means, start=1)]
    points.append((*points[-1][:3], 100, final))
    return [dict(zip(COLUMNS, ("Pendulum-v1", runner, seed, *point), strict=True)) for point in points]


@pytest.mark.parametrize(("means", "steps", "seconds", "relapses"), [
    ([-900, -200, -150], 200, 2.0, 0),  # reaching the target is enough
    ([-900, -201, -150], 300, 3.0, 0),
    ([-150, -465, -190, -200.5], 100, 1.0, 2),
    ([-900, -465, -200.1], inf, inf, 0),  # the final policy is good, and does not make up for it
])  # fmt: skip
def test_first_crossing_and_relapses(means, steps, seconds, relapses):
    (run,) = runs_of(rows_of(means, -170.0))
    assert (run.solve_steps, run.solve_seconds, run.relapses) == (steps, seconds, relapses)
    assert (run.final, run.steps, run.seconds, run.solved) == (-170.0, 100 * len(means), len(means), steps < inf)


def pairs(ours, theirs):
    """Runs that solve after so many seconds, by seed, told apart in one table; None: not at all."""
    rows = []
    for runner, times in (("torch", ours), ("sb3", theirs)):
        for seed, seconds in enumerate(times):
            mean, pace = (-900, 9.0) if seconds is None else (-100, seconds)
            rows += rows_of([mean], -100.0, runner=runner, seed=seed, pace=pace)
    return [[run for run in runs_of(rows) if run.runner == runner] for runner in ("torch", "sb3")]


@pytest.mark.parametrize(("ours", "theirs", "ratio"), [
    ([1.0, 2.0, 4.0], [4.0, 4.0, 40.0], 4.0),  # 4, 2 and 10; the ratio of the medians would be 2
    ([1.0, None, 1.0], [4.0, 4.0, 4.0], 4.0),  # a seed of ours that fails counts as 0
    ([None, None, 1.0], [4.0, 4.0, 4.0], 0.0),
    ([1.0, 1.0, 1.0], [None, 5.0, 3.0], 5.0),
    ([2.0, None], [6.0, None], 3.0),  # neither solved: left out
])  # fmt: skip
def test_paired_speedup(ours, theirs, ratio):
    assert paired_speedup(*pairs(ours, theirs)) == ratio


def test_summary_shows_medians_worst_seeds_and_failures():
    ours, theirs = pairs([1.0, 2.0, None, 3.0, 2.5], [8.0, 10.0, 20.0, 15.0, 5.0])
    title, head, sb3, torch_line = summary(theirs + ours).splitlines()
    assert title.startswith("Pendulum-v1, target -200")
    assert sb3.split()[:6] == ["sb3", "5/5", "10.00", "(20.00)", "100", "(100)"]
    assert torch_line.split()[:6] == ["torch", "4/5", "2.50", "(inf)", "100", "(inf)"]
    assert torch_line.split()[-3:] == ["4.00", "5.00", "1.11"]  # of medians, paired, wall over CPU


@pytest.mark.parametrize("runners", [("sb3", "torch"), ("torch",), ("sb3",)])
def test_summary_of_failures_and_of_a_part_of_the_runners(runners):
    runs = [run for group in pairs([None], [None]) for run in group if run.runner in runners]
    lines = summary(runs).splitlines()[2:]
    assert [line.split()[:2] for line in lines] == [[name, "0/1"] for name in runners]
    told = "0.00" if "sb3" in runners else "-"  # a race that nobody won, or no race
    assert all(line.split()[-3:-1] == [told, told] for line in lines)


RESULTS = ROOT / "book" / "results"
TABLES = {f"peers_{algorithm}": bench.TABLE for algorithm in bench.ALGORITHMS}
TABLES |= {"peers_language": language.TABLE, "throughput": throughput.TABLE}


def test_every_recorded_race_is_here():
    assert {path.stem for path in RESULTS.glob("peers_*.csv")} | {"throughput"} == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_a_recorded_file_is_written_again_as_it_is(name, tmp_path, monkeypatch):
    """Byte by byte, from fractions with more digits than are written."""
    recorded, table = RESULTS / f"{name}.csv", TABLES[name]
    command, told = (line.partition(": ")[2] for line in recorded.read_text().splitlines()[:2])
    monkeypatch.setattr(sys, "argv", shlex.split(command)[2:])
    rows = [row | {column: row[column] + 1e-7 for column in table.digits} for row in table.read(recorded)]
    table.write(tmp_path / "again.csv", rows, dict(each.rsplit(" ", 1) for each in told.split(", ")))
    assert (tmp_path / "again.csv").read_bytes() == recorded.read_bytes()


@pytest.mark.parametrize(("env_id", "scale", "squash"), [
    ("Pendulum-v1", 2.0, False), ("Pendulum-v1", 2.0, True), ("CartPole-v1", 1, False),
])  # fmt: skip
def test_both_sides_are_evaluated_alike(env_id, scale, squash):
    """By raw rewards, the policy's mode and whole episodes of the official environment, and ours by its statistics."""
    agent, env = new("ppo", env_id, squash=squash, learning_rate=3e-3)
    live(agent, env, env.reset(), 10)

    def policy(obs):
        action, _ = agent.act(torch.as_tensor(obs, dtype=torch.float32), deterministic=True)
        action = agent.policy.to_env(action).numpy()
        return scale * (action if env_id == "CartPole-v1" else action.clip(-1.0, 1.0))

    theirs = measure.evaluate(policy, env_id, 4)
    assert theirs == pytest.approx(minerva_lite.evaluate(agent, episodes=4)["eval/mean"], rel=1e-4)
    assert theirs != pytest.approx(minerva_lite.evaluate(agent, episodes=4, seed=0)["eval/mean"], rel=1e-4)


def test_both_sides_are_evaluated_at_the_same_steps_and_off_the_clock(monkeypatch):
    agent, env = new("ppo", "CartPole-v1")
    hour = {"now": 0.0}
    monkeypatch.setattr(measure.Clock, "now", staticmethod(lambda: (hour["now"], hour["now"])))

    def slow(seconds, figures):
        return lambda *_, **__: hour.update(now=hour["now"] + seconds) or figures

    monkeypatch.setattr("minerva_lite.training.loop.evaluate", slow(1000.0, {"eval/mean": 1.0}))
    monkeypatch.setattr(agent, "update", slow(1.0, {}))
    watch = Watch(measure.Clock())
    minerva_lite.train(agent, env, 640, eval_every=100, progress=False, callback=watch)
    cadence = measure.Cadence(100)
    assert [row[0] for row in watch.rows] == [steps for steps in range(64, 641, 64) if cadence.due(steps)]
    assert [row[:3] for row in watch.rows] == [(row[0], row[0] / 64, row[0] / 64) for row in watch.rows]
    assert [row[0] for row in watch.rows] == [128, 256, 320, 448, 512, 640]


@pytest.mark.parametrize(("file", "alike"), [
    ("requirements.txt", {"torch", "numpy", "gymnasium", "mujoco", "imageio"}),
    ("requirements_trl.txt", {"torch", "numpy"}),
])  # fmt: skip
def test_the_peers_run_on_the_versions_of_the_book(file, alike):
    ours, theirs = ((ROOT / name).read_text().split() for name in ("requirements.txt", f"book/results/peers/{file}"))
    shared = {pin.split("==")[0] for pin in set(ours) & set(theirs) if "==" in pin}
    assert shared == alike


@pytest.mark.skipif(torch.cuda.is_available(), reason="here it would measure")
def test_without_a_gpu_nothing_is_measured_and_nothing_written(tmp_path, capsys):
    bench_gpu.main(["--out", str(tmp_path / "gpu.csv")])
    assert "nothing measured" in capsys.readouterr().out and not any(tmp_path.iterdir())


def test_the_pages_table_of_the_gpu_is_that_of_the_recorded_rows():
    with (RESULTS / "gpu_table.csv").open(newline="") as file:
        assert list(csv.reader(file)) == bench_gpu.table(RESULTS / "gpu.csv")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")
def test_the_bench_of_the_gpu_runs_on_a_cpu_to_be_tried_out(tmp_path, monkeypatch):
    monkeypatch.setattr(bench_gpu, "LIMIT", bench_gpu.EVERY)
    tiny = ["--device", "cpu", "--envs", "16", "--iterations", "1", "--seeds", "1"]
    bench_gpu.main([*tiny, "--out", str(tmp_path / "gpu.csv")])
    command, device, header, *rows = (tmp_path / "gpu.csv").read_text().splitlines()
    assert command.endswith(shlex.join([*tiny, "--out", str(tmp_path / "gpu.csv")])) and device.startswith("# device: ")
    told = [row.split(",") for row in rows]
    assert header == ",".join(bench_gpu.COLUMNS)
    wanted = [(mode, what) for mode in bench_gpu.MODES for what in ("steps_per_second", "waits")]
    wanted += [("recorded", what) for what in ("solve_seconds", "solve_steps", "final")]
    assert [(mode, what) for _, mode, what, _ in told] == wanted
    assert all(float(value) > 0 for _, _, what, value in told if what == "steps_per_second")
    assert len((tmp_path / "gpu_table.csv").read_text().splitlines()) == 2
    assert told[8][3] == "inf", "four updates of sixteen environments solve nothing, and that is said"


def test_the_throughput_table_pairs_each_repeat_with_the_faster_peer(tmp_path):
    seconds = {"torch": [1.0, 2.0, 4.0], "gymnasium": [2.0, 2.0, 2.0], "sb3": [2.0, 8.0, 4.0], "tianshou": [4.0] * 3}
    seconds["preset"] = [1.0] * 3
    rows = [
        {"task": "pendulum-4", "runner": name, "repeat": i, "steps": 8, "seconds": s, "cpu_seconds": s / 1.5}
        for name, times in seconds.items()
        for i, s in enumerate(times)
    ]
    throughput.TABLE.write(tmp_path / "throughput.csv", rows, {"torch": "1"})
    back = throughput.TABLE.read(tmp_path / "throughput.csv")
    assert throughput.speeds(back, "pendulum-4", "torch") == [8.0, 4.0, 2.0]
    header, row = throughput.table(back)
    assert header[1:] == ["torch", "gym", "sb3", "tianshou", "torch / best", "gym / best"], "no preset: it has no peer"
    # Of the pairs 2, 2 and 1 against the faster peer of the same repeat the median is 2; of 1, 2 and 2, too.
    assert row == ["pendulum\u00a04", "4", "4", "2", "2", "2.00", "2.00"]
    *_, foot = throughput.summary(back).splitlines()
    assert foot.endswith("worst run: 1.50")


@pytest.mark.parametrize("name", list(TASKS))
def test_every_row_of_the_throughput_table_trains_here(name):
    task = TASKS[name]
    config = speed_minerva.config_of(task)
    assert config.batch_size == task.rollout and task.rollout % task.minibatch == 0
    assert (config.hidden, config.normalize_advantage) == ((64, 64), True)
    if task.algorithm == "ppo":
        assert (config.clip_eps, config.epochs, config.minibatch_size) == (0.2, task.epochs, task.minibatch)
    else:
        assert (config.kl_bound, config.damping, config.cg_iterations) == (0.01, 0.1, 15)
        assert (config.value_iterations, config.value_minibatch) == (task.epochs, task.minibatch)
    small = dataclasses.replace(task, updates=1)
    steps, seconds, cpu_seconds = speed_minerva.run(small, "auto", "task")
    assert steps == task.rollout and seconds > 0 and cpu_seconds > 0


def test_the_page_shows_what_was_measured():
    """The table of the page is the summary of the raw rows beside it."""
    with (RESULTS / "throughput_table.csv").open(newline="", encoding="utf8") as file:
        shown = list(csv.reader(file))
    rows = throughput.TABLE.read(RESULTS / "throughput.csv")
    assert shown == throughput.table(rows)
    assert [line[0].replace("\u00a0", "-") for line in shown[1:]] == list(TASKS)
    page = " ".join((ROOT / "book/train.md").read_text("utf8").split()).lower()
    versions = (RESULTS / "throughput.csv").read_text("utf8").splitlines()[1]
    told = re.findall(r"\b(python|torch|stable-baselines3|tianshou) ([\d.]+)", versions)
    assert len(told) == 4 and all(f"{name} {number}" in page for name, number in told)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_settings_of_the_gpu_bench_solve_pendulum(seed):
    trainer = bench_gpu.Trainer(1024, "plain", torch.device("cpu"), seed=seed)
    for _ in range(32):
        trainer.iterate()
    assert minerva_lite.evaluate(trainer.agent, episodes=100)["eval/mean"] > bench_gpu.TARGET
