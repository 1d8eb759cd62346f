"""TensorBoard and Weights & Biases hold what the callback was told, read back from what they wrote."""

from __future__ import annotations

import json
import os
import sys
import time
import types

import pytest

from minerva_lite.training.trackers import TensorBoard, WeightsAndBiases, same_run
from tests.runs import Stopped, new, run


def trained(callback, path=None, steps=256, **how):
    return run(*new("ppo", "CartPole-v1"), path, steps, eval_every=128, callback=callback, **how)


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    """Every curve of a TensorBoard folder, as TensorBoard itself reads it."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in events.Tags()["scalars"]}


def told_of(folder):
    """Project, rows by step and exit code of the one run of W&B in a folder.

    Its file has a header, then LevelDB's log, in blocks of 32 KiB.
    """
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record

    wandb.teardown()  # its process writes after `finish` has returned
    [path] = folder.glob("wandb/offline-run-*/*.wandb")
    data, at, whole, rows, told = path.read_bytes(), 7, b"", [], {}
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # too little for a record's head: zeros to the end of the block
            at += 32768 - at % 32768
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # the whole of a record, or its end
            record = Record.FromString(whole)
            told[record.WhichOneof("record_type")], whole = record, b""
            if record.HasField("history"):
                row = {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
                row = {name: value for name, value in row.items() if not name.startswith("_")}
                rows.append((record.history.step.num, row))
    return told["run"].run.project, rows, told["exit"].exit.exit_code


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """W&B on this machine alone, with everything that it writes in one folder."""
    wandb = pytest.importorskip("wandb")
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.chdir(tmp_path)
    yield {"mode": "offline", "dir": str(tmp_path)}
    wandb.teardown()


def test_tensorboard_shows_every_figure_over_steps_and_of_a_resumed_run_from_its_checkpoint_on(tmp_path):
    """Killed a rollout after the checkpoint, in the middle of a record. TensorBoard keeps 32 bits."""
    folder, path = tmp_path / "run", tmp_path / "agent.pt"
    first = TensorBoard(folder)

    def doomed(row):
        first(row)
        [events] = folder.iterdir()
        size = events.stat().st_size
        time.sleep(0.02)
        assert events.stat().st_size == size, "a kill here loses no figure"
        if row["steps"] == 192:
            first({"steps": 192.0, "train/stale": 1.0})
            first({"steps": 192.0, "train/torn": 1.0})
            raise Stopped

    with pytest.raises(Stopped):
        trained(doomed, path)
    [events] = folder.iterdir()
    assert {"train/stale", "train/torn"} < scalars(folder).keys()
    events.write_bytes(events.read_bytes()[:-5])
    with TensorBoard(folder) as second:
        history = trained(second, path)
    found, told = {name: curve for name, curve in scalars(folder).items() if curve}, {}
    for row in history.updates + history.evaluations:
        for name, value in row.items():
            if name not in ("steps", "seconds"):
                told.setdefault(name, []).append((int(row["steps"]), pytest.approx(value, rel=1e-6, nan_ok=True)))
    # The row of an evaluation repeats the seconds of the update before it.
    assert [step for step, _ in found.pop("seconds")] == [64, 128, 128, 192, 256, 256]
    assert found == told and len(found["loss/policy"]) == 4 and len(found["eval/mean"]) == 2


def test_weights_and_biases_holds_every_figure_over_steps_that_do_not_go_back_and_that_a_run_failed(offline, tmp_path):
    with pytest.raises(RuntimeError), WeightsAndBiases("book", **offline) as tracker:
        history = trained(tracker)
        tracker({"steps": 64, "loss/policy": 3.0})
        tracker({"steps": 320, "loss/policy": 4.0})
        raise RuntimeError
    project, found, exit_code = told_of(tmp_path)
    assert (project, exit_code) == ("book", 1)
    told = {}
    for row in sorted(history.updates + history.evaluations, key=lambda row: row["steps"]):
        told.setdefault(row["steps"], {}).update({name: value for name, value in row.items() if name != "steps"})
    told[320] = {"loss/policy": 4.0}
    assert [step for step, _ in found] == [64, 128, 192, 256, 320] and "eval/mean" in found[1][1]
    assert [(step, pytest.approx(row, nan_ok=True)) for step, row in told.items()] == found
    assert {path.name for path in tmp_path.iterdir()} <= {"wandb", "cache", "config", "data"}


def test_a_resumed_training_goes_on_with_its_run_and_another_one_does_not(tmp_path):
    path = tmp_path / "run.pt"
    first = same_run(path, False)
    assert first["resume"] == "allow" and len(first["id"]) == 8
    assert same_run(path, True) == first, "killed before its first checkpoint"
    path.write_bytes(b"")
    assert same_run(path, True) == same_run(str(path), True) == first
    assert same_run(path, False) == {} and same_run(path, True) == first, "a training that is refused changes nothing"
    path.unlink()
    second = same_run(path, False)
    assert second["id"] != first["id"] and same_run(path, True) == second
    assert same_run(None, True) == {} and same_run(tmp_path / "other.pt", True)["id"] not in (first["id"], second["id"])
    assert {file.name for file in tmp_path.iterdir()} == {"run.pt.wandb", "other.pt.wandb"}


def test_the_command_line_resumes_its_run(minerva, monkeypatch):
    runs, ends = [], []

    class Run:
        def __init__(self, **settings):
            runs.append(settings)

        def log(self, row, step):
            if len(runs) == 1:
                raise KeyboardInterrupt

        def finish(self, exit_code):
            ends.append(exit_code)

    wandb = types.ModuleType("wandb")
    wandb.init = Run
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    words = "train a2c --env CartPole-v1 --steps 256 --episodes 1 --wandb book --out run.pt"
    assert minerva(f"{words} --resume").startswith("stopped; ")
    assert minerva(f"{words} --resume") is None and minerva(words).startswith("--out: run.pt exists; wanted --resume")
    assert [run["project"] for run in runs] == ["book", "book"] and runs[0]["id"] == runs[1]["id"]
    assert {run["resume"] for run in runs} == {"allow"} and ends == [1, 0]


@pytest.mark.parametrize("tracker", [TensorBoard, WeightsAndBiases])
def test_a_missing_library_names_the_extra_at_once(tracker, monkeypatch, tmp_path):
    package = {TensorBoard: "torch.utils.tensorboard", WeightsAndBiases: "wandb"}[tracker]
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{tracker.__name__} needs `pip install minerva_lite\[tracking\]`"):
        tracker(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_named_wandb_is_not_taken_for_the_package(monkeypatch, tmp_path):
    (tmp_path / "wandb").mkdir()
    monkeypatch.setitem(sys.modules, "wandb", None)  # what is there now comes back afterwards
    del sys.modules["wandb"]
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ImportError, match="WeightsAndBiases needs"):
        WeightsAndBiases("book")
