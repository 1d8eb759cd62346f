"""`python -m book.results.studies.sensitivity`: what becomes of an agent on Pendulum if one setting is ten times wrong.

Of each agent the presets' settings that its chapter argues about most are multiplied by `FACTORS`, one at a time, on
the seeds of a report. A file per agent; what the files hold is kept.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from minerva_lite.training.studies import study

FOLDER = Path("book/results/sensitivity")
TASK, SEEDS = "Pendulum-v1", range(200, 205)
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
# By what a figure calls them: the settings that are multiplied together.
KNOBS: dict[str, dict[str, tuple[str, ...]]] = {
    "trpo": {"KL bound": ("kl_bound",), "damping": ("damping",)},
    "ppo": {"learning rate": ("learning_rate",), "clip": ("clip_eps",)},
    "mpo": {
        "learning rates": ("policy_learning_rate", "critic_learning_rate"),
        "bound of the mean": ("eps_mean",),
        "bound of the weights": ("eps_eta",),
    },
    "vmpo": {
        "learning rates": ("policy_learning_rate", "value_learning_rate"),
        "bound of the mean": ("eps_mean",),
        "bound of the spread": ("eps_std",),
        "bound of the weights": ("eps_eta",),
    },
}


def variants(algorithm: str) -> dict[str, dict[str, Any]]:
    """The preset, and every knob times every other factor, as `study` takes them: each named by knob and factor."""
    found: dict[str, dict[str, Any]] = {"preset": {}}
    for knob, names in KNOBS[algorithm].items():
        for factor in FACTORS:
            if factor != 1.0:
                found[f"{knob} x {factor:g}"] = {name: lambda kept, by=factor: by * kept for name in names}
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m book.results.studies.sensitivity", description=__doc__.split("\n")[0]
    )
    parser.add_argument("algorithms", nargs="*", default=list(KNOBS))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.algorithms:
        command = f"python -m book.results.studies.sensitivity {name}"
        path = options.folder / f"{name}.csv"
        study(name, [TASK], SEEDS, variants(name), path, jobs=options.jobs, command=command)
