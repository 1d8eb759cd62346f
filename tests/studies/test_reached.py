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


def test_runs_of_todays_seeding_count_alone_where_there_are_some(tmp_path, monkeypatch):
    for name, head, columns, mean in (("a", "", 11, 9), ("b", SEEDING_LINE + "\n", 12, 5), ("c", "", 12, 7)):
        row = ["ppo", "CartPole-v1", "preset", 200, 640, 1.0, 100, mean, 0.0, 0.0, 0.0, "1f-2.0"][:columns]
        text = f"# command: x\n# versions: y\n{head}{','.join(COLUMNS[:columns])}\n{','.join(map(str, row))}\n"
        (tmp_path / f"{name}.csv").write_text(text)
        told = {"a": 9, "b": 5, "c": 5}[name]
        expected = {("ppo", "CartPole-v1"): f"{told} after 640 steps (one seed)"}
        assert told_of(tmp_path, monkeypatch) == expected
    (tmp_path / "b.csv").unlink()
    newer = told_of(tmp_path, monkeypatch)["ppo", "CartPole-v1"]
    assert newer.startswith("7 after"), "fingerprints are of newer code"


def test_what_was_reached_is_that_of_the_presets_settings(tmp_path, monkeypatch):
    with (tmp_path / "some_seeds.csv").open("w", newline="") as file:
        file.write("# command: x\n# versions: y\n")
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for seed, variant, episodes, mean in (
            (0, "preset", 100, 10),
            (1, "preset", 100, 20),
            (1, "preset", 10, 9e9),
            (2, "other", 100, 9e9),
        ):
            writer.writerow(["ppo", "CartPole-v1", variant, seed, 640, 1.0, episodes, mean, 0.0, 0.0, 0.0])
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
