"""This package's side of the race on language models: one training from the base model."""

from __future__ import annotations

from pathlib import Path

from minerva_lite import make_env, train
from minerva_lite.language import SequenceAgent, SequenceConfig
from minerva_lite.language.base_model import load_base

from .language_task import GROUP, LEARNING_RATE, MAX_GRAD_NORM, PROMPTS, Watch, report, task

ENV = "tokens/sort"
OPTIONS = {"grpo": {"average": "token"}, "rloo": {"objective": "sequence"}}


def config_of(algorithm: str) -> SequenceConfig:
    """The same numbers as TRL's, and the same loss."""
    return SequenceConfig(
        num_envs=PROMPTS,
        group=GROUP,
        advantage=algorithm,
        learning_rate=LEARNING_RATE,
        anneal_lr=True,
        max_grad_norm=MAX_GRAD_NORM,
        minibatch_prompts=PROMPTS,
        **OPTIONS[algorithm],
    )


def run(algorithm: str, seed: int, updates: int, base: Path) -> Watch:
    """So many updates from the base model; building is off the clock, and so is the evaluation that ends a training."""
    config = config_of(algorithm)
    env = make_env(ENV, config.num_envs, seed=seed)
    agent = SequenceAgent(config, env.spec, seed=seed, device="cpu")
    agent.start_from(load_base(base))
    watch, total = Watch(), updates * config.batch_size

    def see(row: dict[str, float]) -> None:
        if "eval/mean" not in row:
            watch.update_is_over(row["train/episode_return"])

    watch.start()
    train(agent, env, total, eval_every=2 * total, eval_episodes=1, progress=False, callback=see)
    return watch


if __name__ == "__main__":
    args = task()
    report(run(args.algorithm, args.seed, args.updates, args.base))
