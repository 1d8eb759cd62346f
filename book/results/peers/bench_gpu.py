"""`python -m book.results.peers.bench_gpu`: PPO on torch-native Pendulum, environments and networks on one GPU.

Three tables in one: end-to-end environment steps a second by number of environments and by how the agent is driven;
how often an iteration waits for the device; and the settings of the fastest row that solve Pendulum, with the seconds
that takes after the warm-up. Agents are driven plainly, as on a CPU; masked, as `--device cuda` does; compiled, not
recorded; and recorded, as `--device cuda --compile` does. All of it is measured after the warm-up (compilation,
recording), the device synchronized before the clock is read. Without a GPU nothing is measured and the table is left
alone; `--device cpu` tries the code out.
"""

from __future__ import annotations

import argparse
import csv
import platform
import shlex
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from book.results.studies.record import read_rows
from minerva_lite import PPOAgent, PPOConfig, evaluate, make_env
from minerva_lite.training.gpu import KNOWN, WARM_UP, Accelerated, Plain, floats

ROOT = Path(__file__).resolve().parents[3]
COLUMNS = ["num_envs", "mode", "what", "value"]
MODES = ["plain", "masked", "compiled", "recorded"]
TARGET = -200.0
EVERY, LIMIT = 4, 200  # updates between two evaluations of a run that is to solve Pendulum, and at most


def config_for(num_envs: int) -> PPOConfig:
    """The preset's ideas at the scale of a GPU: short rollouts, few and large minibatches, a higher learning rate."""
    return PPOConfig(
        num_envs=num_envs,
        rollout_steps=16,
        minibatch_size=num_envs * 16 // 4,
        epochs=4,
        gamma=0.95,
        lam=0.95,
        learning_rate=3e-3,
        normalize_reward=True,
        anneal_lr=False,
    )


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def driven(agent: PPOAgent, mode: str) -> Plain:
    """The agent in one of the `MODES`; without a GPU nothing can be recorded."""
    if mode == "plain":
        return Plain(agent)
    record = mode == "recorded" and agent.device.type == "cuda"
    return Accelerated(agent, KNOWN[PPOAgent], masked=True, record=record)


class Trainer:
    """Agent, environment and where they stand."""

    def __init__(self, num_envs: int, mode: str, device: torch.device, seed: int = 0):
        self.device, config = device, config_for(num_envs)
        self.env = make_env("Pendulum-v1", num_envs, seed=seed, device=device, stagger=True)
        compile = mode in ("compiled", "recorded")
        self.agent = PPOAgent(config, self.env.spec, seed=seed, device=device, compile=compile)
        self.runner = driven(self.agent, mode).__enter__()
        self.obs = self.env.reset()

    def iterate(self) -> dict[str, float]:
        """What one iteration of `train` does: walk, learn, read the figures."""
        rollout, self.obs = self.runner.collect(self.env, self.obs)
        return floats(self.runner.update(rollout))

    def warm(self) -> Trainer:
        """Until whatever is compiled or recorded is."""
        for _ in range(WARM_UP + 2):
            self.iterate()
        synchronize(self.device)
        return self


def throughput(trainer: Trainer, iterations: int) -> float:
    """Environment steps a second, end to end."""
    start = time.perf_counter()
    for _ in range(iterations):
        trainer.iterate()
    synchronize(trainer.device)
    return iterations * trainer.agent.config.batch_size / (time.perf_counter() - start)


def waits(trainer: Trainer) -> int:
    """How often one iteration waits for the device, as torch itself counts."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        if trainer.device.type == "cuda":
            torch.cuda.set_sync_debug_mode("warn")
        trainer.iterate()
        if trainer.device.type == "cuda":
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in told)


def solve(num_envs: int, mode: str, device: torch.device, seed: int) -> dict[str, float]:
    """Seconds of training and environment steps until 20 deterministic episodes reach the target; 100 at the end.

    The warm-up belongs to another agent of the same shapes, so that whatever is compiled once is compiled.
    """
    Trainer(num_envs, mode, device, seed=seed + 1000).warm()
    trainer, seconds = Trainer(num_envs, mode, device, seed=seed), 0.0
    for update in range(1, LIMIT + 1):
        synchronize(device)
        start = time.perf_counter()
        trainer.iterate()
        synchronize(device)
        seconds += time.perf_counter() - start
        if update % EVERY == 0 and evaluate(trainer.agent, episodes=20)["eval/mean"] >= TARGET:
            final = evaluate(trainer.agent, episodes=100)["eval/mean"]
            return {"solve_seconds": seconds, "solve_steps": update * trainer.agent.config.batch_size, "final": final}
    return {"solve_seconds": float("inf"), "solve_steps": float("inf"), "final": float("nan")}


def measure(counts: list[int], device: torch.device, iterations: int, seeds: int) -> list[dict[str, Any]]:
    """All rows; the settings that solve are those of the fastest row."""
    rows: list[dict[str, Any]] = []

    def tell(num_envs: int, mode: str, what: str, value: float) -> None:
        rows.append({"num_envs": num_envs, "mode": mode, "what": what, "value": value})
        print(f"{num_envs:>8} environments, {mode:8} {what:16} {value:,.6g}", flush=True)

    for num_envs in counts:
        for mode in MODES:
            # A second size would be compiled for sizes of all kinds, and a ninth not at all.
            torch.compiler.reset()
            trainer = Trainer(num_envs, mode, device).warm()
            tell(num_envs, mode, "steps_per_second", throughput(trainer, iterations))
            tell(num_envs, mode, "waits", waits(trainer))
            del trainer
    best = max((row for row in rows if row["what"] == "steps_per_second"), key=lambda row: row["value"])
    for num_envs in dict.fromkeys((counts[0], best["num_envs"])):
        for seed in range(seeds):
            torch.compiler.reset()
            for what, value in solve(num_envs, MODES[-1], device, seed).items():
                tell(num_envs, MODES[-1], what, value)
    return rows


def table(path: Path) -> list[list[str]]:
    """The page's table: a row per number of environments, speeds in millions of steps a second, medians over seeds."""
    rows = read_rows(path)
    values: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        values.setdefault((row["num_envs"], row["mode"], row["what"]), []).append(float(row["value"]))
    told = {key: statistics.median(of_a_seed) for key, of_a_seed in values.items()}
    lines = [["environments", *MODES, "recorded / plain", "seconds to solve"]]
    for count in dict.fromkeys(row["num_envs"] for row in rows):
        speeds = [told[count, mode, "steps_per_second"] for mode in MODES]
        seconds = told.get((count, MODES[-1], "solve_seconds"))
        cells = [f"{int(count):,}", *(f"{speed / 1e6:.2g}" for speed in speeds), f"{speeds[-1] / speeds[0]:.1f}"]
        lines.append([*cells, "" if seconds is None else f"{seconds:.2f}"])
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--envs", type=int, nargs="+", default=[4096, 16384, 65536, 131072])
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=ROOT / "book/results/gpu.csv")
    args = parser.parse_args(arguments)
    device = torch.device(args.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("No CUDA device: nothing measured, nothing written.")
        return
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # TensorFloat-32: networks of 64 units lose nothing by it
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    rows = measure(args.envs, device, args.iterations, args.seeds)
    with args.out.open("w", newline="") as file:
        told = shlex.join(["python", "-m", "book.results.peers.bench_gpu", *(arguments or sys.argv[1:])])
        file.write(f"# command: {told}\n# device: {name}; torch {torch.__version__}\n")
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(row | {"value": f"{row['value']:.6g}"} for row in rows)
    with args.out.with_stem("gpu_table").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(table(args.out))


if __name__ == "__main__":
    main()
