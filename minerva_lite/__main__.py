"""The command line: `python -m minerva_lite train|evaluate|video|study|presets …`, installed as `minerva`."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import gymnasium as gym
import torch
import tyro

from .agents import AGENTS
from .agents.base import pick_device
from .checks import require_count
from .files import write_text
from .training.checkpoints import claim, load, read
from .training.defaults import announcement, episode_limit, evaluations, settings_for
from .training.evaluation import History, evaluate
from .training.loop import require_learning, train
from .training.options import as_typed, combinations, listed, option, unchecked, word_after
from .training.presets import Preset
from .training.reached import table_of_presets
from .training.settings_file import read_config, read_settings, settings_text
from .training.studies import read_failures, study
from .training.trackers import TensorBoard, WeightsAndBiases
from .training.video import film
from .worlds.envs import make_env
from .worlds.single import EnvironmentFailed

Algorithm = Literal[tuple(AGENTS)]
Config = TypeVar("Config")


@dataclass(frozen=True)
class Nothing:
    """Stands for the settings of an algorithm that is not named yet."""


@dataclass(frozen=True)
class Train(Generic[Config]):
    """Train an agent and print its final evaluation.

    Settings are those of the preset, or without one those of the environment's family, which is told on stderr. The
    algorithm's own are the options --config.…: `train ppo --env CartPole-v1 --help` shows them with these defaults.
    """

    algorithm: Annotated[Algorithm, tyro.conf.Positional]  # what learns
    env: str  # any Gymnasium id, <module>:<id> of a module of yours, dm_control/<domain>/<task>, or tokens/<task>
    config: Annotated[Config, tyro.conf.FlagConversionOff]
    # settings of a run to start from (JSON); what is typed beside it wins
    config_file: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE")] = None
    save_config: Path | None = None  # write the settings of this run to a file for --config
    seed: int | None = None  # of everything that is drawn; 0, or with --resume the checkpoint's, unless named
    steps: int | None = None  # of all environments together; those of the preset or family unless named
    num_envs: int | None = None  # environments side by side; the same as --config.num-envs
    device: str = "auto"  # auto, cpu, cuda, mps
    backend: str = "auto"  # `auto`, `torch`, `gymnasium`, `parallel` (a process for each environment) or `envpool`
    compile: bool = False  # trace the agent's functions into fused kernels, and on a GPU record walk and update
    out: Path | None = None  # the checkpoint, written at evaluations, at the end and on Ctrl-C
    checkpoint_every: int | None = None  # steps between two checkpoints; at every evaluation unless named
    resume: bool = False  # go on from the checkpoint
    # steps between two evaluations; a twentieth of them all unless named, more where there is no preset
    eval_every: int | None = None
    eval_episodes: int | None = None  # of each evaluation while it trains; 50 unless named, fewer without a preset
    episodes: int | None = None  # of the final evaluation; 100 unless named, fewer without a preset
    history: Path | None = None  # a CSV file for every figure of the run
    tensorboard: Path | None = None  # a folder that gets the figures while it runs
    wandb: str | None = None  # a project that gets the figures while it runs


@dataclass(frozen=True)
class Study(Generic[Config]):
    """Train every algorithm on every environment in every variant with every seed, and write a CSV.

    Several values of an option --config.… are as many variants; several such options make a product. What is not given
    stays as in the preset or family. The same command goes on where a stopped one was, and tries again what failed.
    """

    algorithms: Annotated[tuple[Algorithm, ...], tyro.conf.Positional]  # what learns
    env: tuple[str, ...]  # environments, as in train
    out: Path  # the CSV file
    config: Annotated[Config, tyro.conf.FlagConversionOff]
    # settings to start from (JSON), of a single algorithm
    config_file: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE")] = None
    seeds: int = 5  # how many of them
    first_seed: int = 0  # the others follow it
    variants: tuple[str, ...] = ("preset",)  # names from ABLATIONS
    ablations: bool = False  # all of these names that the algorithm has
    steps: int | None = None  # of each run; those of its preset or family unless named
    num_envs: int | None = None  # the same as --config.num-envs
    backend: str = "auto"  # as in train
    eval_every: int | None = None  # as in train
    eval_episodes: int = 10  # of each evaluation while it trains; the final one has 100
    jobs: int = 2  # runs at a time
    address: str | None = None  # of a Ray cluster that does the runs: host:port or auto; local starts one here


def read_train(words: list[str], prog: str) -> tuple[Train[Any], Any, Preset, set[str]]:
    """What the words after `train` ask for, the agent's configuration, the settings that it started from, and the names
    of those that a file gives.

    The words are read twice: algorithm, environment and file first, because they say which options there are and what
    their defaults are.
    """
    file = word_after(words, "config")
    settings = read_settings(file) if file else {}
    algorithm = next((word for word in words if word in AGENTS), settings.get("algorithm"))
    env = settings.get("env") if (typed := word_after(words, "env")) is None else typed
    if env and ":" in env and typed is None:
        raise ValueError(
            f"env: wanted it typed, because {env!r} imports a module, which runs its code, and only the file names it"
        )
    start, config, changes = None, Nothing(), {}
    if algorithm in AGENTS:
        changes = read_config(settings, algorithm, file) if file else {}
        if env is not None:
            start = settings_for(algorithm, env, backend=word_after(words, "backend") or "auto")
        base = unchecked(start.config if start else AGENTS[algorithm][1]())
        config = replace(base, **changes)
    default = Train(
        algorithm=algorithm or tyro.MISSING,
        env=tyro.MISSING if env is None else env,
        config=config,
        seed=settings.get("seed"),
        steps=settings.get("steps", start and start.total_steps),
    )
    args = tyro.cli(Train[type(config)], args=words, prog=prog, default=default)
    if args.algorithm != algorithm or start is None:
        raise ValueError(f"ALGORITHM: wanted it before the options; got {algorithm!r} among their values")
    values = {field.name: getattr(args.config, field.name) for field in fields(args.config)}
    if args.num_envs is not None:
        typed = word_after(words, "config.num-envs")
        if typed is not None and values["num_envs"] != args.num_envs:
            raise ValueError(f"--num-envs: wanted {typed}, as in --config.num-envs; got {args.num_envs}")
        values["num_envs"] = args.num_envs
    return args, AGENTS[algorithm][1](**values), start, {*settings, *changes} - {"config"}


def train_command(args: Train[Any], config: Any, start: Preset, given: set[str]) -> None:
    """Train, save and evaluate as asked. given: the settings that a file gives."""
    if args.resume and not args.out:
        raise ValueError("--resume: wanted --out, the checkpoint to go on from; got none")
    counts = ("steps", "episodes", "eval_every", "eval_episodes", "checkpoint_every")
    require_count(**{name: getattr(args, name) for name in counts if getattr(args, name) is not None})
    require_learning(config, args.steps)
    where = pick_device(args.device)
    resumed = (args.resume and args.out.is_file() and read(args.out)["training"]) or {}
    seed = resumed.get("seed", 0) if args.seed is None else args.seed
    every, episodes, final = plan = evaluations(
        args.algorithm, args.env, args.steps, args.eval_every, args.eval_episodes, usual=50
    )
    if start.family or start.untrained:
        taken = replace(start, config=config, total_steps=args.steps)
        if line := announcement(args.algorithm, args.env, taken, given, plan):
            print(line, file=sys.stderr)
    about = {"algorithm": args.algorithm, "env": args.env, "seed": seed}
    settings = settings_text(**about, steps=args.steps, config=asdict(config))
    first_row = History(resumed["updates"][:1]).text() if "updates" in resumed else ""
    with ExitStack() as opened:
        opened.enter_context(claim("history", args.history, start=first_row))
        opened.enter_context(claim("save_config", args.save_config, start=settings))
        worlds = make_env(args.env, config.num_envs, seed=seed, device=where, backend=args.backend)
        agent = AGENTS[args.algorithm][0](config, worlds.spec, seed=seed, device=where, compile=args.compile)
        trackers = [opened.enter_context(TensorBoard(args.tensorboard))] if args.tensorboard else []
        file = {"checkpoint": args.out, "resume": args.resume}
        if args.wandb:
            board = WeightsAndBiases(args.wandb, config=about | asdict(config), **file)
            trackers.append(opened.enter_context(board))
        history, unwritten = History(), False

        @cache  # with the first row, because a training that is refused changes no file
        def save_config() -> None:
            if args.save_config:
                write_text(args.save_config, settings, name="save_config")

        def track(row: dict[str, float]) -> None:
            save_config()
            for tracker in trackers:
                tracker(row)

        try:
            often = {"eval_every": every, "eval_episodes": episodes, "checkpoint_every": args.checkpoint_every}
            train(agent, worlds, args.steps, callback=track, history=history, **often, **file)
            save_config()
        finally:
            if args.history and history.updates:
                try:
                    write_text(args.history, history.text(), name="--history")
                except OSError as error:  # what the training itself has to tell comes as well
                    unwritten = True
                    print(error, file=sys.stderr)
    limit = episode_limit(args.env)
    print(json.dumps(evaluate(agent, episodes=args.episodes or final, max_steps=limit, interval=True)))
    if unwritten:
        sys.exit(1)


def evaluate_command(
    path: Annotated[Path, tyro.conf.Positional],
    episodes: int = 100,
    env: str | None = None,
    max_steps: int = 100_000,
) -> None:
    """Evaluate a saved agent on the official environment.

    env: another environment with the same spaces; or its own, <module>:<id>, which is imported only if it is typed.
    max_steps: after which an episode is cut.
    """
    print(json.dumps(evaluate(load(path), env_id=env, episodes=episodes, max_steps=max_steps, interval=True)))


def video_command(
    path: Annotated[Path, tyro.conf.Positional],
    out: Path,
    episodes: int = 1,
    env: str | None = None,
    seed: int = 10_000,
    fps: float | None = None,
    max_steps: int = 100_000,
) -> None:
    """Film a saved agent, as an .mp4 or a .gif, and print the figures of the episodes.

    env: as in evaluate. seed: of the first episode; that of `evaluate` unless named. fps:
    pictures a second, if not the environment's own. max_steps: the longest episode allowed.
    """
    with claim("out", out, start=""):
        facts = film(load(path), out, env_id=env, episodes=episodes, seed=seed, fps=fps, max_steps=max_steps)
    print(json.dumps(facts))


def read_study(words: list[str], prog: str) -> tuple[Study[Any], dict[str, dict[str, Any]]]:
    """What the words after `study` ask for, and by name the settings that it compares beside its variants."""
    file = word_after(words, "config")
    settings = read_settings(file) if file else {}
    kinds = [AGENTS[word][1] for word in words if word in AGENTS]
    config = listed(kinds)() if kinds else Nothing()
    args = tyro.cli(Study[type(config)], args=words, prog=prog)
    lists = {field.name: getattr(args.config, field.name) for field in fields(args.config)}
    lists = {name: values for name, values in lists.items() if values}
    if args.num_envs is not None:
        if lists.get("num_envs", (args.num_envs,)) != (args.num_envs,):
            raise ValueError(f"--num-envs: wanted it without --config.num-envs; got {args.num_envs}")
        lists["num_envs"] = (args.num_envs,)
    for name in lists:
        for algorithm in args.algorithms:
            if name not in {field.name for field in fields(AGENTS[algorithm][1])}:
                raise ValueError(f"--config.{option(name)}: wanted a setting of all of them; {algorithm} has none")
    if not file:
        return args, combinations(lists)
    if len(set(args.algorithms)) != 1:
        raise ValueError(f"--config: wanted one algorithm beside a file of settings; got {', '.join(args.algorithms)}")
    base, name = read_config(settings, args.algorithms[0], file), Path(file).name
    return args, {f"{name}, {n}" if n else name: base | way for n, way in combinations(lists).items()}


def study_command(args: Study[Any], settings: dict[str, dict[str, Any]]) -> None:
    """Run the study that is asked for."""
    study(
        args.algorithms,
        args.env,
        range(args.first_seed, args.first_seed + args.seeds),
        None if args.ablations else args.variants,
        args.out,
        settings=settings,
        total_steps=args.steps,
        eval_every=args.eval_every,
        eval_episodes=args.eval_episodes,
        backend=args.backend,
        jobs=args.jobs,
        address=args.address,
    )
    if failures := read_failures(args.out):
        sys.exit("\n".join(["failed; the same command tries again:", *failures]))


def presets_command(env: str | None = None, algorithm: Algorithm | None = None) -> None:
    """Print the presets, their steps, and the return that they reached where the book records it.

    env: those of this environment alone. algorithm: those of this algorithm alone.
    """
    print(table_of_presets(env=env, algorithm=algorithm))


def _options(command: str, words: list[str]) -> dict[str, str]:
    """By the name that an error begins with: the option that was typed for it."""
    if command not in ("train", "study"):
        names = ("env", "out", "episodes", "max_steps", "fps")
        return {name: f"--{option(name)}" for name in names} | {"env_id": "--env"}
    kinds = [AGENTS[word][1] for word in words if word in AGENTS]
    options = {field.name: f"--config.{option(field.name)}" for kind in kinds for field in fields(kind)}
    own = {field.name for field in fields(Train if command == "train" else Study)} - {"config", "algorithm"}
    if word_after(words, "num-envs") is None:
        own.discard("num_envs")
    options |= {name: f"--{option(name)}" for name in own}
    return options | {"env_id": "--env", "total_steps": "--steps", "checkpoint": "--out", "path": "--out"}


def main() -> None:
    """Run what the command line says. What cannot be done as asked is one line on stderr and exit code 1; where an
    environment's own code raised, its traceback stands above that line.

    `python -X dev -m minerva_lite …` shows where it was found.
    """
    if os.getcwd() not in sys.path:  # the installed command finds modules here too, as `python -m` does
        sys.path.append(os.getcwd())
    command, words = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    name = "minerva" if Path(sys.argv[0]).stem == "minerva" else "python -m minerva_lite"
    commands = {
        "train": Train[Nothing],
        "evaluate": evaluate_command,
        "video": video_command,
        "study": Study[Nothing],
        "presets": presets_command,
    }
    try:
        if command == "train":
            train_command(*read_train(words, f"{name} train"))
        elif command == "study":
            study_command(*read_study(words, f"{name} study"))
        else:
            tyro.extras.subcommand_cli_from_dict(commands, prog=name)
    except EnvironmentFailed as error:  # somebody else's code, whose author needs file and line
        if sys.flags.dev_mode:
            raise
        lines = [" ".join(line.split()) for line in (str(error), *getattr(error, "__notes__", ()))]
        sys.exit(error.trace + "; ".join(lines))
    except KeyboardInterrupt:
        out = word_after(words, "out")
        if command == "study":
            sys.exit(f"stopped; the same command goes on from {out}")
        if command == "train":
            there = out and Path(out).exists()
            sys.exit(
                f"stopped; {out} is where --resume goes on" if there else "stopped; no checkpoint is saved in --out"
            )
        sys.exit("stopped")
    except (ValueError, ImportError, OSError, FloatingPointError, torch.OutOfMemoryError, gym.error.Error) as error:
        if sys.flags.dev_mode:
            raise
        message = as_typed(" ".join(str(error).split()), _options(command, words))
        sys.exit(message.replace("wanted resume=True", "wanted --resume"))


if __name__ == "__main__":
    main()
