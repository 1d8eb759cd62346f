"""`python -m book.results.studies.search ALGORITHM GROUP`: settings for a group of tasks, by random search and halving.

The first rung trains the preset, published settings and others drawn at random from the grid, for few steps on few
seeds; each further one trains the better ones of the rung before for longer, on seeds of its own. What a setting leaves
open is as in the group's start, which is also the setting named `preset`: a preset found by a search may be another one
today, and the search still means the same. A setting's score in
a rung is the mean over tasks of its rank among the settings of the rung, by the mean final return over seeds, so that
no task's scale decides. No seed of the search is one of a report: those are 200 to 299.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from book.results.studies.held import CAR, HOLD
from minerva_lite.agents import AGENTS
from minerva_lite.training.defaults import defaults_for
from minerva_lite.training.presets import BODY, LUNAR_LANDER, PENDULUM
from minerva_lite.training.studies import read_study, study

FOLDER = Path("book/results/search")
# A body of its own each: in the first rung on all three together, the half-cheetah wanted a small first standard
# deviation and the hopper a large one, so that settings for both are the best for neither.
TASKS = {
    "halfcheetah": ("HalfCheetah-v5",),
    "hopper": ("Hopper-v5",),
    "walker2d": ("Walker2d-v5",),
    "body": ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5"),
    "moon": ("LunarLander-v3",),
    "flight": ("LunarLanderContinuous-v3",),
    "walker": ("dm_control/walker/walk",),
    "cheetah": ("dm_control/cheetah/run",),
    "pendulum": ("Pendulum-v1",),
    "hill": ("MountainCarContinuous-v0",),
    "held": ("book.results.studies.held:HeldMountainCar-v0",),
}
FIRST_SEED = 1000

ON_POLICY: dict[str, tuple[Any, ...]] = {
    "gamma": (0.98, 0.99, 0.995),
    "lam": (0.9, 0.95, 0.98),
    "log_std_init": (-2.0, -1.0, -0.5, 0.0),
    "hidden": ((64, 64), (128, 128)),
}
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "ppo": ON_POLICY
    | {
        "learning_rate": (1e-4, 3e-4, 1e-3),
        "num_envs": (4, 8, 16),
        "rollout_steps": (64, 128, 256, 512),
        "minibatch_size": (64, 128, 256),
        "epochs": (5, 10, 20),
        "clip_eps": (0.1, 0.2, 0.3),
        "normalize_advantage": (True, False),
        "vf_coef": (0.25, 0.5, 1.0),
        "anneal_lr": (True, False),
    },
    "trpo": ON_POLICY
    | {
        "num_envs": (4, 8, 16),
        "rollout_steps": (64, 128, 256, 512),
        "kl_bound": (0.01, 0.02, 0.04),
        "damping": (0.01, 0.1),
        "cg_iterations": (10, 20),
        "anneal_kl": (True, False),
        "value_fit": ("lbfgs", "adam"),
        "normalize_reward": (True, False),
    },
    "vmpo": ON_POLICY
    | {
        "num_envs": (4, 8, 16),
        "rollout_steps": (64, 128, 256),
        "inner_steps": (10, 20, 40),
        "top_k_frac": (0.25, 0.5),
        "eps_eta": (0.02, 0.1, 0.5),
        "eps_mean": (0.003, 0.01, 0.03, 0.1),
        "eps_std": (1e-5, 1e-4, 1e-3),
        "policy_learning_rate": (3e-4, 1e-3, 3e-3),
        "value_learning_rate": (3e-4, 1e-3),
    },
}
# What others use for such tasks, as far as the agent here has the options: first what is theirs for all tasks of
# MuJoCo, then what they have for one. Tianshou: `examples/mujoco/mujoco_ppo.py` at commit `002ffd9`. RL Zoo:
# `hyperparams/ppo.yml` at `00128b5`, whose one environment of 512 steps is four of 128 here, and `hyperparams/trpo.yml`
# at `13a3fe7`; where it has ReLU, we have tanh.
PUBLISHED: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": {"Tianshou": {"num_envs": 8, "rollout_steps": 256, "vf_coef": 0.25, "normalize_advantage": False}},
}
RL_ZOO_PPO = {"num_envs": 4, "rollout_steps": 128, "anneal_lr": False}
RL_ZOO_TUNES = ("minibatch_size", "epochs", "gamma", "lam", "clip_eps", "learning_rate", "entropy_coef", "vf_coef")
RL_ZOO_TUNES += ("max_grad_norm", "log_std_init", "hidden")
RL_ZOO_ROWS = {
    "HalfCheetah": (64, 20, 0.98, 0.92, 0.1, 2e-5, 4e-4, 0.58, 0.8, -2.0, (256, 256)),
    "Hopper": (32, 5, 0.999, 0.99, 0.2, 1e-4, 2.3e-3, 0.84, 0.7, -2.0, (256, 256)),
    "Walker2d": (32, 20, 0.99, 0.95, 0.1, 5e-5, 5.9e-4, 0.87, 1.0, 0.0, (64, 64)),
}
RL_ZOO_TRPO = {
    "num_envs": 2,
    "rollout_steps": 1024,
    "kl_bound": 0.01,
    "damping": 0.1,
    "cg_iterations": 25,
    "value_fit": "adam",
    "value_iterations": 20,
    "value_minibatch": 128,
    "value_learning_rate": 1e-3,
    "log_std_init": 0.0,
}
TUNED: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    **{
        ("ppo", f"{body}-v5"): {f"RL Zoo, {body}": RL_ZOO_PPO | dict(zip(RL_ZOO_TUNES, row, strict=True))}
        for body, row in RL_ZOO_ROWS.items()
    },
    ("trpo", "HalfCheetah-v5"): {"RL Zoo, HalfCheetah": RL_ZOO_TRPO | {"kl_bound": 0.04}},
    ("trpo", "Hopper-v5"): {"RL Zoo, Hopper": RL_ZOO_TRPO},
    ("trpo", "Walker2d-v5"): {"RL Zoo, Walker2d": RL_ZOO_TRPO},
}


class Rung(NamedTuple):
    """One round of a search: so many settings, each trained so long on so many seeds."""

    settings: int
    steps: int
    seeds: int
    evaluations: int = 1  # of ten episodes, on the way and at the end


# No third rung as long as a report: it would cost as much as all reports together.
RUNGS = dict.fromkeys(GRIDS, (Rung(12, 150_000, 1), Rung(3, 400_000, 2)))


# Settings that a question about a preset named, instead of a grid; one rung of full length on many seeds decides. Of
# PPO's runs on Pendulum some lost the task again: the mean return over seeds counts how many and how badly.
SHORT = {"num_envs": 32, "rollout_steps": 64, "minibatch_size": 512}
WHOLE = {"num_envs": 10, "rollout_steps": 200, "minibatch_size": 500}  # an update sees whole episodes
# Whether a run ever finds the flag of the mountain car is decided by how widely it tries, and by how far it looks.
WIDER = {
    "preset": {},
    "discount 0.999": {"gamma": 0.999},
    "first spread e": {"log_std_init": 1.0},
    "first spread e, discount 0.999": {"log_std_init": 1.0, "gamma": 0.999},
    "first spread e^2": {"log_std_init": 2.0},
    "first spread e^2, discount 0.999": {"log_std_init": 2.0, "gamma": 0.999},
}
# The same car with held pushes. What counts steps of the car counts decisions there, so that rollouts, discount and
# trace last as long, and there are as many updates, each from fewer decisions.
PER_DECISION = {
    "gamma": lambda gamma: gamma**HOLD,
    "lam": lambda lam: lam**HOLD,
    "rollout_steps": lambda steps: -(-steps // HOLD),
    "minibatch_size": lambda rows: rows // HOLD,
    "warmup_steps": lambda steps: steps // HOLD,
}


def held(algorithm: str, **changes: Any) -> dict[str, Any]:
    """The defaults of the car with these changes, and of them what speaks of time in decisions."""
    config = vars(defaults_for(algorithm, CAR).config) | changes
    scaled = {name: change for name, change in PER_DECISION.items() if name in config}
    if algorithm == "mpo":
        del scaled["minibatch_size"]  # of a replay, not of a rollout
    return changes | {name: change(config[name]) for name, change in scaled.items()}


HELD = {
    algorithm: {"preset": held(algorithm), "discount 0.999": held(algorithm, gamma=0.999)}
    for algorithm in ("reinforce", "a2c", "trpo", "ppo", "mpo", "vmpo")
}
# A2C lost by it, and an update of its own had become one from sixteen decisions: here one has 64, as with fresh pushes.
HELD_AS_MANY = {
    f"{name}, as many decisions": changes | {"rollout_steps": defaults_for("a2c", CAR).config.rollout_steps}
    for name, changes in HELD["a2c"].items()
}
# Our PPO ended 1070 below Tianshou's on HalfCheetah, and its search had judged after 400,000 steps. Tianshou's settings
# again, with what the first draw left out of them: the advantages are computed anew before every epoch, and its rate,
# which falls over three million steps, has lost but a third after one. As long as a report, on two seeds.
RECOMPUTED = PUBLISHED["ppo"]["Tianshou"] | {"recompute_advantage": True}
MILLION = {
    "Tianshou": PUBLISHED["ppo"]["Tianshou"],
    "Tianshou, recomputed": RECOMPUTED,
    "Tianshou, recomputed and normalized": RECOMPUTED | {"normalize_advantage": True},
    "Tianshou, recomputed, constant rate": RECOMPUTED | {"anneal_lr": False},
}
# Neither TRPO nor V-MPO landed on LunarLander with presets that one trial had found, and PPO did, with rollouts of 256
# steps. Episodes last up to 1000, and a crash shows in the advantages only as far as the trace decays.
LONGER = {"rollout_steps": 256, "gamma": 0.995, "lam": 0.98}
SMALL_STEPS = {"eps_eta": 0.1, "policy_learning_rate": 1e-3, "value_learning_rate": 1e-3}
MOON: dict[str, dict[str, dict[str, Any]]] = {
    "vmpo": {
        "preset": {},
        "normalized observations": {"normalize_obs": True},
        "longer rollouts and view": LONGER,
        "both": LONGER | {"normalize_obs": True},
        "small steps": SMALL_STEPS,
        "all three": LONGER | SMALL_STEPS | {"normalize_obs": True},
    },
    "trpo": {
        "preset": {},
        "bound 0.02": {"kl_bound": 0.02},
        "longer rollouts": {"rollout_steps": 256},
        "discount 0.99": {"gamma": 0.99},
        "critic by Adam": {"value_fit": "adam"},
        "raw observations": {"normalize_obs": False},
    },
}
# With continuous actions no agent lands by the defaults of its family, which come from Pendulum. Tried are what lands
# with discrete ones, as it is and changed, and the settings of RL Zoo, which trains for twice as many steps.
LANDS = vars(LUNAR_LANDER["ppo"].config)
LANDS_VMPO = vars(LUNAR_LANDER["vmpo"].config) | LONGER
LANDS_TRPO = vars(LUNAR_LANDER["trpo"].config) | {"gamma": 0.99}  # what stands in the table there
ZOO_FLIGHT = RL_ZOO_TRPO | {"cg_iterations": 15, "normalize_reward": True}
FLIGHT: dict[str, dict[str, dict[str, Any]]] = {
    "ppo": {
        "preset": {},
        "as with choices": LANDS,
        "as with choices, normalized observations": LANDS | {"normalize_obs": True},
        "as with choices, discount 0.999": LANDS | {"gamma": 0.999},
        "as with choices, first spread 0.6": LANDS | {"log_std_init": -0.5},
        "RL Zoo": {
            "num_envs": 16,
            "rollout_steps": 1024,
            "minibatch_size": 64,
            "epochs": 4,
            "gamma": 0.999,
            "lam": 0.98,
            "learning_rate": 3e-4,
            "anneal_lr": False,
            "entropy_coef": 0.01,
            "normalize_obs": False,
            "normalize_reward": False,
        },
    },
    "vmpo": {
        "preset": {},
        "as with choices": LANDS_VMPO,
        "as with choices, normalized observations": LANDS_VMPO | {"normalize_obs": True},
    },
    "trpo": {
        "preset": {},
        "as with choices": LANDS_TRPO,
        "longer rollouts and view": LONGER,
        "RL Zoo": ZOO_FLIGHT,
        "RL Zoo, longer view": ZOO_FLIGHT | {"gamma": 0.995, "lam": 0.98},
    },
}
# What of that change does it: each part of it alone, on the seeds of that search.
FLIGHT_PARTS: dict[str, dict[str, Any]] = {
    "longer view": {"gamma": 0.995, "lam": 0.98},
    "entropy bonus": {"entropy_coef": 0.01},
    "longer rollouts, smaller minibatches": {"rollout_steps": 256, "minibatch_size": 256},
    "raw observations": {"normalize_obs": False},
}
# V-MPO with the bodies' settings ended on Hopper below what merely standing earns, and the one draw of a random search
# that left the crowd there has a looser bound on the mean, smaller and more gradient steps, a wider first policy and a
# longer view. Here they come in two parts, so that one sees which does it.
FREER = {"inner_steps": 40, "eps_mean": 0.1, "eps_std": 1e-3, "policy_learning_rate": 3e-4}
FARTHER = {"num_envs": 8, "rollout_steps": 256, "gamma": 0.995, "lam": 0.98, "log_std_init": 0.0}
FREE: dict[str, dict[str, Any]] = {
    "preset": {},
    "freer": FREER,
    "longer view": FARTHER,
    "freer, longer view": FREER | FARTHER,
}
# The cheetah cannot fall, and a trial had it lose by the longer view. A narrower first policy, which won there, was
# then tried alone, too, and beside one that is narrower still.
FREE_CHEETAH = FREE | {
    "freer, first spread 0.37": FREER | {"log_std_init": -1.0},
    "freer, weights within 0.5 nats": FREER | {"eps_eta": 0.5},
    "first spread 0.37": {"log_std_init": -1.0},
    "freer, first spread 0.14": FREER | {"log_std_init": -2.0},
}
# The Suite's cheetah, in its 200,000 steps: what won on HalfCheetah, whole and in part, and what won on the bodies that
# fall. Two seeds had chosen seeds there, so here each setting has four.
FREE_SUITE = {
    name: FREE_CHEETAH[name] for name in ("preset", "longer view", "first spread 0.37", "freer, first spread 0.37")
}
# A trial of MPO on walker-walk had reached 353 after 40,000 steps with a wider first policy and a tighter bound on its
# spread than the bodies' settings have, which end near 100 after 100,000.
WIDE_WALKER: dict[str, dict[str, Any]] = {
    "preset": {},
    "first spread 1": {"log_std_init": 0.0},
    "first spread 1, tighter bound": {"log_std_init": 0.0, "eps_std": 1e-4},
}
NAMED: dict[tuple[str, str], tuple[Rung, dict[str, dict[str, Any]]]] = {
    ("mpo", "walker"): (Rung(3, 60_000, 2), WIDE_WALKER),
    # As `halfcheetah-report`: what was `lander.csv` before that search.
    **{(algorithm, "moon-report"): (Rung(1, 512_000, 5), {"preset": {}}) for algorithm in ("trpo", "vmpo")},
    ("vmpo", "moon"): (Rung(6, 512_000, 3), MOON["vmpo"]),
    ("trpo", "moon"): (Rung(6, 512_000, 2), MOON["trpo"]),
    # As `halfcheetah-report`: what `lander_continuous.csv` had of the three before that search.
    **{(algorithm, "flight-report"): (Rung(1, 512_000, 5), {"preset": {}}) for algorithm in ("trpo", "ppo", "vmpo")},
    ("ppo", "flight"): (Rung(6, 512_000, 2), FLIGHT["ppo"]),
    ("ppo", "flight-parts"): (Rung(4, 512_000, 2), FLIGHT_PARTS),
    ("vmpo", "flight"): (Rung(3, 512_000, 2), FLIGHT["vmpo"]),
    ("trpo", "flight"): (Rung(5, 512_000, 2), FLIGHT["trpo"]),
    # As `halfcheetah-report` of PPO: what `bodies_vmpo.csv` had before that search.
    **{
        ("vmpo", f"{body}-report"): (Rung(1, 1_000_000, 5), {"preset": {}})
        for body in ("halfcheetah", "hopper", "walker2d")
    },
    ("vmpo", "halfcheetah-freer"): (Rung(8, 300_000, 2), FREE_CHEETAH),
    ("vmpo", "hopper-long-report"): (Rung(1, 1_000_000, 5), {"preset": FARTHER}),  # the winner, with more steps
    ("vmpo", "hopper-freer"): (Rung(4, 300_000, 2), FREE),
    ("vmpo", "walker2d-freer"): (Rung(4, 300_000, 4), FREE),  # two seeds did not tell two of them apart
    ("vmpo", "cheetah-freer"): (Rung(4, 200_000, 4), FREE_SUITE),
    ("ppo", "halfcheetah-million"): (Rung(4, 1_000_000, 2), MILLION),
    # The runs on the seeds of a report, 200 to 204, of the preset before: they were `bodies_ppo.csv` then.
    ("ppo", "halfcheetah-report"): (Rung(1, 1_000_000, 5), TUNED["ppo", "HalfCheetah-v5"]),
    **{(algorithm, "hill"): (Rung(6, 100_000, 10), WIDER) for algorithm in ("trpo", "ppo", "vmpo", "a2c", "reinforce")},
    ("mpo", "hill"): (Rung(6, 20_000, 3), WIDER),
    **{(algorithm, "held"): (Rung(2, 100_000 // HOLD, 10), HELD[algorithm]) for algorithm in HELD},
    ("a2c", "held"): (Rung(4, 100_000 // HOLD, 10, 5), HELD["a2c"] | HELD_AS_MANY),
    ("mpo", "held"): (Rung(2, 20_000 // HOLD, 3), HELD["mpo"]),
    ("ppo", "pendulum"): (
        Rung(6, 98_304, 30),
        {
            "preset": SHORT,
            "raw advantages": SHORT | {"normalize_advantage": False},
            "whole episodes": WHOLE,
            "raw advantages, whole episodes": WHOLE | {"normalize_advantage": False},
            "whole episodes, rate 0.001": WHOLE | {"learning_rate": 1e-3},
            "whole episodes, minibatches of 250": WHOLE | {"minibatch_size": 250},
        },
    ),
}
# A group of tasks is also searched for the sake of a question, which stands behind a hyphen.
GROUPS = TASKS | {group: TASKS[group.partition("-")[0]] for _, group in NAMED}


def start(algorithm: str, group: str) -> Any:
    """The configuration that a search begins with, and of which its settings change a part."""
    tasks = group.partition("-")[0]
    if tasks in ("hill", "held"):
        return defaults_for(algorithm, CAR).config
    if tasks == "flight":
        return defaults_for(algorithm, *TASKS[tasks]).config
    families = {"moon": LUNAR_LANDER, "pendulum": PENDULUM}
    return families.get(tasks, BODY)[algorithm].config


def settings(algorithm: str, group: str) -> dict[str, dict[str, Any]]:
    """By name, what the settings of the first rung change in `start`."""
    if (algorithm, group) in NAMED:
        return NAMED[algorithm, group][1]
    return drawn(algorithm, group, RUNGS[algorithm][0].settings)


def whole(algorithm: str, group: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting by name: `start` with the changes."""
    return vars(start(algorithm, group)) | changes


def drawn(algorithm: str, group: str, how_many: int, *, seed: int = 0) -> dict[str, dict[str, Any]]:
    """The start, under the name `preset`, published settings, and settings drawn uniformly from the grid, by name.

    Settings that the algorithm's configuration refuses together are drawn anew.
    """
    source = random.Random(seed)
    kept = start(algorithm, group)
    found: dict[str, dict[str, Any]] = {"preset": {}}
    found |= PUBLISHED.get(algorithm, {}) | TUNED.get((algorithm, GROUPS[group][0]), {})
    while len(found) < how_many:
        changes = {name: source.choice(values) for name, values in GRIDS[algorithm].items()}
        try:
            AGENTS[algorithm][1](**vars(kept) | changes)
        except ValueError:
            continue
        found[", ".join(f"{name}={value}" for name, value in changes.items())] = changes
    return found


def scores(rows: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """By setting: the mean over tasks of its rank among all settings, from 1 for the best mean final return.

    Raises ValueError: a setting lacks a seed that another one has.
    """
    finals: dict[str, dict[str, dict[float, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["episodes"] == 100:
            finals[row["env_id"]][row["variant"]][row["seed"]] = row["mean"]
    ranks = defaultdict(list)
    for env_id, by_setting in finals.items():
        wanted = {(name, seed) for name in next(iter(finals.values())) for seed in next(iter(by_setting.values()))}
        got = {(name, seed) for name, seeds in by_setting.items() for seed in seeds}
        if wanted != got:
            raise ValueError(f"rows: wanted every setting with the same seeds; {env_id} lacks {wanted ^ got}")
        means = {name: sum(seeds.values()) / len(seeds) for name, seeds in by_setting.items()}
        for name, mean in means.items():
            ranks[name].append(1 + sum(other > mean for other in means.values()))
    return {name: sum(each) / len(each) for name, each in ranks.items()}


def search(algorithm: str, group: str, *, folder: Path = FOLDER, jobs: int = 1) -> list[str]:
    """Climb the rungs; the names of the last one's settings, the best first. What the files hold is kept."""
    tasks, known = GROUPS[group], settings(algorithm, group)
    rungs = (NAMED[algorithm, group][0],) if (algorithm, group) in NAMED else RUNGS[algorithm]
    chosen = list(known)
    for i, rung in enumerate(rungs):
        chosen = chosen[: rung.settings]
        path = folder / f"{algorithm}_{group}_{i + 1}.csv"
        study(
            algorithm,
            tasks,
            range(FIRST_SEED + 10 * i, FIRST_SEED + 10 * i + rung.seeds),
            {name: whole(algorithm, group, known[name]) for name in chosen},
            path,
            total_steps=rung.steps,
            eval_every=rung.steps // rung.evaluations,
            jobs=jobs,
            command=f"python -m book.results.studies.search {algorithm} {group}",
        )
        by_name = scores(read_study(path))
        chosen = sorted(by_name, key=by_name.__getitem__)
    return chosen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m book.results.studies.search", description=__doc__.split("\n")[0])
    parser.add_argument("algorithm", choices=sorted({*GRIDS, *(name for name, _ in NAMED)}))
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in search(options.algorithm, options.group, folder=options.folder, jobs=options.jobs):
        print(name)
