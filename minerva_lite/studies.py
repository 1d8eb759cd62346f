"""Many variants over many seeds, side by side on this machine, written as one tidy table (floor 9)."""

from __future__ import annotations

import csv
import dataclasses
import platform
import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gymnasium
import joblib
import torch

from .agents import AGENTS
from .checks import require_count, require_one_of
from .envs import make_env
from .presets import preset
from .training import evaluate, train

# What each implementation detail of PPO is worth: the preset with one setting changed.
PPO_ABLATIONS: dict[str, dict[str, Any]] = {
    "preset": {},
    "no clipping": {"clip_eps": 1e6},
    "clip at 0.1": {"clip_eps": 0.1},
    "clip at 0.4": {"clip_eps": 0.4},
    "adaptive KL penalty": {"objective": "kl_penalty"},
    "stop at KL 0.02": {"target_kl": 0.02},
    "1 epoch": {"epochs": 1},
    "raw advantages": {"normalize_advantage": False},
    "lambda = 1 (returns)": {"estimator": "returns"},
    "lambda = 0 (TD)": {"estimator": "td"},
    "clipped value loss": {"clip_value": True},
    "entropy bonus 0.01": {"entropy_coef": 0.01},
    "constant learning rate": {"anneal_lr": False},
    "no gradient clipping": {"max_grad_norm": 1e6},
    "normalized observations": {"normalize_obs": True},
    "scaled rewards": {"normalize_reward": True},
    "plain SGD": {"optimizer": "sgd", "momentum": 0.9},
}
# What "--variants" may name, algorithm by algorithm: the preset, or the preset with settings changed.
ABLATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "reinforce": {
        "preset": {},
        "no baseline": {"baseline": "none"},
        "critic as baseline": {"baseline": "value"},
        "whole-episode credit": {"baseline": "none", "reward_to_go": False},
        "no baseline, raw advantages": {"baseline": "none", "normalize_advantage": False},
        "whole-episode credit, raw": {"baseline": "none", "reward_to_go": False, "normalize_advantage": False},
        "discounted states": {"discount_states": True},
    },
    "a2c": {
        "preset": {},
        "lambda = 1 (returns)": {"estimator": "returns"},
        "lambda = 0 (TD)": {"estimator": "td"},
        "raw rewards": {"normalize_reward": False},
        "no entropy bonus": {"entropy_coef": 0.0},
    },
    "trpo": {
        "preset": {},
        "no line search": {"step_rule": "natural"},
        "damping 0.1": {"damping": 0.1},
        "KL 0.01": {"kl_bound": 0.01},
        "constant bound": {"anneal_kl": False},
        "Adam critic": {"value_fit": "adam"},
    },
    "ppo": PPO_ABLATIONS,
    "mpo": {
        "preset": {},
        "retrace": {"critic_target": "retrace", "sequence_length": 4, "minibatch_size": 32},
    },
    "vmpo": {
        "preset": {},
        "all samples": {"top_k_frac": 1.0},
    },
}
COLUMNS = ["algorithm", "env_id", "variant", "seed", "steps", "seconds", "episodes", "mean", "std", "min", "max"]


def run(algorithm: str, env_id: str, variant: str, overrides: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """Train one seed by the preset changed by `overrides`: a row an evaluation, the last over 100 episodes."""
    torch.set_num_threads(1)  # one process a core is faster than one process on all cores
    settings = preset(algorithm, env_id)
    config = dataclasses.replace(settings.config, **overrides)
    env = make_env(env_id, config.num_envs, seed=seed)
    agent = AGENTS[algorithm][0](config, env.spec, seed=seed, device="cpu")
    history = train(agent, env, settings.total_steps, progress=False)
    last = history.updates[-1]
    rows = [(row, 10) for row in history.evaluations]
    rows.append(({"steps": last["steps"], "seconds": last["seconds"]} | evaluate(agent, episodes=100), 100))
    named = {"algorithm": algorithm, "env_id": env_id, "variant": variant, "seed": seed}
    return [
        named
        | {"steps": int(row["steps"]), "seconds": round(row["seconds"], 3), "episodes": episodes}
        | {name: round(row[f"eval/{name}"], 3) for name in ("mean", "std", "min", "max")}
        for row, episodes in rows
    ]


def study(
    algorithm: str,
    env_ids: Iterable[str],
    seeds: Iterable[int],
    variants: Mapping[str, Mapping[str, Any]],
    path: str | Path,
    *,
    jobs: int = 2,
) -> None:
    """Run every variant on every environment with every seed and write the rows to the CSV file `path`.

    Raises ValueError: an unknown algorithm, a preset that does not exist, or fewer than one job.
    """
    require_one_of(tuple(AGENTS), algorithm=algorithm)
    require_count(jobs=jobs)
    tasks = [(algorithm, e, name, changes, s) for e in env_ids for name, changes in variants.items() for s in seeds]
    for _, env_id, *_ in tasks:
        preset(algorithm, env_id)
    results = joblib.Parallel(n_jobs=jobs)(joblib.delayed(run)(*task) for task in tasks)
    versions = f"python {platform.python_version()}, torch {torch.__version__}, gymnasium {gymnasium.__version__}"
    with Path(path).open("w", newline="") as file:
        file.write(f"# command: python -m minerva_lite {shlex.join(sys.argv[1:])}\n# versions: {versions}\n")
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for rows in results:
            writer.writerows(rows)


def read_study(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a study's CSV file, numbers as numbers."""
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    text = {"algorithm", "env_id", "variant"}
    return [{k: v if k in text else float(v) for k, v in row.items()} for row in rows]
