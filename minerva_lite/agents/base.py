"""What every agent shares: the checks of a rollout and of a step before anything moves, and saving.

An algorithm builds its networks in `make_modules`, what learns them in `setup`, and learns from a rollout in `improve`.
Most descend one loss, as a `GradientAgent`. How an agent acts step by step is in `stepwise`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import clip_grad_norm_, parameters_to_vector

from ..checks import require_seed, require_unit_interval
from ..worlds.seeding import ACTING, SEEDING, UPDATES, WEIGHTS, generator, stream
from ..worlds.spec import EnvSpec, VectorEnv
from .optimizers import make_optimizer
from .settings import completed

MAX_SKIPS = 3


class NonFiniteStep(FloatingPointError):
    """A step that was not taken, because its loss or gradient is not finite; the message is the tensor's name."""


class NonFiniteGuard:
    """Refuses what holds a NaN or an infinity before it moves any parameter, and counts the refusals by name.

    An update asks `refuses` about its rollout, and every step asks `admit` about its loss and gradient.
    """

    def __init__(self) -> None:
        self.skipped: dict[str, int] = {}
        self.in_a_row = 0  # updates that were refused or cut short, up to the last one
        self.before = 0  # the same, up to the update before the present one

    def refuses(self, **tensors: Tensor) -> str | None:
        """The name of the first tensor that is not finite, or None.

        Raises FloatingPointError: three batches in a row were refused.
        """
        self.before, self.in_a_row = self.in_a_row, 0
        # One question for all of them: on a GPU each would wait for the device.
        finite = torch.stack([torch.isfinite(tensor).all() for tensor in tensors.values()]).tolist()
        bad = [name for name, is_finite in zip(tensors, finite, strict=True) if not is_finite]
        if not bad:
            return None
        self.count(bad[0])
        return bad[0]

    def admit(self, name: str, loss: Tensor, norm: Tensor | None = None) -> None:
        """Let a step be taken: the last question before anything moves.

        name: the loss's. loss: what the step descends, 0-d. norm: its gradient's, 0-d, where it has one.
        Raises NonFiniteStep: one of the two is not finite.
        """
        # One question, put to a plain number: torch's own test of a tensor is five operations.
        if not math.isfinite((loss.detach() if norm is None else loss.detach() + norm).item()):
            raise NonFiniteStep(f"gradient of {name}" if math.isfinite(loss.item()) else name)

    def count(self, name: str) -> None:
        """Count this update as one that the tensor of that name spoiled.

        Raises FloatingPointError: it is the third in a row.
        """
        self.skipped[name] = self.skipped.get(name, 0) + 1
        self.in_a_row = self.before + 1
        give_up(self.in_a_row, self.skipped, name)

    def state_dict(self) -> dict[str, Any]:
        return {"skipped": dict(self.skipped), "skipped_in_a_row": self.in_a_row}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.skipped, self.in_a_row = dict(state["skipped"]), state["skipped_in_a_row"]


def give_up(in_a_row: int, skipped: dict[str, int], name: str) -> None:
    """Raise FloatingPointError if so many refusals in a row say that the training is over."""
    if in_a_row >= MAX_SKIPS:
        raise FloatingPointError(f"{name}: not finite in {MAX_SKIPS} batches in a row; refused so far: {skipped}")


def pick_device(device: str | torch.device = "auto") -> torch.device:
    """`auto` takes CUDA, then MPS, then the CPU.

    Raises ValueError: the device named is none, or is not here.
    """
    if device != "auto":
        try:
            named = torch.device(device)
            torch.empty(0, device=named)  # a name of torch's says nothing about what is here
        except (AssertionError, ImportError, RuntimeError) as error:  # torch tells it in all three ways
            here = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
            here += ["mps"] if torch.backends.mps.is_available() else []
            why = str(error).splitlines()[0].split(". ")[0]
            raise ValueError(
                f"device: wanted auto or one that is here, {', '.join(here)}; got {str(device)!r} ({why})"
            ) from error
        return named
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


class Agent:
    """A policy that collects rollouts and learns from them.

    config: the algorithm's settings. spec: what to know of the environment. seed: of the first weights and of all that
    the agent draws. device: `auto`, or one of torch's names. dtype: of networks and data. compile: let `train` trace
    and fuse this agent's functions (`training.gpu`); by itself an agent always runs plainly.
    """

    name: str
    env_from_file = False  # whether `spec.env_id` was read from a file, and nobody has named that environment since
    config: Any
    policy: Any  # the network that acts

    def __init__(
        self,
        config: Any,
        spec: EnvSpec,
        *,
        seed: int = 0,
        device: str | torch.device = "auto",
        dtype: torch.dtype = torch.float32,
        compile: bool = False,
    ):
        self.require_world(spec)
        self.config, self.spec, self.dtype, self.compile = config, spec, dtype, compile
        self.device = pick_device(device)
        # Weights are drawn on the CPU, so that every device starts from the same ones.
        seed = require_seed(seed=seed)
        modules = self.make_modules(generator(stream(seed, WEIGHTS))) | self.make_statistics()
        for name, module in modules.items():
            setattr(self, name, module)
        self.modules = nn.ModuleDict(modules).to(self.device, dtype)
        self.seed = seed
        self.generator = generator(stream(seed, ACTING), self.device)
        self.minibatch_generator = generator(stream(seed, UPDATES), self.device)  # of all that an update draws
        self.guard = NonFiniteGuard()
        self.setup()

    def require_world(self, spec: EnvSpec) -> None:
        """Raise ValueError if this agent cannot act in such an environment."""

    def make_modules(self, weights: Generator) -> dict[str, nn.Module]:
        """Everything that holds parameters or statistics, under the attribute's name; "policy" among it."""
        raise NotImplementedError

    def make_statistics(self) -> dict[str, nn.Module]:
        """Running statistics that every agent of a kind keeps, after what `make_modules` makes."""
        return {}

    def setup(self) -> None:
        """Make what needs the networks on their device: optimizers, a replay, counters."""

    def collect(self, env: VectorEnv, obs: Tensor) -> tuple[Any, Tensor]:
        """The data of one update, acting in `env` from obs [B, O]; and what to act on next, [B, O]."""
        raise NotImplementedError

    def fresh_episodes(self) -> None:
        """Forget the episodes in progress: to be called where the environments were reset between two rollouts."""

    def update(self, rollout: Any, progress: float = 0.0) -> dict[str, Tensor]:
        """Improve on one rollout; `progress` in [0, 1] is the share of training done, by which a rate or a bound falls.

        Returns diagnostics as 0-d tensors. A rollout with a non-finite number changes nothing. A step whose loss or
        gradient is not finite changes nothing either, and the update ends before it. Both are counted by
        `train/skipped_batches`, in `guard.skipped` by the tensor's name, and leave no other diagnostics.
        Raises ValueError: a tensor of the rollout has the wrong shape or dtype, or progress lies outside [0, 1].
        FloatingPointError: the third update in a row that was refused or cut short.
        """
        self.check(rollout)
        require_unit_interval(progress=progress)
        figures: dict[str, Tensor] = {}
        if not self.guard.refuses(**rollout.tensors()):
            try:
                figures = self.learn(rollout, progress)
            except NonFiniteStep as error:
                self.guard.count(self.blame(rollout) or str(error))
        return figures | {"train/skipped_batches": torch.tensor(float(sum(self.guard.skipped.values())))}

    def learn(self, rollout: Any, progress: float) -> dict[str, Tensor]:
        """Improve on a rollout that was checked. Running statistics move here and nowhere else.

        Those of the rewards move before the rollout is used, because its own rewards set their scale; those of the
        observations after its last use, so that acting and learning see the same normalized observation.
        """
        before = parameters_to_vector(self.policy.parameters()).detach()
        if self.config.normalize_reward:
            self.absorb_rewards(rollout)
        figures = self.improve(rollout, progress)
        if self.config.normalize_obs:
            self.absorb_obs(rollout)
        figures["train/param_step_norm"] = (parameters_to_vector(self.policy.parameters()).detach() - before).norm()
        # The share of phantom rows is a figure of every rollout that may have some, so a 0 means that there were none.
        weight = rollout.tensors().get("restart_weight")
        return figures if weight is None else figures | {"train/restart_fraction": 1.0 - weight.mean()}

    def absorb_rewards(self, rollout: Any) -> None:
        """Let the rewards of a rollout into their running statistics; called where `normalize_reward` is set."""
        raise NotImplementedError

    def absorb_obs(self, rollout: Any) -> None:
        """Let the observations of a rollout into their running statistics; called where `normalize_obs` is set."""
        raise NotImplementedError

    def improve(self, rollout: Any, progress: float) -> dict[str, Tensor]:
        """Learn from a checked rollout and return diagnostics, 0-d: the algorithm."""
        raise NotImplementedError

    def blame(self, rollout: Any) -> str | None:
        """The first of `evidence` that is not finite, else the parameter whose gradient is not; None: neither is.

        Asked only after a step was refused, so an update pays nothing for it.
        """
        try:
            evidence = self.evidence(rollout)
        except Exception:  # of an agent whose loss takes something else: a name is not worth a run
            return None
        for name, tensor in evidence.items():
            if not torch.isfinite(tensor).all():
                return name
        *_, loss = [None, *evidence.values()]
        if loss is None or not loss.requires_grad:
            return None
        named = {name: p for name, p in self.modules.named_parameters() if p.requires_grad}
        gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        bad = [name for name, g in zip(named, gradients, strict=True) if g is not None and not torch.isfinite(g).all()]
        return f"gradient of {bad[0]}" if bad else None

    def evidence(self, rollout: Any) -> dict[str, Tensor]:
        """What an update computes of a rollout, by name, in the order of computing; the last may be a loss, 0-d."""
        return {}

    def check(self, rollout: Any) -> None:
        """Raise ValueError unless every tensor of the rollout has the shape and dtype that this agent learns from."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Everything that training changes, and the settings: nested dicts and lists of tensors and numbers."""
        return {
            "config": asdict(self.config),
            "spec": asdict(self.spec),
            "modules": self.modules.state_dict(),
            "seed": self.seed,
            "seeding": SEEDING,
            "generator": self.generator.get_state(),
            "minibatch_generator": self.minibatch_generator.get_state(),
            **self.guard.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state. Raises ValueError: it was saved under other settings."""
        if completed(self.config, state["config"]) != asdict(self.config) or EnvSpec(**state["spec"]) != self.spec:
            raise ValueError("state: wanted one saved with this config and environment; got another")
        self.modules.load_state_dict(state["modules"])
        self.seed = state.get("seed", self.seed)
        self.generator.set_state(state["generator"])
        if "minibatch_generator" in state:  # an agent of the former seeding drew all from one
            self.minibatch_generator.set_state(state["minibatch_generator"])
        self.guard.load_state_dict(state)


class GradientAgent(Agent):
    """An agent that descends the gradient of one loss by one optimizer; it names this among its bases first.

    An algorithm gives `loss`, and in `improve` how many steps it takes on a rollout. The config has the fields of
    `OptimizerSettings`, and a `learning_rate` unless `setup` is the algorithm's own.
    """

    critic: Any
    prepare: Callable[[Any], Any]  # what `loss` reads of a rollout
    parameters: list[nn.Parameter]  # whose gradient is clipped as one
    optimizer: torch.optim.Optimizer
    first_rates: tuple[float, ...]  # learning rates that may fall: of the optimizer's first groups
    learning_rate: Tensor  # the first of them in the present update, 0-d
    projected: tuple[Any, ...] = ()  # modules whose parameters are put back into their range after a step

    def setup(self) -> None:
        self.parameters = [*self.policy.parameters(), *self.critic.parameters()]
        self.make_optimizer(self.parameters, self.config.learning_rate)
        self.projected = () if self.policy.discrete else (self.policy,)

    def make_optimizer(self, groups: list[Any], *first_rates: float) -> None:
        """The optimizer of parameters or of groups of them, the first of which start at these learning rates."""
        c = self.config
        self.optimizer = make_optimizer(c.optimizer, groups, first_rates[0], momentum=c.momentum)
        self.first_rates, self.learning_rate = first_rates, torch.tensor(first_rates[0])

    def loss(self, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """The scalar to descend on a batch, and its detached parts under the names they are logged by."""
        raise NotImplementedError

    def set_learning_rate(self, progress: float) -> None:
        """The learning rates of this update: constant, or falling linearly to 0 at progress 1."""
        left = 1.0
        if self.config.anneal_lr:
            # LaTeX: f_u = 1 - p_u
            left = 1.0 - progress
        for group, first_rate in zip(self.optimizer.param_groups, self.first_rates, strict=False):
            # LaTeX: \alpha_u = f_u \alpha_0
            group["lr"] = left * first_rate
        self.learning_rate = torch.as_tensor(self.optimizer.param_groups[0]["lr"])

    def gradient_step(self, loss: Tensor) -> Tensor:
        """One step of the optimizer down `loss`, its gradient clipped; the norm before clipping, 0-d.

        Raises NonFiniteStep, which ends an update: loss or norm is not finite, and nothing has moved.
        """
        self.optimizer.zero_grad()
        loss.backward()
        norm = clip_grad_norm_(self.parameters, self.config.max_grad_norm)
        self.guard.admit("loss", loss, norm)
        self.optimizer.step()
        for module in self.projected:
            module.project()
        return norm

    def evidence(self, rollout: Any) -> dict[str, Tensor]:
        batch = self.prepare(rollout)
        loss, parts = self.loss(batch)
        return {"advantage": batch.advantage, "value_target": batch.value_target} | parts | {"loss": loss}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))  # torch would share its tensors
