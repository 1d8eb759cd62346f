"""Actions of several parts, `MultiDiscrete` and `MultiBinary`: the policy against brute force, agents that learn."""

from __future__ import annotations

import itertools

import gymnasium as gym
import numpy as np
import pytest
import torch

from minerva_lite.agents import MultiCategoricalPolicy, TRPOAgent, TRPOConfig
from minerva_lite.formulas.distributions import categorical_sample
from minerva_lite.training.checkpoints import load
from minerva_lite.training.evaluation import evaluate
from minerva_lite.training.loop import train
from minerva_lite.worlds import EnvSpec, TorchEnv
from tests.living import live, make_agent

F64 = torch.float64
CHOICES = (3, 2, 4)


class CombinationEnv(gym.Env):
    """One of two lamps is lit. Reward 1 where every part of the action is right for it; an episode has 8 steps."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
    right: dict[float, list[int]]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.lamp = 0, 1.0
        return np.array([self.lamp]), {}

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} of {type(action)}, not of {self.action_space}"
        reward = float(np.array_equal(action, self.right[self.lamp]))
        self.t, self.lamp = self.t + 1, float(self.np_random.choice([-1.0, 1.0]))
        return np.array([self.lamp]), reward, False, self.t == 8, {}


class DialsEnv(CombinationEnv):
    action_space = gym.spaces.MultiDiscrete([3, 2], start=[0, 4])
    right = {1.0: [2, 4], -1.0: [0, 5]}

    def state_dict(self):
        return {"t": self.t, "lamp": self.lamp}

    def load_state_dict(self, state):
        vars(self).update(state)


class SwitchesEnv(CombinationEnv):
    action_space = gym.spaces.MultiBinary(3)
    right = {1.0: [1, 0, 1], -1.0: [0, 0, 1]}


for env_id, env in {"ToyDials-v0": DialsEnv, "ToySwitches-v0": SwitchesEnv}.items():
    if env_id not in gym.registry:
        gym.register(env_id, entry_point=env)
TOYS = {"ToyDials-v0": (3, 2), "ToySwitches-v0": (2, 2, 2)}


@pytest.fixture
def policy():
    return MultiCategoricalPolicy(3, CHOICES, (8,), torch.Generator().manual_seed(0)).double()


def logits(rows: int, seed: int) -> tuple[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (2.0 * torch.randn(rows, sum(CHOICES), generator=generator, dtype=F64),)


def every_action() -> torch.Tensor:
    """All 24 combinations, [24, 3]."""
    return torch.tensor(list(itertools.product(*map(range, CHOICES))))


def table(params) -> torch.Tensor:
    """The probability of each combination, [B, 24]: products, written out."""
    first, second, third = (part.softmax(-1) for part in params[0].split(CHOICES, -1))
    return torch.einsum("bi,bj,bk->bijk", first, second, third).flatten(1)


# The policy


def test_probability_entropy_and_kl_are_those_over_all_combinations(policy):
    old, new = logits(5, 1), logits(5, 2)
    p, q = table(old), table(new)
    log_prob = policy.log_prob((old[0].unsqueeze(1).expand(-1, 24, -1),), every_action().expand(5, 24, 3))
    torch.testing.assert_close(log_prob.exp(), p, rtol=1e-12, atol=0.0)
    torch.testing.assert_close(policy.entropy(old), -(p * p.log()).sum(-1), rtol=1e-12, atol=0.0)
    torch.testing.assert_close(policy.kl(old, new), (p * (p / q).log()).sum(-1), rtol=1e-12, atol=0.0)
    (parts,) = policy.kl_parts(old, new)
    assert parts.shape == (5, 3) and bool((parts > 0).all())
    torch.testing.assert_close(parts.sum(-1), policy.kl(old, new))


def test_the_mode_is_the_likeliest_combination_and_each_part_is_drawn_by_its_own_noise(policy):
    params = logits(50, 5)
    assert torch.equal(policy.mode(params), every_action()[table(params).argmax(-1)])
    assert policy.noise(50, torch.Generator().manual_seed(6)).shape == (50, sum(CHOICES))
    noise = torch.rand(50, sum(CHOICES), generator=torch.Generator().manual_seed(6), dtype=F64)
    pairs = zip(params[0].split(CHOICES, -1), noise.split(CHOICES, -1), strict=True)
    wanted = torch.stack([categorical_sample(part, noise=own) for part, own in pairs], -1)
    assert torch.equal(policy.sample(params, torch.Generator().manual_seed(6)), wanted)
    assert torch.equal(policy.sample(params, noise=noise), wanted)


# Agents


@pytest.mark.parametrize("env_id", TOYS)
def test_ppo_learns_the_combination(env_id, tmp_path):
    steps = {"num_envs": 8, "rollout_steps": 32, "minibatch_size": 64, "epochs": 6, "learning_rate": 1e-2}
    agent, env, _ = make_agent("ppo", env_id, hidden=(16,), **steps)
    before = evaluate(agent, episodes=10)["eval/mean"]
    train(agent, env, 6_144, eval_every=6_144, progress=False, checkpoint=tmp_path / "run.pt")
    assert before < 6.0 and evaluate(agent, episodes=10)["eval/min"] == 8.0
    assert evaluate(load(tmp_path / "run.pt"), episodes=10)["eval/min"] == 8.0


# An environment in torch


class TorchDials(TorchEnv):
    """The state is what was chosen last; reward 1 for (2, 1)."""

    spec = EnvSpec("ToyTorchDials", obs_dim=2, choices=(3, 2))
    max_steps, state_dim = 5, 2

    def initial(self):
        return self.uniform(1.0, 1.0)

    def observe(self, state):
        return state

    def advance(self, state, action):
        reward = (action == torch.tensor([2, 1])).all(-1).to(self.dtype)
        return action.to(self.dtype), reward, torch.zeros(len(action), dtype=torch.bool)


def test_a_torch_environment_takes_its_choices_and_no_others():
    env = TorchDials(3, seed=0)
    env.reset()
    assert env.step(torch.tensor([[2, 1], [2, 0], [0, 1]])).reward.tolist() == [1.0, 0.0, 0.0]
    for wrong, got in (([[0, 2], [0, 0], [0, 1]], "to 1; got 0 to 2"), ([[0, 1], [3, 0], [0, 1]], "to 2; got 0 to 3")):
        with pytest.raises(ValueError, match=f"wanted whole numbers from 0 {got}"):
            env.step(torch.tensor(wrong))
    with pytest.raises(ValueError, match=r"^action: wanted shape \(3, 2\); got \(3,\)"):
        env.step(torch.tensor([0, 1, 2]))


@pytest.mark.parametrize("proposal", ["policy", "uniform"])
def test_a_vine_branches_over_choices(proposal):
    steps = {"num_envs": 2, "rollout_steps": 8, "hidden": (8,), "vine_states": 8, "vine_steps": 3}
    env = TorchDials(2, seed=0)
    agent = TRPOAgent(TRPOConfig(**steps, sampling="vine", vine_proposal=proposal), env.spec, device="cpu")
    vine, _ = agent.collect(env, env.reset())
    assert vine.action.shape == (8, 4, 2) and vine.action.dtype == torch.int64
    params = tuple(p.unsqueeze(1).expand(8, 4, 5) for p in vine.behavior_params)
    wanted = agent.policy.log_prob(params if proposal == "policy" else (torch.zeros(8, 4, 5),), vine.action)
    torch.testing.assert_close(vine.proposal_log_prob, wanted)
    assert live(agent, env, env.reset(), 2)[0]["train/skipped_batches"] == 0
