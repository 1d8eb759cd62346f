"""What the package says that its presets reached is what the recorded studies say."""

import csv
import json
from dataclasses import asdict

from book.results.studies.reached import HEAD, summary
from minerva_lite import preset
from minerva_lite.training import reached
from minerva_lite.training.studies import COLUMNS, SEEDING_LINE


def test_the_packages_numbers_are_those_of_the_recorded_studies():
    assert reached.RECORDED.read_text("utf8") == summary(), "run python -m book.results.studies.reached"
    assert len(reached.reached()) > 50


def told_of(folder, monkeypatch) -> dict[tuple[str, str], str]:
    """What the package tells when it brings along these studies."""
    path = folder / "made" / "reached.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(summary(folder), "utf8")
    monkeypatch.setattr(reached, "RECORDED", path)
    return reached.reached()


def study_of(path, *rows, head="", columns=None):
    """A file of PPO's runs on CartPole over 640 steps: variant, seed, episodes, mean."""
    lines = ["# command: x", "# versions: y", *([head] if head else []), ",".join(COLUMNS[:columns])]
    for variant, seed, episodes, mean in rows:
        row = ["ppo", "CartPole-v1", variant, seed, 640, 1.0, episodes, mean, 0.0, 0.0, 0.0, "1f-2.0"]
        lines.append(",".join(map(str, row[:columns])))
    path.write_text("\n".join(lines) + "\n")


def test_runs_of_todays_seeding_count_alone_where_there_are_some(tmp_path, monkeypatch):
    for name, mean, how, told in (("b", 9, {"columns": 11}, 9), ("c", 5, {"head": SEEDING_LINE}, 5), ("a", 7, {}, 5)):
        study_of(tmp_path / f"{name}.csv", ("preset", 200, 100, mean), **how)
        wanted = {("ppo", "CartPole-v1"): f"{told} after 640 steps (one seed)"}
        assert told_of(tmp_path, monkeypatch) == wanted
    (tmp_path / "c.csv").unlink()
    newer = told_of(tmp_path, monkeypatch)["ppo", "CartPole-v1"]
    assert newer.startswith("7 after"), "fingerprints are of newer code"


def test_what_was_reached_is_that_of_the_presets_settings(tmp_path, monkeypatch):
    rows = (("preset", 0, 100, 10), ("preset", 1, 100, 20), ("preset", 1, 10, 9e9), ("other", 2, 100, 9e9))
    study_of(tmp_path / "some_seeds.csv", *rows)
    config = asdict(preset("ppo", "Hopper-v5").config)
    with (tmp_path / "preset_trials.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["algorithm", "env_id", "seed", "steps", "seconds", "mean", "std", "min", "config"])
        for steps, mean, changed in ((100, 1, {}), (200, 7, {}), (300, 9e9, {"gamma": 0.5})):
            writer.writerow(["ppo", "Hopper-v5", 100, steps, 1.0, mean, 0.0, 0.0, json.dumps(config | changed)])
    assert told_of(tmp_path, monkeypatch) == {
        ("ppo", "CartPole-v1"): "15 after 640 steps (worst of 2 seeds 10)",
        ("ppo", "Hopper-v5"): "7 after 200 steps (one seed)",
    }
    assert summary(tmp_path / "nowhere") == ",".join(HEAD) + "\n"
