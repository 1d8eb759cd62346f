"""What every agent shares: acting, the door for a batch, saving.

An algorithm builds its networks, says by `check` what data it takes, and learns in `improve`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from torch import Generator, Tensor, nn

from ..checks import require_bool, require_dtype, require_shape, require_unit_interval
from ..experience.normalizer import Normalizer
from ..experience.rollout import Rollout
from ..worlds.spec import EnvSpec, Step
from .guard import MaskedGuard, NonFiniteGuard
from .networks import CategoricalPolicy, GaussianPolicy, Params, SquashedGaussianPolicy
from .on_device import DeviceLoop
from .optimizers import pick_device


class Agent:
    """A policy with its data's guard; an algorithm gives `name`, `make_modules` and `improve`."""

    name: str
    policy: nn.Module
    counted: tuple[str, ...] = ()  # attributes in which an update keeps plain numbers, dotted

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
        self.config, self.spec, self.dtype, self.compiles = config, spec, dtype, compile
        self.device = pick_device(device)
        self.obs_normalizer = Normalizer((spec.obs_dim,))
        # Weights are drawn on the CPU, so that every device starts from the same ones.
        modules = self.make_modules(Generator().manual_seed(seed)) | {"obs_normalizer": self.obs_normalizer}
        for name, module in modules.items():
            setattr(self, name, module)
        self.modules = nn.ModuleDict(modules).to(self.device, dtype)
        self.generator = Generator(device=self.device).manual_seed(seed)
        self.guard: NonFiniteGuard | MaskedGuard = NonFiniteGuard()
        self.loop: DeviceLoop | None = None
        if self.device.type == "cuda" and not self.asks:
            self.guard, self.loop = MaskedGuard(self.device), DeviceLoop(self, record=compile and self.recordable)
        if compile:
            self.compile_parts()

    def make_modules(self, weights: Generator) -> dict[str, nn.Module]:
        """Everything that holds parameters or statistics, under the attribute's name; "policy" among it."""
        raise NotImplementedError

    @property
    def asks(self) -> bool:
        """Whether an update must know a number before it can go on; on a GPU it then waits for the device."""
        return True

    @property
    def recordable(self) -> bool:
        """Whether every update does the same operations, so that one recording stands for all."""
        return not self.asks

    def compile_parts(self) -> None:
        """What `compile` stands for: functions of tensors are traced, their operations fused; noise comes from outside.

        On a GPU an update that is `recordable` is recorded besides, and so is the walk through an environment there.
        """
        self.act_and_step = torch.compile(self.act_and_step)

    def make_policy(self, weights: Generator, *, torso: str, squash: bool) -> nn.Module:
        """A policy for this environment's actions.

        Raises ValueError: squash with a finite action set.
        """
        c, spec = self.config, self.spec
        if spec.num_actions:
            if squash:
                raise ValueError(f"squash: wanted False for {spec.env_id}, whose actions are discrete; got True")
            return CategoricalPolicy(spec.obs_dim, spec.num_actions, c.hidden, weights, torso)
        family = SquashedGaussianPolicy if squash else GaussianPolicy
        return family(spec.obs_dim, spec.action_dim, c.hidden, c.log_std_init, weights, torso)

    @torch.no_grad()
    def act(self, obs: Tensor, *, deterministic: bool = False) -> tuple[Tensor, Params]:
        """Actions for obs [B, O] as the policy stores them, and the parameters they were drawn from."""
        require_shape((None, self.spec.obs_dim), obs=obs)
        params = (self.policy if deterministic else self.acting_policy)(self.normalized(obs))
        action = self.policy.mode(params) if deterministic else self.policy.sample(params, self.generator)
        return action, params

    def act_and_step(
        self, env: Any, obs: Tensor, noise: Tensor, state: Tensor, elapsed: Tensor, fresh: Tensor
    ) -> tuple[Tensor, Params, Step, Tensor, Tensor]:
        """`act` and the step of a torch-native environment as one function of tensors: what `compile` makes fast."""
        params = self.acting_policy(self.normalized(obs))
        action = self.policy.sample(params, noise=noise)
        successor, reward, terminated = env.advance(state, self.policy.to_env(action))
        return action, params, *env.arrive(successor, reward, terminated, elapsed, fresh)

    @property
    def acting_policy(self) -> nn.Module:
        """Who acts while data are collected."""
        return self.policy

    def normalized(self, obs: Tensor) -> Tensor:
        """Observations as the networks see them."""
        return self.obs_normalizer.normalize(obs) if self.config.normalize_obs else obs

    def update(self, rollout: Any, progress: float = 0.0) -> dict[str, Tensor]:
        """Improve on one rollout; `progress` in [0, 1] is the share of training done, by which a rate or a bound falls.

        Returns diagnostics as 0-d tensors. A rollout with a non-finite number changes nothing and is counted.
        Raises ValueError: a tensor of the rollout has the wrong shape or dtype, or progress lies outside [0, 1].
        FloatingPointError: the third refused rollout in a row; where a GPU is not waited for, `train` raises it.
        """
        self.check(rollout)
        require_unit_interval(progress=progress)
        if self.loop:
            return self.loop.update(rollout, progress)
        if self.guard.refuses(**rollout.tensors()):
            return {"train/skipped_batches": self.skipped_batches()}
        return self.digest(rollout, progress) | {"train/skipped_batches": self.skipped_batches()}

    def digest(self, rollout: Any, progress: float) -> dict[str, Tensor]:
        """Learn from a rollout, then let it into the observation statistics; diagnostics."""
        figures = self.improve(rollout, progress)
        # The one moment at which observation statistics move: after the last use of this rollout, before the next.
        if self.config.normalize_obs:
            self.obs_normalizer.absorb(rollout.visited)
        return figures

    def learned_state(self) -> dict[str, Tensor]:
        """Every tensor that an update changes, by name; the tensors themselves."""
        return self.modules.state_dict()

    def improve(self, rollout: Any, progress: float) -> dict[str, Tensor]:
        """Learn from a checked rollout and return diagnostics."""
        raise NotImplementedError

    def skipped_batches(self) -> Tensor:
        """How many batches were refused so far because a number was not finite, 0-d."""
        return torch.tensor(float(sum(self.guard.skipped.values())))

    def check(self, rollout: Rollout) -> None:
        """Raise ValueError unless every tensor of the rollout has the shape and dtype that this agent learns from."""
        spec = self.spec
        rows = self.rollout_shape()
        features = rollout.tensors()
        flags = {name: features.pop(name) for name in ("terminated", "truncated")}
        action = features.pop("action")
        require_bool(**flags)
        require_dtype(torch.int64 if self.policy.discrete else self.dtype, action=action)
        require_dtype(self.dtype, **features)
        require_shape(rows, reward=rollout.reward)
        rows = tuple(rollout.reward.shape)
        require_shape(rows, behavior_log_prob=rollout.behavior_log_prob, **flags)
        require_shape((*rows, spec.obs_dim), obs=rollout.obs, next_obs=rollout.next_obs)
        require_shape(rows if self.policy.discrete else (*rows, spec.action_dim), action=action)
        params = {name: tensor for name, tensor in features.items() if name.startswith("behavior_params")}
        require_shape((*rows, spec.num_actions or spec.action_dim), **params)
        if rollout.restart_weight is not None:
            require_shape(rows, restart_weight=rollout.restart_weight)
            weight = rollout.restart_weight
            if not bool(((weight == 0) | (weight == 1)).all()) or not bool(weight.any()):
                raise ValueError("restart_weight: wanted only 0 and 1, and not only 0; got other numbers, or no 1")

    def rollout_shape(self) -> tuple[int | None, int]:
        """Steps and environments of a rollout; None stands for any number."""
        return self.config.rollout_steps, self.config.num_envs

    def state_dict(self) -> dict[str, Any]:
        """Everything that training changes, and the settings it was made with."""
        if self.loop:
            self.loop.settle()
        return {
            "config": asdict(self.config),
            "spec": asdict(self.spec),
            "modules": self.modules.state_dict(),
            "generator": self.generator.get_state(),
            **self.guard.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a saved state. Raises ValueError: it was saved under other settings."""
        if state["config"] != asdict(self.config) or state["spec"] != asdict(self.spec):
            raise ValueError("state: wanted one saved with this config and environment; got another")
        self.modules.load_state_dict(state["modules"])
        self.generator.set_state(state["generator"])
        self.guard.load_state_dict(state)
        if self.loop:  # what was recorded refers to tensors that are gone
            self.loop = DeviceLoop(self, record=self.loop.record)
