"""An agent driven on a GPU without waiting for it, wrapped from outside. The agents know nothing of this file.

What it knows of each algorithm is listed in `KNOWN`. An agent whose class is not listed there runs plainly.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from ..agents import A2CAgent, MPOAgent, PPOAgent, REINFORCEAgent, TRPOAgent, VMPOAgent
from ..agents.base import Agent, NonFiniteGuard
from ..checks import require_unit_interval, wide
from ..experience.rollout import Move, Rollout, collect
from ..language import SequenceAgent
from ..worlds.spec import Step
from ..worlds.torch_native import TorchEnv

WARM_UP = 3  # calls before a recording: optimizers make their states in the first, compilers compile


@dataclass(frozen=True)
class Known:
    """What must be known of an algorithm before its update may run without an answer from the device."""

    waits: Callable[[Any], bool]  # by the config: does an update need a number before it can go on?
    same: Callable[[Any], bool] = lambda config: False  # by the config: does every update do the same operations?
    walks: Callable[[Any], bool] = lambda config: True  # by the config: is a rollout a fixed number of steps?
    counters: tuple[str, ...] = ()  # attributes in which an update keeps plain numbers
    replays: tuple[str, ...] = ()  # attributes that are a replay, into which an update puts its rollout
    networks: tuple[str, ...] = ()  # modules that `compile` traces one by one; () traces `loss`


def _adam(config: Any) -> bool:
    return config.optimizer == "adam"  # SGD has its learning rate as a number, which a recording would keep


def _whole(config: Any) -> bool:
    return config.whole_episodes  # how long they are is known after each step


def _fixed(config: Any) -> bool:
    return not config.whole_episodes


KNOWN: dict[type[Agent], Known] = {
    REINFORCEAgent: Known(waits=_whole, same=_adam, walks=_fixed),
    A2CAgent: Known(waits=_whole, same=_adam, walks=_fixed),
    # Its line search asks; `compile` leaves the policy alone, whose KL is differentiated twice.
    TRPOAgent: Known(
        waits=lambda c: True, walks=lambda c: _fixed(c) and c.sampling == "single_path", networks=("critic",)
    ),
    PPOAgent: Known(
        waits=lambda c: c.objective == "kl_penalty" or (c.target_kl is not None and c.target_kl > 0), same=_adam
    ),
    # With a longer target_period some updates copy the policy and others do not.
    VMPOAgent: Known(
        waits=_whole, same=lambda c: _adam(c) and c.target_period == 1, walks=_fixed, counters=("updates",)
    ),
    # No two updates are the same: the place of a rollout in the replay is a number that changes.
    MPOAgent: Known(
        waits=lambda c: False,
        counters=("learned",),
        replays=("replay",),
        networks=("policy", "critic", "target_policy", "target_critic"),
    ),
    # Pretraining, before the first answers, is part of no update.
    SequenceAgent: Known(waits=lambda c: False, same=_adam, walks=lambda c: False),
}


class Plain(AbstractContextManager):
    """An agent as it is, with the face of `Accelerated`."""

    def __init__(self, agent: Agent):
        self.agent, self.name = agent, agent.name

    def __exit__(self, *error: Any) -> None:
        pass

    def collect(self, env: Any, obs: Tensor) -> tuple[Any, Tensor]:
        return self.agent.collect(env, obs)

    def update(self, rollout: Any, progress: float = 0.0) -> dict[str, Tensor]:
        return self.agent.update(rollout, progress=progress)

    def state_dict(self) -> dict[str, Any]:
        return self.agent.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state)


def accelerate(agent: Agent) -> Plain:
    """The agent as `train` drives it, for a `with` block: it collects and updates as the agent would, to the bit.

    With the agent's `compile`, functions of tensors are traced and their operations fused. On a GPU an update asks the
    device for nothing, and with `compile` walk and update are recorded besides, where every update is the same.
    After the block the agent is as it was, but for what it learned. An agent of a class that is not known runs plainly.
    """
    known = KNOWN.get(type(agent))
    masked = known is not None and agent.device.type == "cuda" and not known.waits(agent.config)
    if known is None or not (masked or agent.compile):
        return Plain(agent)
    return Accelerated(agent, known, masked=masked, record=masked and agent.compile and known.same(agent.config))


class Accelerated(Plain):
    """An agent whose class is known, compiled if it asks for that, and on a GPU with masked and recorded updates.

    A rollout that is not finite is learned from all the same, and then everything is put back as it was: a masked step.
    So is an update one of whose steps had a loss or a gradient that is not finite. The plain way keeps the steps before
    that one; which one it was, nobody asks here.
    """

    def __init__(self, agent: Agent, known: Known, *, masked: bool, record: bool):
        super().__init__(agent)
        self.known, self.masked, self.record = known, masked, record
        self.unsettled: tuple[Answer, Answer, dict[str, int], int] | None = None
        self.act_and_step = torch.compile(act_and_step)
        self.move: Move | None = self.compiled_move if agent.compile else None
        self.forget()

    def __enter__(self) -> Accelerated:
        agent = self.agent
        if agent.compile:
            for name in self.known.networks:
                getattr(agent, name).compile()
            if not self.known.networks:
                agent.loss = torch.compile(agent.loss)
        if self.masked:
            self.plain_guard, agent.guard = agent.guard, MaskedGuard(agent.device)
            agent.guard.load_state_dict(self.plain_guard.state_dict())
        return self

    def __exit__(self, *error: Any) -> None:
        self.settle()
        if self.masked:
            self.plain_guard.load_state_dict(self.agent.guard.state_dict())
            self.agent.guard = self.plain_guard
        if self.agent.compile:
            vars(self.agent).pop("loss", None)
            for name in self.known.networks:
                getattr(self.agent, name)._compiled_call_impl = None

    def forget(self) -> None:
        """Drop what was recorded: it refers to tensors by their place."""
        self.rates: list[Tensor] = []
        self.recorded_update = Recorded(self.masked_update, [self.agent.minibatch_generator])
        self.env: Any = None  # the one whose walk is recorded

    def state_dict(self) -> dict[str, Any]:
        self.settle()
        return super().state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.unsettled = None
        super().load_state_dict(state)
        self.forget()

    # -------------------------------------------------------------------------------------------------- updating

    def update(self, rollout: Any, progress: float = 0.0) -> dict[str, Tensor]:
        """What `Agent.update` does; a third refusal in a row raises in `train`, which reads the count."""
        if not self.masked:
            return super().update(rollout, progress)
        self.agent.check(rollout)
        require_unit_interval(progress=progress)
        self.settle()
        self.kind, self.progress = type(rollout), progress
        if self.record:
            with self.rates_on_device():
                return self.recorded_update(vars(rollout))
        counts = {name: getattr(self.agent, name) for name in self.known.counters}
        figures = self.masked_update(vars(rollout))
        answers = Answer(self.finite), Answer(self.agent.guard.arrived)
        self.unsettled = (*answers, counts, len(rollout.reward)) if counts else None
        return figures

    def settle(self) -> None:
        """Take back what Python counted in an update that was refused: by now the device has long said so."""
        if self.unsettled:
            was_finite, arrived, counts, steps = self.unsettled
            if not was_finite:
                for name, number in counts.items():
                    setattr(self.agent, name, number)
                for name in self.known.replays:
                    replay = getattr(self.agent, name)
                    replay.drop_huge() if arrived else replay.withdraw(steps)
            self.unsettled = None

    def masked_update(self, fields: dict[str, Any]) -> dict[str, Tensor]:
        """Learn from the rollout of these fields, then keep what was learned only if rollout and steps were finite."""
        agent, rollout = self.agent, self.kind(**fields)
        agent.guard.finite(**rollout.tensors())
        before = copied(learned_state(agent))
        if self.rates:  # a copy, for the next update writes over them
            agent.learning_rate = self.rates[0].clone()
        figures = agent.learn(rollout, self.progress)
        finite = self.finite = agent.guard.admitted()
        for name, tensor in learned_state(agent).items():
            old = before.get(name)
            if old is None or old.shape != tensor.shape:  # made by this very update
                old = torch.zeros_like(tensor)
            tensor.copy_(torch.where(finite, tensor, old))
        return figures | {"train/skipped_batches": agent.guard.total}

    @contextmanager
    def rates_on_device(self) -> Iterator[None]:
        """Let the optimizer read its learning rates on the device: a recorded step would keep a number for good."""
        agent = self.agent
        agent.set_learning_rate(self.progress)
        groups = agent.optimizer.param_groups
        numbers = [(group["lr"], group["capturable"]) for group in groups]
        self.rates = self.rates or [torch.zeros((), device=agent.device) for _ in groups]
        for group, rate in zip(groups, self.rates, strict=True):
            rate.fill_(group["lr"])
            group["lr"], group["capturable"] = rate, True
        agent.set_learning_rate = lambda progress: None  # it is done, and must not be recorded
        try:
            yield
        finally:
            del agent.set_learning_rate
            for group, (rate, capturable) in zip(groups, numbers, strict=True):
                group["lr"], group["capturable"] = rate, capturable

    # ------------------------------------------------------------------------------------------------ collecting

    def collect(self, env: Any, obs: Tensor) -> tuple[Any, Tensor]:
        """What `Agent.collect` does; compiled and recorded where the environment is one of torch operations."""
        agent, steps = self.agent, self.agent.config.rollout_steps
        if not isinstance(env, TorchEnv) or not self.known.walks(agent.config):
            return agent.collect(env, obs)
        if not self.record:
            return collect(agent, env, obs, steps, self.move)
        if env is not self.env:
            self.env = env
            self.recorded_walk = Recorded(self.walk, [agent.generator, env.generator])
        done = self.recorded_walk({"obs": obs, "state": env.state, "elapsed": env.elapsed})
        env.state, env.elapsed = done["state"], done["elapsed"]
        return Rollout(**done["rollout"]), done["obs"]

    def walk(self, start: dict[str, Tensor]) -> dict[str, Any]:
        """The walk as a function of tensors alone."""
        self.env.state, self.env.elapsed = start["state"], start["elapsed"]
        steps = self.agent.config.rollout_steps
        rollout, obs = collect(self.agent, self.env, start["obs"], steps, self.move)
        return {"rollout": vars(rollout), "obs": obs, "state": self.env.state, "elapsed": self.env.elapsed}

    def compiled_move(self, agent: Agent, env: TorchEnv, obs: Tensor) -> tuple[Tensor, tuple[Tensor, ...], Step]:
        """One step by one compiled function; what is random is drawn before it, in the order of `act` and `step`."""
        noise = agent.policy.noise(len(obs), agent.generator)
        action, params, step, env.state, env.elapsed = self.act_and_step(
            agent, env, obs, noise, env.state, env.elapsed, env.initial()
        )
        return action, params, step


def act_and_step(
    agent: Agent, env: TorchEnv, obs: Tensor, noise: Tensor, state: Tensor, elapsed: Tensor, fresh: Tensor
) -> tuple[Tensor, tuple[Tensor, ...], Step, Tensor, Tensor]:
    """`Agent.act` and `TorchEnv.step` as one function of tensors, which `torch.compile` makes fast."""
    params = agent.acting_policy(agent.normalized(obs))
    action = agent.policy.sample(params, noise=noise)
    successor, reward, terminated = env.advance(state, agent.policy.to_env(action))
    return action, params, *env.arrive(successor, reward, terminated, elapsed, fresh)


def learned_state(agent: Agent) -> dict[str, Tensor]:
    """Every tensor that an update changes, by name; the tensors themselves.

    Not a replay's: rows of a refused rollout are written over by the next one before any batch is drawn.
    """
    found = dict(agent.modules.state_dict())
    optimizers = {"": agent.optimizer} if hasattr(agent, "optimizer") else getattr(agent, "optimizers", {})
    for name, optimizer in optimizers.items():
        for i, state in enumerate(optimizer.state.values()):
            found |= {f"optimizer {name} {i} {key}": tensor for key, tensor in state.items() if tensor is not None}
    return found


STEP = "step"  # what a refused step is counted under: which tensor it was is not asked


class MaskedGuard(NonFiniteGuard):
    """A `NonFiniteGuard` for a device that is not to be waited for: its counts stay there until they are read."""

    def __init__(self, device: torch.device | str):
        self.tensors: tuple[str, ...] = ()  # of a rollout
        self.names: tuple[str, ...] = ()  # those, then STEP, then what else was refused before
        self.steps: list[Tensor] = []  # losses and gradient norms of the present update
        self.device = torch.device(device)
        self.counts = torch.zeros(0, dtype=torch.int64, device=self.device)  # refusals by the name they were due to
        self.run = torch.zeros((), dtype=torch.int64, device=self.device)  # refusals in a row

    def finite(self, **tensors: Tensor) -> Tensor:
        """Whether every number of every tensor is finite, 0-d bool on the device; counted if not."""
        if tuple(tensors) != self.tensors:
            before = self.skipped
            self.tensors = tuple(tensors)
            self.names = tuple(dict.fromkeys([*tensors, STEP, *before]))
            self.counts = torch.tensor([before.get(name, 0) for name in self.names], device=self.device)
        bad = ~torch.stack([torch.isfinite(tensor).all() for tensor in tensors.values()])
        self.steps, self.arrived, self.longer = [], ~bad.any(), self.run + 1
        # In place: a recorded CUDA graph finds them where they were.
        self.counts[: len(bad)].add_(bad & (bad.cumsum(0) == 1))
        self.run.copy_((self.run + 1) * bad.any())
        return self.arrived

    def admit(self, name: str, loss: Tensor, norm: Tensor | None = None) -> None:
        """Note what a step goes by; `admitted` judges all steps of an update at once."""
        self.steps += [number.detach() for number in (loss, norm) if number is not None]

    def admitted(self) -> Tensor:
        """Whether the rollout and every step learned from it were finite, 0-d bool on the device; counted if not."""
        finite = torch.isfinite(torch.stack(self.steps)).all() if self.steps else torch.ones_like(self.arrived)
        spoiled = self.arrived & ~finite
        self.counts[len(self.tensors)].add_(spoiled)
        self.run.copy_(torch.where(spoiled, self.longer, self.run))
        return self.arrived & finite

    @property
    def total(self) -> Tensor:
        """Refusals so far, 0-d."""
        return self.counts.sum()

    @property
    def skipped(self) -> dict[str, int]:
        """Refusals by name; this waits for the device."""
        return {name: count for name, count in zip(self.names, self.counts.tolist(), strict=True) if count}

    @property
    def in_a_row(self) -> int:
        """Refusals in a row; this waits for the device."""
        return int(self.run)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.tensors, self.names = (), tuple(state["skipped"])
        self.counts = torch.tensor(list(state["skipped"].values()), dtype=torch.int64, device=self.device)
        self.run.fill_(state["skipped_in_a_row"])


class Answer:
    """A yes or no on its way from a device: sent off without waiting, and read once it is needed."""

    def __init__(self, yes: Tensor):
        self.here = yes.to("cpu", non_blocking=True)
        self.sent = torch.cuda.Event() if yes.is_cuda else None
        if self.sent:
            self.sent.record()

    def __bool__(self) -> bool:
        if self.sent:
            self.sent.synchronize()  # returns at once if the figures behind it have been read
        return bool(self.here)


def floats(figures: dict[str, Tensor]) -> dict[str, float]:
    """0-d figures as numbers: whatever lies on a device comes over in one transfer, the one moment it is waited for."""
    tensors = {name: figure.detach() for name, figure in figures.items() if isinstance(figure, Tensor)}
    away = {name: figure for name, figure in tensors.items() if figure.device.type != "cpu"}
    brought = dict(zip(away, wide(torch.stack(list(away.values()))).tolist(), strict=True)) if away else {}
    return {name: brought[name] if name in brought else float(figure) for name, figure in figures.items()}


class Recorded:
    """Calls of `function(inputs)` replayed as one CUDA graph: one launch instead of thousands, the same kernels.

    function: takes a dict of tensors (or tuples of them, or None) and returns such a dict, always of the same shapes.
    What it changes besides it must change in place, and it must not ask for a number: a graph knows only addresses.
    generators: those it draws from; a replay draws on where the last one stopped.
    """

    def __init__(self, function: Callable[[dict[str, Any]], dict[str, Any]], generators: Sequence[Generator]):
        self.function, self.generators = function, generators
        self.calls, self.graph = 0, None

    def __call__(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self.graph is None and self.calls < WARM_UP:
            self.calls += 1
            # Copies, as a recording has them: for two inputs that are one tensor (CartPole's state is its observation)
            # something else is compiled, and to compile while a graph is recorded spoils the graph.
            return aside(self.function, copied(inputs))
        if self.graph is None:
            self.inputs = copied(inputs)
            self.graph, self.outputs = record(self.function, self.inputs, self.generators)
        copy_into(self.inputs, inputs)
        self.graph.replay()
        return copied(self.outputs)  # the next replay writes over its own


def record(function: Callable, inputs: dict[str, Any], generators: Sequence[Generator]) -> tuple[Any, dict[str, Any]]:
    """The CUDA graph of `function(inputs)`, which is not run, and where a replay leaves the outputs."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    gc.collect()  # a former graph that Python found and freed in the middle of this recording would spoil it
    with torch.cuda.graph(graph):
        outputs = function(inputs)
    return graph, outputs


def aside(function: Callable, inputs: dict[str, Any]) -> dict[str, Any]:
    """`function(inputs)` on a stream of its own: torch wants a graph's operations warmed up on another stream first."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        outputs = function(inputs)
    torch.cuda.current_stream().wait_stream(stream)
    return outputs


def copied(tree: Any) -> Any:
    """The same dict of tensors, tuples of tensors and None, with storage of its own."""
    if isinstance(tree, dict):
        return {name: copied(branch) for name, branch in tree.items()}
    if isinstance(tree, tuple):
        return tuple(copied(branch) for branch in tree)
    return tree.clone() if isinstance(tree, Tensor) else tree


def copy_into(old: Any, new: Any) -> None:
    """Write every tensor of `new` into the one that stands at its place in `old`."""
    if isinstance(old, Tensor):
        if old.shape != new.shape:
            raise ValueError(f"inputs: wanted shape {tuple(old.shape)}, what was recorded; got {tuple(new.shape)}")
        old.copy_(new)
    elif old is not None:
        for name in old if isinstance(old, dict) else range(len(old)):
            copy_into(old[name], new[name])
