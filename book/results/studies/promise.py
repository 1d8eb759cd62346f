"""`python -m book.results.studies.promise`: did every TRPO update keep its promise? Judged by other code.

An agent trains; before and after each update its parameters are saved. Everything written down is then computed
again in float64 NumPy from those saved numbers and the raw rollout: networks, densities, KL, advantages, surrogate.
Nothing of the package's mathematics is used, so an error in it cannot vouch for itself.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from book.results.studies.record import asked
from minerva_lite.agents.trpo import TRPOAgent, TRPOConfig
from minerva_lite.training.presets import preset
from minerva_lite.worlds.envs import make_env
from minerva_lite.worlds.seeding import ACTING, generator, stream

RUNS = {"Pendulum-v1": 200, "CartPole-v1": 50}  # updates recorded with each seed, by the preset
SKIPS = ("equal_advantages", "zero_gradient", "curvature", "rounding", "kl", "surrogate")
Weights = dict[str, np.ndarray]


class Row(NamedTuple):
    """One update, as the saved parameters tell it (`trials`, `fraction`, `predicted_gain`, `skipped`: as reported)."""

    env_id: str
    seed: int
    update: int
    kl: float  # mean KL(old || new) over the states of the batch, nats
    fresh_kl: float  # the same over as many states that the old policy met elsewhere, nats
    gain: float  # surrogate after the update less before it, advantage units
    predicted_gain: float  # what the full step promised to first order
    trials: int  # of the line search
    fraction: float  # of the full step that was taken
    skipped: str  # why no step was taken, or ""
    moved: bool  # whether any bit of the policy changed


def saved(agent: Any) -> Weights:
    """The parameters of policy and critic, copied out of the agent's saved state; float32 kept, nothing rounded."""
    return {name: tensor.numpy().copy() for name, tensor in agent.state_dict()["modules"].items()}


def network(weights: Weights, prefix: str, x: np.ndarray) -> np.ndarray:
    """A tanh network's output [..., out] in float64, from the saved weights under `prefix`."""
    layers = sorted({int(name[len(prefix) + 1 :].split(".")[0]) for name in weights if name.startswith(prefix + ".")})
    for layer in layers:
        matrix, bias = (weights[f"{prefix}.{layer}.{part}"].astype(np.float64) for part in ("weight", "bias"))
        x = x @ matrix.T + bias
        x = x if layer == layers[-1] else np.tanh(x)
    return x


def policy(weights: Weights, obs: np.ndarray) -> tuple[np.ndarray, ...]:
    """(log-probabilities [..., K],) of a discrete policy, (mean, std), both [..., D], of a Gaussian one."""
    if "policy.log_std" not in weights:
        logits = network(weights, "policy.logits", obs)
        top = logits.max(-1, keepdims=True)
        return (logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True)),)
    mean = network(weights, "policy.mean", obs)
    return mean, np.broadcast_to(np.exp(np.clip(weights["policy.log_std"].astype(np.float64), -20, 2)), mean.shape)


def log_density(params: tuple[np.ndarray, ...], action: np.ndarray) -> np.ndarray:
    if len(params) == 1:
        return np.take_along_axis(params[0], action[..., None], -1)[..., 0]
    mean, std = params
    return (-((action - mean) ** 2) / (2 * std**2) - np.log(std * np.sqrt(2 * np.pi))).sum(-1)


def mean_kl(before: Weights, after: Weights, obs: np.ndarray) -> float:
    """Mean over the states of KL(before || after), nats."""
    old, new = policy(before, obs), policy(after, obs)
    if len(old) == 1:
        return float((np.exp(old[0]) * (old[0] - new[0])).sum(-1).mean())
    (m, s), (n, t) = old, new
    return float((np.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - 0.5).sum(-1).mean())


def advantages(before: Weights, rollout: Any, gamma: float, lam: float) -> np.ndarray:
    """GAE [T, B] by its definition: for each start the discounted sum of TD errors, up to the episode's end."""
    reward, obs, next_obs = (getattr(rollout, n).numpy().astype(np.float64) for n in ("reward", "obs", "next_obs"))
    over, ended = rollout.terminated.numpy(), rollout.ended.numpy()
    value, following = (network(before, "critic.value", x)[..., 0] for x in (obs, next_obs))
    error = reward + gamma * np.where(over, 0.0, following) - value
    total, episode = np.zeros_like(error), ended.cumsum(0) - ended  # how many episodes ended before each step
    for start in range(len(error)):
        decay = (gamma * lam) ** np.arange(len(error) - start)
        total[start] = (decay[:, None] * (episode[start:] == episode[start]) * error[start:]).sum(0)
    return total


def surrogate(before: Weights, now: Weights, rollout: Any, advantage: np.ndarray) -> float:
    """Mean of ratio times advantage [T, B] over the rollout."""
    obs, action = rollout.obs.numpy().astype(np.float64), rollout.action.numpy()
    ratio = np.exp(log_density(policy(now, obs), action) - log_density(policy(before, obs), action))
    return float((ratio * advantage).mean())


def watched(
    agent_class: type, config: Any, env_id: str, updates: int, *, seed: int, total: float = math.inf
) -> Iterator[tuple[Any, ...]]:
    """Train for so many updates of `total`. Of each the agent after it, the rollout, and the figures that it told;
    its CPU seconds; the parameters saved before and after it; and its mean KL, nats, over the states of the batch and
    over as many fresh ones.
    """
    env, elsewhere = (make_env(env_id, config.num_envs, seed=s) for s in (seed, seed + 1000))
    agent = agent_class(config, env.spec, seed=seed, device="cpu")
    obs, other_obs = env.reset(), elsewhere.reset()
    for update in range(updates):
        old_agent = copy.deepcopy(agent)
        old_agent.generator = generator(stream(seed + 1000, ACTING, update))
        rollout, obs = agent.collect(env, obs)
        before, start = saved(agent), time.process_time()
        figures = agent.update(rollout, progress=update / total)
        seconds, after = time.process_time() - start, saved(agent)
        # The old policy on states that the update has not seen: its promise is about these as well.
        fresh, other_obs = old_agent.collect(elsewhere, other_obs)
        kl = tuple(mean_kl(before, after, each.obs.numpy().astype(np.float64)) for each in (rollout, fresh))
        yield agent, rollout, figures, seconds, (before, after), kl


def watch(config: TRPOConfig, env_id: str, updates: int, *, seed: int = 0) -> list[Row]:
    """Train for `updates` updates and judge each from the parameters saved before and after it."""
    rows = []
    seen = watched(TRPOAgent, config, env_id, updates, seed=seed)
    for update, (_, rollout, told, _, (before, after), (kl, fresh_kl)) in enumerate(seen):
        figures = {name: float(value) for name, value in told.items()}
        advantage = advantages(before, rollout, config.gamma, config.lam)
        if config.normalize_advantage:
            advantage = (advantage - advantage.mean()) / advantage.std()
        gain = surrogate(before, after, rollout, advantage) - surrogate(before, before, rollout, advantage)
        rows.append(
            Row(
                env_id=env_id,
                seed=seed,
                update=update,
                kl=kl,
                fresh_kl=fresh_kl,
                gain=gain,
                predicted_gain=figures.get("loss/expected_gain", 0.0),
                trials=int(figures["train/trials"]),
                fraction=figures["train/step_fraction"],
                skipped=" ".join(name for name in SKIPS if figures[f"train/skip_{name}"]),
                moved=any(not np.array_equal(before[n], after[n]) for n in before if n.startswith("policy.")),
            )
        )
    return rows


def summary(rows: list[Row], kl_bound: float) -> str:
    """What the rows say, in words and figures."""
    accepted = [row for row in rows if not row.skipped]
    kl, fresh = (np.array([getattr(row, name) for row in accepted]) / kl_bound for name in ("kl", "fresh_kl"))
    trials = {n: sum(row.trials == n for row in accepted) for n in sorted({row.trials for row in accepted})}
    return "\n".join(
        [
            f"{len(rows)} updates, {len(accepted)} accepted, {sum(row.trials > 1 for row in accepted)} of them after "
            f"backtracking; accepted at trial: {trials}",
            f"left out: {sorted(row.skipped for row in rows if row.skipped) or 'none'}",
            f"KL / bound on the batch: median {np.median(kl):.4f}, worst {kl.max():.6f}",
            f"KL / bound on fresh states: median {np.median(fresh):.4f}, worst {fresh.max():.4f}, "
            f"over the bound in {(fresh > 1).sum()} of {len(fresh)}",
            f"gain of the surrogate: least {min(row.gain for row in accepted):.3g}; realized over predicted: "
            f"median {np.median([row.gain / (row.fraction * row.predicted_gain) for row in accepted]):.3f}",
        ]
    )


if __name__ == "__main__":
    seeds = {"type": int, "nargs": "+", "default": [0, 1, 2]}
    record, options = asked(__spec__.name, __doc__, Row, digits=6, usual="trpo_promise.csv", seeds=seeds)
    for env_id, updates in RUNS.items():
        config = preset("trpo", env_id).config
        runs = (((env_id, seed), partial(watch, config, env_id, updates, seed=seed)) for seed in options.seeds)
        if found := record.fill(runs):
            told = summary(found, config.kl_bound)
            print(f"{env_id}, {len(found) // updates} seeds of {updates} updates\n{told}", flush=True)
