"""A2C, and REINFORCE beside it: one step of the whole loss on each rollout, by hand; every option of A2C."""

from __future__ import annotations

import pytest
import torch

from minerva_lite.formulas.objectives import normalize_advantage
from tests.living import every_option, learned, small_agent

test_every_option_matters = every_option("a2c", {})
WEIGHED = {"whole_episodes": True, "rollout_steps": 200, "discount_states": True, "gamma": 0.9}
LOSSES = [("a2c", "Pendulum-v1", {}), ("a2c", "CartPole-v1", {})]
LOSSES += [("reinforce", "CartPole-v1", WEIGHED | {"baseline": baseline}) for baseline in ("value", "none")]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("name", "env_id", "options"), LOSSES, ids=str)
def test_one_step_down_the_whole_loss_for_each_rollout(name, env_id, options, normalize):
    """Plain SGD at rate 1 without clipping: the step is minus the gradient, of all parts with their weights."""
    step = {"optimizer": "sgd", "learning_rate": 1.0, "max_grad_norm": 1e9, "normalize_advantage": normalize}
    options = step | options | {"vf_coef": 0.3, "entropy_coef": 0.2}
    agent, env, obs = small_agent(name, env_id, dtype=torch.float64, **options)
    rollout, _ = agent.collect(env, obs)
    batch = agent.prepare(rollout)
    params = agent.policy(batch.obs)
    advantage = normalize_advantage(batch.advantage) if normalize else batch.advantage
    weight = getattr(batch, "weight", torch.ones_like(advantage))
    assert (weight.min() < 0.7) == (name == "reinforce") and weight.max() == 1.0
    policy = -(weight * advantage * agent.policy.log_prob(params, batch.action)).mean()
    critic = 0.5 * (agent.critic(batch.obs) - batch.value_target).square().mean()
    critic = critic * (options.get("baseline") != "none")
    loss = policy + 0.3 * critic - 0.2 * agent.policy.entropy(params).mean()
    gradient = torch.autograd.grad(loss, agent.parameters)
    before = learned(agent)
    figures = agent.update(rollout)
    for a, b, g in zip(learned(agent), before, gradient, strict=True):
        torch.testing.assert_close(b - a, g, rtol=1e-9, atol=1e-12)
    for part, wanted in {"policy": policy, "value": critic, "total": loss}.items():
        assert figures[f"loss/{part}"].item() == pytest.approx(wanted.item(), rel=1e-9)
    norm = torch.cat([g.flatten() for g in gradient]).norm()
    assert figures["train/grad_norm"].item() == pytest.approx(norm.item(), rel=1e-9) and norm > 0
