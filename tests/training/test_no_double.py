"""Apple's MPS has no float64: what an agent computes where its tensors lie must do without.

There is no such device here. One is pretended: a tensor lies on it unless it was made in float64 from nothing, as first
weights are, or brought to the CPU by name; and no operation on what lies there may give float64.
"""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from minerva_lite import checks
from minerva_lite.experience import episodes
from minerva_lite.formulas import duals
from minerva_lite.training import evaluation, gpu, load, save, train
from minerva_lite.worlds import Step, make_env
from tests.runs import new

CASES = [
    ("reinforce", "CartPole-v1", {"rollout_steps": 600, "whole_episodes": True}),
    ("a2c", "Pendulum-v1", {}),
    ("trpo", "Pendulum-v1", {}),
    ("trpo", "CartPole-v1", {"sampling": "vine", "vine_states": 8, "normalize_reward": False}),
    ("ppo", "CartPole-v1", {"objective": "kl_penalty"}),
    ("ppo", "Acrobot-v1", {}),
    ("mpo", "Pendulum-v1", {}),
    ("mpo", "CartPole-v1", {}),
    ("vmpo", "Pendulum-v1", {}),
    ("sequence", "tokens/sort", {}),
]


class NoDouble(TorchDispatchMode):
    """Raises TypeError where an operation off the CPU gives float64; `host` holds the tensors that are on it."""

    def __init__(self) -> None:
        super().__init__()
        self.host = WeakTensorKeyDictionary()

    def bring(self, tensor: Tensor) -> Tensor:
        with torch.utils._python_dispatch._disable_current_modes():
            copy = tensor.detach().clone()
        self.host[copy] = True
        return copy

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        out = function(*args, **(kwargs or {}))
        there = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        if function is torch.ops.aten.lift_fresh.default:  # of what was no tensor before
            given = []
        if not given:
            there = [tensor for tensor in there if tensor.dtype == torch.float64]
        if all(tensor in self.host for tensor in given):
            for tensor in there:
                self.host[tensor] = True
        elif any(tensor.dtype == torch.float64 for tensor in there):
            raise TypeError(f"{function}: float64 on a device that has none")
        return out


@contextmanager
def pretended(monkeypatch):
    """A device without float64, under the name of the CPU."""
    mode = NoDouble()
    monkeypatch.setattr(Tensor, "cpu", lambda tensor: mode.bring(tensor))
    for module in (episodes, checks):
        monkeypatch.setattr(module, "widest", lambda device: torch.float32)
    made = make_env

    def on_the_cpu(*args, **options):  # the environments of an evaluation, wherever the agent is
        env = made(*args, **options)
        step, reset = env.step, env.reset
        env.reset = lambda seeds=None: mode.bring(reset(seeds))
        env.step = lambda action: Step(*(part if part is None else mode.bring(part) for part in step(action)))
        return env

    monkeypatch.setattr(evaluation, "make_env", on_the_cpu)
    with mode:
        yield mode


@pytest.mark.parametrize(("algorithm", "env_id", "changes"), CASES)
def test_training_needs_no_float64_where_the_agent_is(algorithm, env_id, changes, monkeypatch, tmp_path):
    with pretended(monkeypatch):
        agent, env = new(algorithm, env_id, **changes)
        history = train(agent, env, 2 * agent.config.batch_size, eval_episodes=2, progress=False)
        save(agent, tmp_path / "agent.pt")
        load(tmp_path / "agent.pt", device="cpu")
        if algorithm in ("ppo", "sequence"):
            value = agent.value(env.reset().numpy())
            assert value.dtype == np.float64 and value.shape == (4,)
    assert history.evaluations and history.updates


def test_wide_numbers_come_from_where_they_can():
    assert checks.widest(torch.device("mps")) == torch.float32
    assert checks.widest(torch.device("cuda")) == checks.widest(torch.device("cpu")) == torch.float64
    assert checks.wide(torch.tensor(3)).dtype == torch.float64
    # 29 of 100 samples, which float32 would make 28: 0.29 * 100 is 28.999999999999996.
    assert duals.top_k_mask(torch.arange(100.0), torch.ones(100, dtype=torch.bool), 0.29).sum() == 29


@pytest.mark.parametrize(("kind", "way"), [("cuda", ["double"]), ("mps", ["cpu", "double"])])
def test_figures_come_over_as_they_are(kind, way, monkeypatch):
    """Whole numbers and fractions together, of a device that is read in one transfer."""
    figures = {"count": torch.tensor(3), "mean": torch.tensor(0.1), "fine": torch.tensor(0.1, dtype=torch.float64)}
    single, went, double = float(figures["mean"]), [], Tensor.double
    monkeypatch.setattr(Tensor, "device", torch.device(kind))
    monkeypatch.setattr(Tensor, "cpu", lambda tensor: went.append("cpu") or tensor)
    monkeypatch.setattr(Tensor, "double", lambda tensor: went.append("double") or double(tensor))
    assert list(gpu.floats(figures).items()) == [("count", 3.0), ("mean", single), ("fine", 0.1)] and single != 0.1
    assert went == way
