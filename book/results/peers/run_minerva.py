"""One run of this package's agent by its preset, on the torch-native twin or on plain Gymnasium."""

from __future__ import annotations

from minerva_lite import evaluate, make_env, preset, train
from minerva_lite.agents import AGENTS
from minerva_lite.training.variants import ABLATIONS, varied

from .measure import EVAL_EPISODES, EVAL_EVERY, EVAL_SEED, FINAL_EPISODES, Clock, Row, report, task

EVERY = {"mpo": 512}  # environment steps between evaluations, where no peer sets the cadence


class Watch:
    """A callback of `train` that keeps the clock: what passes between an update's row and an evaluation's is not ours.

    So all else is counted, also what `train` itself leaves out: building, the first reset, reading the figures.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock, self.updated = clock, clock.now()
        self.rows: list[Row] = []

    def __call__(self, row: dict[str, float]) -> None:
        if "eval/mean" in row:
            self.clock.leave_out(self.updated)
            self.rows.append((row["steps"], *self.clock.seconds(), EVAL_EPISODES, row["eval/mean"]))
        self.updated = self.clock.now()


def run(algorithm: str, env_id: str, seed: int, backend: str, variant: str) -> list[Row]:
    """Train to the end of the budget: a row an evaluation, the last over more episodes."""
    settings = preset(algorithm, env_id)
    config = varied(settings.config, ABLATIONS[algorithm][variant])
    clock = Clock()
    env = make_env(env_id, config.num_envs, backend=backend, seed=seed)
    agent = AGENTS[algorithm][0](config, env.spec, seed=seed, device="cpu")
    watch = Watch(clock)
    train(
        agent,
        env,
        settings.total_steps,
        eval_every=EVERY.get(algorithm, EVAL_EVERY),
        eval_episodes=EVAL_EPISODES,
        progress=False,
        callback=watch,
    )
    final = evaluate(agent, episodes=FINAL_EPISODES, seed=EVAL_SEED)["eval/mean"]
    *when, _, _ = watch.rows[-1]
    return [*watch.rows, (*when, FINAL_EPISODES, final)]


if __name__ == "__main__":
    args = task(algorithm=str, env=str, seed=int, backend=str, variant=str)
    report({"rows": run(args.algorithm, args.env, args.seed, args.backend, args.variant)})
