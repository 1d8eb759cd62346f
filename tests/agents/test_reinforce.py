"""REINFORCE: its credit by hand, its gradient against the exact one, every option. Its loss is in `test_a2c.py`."""

from __future__ import annotations

import pytest
import torch

from minerva_lite.agents.reinforce import REINFORCEAgent, REINFORCEConfig
from minerva_lite.worlds import TabularEnv
from minerva_lite.worlds.tabular import TabularMDP
from tests.living import every_option, make_agent, say, small_agent

F64 = torch.float64
WHOLE = {"env_id": "CartPole-v1", "rollout_steps": 200, "whole_episodes": True}
OPTIONS = {
    "lam": [({"estimator": "gae"}, 0.9, 0.95)],
    "value_target": [({"estimator": "gae"}, "advantage", "returns")],
    "baseline": [(WHOLE, "none", "others"), (WHOLE, "value", "others")],
    "reward_to_go": [(WHOLE | {"baseline": "none"}, True, False)],
    "discount_states": [(WHOLE, True, False)],
}
test_every_option_matters = every_option("reinforce", OPTIONS)


# Credit. The lottery's episodes last 1 to 6 steps and pay 1 a step.


def lottery(**options):
    settings = {"num_envs": 6, "rollout_steps": 50, "gamma": 0.5, "hidden": (4,), "normalize_advantage": False}
    agent, env, _ = make_agent("reinforce", "ToyLottery-v0", dtype=F64, **settings | options)
    rollout, _ = agent.collect(env, env.reset(range(6)))
    batch = agent.prepare(rollout)
    assert rollout.reward.shape == (6, 6), "until the longest is over"
    assert all(len(rows) == 21 for rows in vars(batch).values() if torch.is_tensor(rows)), "first episodes alone"
    return rollout, batch


def first_rows(rollout, batch, name):
    """A column of the batch laid out [T, B] again, zero where a first episode is over."""
    grid = torch.zeros(rollout.reward.shape, dtype=F64)
    grid[rollout.first_episode] = getattr(batch, name)
    return grid


def halves(k: int) -> float:
    """1 + 1/2 + 1/4 + … with k terms."""
    return 2.0 - 2.0 ** (1 - k)


@pytest.mark.parametrize(
    "options", [{"baseline": "none"}, {"baseline": "none", "reward_to_go": False}, {"baseline": "others"}], ids=str
)
def test_credit_is_the_return_to_go_or_the_whole_less_the_mean_of_the_others(options):
    rollout, batch = lottery(**options)
    grid = first_rows(rollout, batch, "advantage")
    for t in range(6):
        alive = range(t + 1, 7)  # lengths of the episodes that have not ended
        for length in alive:
            others = [halves(other - t) for other in alive if other != length and options["baseline"] == "others"]
            wanted = halves(length - t * options.get("reward_to_go", True)) - sum(others) / max(len(others), 1)
            assert grid[t, length - 1].item() == pytest.approx(wanted)
    if options["baseline"] == "none":
        assert not batch.value_old.any() and torch.equal(batch.value_target, batch.advantage)


def test_a_time_limit_ends_the_return_without_a_critic_and_bootstraps_with_one():
    """Pendulum never terminates: after 200 steps its return ends without a critic, and goes on with one."""
    for baseline, bootstrapped in (("none", False), ("value", True)):
        options = {"whole_episodes": True, "rollout_steps": 200, "baseline": baseline, "gamma": 0.9}
        agent, env, obs = small_agent("reinforce", dtype=F64, **options)
        say(agent.critic, 7.0)
        rollout, _ = agent.collect(env, obs)
        assert rollout.truncated[-1].all()
        batch = agent.prepare(rollout)
        last = batch.value_target.reshape(200, 4)[-1]
        torch.testing.assert_close(last, rollout.reward[-1] + 0.9 * 7.0 * bootstrapped)


# The gradient, against the exact one of a small world.

GRADIENTS = [
    (True, {"baseline": "none", "discount_states": True}),
    (True, {"baseline": "others", "discount_states": True}),
    (True, {"baseline": "value", "discount_states": True}),
    (True, {"baseline": "none", "reward_to_go": False}),  # the whole return is discounted from the start already
    (False, {"baseline": "none"}),  # the practice: each return is discounted from its own step, the states are not
    (False, {"baseline": "others"}),
    (False, {"baseline": "value"}),
]


@pytest.mark.parametrize(("unbiased", "options"), GRADIENTS, ids=str)
def test_the_gradient_is_that_of_the_return_where_it_should_be(unbiased, options):
    """Twenty batches of 200 episodes: the mean gradient is that of J within 5 standard errors, along 5 directions.

    The gradient of practice, whose states are not discounted, is another one.
    """
    world = TabularMDP.chain(3, 0.8, slip=0.2)
    env = TabularEnv(world, 200, max_steps=50, seed=0)
    plain = {"num_envs": 200, "rollout_steps": 50, "gamma": 0.8, "hidden": (3,), "normalize_advantage": False}
    config = REINFORCEConfig(**plain, **options)
    agent = REINFORCEAgent(config, env.spec, seed=0, device="cpu", dtype=F64)
    parameters = list(agent.policy.parameters())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in parameters:
            p += 0.5 * torch.randn(p.shape, generator=generator, dtype=F64)
    exact = world.expected_return(agent.policy(torch.eye(3, dtype=F64))[0].softmax(-1))
    exact = torch.cat([g.flatten() for g in torch.autograd.grad(exact, parameters)])
    found = []
    for _ in range(20):
        loss, _ = agent.loss(agent.prepare(agent.collect(env, None)[0]))
        # The loss is a mean over the 50 steps of an episode, J a sum.
        found.append(-50.0 * torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)]))
    directions = torch.cat([exact[:, None], torch.randn(len(exact), 4, generator=generator, dtype=F64)], 1)
    along = torch.stack(found) @ directions
    z = (along.mean(0) - exact @ directions) / (along.std(0) / len(found) ** 0.5)
    assert exact.norm() > 0.05
    assert (z.abs().max() < 5) == unbiased, z
    if unbiased:
        assert along[:, 0].mean() > 5 * along[:, 0].std(0) / len(found) ** 0.5, "or the test could not tell it from 0"
