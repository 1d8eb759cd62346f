"""The loop: collect, update, evaluate, save."""

from __future__ import annotations

import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ..agents.base import give_up
from ..agents.settings import completed
from ..checks import require_count
from ..experience.episodes import RunningEpisodes, finished_only
from ..worlds.seeding import SEEDING
from ..worlds.single import EnvironmentFailed
from ..worlds.spec import EnvSpec, VectorEnv
from .checkpoints import claim, fitting, plain, read, save, stamp, state_of, unpacked
from .defaults import episode_limit, evaluations
from .evaluation import History, evaluate, official, warn_of_cut
from .gpu import STEP, Plain, accelerate, floats
from .progress import stop, watching


def train(
    agent: Any,
    env: VectorEnv,
    total_steps: int,
    *,
    eval_every: int | None = None,
    eval_episodes: int | None = None,
    stop_at: float | None = None,
    progress: bool = True,
    callback: Callable[[dict[str, float]], None] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    history: History | None = None,
) -> History:
    """Collect and update until `total_steps` environment steps are done, rounded up to whole rollouts.

    eval_every: evaluate after the first update past each multiple (None: total_steps / 20), over eval_episodes (None:
    10); without both and without a preset, as `defaults.evaluations` says. Evaluation cuts an episode at its registered
    time limit, without one after 1000 steps. stop_at: leave early once an evaluation's mean reaches it. callback:
    called with every row of figures. The row of an update in which episodes finished has their means,
    `train/episode_return` (raw rewards, actions sampled) and `train/episode_length`.
    progress: show where the training stands, in a notebook by a curve. There Ctrl-C or the stop button, pressed once,
    ends the training after the update in progress, and what it has so far is returned; cells that wait do not run.
    checkpoint: a file written after the first update past each multiple of checkpoint_every (None: at every
    evaluation), at the end, where an evaluation fails, and on Ctrl-C, which waits for the update in progress; beside
    it, under the same name with `.best` before the suffix, the agent of the best evaluation, which is one whose mean is
    finite. No other training gets the two files meanwhile. resume: go on from that file if it exists; with the same
    agent, environment and arguments the run ends as if it had never stopped, to the bit, where the environment's state
    can be saved, and with fresh episodes, and a warning, where not.
    history: an empty one to fill and return, so that its rows are at hand when an error ends the training.
    Raises ValueError: total_steps with which nothing is learned, an environment that does not fit the agent or has no
    official one to evaluate on, a checkpoint or a `.best` that exists without `resume`, one of another run (seeds and
    back end count, too), or one that another training writes. OSError: a checkpoint cannot be written, or somebody else
    has written it. OutOfMemoryError: the device's memory is full. EnvironmentFailed: an environment raised; a note
    names the checkpoint that stands. FloatingPointError: three updates in a row were refused, an evaluation met a
    number that is not finite, or one would have gone into a checkpoint, on Ctrl-C and at the end too. In all cases the
    last checkpoint stands, and its numbers are finite. The first update that is refused or cut short (`Agent.update`)
    is told by a warning, every hundredth too, and all of them by the figure `train/skipped_batches`.
    """
    counts = {"eval_every": eval_every, "eval_episodes": eval_episodes, "checkpoint_every": checkpoint_every}
    require_count(total_steps=total_steps, **{name: count for name, count in counts.items() if count is not None})
    _require_fit(agent, env, total_steps)
    agent.env_from_file = False
    env_id = agent.spec.env_id
    eval_every, eval_episodes, _ = evaluations(agent.name, env_id, total_steps, eval_every, eval_episodes, usual=10)
    runner, history = accelerate(agent), History() if history is None else history
    run = _Run(checkpoint, runner, env, total_steps, history, callback, stop_at)
    with (
        run.explaining_errors(),
        claim("checkpoint", run.path, run.best),
        official(agent, env_id, eval_episodes) as copies,
        nullcontext(run.begin(resume)),
        runner,
        watching(run) if progress else nullcontext() as show,
        _finish_the_update() as interrupted,
    ):
        play = partial(evaluate, agent, episodes=eval_episodes, max_steps=episode_limit(env_id), copies=copies)
        if run.owes_evaluation(eval_every):
            run.report(history.updates[-1])  # a tracker forgets what it has from the first step that it gets again
            run.judge(play)
            run.save()
        while run.steps < total_steps and not run.stopped and not interrupted:
            start = time.perf_counter()
            rollout, run.obs = runner.collect(env, run.obs)
            figures = runner.update(rollout, progress=min(1.0, run.steps / total_steps))
            episodes = run.episodes.absorb(rollout)
            figures = finished_only(floats(figures | {"train/reward_mean": _mean_reward(rollout)} | episodes))
            run.seconds += time.perf_counter() - start
            before, run.steps = run.steps, run.steps + rollout.num_steps
            row = {"steps": run.steps, "seconds": run.seconds} | figures
            row["train/steps_per_second"] = run.steps / run.seconds
            run.notice_refusals(row, rollout)
            history.updates.append(row)
            run.report(row)
            last = run.steps >= total_steps
            evaluated = _passed(before, run.steps, eval_every) or last
            due = evaluated if checkpoint_every is None else _passed(before, run.steps, checkpoint_every)
            if due or last or interrupted:
                run.save()  # before an evaluation, so that nothing that happens there can lose the training
            if evaluated and not interrupted:
                run.judge(play)
                if due or last or run.stopped or interrupted:
                    run.save()
            if show is not None:
                show()
            if interrupted:
                stop(progress)
    return history


def require_learning(config: Any, total_steps: int, held: int = 0) -> None:
    """Raise ValueError unless so many steps hold an update. held: steps that a replay has from before."""
    if total_steps < config.batch_size:
        raise ValueError(
            f"total_steps: wanted at least one rollout, {config.rollout_steps} * {config.num_envs} = "
            f"{config.batch_size}; got {total_steps}"
        )
    least = config.first_learning - held if hasattr(config, "first_learning") else 0
    if -(-total_steps // config.batch_size) * config.batch_size < least:
        raise ValueError(
            f"total_steps: wanted at least {least}, after which {type(config).__name__} has collected enough to learn "
            f"from (warmup_steps, sequence_length); got {total_steps}"
        )


def _require_fit(agent: Any, env: VectorEnv, total_steps: int) -> None:
    """Raise ValueError unless the budget holds a rollout and the environment is the one the agent was made for."""
    config = agent.config
    require_learning(config, total_steps, agent.replay.num_steps if hasattr(agent, "replay") else 0)
    if env.num_envs != config.num_envs or env.spec != agent.spec:
        raise ValueError(
            f"env: wanted {config.num_envs} of {agent.spec}, what the agent was made for; "
            f"got {env.num_envs} of {env.spec}"
        )
    if env.dtype != agent.dtype or env.device.type != agent.device.type:
        raise ValueError(
            f"env: wanted {agent.dtype} on {agent.device.type}, like the agent; got {env.dtype} on {env.device.type}"
        )


def _mean_reward(rollout: Any) -> torch.Tensor:
    """The mean reward of a rollout's real rows, 0-d: a reset is no step."""
    weight = rollout.tensors().get("restart_weight")
    return rollout.reward.mean() if weight is None else (rollout.reward * weight).sum() / weight.sum()


def _passed(before: int, after: int, every: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]."""
    # LaTeX: \mathrm{due} = \mathbf{1}\left[ \left\lfloor \frac{n'}{\Delta n} \right\rfloor > \left\lfloor \frac{n}{\Delta n} \right\rfloor \right]
    return after // every > before // every


class _Run:
    """Where a training stands, and its files."""

    def __init__(
        self,
        path: str | Path | None,
        runner: Plain,
        env: VectorEnv,
        total_steps: int,
        history: History,
        callback: Callable[[dict[str, float]], None] | None,
        stop_at: float | None,
    ):
        self.path, self.runner, self.agent = Path(path) if path else None, runner, runner.agent
        self.env, self.total_steps, self.history, self.callback = env, total_steps, history, callback
        self.steps, self.seconds = 0, 0.0
        self.goal, self.stopped = math.inf if stop_at is None else stop_at, False
        self.episodes = RunningEpisodes(whole=getattr(self.agent.config, "whole_episodes", False))
        self.shown: dict[str, str] = {}  # on the progress bar, the latest of each
        self.refused = dict(self.agent.guard.skipped)  # what the guard has refused so far, by name
        self.warned = False
        self.best = self.path and self.path.with_name(f"{self.path.stem}.best{self.path.suffix}")
        self.best_mean = -math.inf  # of the evaluation whose agent is the best
        self.saved: int | None = None  # steps of the checkpoint that stands in the file
        self.left: dict[Path, tuple[int, ...] | None] = {}  # the files as they were read or written last

    def report(self, row: dict[str, float]) -> None:
        """Call the callback with a row that it may change."""
        if self.callback:
            self.callback(dict(row))

    def save(self) -> None:
        if self.path:
            state = self.about() | {name: getattr(self, name) for name in ("steps", "seconds", "stopped")}
            state |= {"updates": self.history.updates, "evaluations": self.history.evaluations}
            state |= {"episodes": self.episodes.state_dict(), "obs": self.obs, "env": state_of(self.env)}
            self.write(self.path, state)
            self.saved = self.steps

    def owes_evaluation(self, every: int) -> bool:
        """Whether the checkpoint that was taken over was written just before an evaluation."""
        if not self.history.updates:
            return False
        before = self.history.updates[-2]["steps"] if len(self.history.updates) > 1 else 0
        due = _passed(before, self.steps, every) or self.steps >= self.total_steps
        return due and self.steps not in self.history.steps("eval/mean")

    def judge(self, play: Callable[[], dict[str, float]]) -> None:
        """Evaluate; save the agent by itself if it is the best so far. An error leaves a checkpoint of this step.

        All evaluations of a run cut episodes at the same step, so their means compare, cut or not.
        Raises FloatingPointError: a number that is not finite.
        """
        try:
            row = {"steps": self.steps, "seconds": self.seconds} | play()
        except BaseException as error:
            if self.saved != self.steps:
                self.save()
            if isinstance(error, ValueError):
                raise FloatingPointError(f"{error}; {self.what_is_left()}") from error
            raise
        if "eval/unfinished" in row and not len(self.history.column("eval/unfinished")):
            warn_of_cut(self.agent.spec.env_id, play.keywords["max_steps"])
        if math.isfinite(row["eval/mean"]) and row["eval/mean"] > self.best_mean:  # what is not finite is no measure
            self.best_mean = row["eval/mean"]
            if self.best:
                self.write(self.best, self.about() | {"best_mean": self.best_mean})
        self.history.evaluations.append(row)
        self.report(row)
        self.stopped = self.goal <= row["eval/mean"] < math.inf

    def about(self) -> dict[str, Any]:
        """What must be the same when the run is resumed, beside configuration and spec."""
        agent, env = self.agent, self.env
        kinds = [type(each).__name__ for each in (env, getattr(env, "env", None)) if each is not None]
        return {
            "total_steps": self.total_steps,
            "seed": agent.seed,
            "env_seed": int(env.seed),  # a number of NumPy's could not be read back
            "backend": " of ".join(kinds),  # what Gymnasium made, which may be processes, stands inside
            "autoreset": getattr(env, "autoreset", "same_step"),
            "stagger": getattr(env, "stagger", False),
            "dtype": agent.dtype,
            "device": agent.device.type,
        }

    def write(self, path: Path, training: dict[str, Any]) -> None:
        """Save the agent.

        Raises FloatingPointError: it has diverged; the message says what is left of the run. OSError: somebody else has
        written the file.
        """
        if stamp(path) not in (None, self.left.get(path)):
            raise OSError(f"checkpoint: wanted {path.name} as this run left it; somebody else has written it")
        try:
            save(self.runner, path, training)
            self.left[path] = stamp(path)
        except FloatingPointError as error:
            raise FloatingPointError(f"{error} after {self.steps} steps; {self.what_is_left()}") from error

    def what_is_left(self) -> str:
        """What an error leaves of the run."""
        good = f"{self.path} holds the last good checkpoint, of {self.saved} steps"
        best = [f"{self.best} the agent of the best evaluation"] if self.best and self.best.exists() else []
        return "; ".join(["no good checkpoint was written" if self.saved is None else good, *best])

    @contextmanager
    def explaining_errors(self) -> Iterator[None]:
        """Say what an error of an environment leaves, and what to change when the device's memory is full."""
        try:
            yield
        except EnvironmentFailed as error:
            error.add_note(f"the training stood at {self.steps} steps; {self.what_is_left()}")
            raise
        except torch.OutOfMemoryError as error:
            sizes = ["num_envs", "rollout_steps", "group", "minibatch_size", "replay_steps"]
            raise torch.OutOfMemoryError(
                f"device: wanted room on {self.agent.device} for {_written(vars(self.agent.config), sizes)}; "
                f"make one of these smaller ({error})"
            ) from error

    def notice_refusals(self, row: dict[str, float], rollout: Any) -> None:
        """Warn of this training's first refusal, and of every hundredth.

        Raises FloatingPointError: the third in a row, which a guard on a GPU counts but cannot raise.
        """
        count = row.get("train/skipped_batches", 0.0)
        if count <= sum(self.refused.values()):
            return
        guard = self.agent.guard
        before, self.refused = self.refused, dict(guard.skipped)
        name = next(name for name, number in self.refused.items() if number > before.get(name, 0))
        if name == STEP:  # the guard did not ask; everything was put back, so it can be found now
            name = self.agent.blame(rollout) or STEP
        give_up(guard.in_a_row, self.refused, name)
        if not self.warned or count % 100 == 0:
            self.warned = True
            warnings.warn(
                f"{name}: not finite in the update that ends at {self.steps} steps; it was refused before anything "
                "moved (train/skipped_batches counts such updates, and three in a row end the training)",
                stacklevel=3,
            )

    def begin(self, resume: bool) -> None:
        """Start, or take over what the file says; `obs`, [B, O], is what to act on first."""
        self.left = {path: stamp(path) for path in (self.path, self.best) if path}
        if self.path:
            plain(self.runner.state_dict(), "state")  # better refused now than when the first checkpoint is due
        saved = state = None
        if self.path and self.path.exists():
            if not resume:
                raise ValueError(
                    f"checkpoint: {self.path.name} exists; wanted resume=True to go on from it, or another name"
                )
            saved = self.require_same(self.path, "steps")
        if self.best and self.best.exists():
            if not resume:
                raise ValueError(
                    f"checkpoint: {self.best.name} exists, the best agent of another run; wanted another name"
                )
            self.best_mean = self.require_same(self.best, "best_mean")["training"]["best_mean"]
        if saved:
            run = saved["training"]
            with fitting(self.path, self.agent.name):
                self.runner.load_state_dict(saved["state"])
                self.steps, self.seconds, self.stopped = int(run["steps"]), float(run["seconds"]), bool(run["stopped"])
                self.history.updates = [dict(row) for row in run["updates"]]
                self.history.evaluations = [dict(row) for row in run["evaluations"]]
                means = [row["eval/mean"] for row in run["evaluations"]]
                self.best_mean = max([self.best_mean, *filter(math.isfinite, means)])
                state, self.obs = unpacked(run["env"]), run["obs"].to(self.agent.device)
                if state is not None:
                    self.env.load_state_dict(state)
                    self.episodes.load_state_dict(run["episodes"])
            self.refused = dict(self.agent.guard.skipped)
            self.saved = self.steps
            if state is None:
                name = self.env.spec.env_id
                warnings.warn(
                    f"{name} goes on with fresh episodes: its state cannot be saved (extend.md says how it could)",
                    stacklevel=3,
                )
                self.env.reseed(self.steps)  # not the first episodes again
        if state is None:
            self.agent.fresh_episodes()
            self.obs = self.env.reset()

    def require_same(self, path: Path, part: str) -> dict[str, Any]:
        """What a file holds. Raises ValueError: it is not of this training, or `part` is not among what it tells."""
        agent, saved, file = self.agent, read(path), path.name
        state = saved["state"]
        if state.get("seeding") != SEEDING:
            raise ValueError(
                f"checkpoint: wanted one with seeding {SEEDING!r}; {file} is of the former seeding, in which streams "
                "of random numbers were shared: it can be evaluated and filmed; train under another name"
            )
        run = saved["training"] or {}
        if saved["agent"] != agent.name or part not in run or run.get("total_steps") != self.total_steps:
            steps = run.get("total_steps")
            held = f"one of {saved['agent']} over {steps} steps" if run else f"{saved['agent']} alone"
            way = "go on with that, or under another name" if run else "nothing to go on from; take another name"
            wanted = "a training" if part == "steps" else "the best agent of a training"
            raise ValueError(
                f"checkpoint: wanted {wanted} of {agent.name} over {self.total_steps} steps; {file} holds {held}: {way}"
            )
        with fitting(path, agent.name):
            about = self.about()
            ours = asdict(agent.spec) | asdict(agent.config) | about
            theirs = asdict(EnvSpec(**state["spec"])) | completed(agent.config, state["config"])
            theirs |= {name: run[name] for name in about}
            if theirs["own"] is None:  # of a spec that was made by hand, or is older
                del ours["own"]
            other = [name for name in ours if theirs[name] != ours[name]]
        if other:
            raise ValueError(
                f"checkpoint: wanted a training with {_written(ours, other)}; {file} holds one with "
                f"{_written(theirs, other)}: go on with its settings, or under another name"
            )
        return saved


def _written(settings: dict[str, Any], names: list[str]) -> str:
    """Those of the settings that are there, as a call would have them."""
    return ", ".join(f"{name}={settings[name]!r}" for name in names if name in settings)


@contextmanager
def _finish_the_update() -> Iterator[list[int]]:
    """Ctrl-C fills the list instead of stopping in the middle of an update; a second one stops at once."""
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return

    def ask(number: int, frame: Any) -> None:
        signals.append(number)
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, before)
