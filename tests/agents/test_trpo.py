"""TRPO: every option matters, every reason to stand still is reached, vines on every world, a state that is complete.

What an update promises is in test_trpo_promise.py, what it refuses in test_bad_input_trpo.py.
"""

# ruff: noqa: E501 - a table keeps one row a line

from __future__ import annotations

import copy
import dataclasses
import math

import pytest
import torch

from minerva_lite.agents.trpo import SKIPS, TRPOAgent, TRPOConfig
from minerva_lite.experience.vine import Vine
from minerva_lite.formulas.objectives import normalize_advantage
from minerva_lite.training.loop import train
from minerva_lite.worlds.envs import make_env
from tests.living import FAMILIES, FAMILY_NAMES, check_option_matters, check_restored, differ, learned, live, make_agent

SMALL = {"num_envs": 4, "rollout_steps": 32, "hidden": (16,), "value_iterations": 5}
VINE = {"sampling": "vine", "vine_states": 16, "vine_steps": 8}
WORLDS = ["Pendulum-v1", "CartPole-v1", "tabular"]


def make(env_id: str = "Pendulum-v1", **options):
    return make_agent("trpo", env_id, **SMALL | options)


def reasons(figures) -> list[str]:
    return [reason for reason in SKIPS if figures[f"train/skip_{reason}"]]


# One row per option: environment, what is set in both agents, and two values of the option that must lead elsewhere.
HARD = {"kl_bound": 0.3, "damping": 1e-4}  # full steps that are refused at first
OPTIONS = [
    ("num_envs", "Pendulum-v1", {}, 2, 4),
    ("rollout_steps", "Pendulum-v1", {}, 16, 32),
    ("whole_episodes", "CartPole-v1", {}, True, False),
    ("gamma", "Pendulum-v1", {}, 0.9, 0.99),
    ("lam", "Pendulum-v1", {}, 0.9, 0.95),
    ("estimator", "Pendulum-v1", {}, "gae", "returns"),
    ("estimator", "Pendulum-v1", {}, "gae", "td"),
    ("normalize_obs", "Pendulum-v1", {}, True, False),
    ("normalize_reward", "Pendulum-v1", {}, True, False),
    ("normalize_advantage", "Pendulum-v1", {"step_rule": "fixed"}, True, False),
    ("hidden", "Pendulum-v1", {}, (16,), (16, 16)),
    ("critic_hidden", "Pendulum-v1", {}, None, (4,)),
    ("value_target", "Pendulum-v1", {}, "advantage", "returns"),
    ("head_init", "Pendulum-v1", {}, "orthogonal", "small"),
    ("log_std_init", "Pendulum-v1", {}, 0.0, -0.5),
    ("squash", "Pendulum-v1", {}, True, False),
    ("kl_bound", "Pendulum-v1", {}, 0.01, 0.02),
    ("anneal_kl", "Pendulum-v1", {}, False, True),
    ("damping", "Pendulum-v1", {}, 0.1, 0.01),
    ("cg_iterations", "Pendulum-v1", {}, 1, 10),
    ("cg_tolerance", "Pendulum-v1", {}, 0.5, 1e-10),
    ("step_rule", "Pendulum-v1", {}, "fixed", "natural"),
    ("step_rule", "CartPole-v1", HARD, "trpo", "natural"),
    ("natural_step", "Pendulum-v1", {"step_rule": "fixed"}, 0.1, 0.2),
    ("backtrack", "CartPole-v1", HARD, 0.5, 0.8),
    ("max_trials", "CartPole-v1", HARD, 1, 10),
    ("accept_ratio", "CartPole-v1", HARD, 0.1, 0.99),
    ("sampling", "Pendulum-v1", {"vine_states": 16, "vine_steps": 8}, "vine", "single_path"),
    ("vine_states", "Pendulum-v1", VINE, 8, 16),
    ("vine_actions", "Pendulum-v1", VINE, 3, 4),
    ("vine_steps", "Pendulum-v1", VINE, 4, 8),
    ("vine_proposal", "Pendulum-v1", VINE, "policy", "uniform"),
    ("value_fit", "Pendulum-v1", {}, "lbfgs", "adam"),
    ("value_iterations", "Pendulum-v1", {}, 3, 5),
    ("value_l2", "Pendulum-v1", {}, 0.0, 1e-2),
    ("value_learning_rate", "Pendulum-v1", {"value_fit": "adam"}, 1e-3, 2e-3),
    ("value_minibatch", "Pendulum-v1", {"value_fit": "adam"}, 32, 64),
]  # fmt: skip


@pytest.mark.parametrize(("option", "env_id", "base", "one", "other"), OPTIONS, ids=lambda x: str(x))
def test_every_option_matters(option, env_id, base, one, other):
    check_option_matters(lambda **o: make(env_id, **base | o), option, one, other, updates=3)


@pytest.mark.parametrize("anneal", [False, True])
def test_the_bound_falls_with_progress_only_where_that_is_asked_for(anneal):
    agent, env, obs = make(anneal_kl=anneal, kl_bound=0.02, damping=0.001)
    for progress in (0.0, 0.25, 0.9, 1.0):
        rollout, obs = agent.collect(env, obs)
        figures = agent.update(rollout, progress=progress)
        bound = 0.02 * max(1.0 - progress, 1e-6) if anneal else 0.02
        assert float(figures["kl/bound"]) == pytest.approx(bound)
        assert float(figures["kl/exact"]) <= bound + 1e-8


def test_no_option_is_left_out():
    assert {row[0] for row in OPTIONS} == {field.name for field in dataclasses.fields(TRPOConfig)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling": "vine"} | {"vine_states": 129}, r"^vine_states: wanted at most the 128 states of a trunk.*; got 129"),
        (VINE | {"vine_actions": 1}, r"^vine_actions: wanted at least 2, one branch has nothing to be compared with; got 1"),
        (VINE | {"normalize_reward": True}, r"^normalize_reward: wanted False with vine sampling.*; got True"),
    ],
)  # fmt: skip
def test_contradictions_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        TRPOConfig(**SMALL | options)


def test_a_vine_of_one_action_is_refused_only_where_a_vine_is_wanted():
    assert TRPOConfig(vine_actions=1, vine_states=10**6, normalize_reward=True).sampling == "single_path"


# Reasons to stand still. Each leaves the policy to the bit; the critic learns all the same.


def still(agent, rollout, reason):
    policy, critic = learned(agent.policy), learned(agent.critic)
    figures = agent.update(rollout)
    assert reasons(figures) == [reason]
    assert figures["train/step_fraction"] == 0 and figures["kl/exact"].abs() < 1e-7
    assert not differ(policy, learned(agent.policy)), "the policy is what it was, to the bit"
    assert differ(critic, learned(agent.critic)), "the critic has learned all the same"
    return figures


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
@pytest.mark.parametrize(
    ("reason", "settings"),
    [
        ("kl", {"kl_bound": 3.0, "damping": 1e-6, "max_trials": 1}),  # the quadratic model is long left behind
        ("surrogate", {"accept_ratio": 1.0, "max_trials": 1, "kl_bound": 0.05}),  # all that a line predicts
    ],
)
def test_a_rejected_step_leaves_the_policy_to_the_bit(reason, settings, env_id, options):
    agent, env, obs = make(env_id, **options | settings)
    for _ in range(12):
        rollout, obs = agent.collect(env, obs)
        before = copy.deepcopy(agent.state_dict())
        if reasons(agent.update(rollout)) == [reason]:
            agent.load_state_dict(before)
            figures = still(agent, rollout, reason)
            assert figures["train/trials"] == 1 and figures["train/step_norm"] == 0
            assert figures["loss/gain"].abs() < 1e-6
            return
    pytest.fail(f"no update was left out for {reason}")


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_reasons_found_before_a_step_is_tried(env_id, options, monkeypatch):
    agent, env, obs = make(env_id, **options)
    _, obs = live(agent, env, obs, 1)
    rollout, obs = agent.collect(env, obs)

    def product_is(scale):
        monkeypatch.setattr(agent, "fisher_product", lambda *_: lambda v: scale * v)

    product_is(-1.0)
    still(agent, rollout, "curvature")
    product_is(math.nan)
    still(agent, rollout, "curvature")
    product_is(1e12)  # so stiff that the best step on the ellipsoid promises next to nothing
    still(agent, rollout, "rounding")
    monkeypatch.undo()
    monkeypatch.setattr(agent, "surrogate", lambda batch: 0.0 * sum(p.sum() for p in agent.policy.parameters()))
    still(agent, rollout, "zero_gradient")
    monkeypatch.undo()
    constant = {"gae": torch.full((128,), 3.0), "zero": torch.zeros(128)}
    prepare = agent.prepare
    for advantage in constant.values():
        monkeypatch.setattr(agent, "prepare", lambda r, a=advantage: dataclasses.replace(prepare(r), advantage=a))
        still(agent, rollout, "equal_advantages")
    monkeypatch.undo()
    policy = learned(agent.policy)
    assert reasons(agent.update(rollout)) == [] and differ(policy, learned(agent.policy)), "the same rollout does move"


def test_a_nan_from_the_surrogate_is_refused_by_the_search(monkeypatch):
    agent, env, obs = make("CartPole-v1", max_trials=3)
    rollout, obs = agent.collect(env, obs)
    surrogate, asked = agent.surrogate, []

    def breaks(batch):
        asked.append(1)
        return surrogate(batch) * (1.0 if len(asked) == 1 else math.nan)

    monkeypatch.setattr(agent, "surrogate", breaks)
    policy = learned(agent.policy)
    figures = agent.update(rollout)
    assert reasons(figures) == ["surrogate"] and figures["train/trials"] == 3
    assert not differ(policy, learned(agent.policy))


# Steps


@pytest.mark.parametrize(("env_id", "options"), FAMILIES, ids=FAMILY_NAMES)
def test_step_rules_walk_along_one_direction_as_far_as_each_says(env_id, options):
    """ "fixed" walks natural_step * F^-1 g, "natural" scales it to the bound, "trpo" a fraction of that."""
    steps = {}
    for rule in ("fixed", "natural", "trpo"):
        agent, env, obs = make(env_id, dtype=torch.float64, step_rule=rule, natural_step=0.05, damping=0.02, **options)
        rollout, _ = agent.collect(env, obs)
        before = torch.cat([p.flatten() for p in learned(agent.policy)])
        figures = agent.update(rollout)
        steps[rule] = torch.cat([p.flatten() for p in learned(agent.policy)]) - before
        assert figures["train/step_norm"].item() == pytest.approx(steps[rule].norm().item(), rel=1e-6)
        assert (figures["train/trials"] == 0) == (rule != "trpo")
        if rule == "fixed":
            batch = agent_batch(agent, env_id, options)
            gradient = flat(torch.autograd.grad(batch[0].surrogate(batch[1]), batch[2]))
            product = batch[0].fisher_product(batch[1], batch[2])
            matrix = torch.stack([product(v) for v in torch.eye(len(gradient), dtype=torch.float64)], 1)
            exact = torch.linalg.solve(matrix, gradient)
            cosine = torch.nn.functional.cosine_similarity(exact, steps[rule], dim=0)
            assert cosine > 0.99, "ten iterations come close to the damped inverse"
            assert steps[rule].norm() / exact.norm() == pytest.approx(0.05, rel=0.05)
            quadratic = 0.5 * steps[rule] @ matrix @ steps[rule]
    natural, fixed = steps["natural"], steps["fixed"]
    torch.testing.assert_close(natural / natural.norm(), fixed / fixed.norm(), rtol=1e-6, atol=1e-9)
    # The quadratic model of the KL, damping included, is the bound at the natural step (up to the conjugacy that
    # rounding costs ten iterations).
    assert quadratic * (natural.norm() / fixed.norm()) ** 2 == pytest.approx(0.01, rel=1e-4)
    fraction = (steps["trpo"].norm() / natural.norm()).item()
    assert fraction == pytest.approx(figures["train/step_fraction"].item(), rel=1e-6) and fraction > 0


def flat(tensors):
    return torch.cat([t.reshape(-1) for t in tensors]).detach()


def agent_batch(agent, env_id, options):
    """The agent before its update, the batch that it learned from, and its policy's parameters."""
    twin, env, obs = make(env_id, dtype=torch.float64, **dataclasses.asdict(agent.config))
    batch = twin.prepare(twin.collect(env, obs)[0])
    assert twin.config.normalize_advantage
    batch = dataclasses.replace(batch, advantage=normalize_advantage(batch.advantage))
    return twin, batch, list(twin.policy.parameters())


def test_figures_of_a_step():
    agent, env, obs = make("CartPole-v1", dtype=torch.float64)
    _, obs = live(agent, env, obs, 2)
    rollout, _ = agent.collect(env, obs)
    batch = agent.prepare(rollout)
    assert agent.config.normalize_advantage
    batch = dataclasses.replace(batch, advantage=normalize_advantage(batch.advantage))
    start = agent.surrogate(batch).item()
    figures = {k: v.item() for k, v in agent.update(rollout).items()}
    assert figures["loss/surrogate"] == pytest.approx(start, abs=1e-12)
    assert figures["loss/gain"] == pytest.approx(agent.surrogate(batch).item() - start, rel=1e-9)
    assert figures["kl/exact"] == pytest.approx(agent.mean_kl(batch).item(), rel=1e-9)
    assert 0 < figures["kl/exact"] <= 0.01
    assert 0.1 * figures["loss/expected_gain"] * figures["train/step_fraction"] <= figures["loss/gain"]
    wanted = 0.5 * (agent.critic(batch.obs) - batch.value_target).square().mean().item()
    assert figures["loss/value"] == pytest.approx(wanted, rel=1e-9)
    assert figures["value/fit_failed"] == 0


# The critic


@pytest.mark.parametrize("how", ["lbfgs", "adam"])
def test_the_fit_is_on_this_rollouts_targets_and_helps(how):
    agent, env, obs = make("CartPole-v1", value_fit=how, value_iterations=20, value_learning_rate=1e-2)
    rollout, _ = agent.collect(env, obs)
    batch = agent.prepare(rollout)
    before = 0.5 * (agent.critic(batch.obs) - batch.value_target).square().mean()
    figures = agent.update(rollout)
    assert figures["loss/value"] < 0.9 * before and figures["value/fit_failed"] == 0


@pytest.mark.parametrize("how", ["lbfgs", "adam"])
def test_a_failed_fit_is_said_and_keeps_the_old_critic(how, monkeypatch):
    """An L-BFGS that ends in NaN, and a learning rate that throws the critic far off."""
    agent, env, obs = make("CartPole-v1", value_fit=how, value_learning_rate=1e3)
    rollout, _ = agent.collect(env, obs)
    if how == "lbfgs":
        step = torch.optim.LBFGS.step

        def broken(self, closure):
            step(self, closure)
            with torch.no_grad():
                self.param_groups[0]["params"][0].fill_(math.nan)

        monkeypatch.setattr(torch.optim.LBFGS, "step", broken)
    critic, policy = learned(agent.critic), learned(agent.policy)
    assert agent.update(rollout)["value/fit_failed"] == 1
    assert not differ(critic, learned(agent.critic)) and differ(policy, learned(agent.policy))


# Whole episodes


def test_whole_episodes_start_anew_at_every_rollout():
    agent, env, obs = make("CartPole-v1", whole_episodes=True, rollout_steps=200)
    first, obs = agent.collect(env, obs)
    second, _ = agent.collect(env, obs)
    for rollout in (first, second):
        assert (rollout.obs[0].abs() <= 0.05).all(), "first states"
        assert rollout.ended.any(0).all(), "each environment has finished an episode"
        assert len(agent.prepare(rollout)) == int(rollout.first_episode.sum()) < rollout.num_steps
    policy = learned(agent.policy)
    assert reasons(agent.update(first)) == [] and differ(policy, learned(agent.policy))


# Vines


@pytest.mark.parametrize("options", [{}, {"vine_proposal": "uniform"}, {"vine_actions": 2, "normalize_obs": True}])
@pytest.mark.parametrize("env_id", WORLDS)
def test_a_vine_moves_the_policy_within_the_bound(env_id, options):
    agent, env, obs = make(env_id, **VINE | options)
    policy, moved = learned(agent.policy), 0
    for _ in range(4):
        vine, obs = agent.collect(env, obs)
        assert isinstance(vine, Vine) and vine.num_steps == 128 + 16 * vine.action.shape[1] * 8
        figures = agent.update(vine)
        assert figures["train/skipped_batches"] == 0
        batch = agent.prepare_vine(vine)
        if not options.get("normalize_obs"):
            assert agent.mean_kl(batch) <= 0.01 + 1e-6, "on the states from which it branched"
        moved += reasons(figures) == []
    assert moved >= 2 and differ(policy, learned(agent.policy))


@pytest.mark.parametrize("proposal", ["policy", "uniform"])
@pytest.mark.parametrize("env_id", WORLDS)
def test_the_step_climbs_the_surrogate_of_the_branches(env_id, proposal):
    """Weights are ratios to the proposal, shared out within each state; what is climbed are the branches' returns."""
    agent, env, obs = make(env_id, dtype=torch.float64, vine_proposal=proposal, normalize_advantage=False, **VINE)
    _, obs = live(agent, env, obs, 1)
    vine, _ = agent.collect(env, obs)

    def surrogate():
        total = 0.0
        for n in range(16):
            params = tuple(p[0] for p in agent.policy(vine.obs[n : n + 1]))
            log_prob = [agent.policy.log_prob(params, action).item() for action in vine.action[n]]
            weight = [math.exp(p - q) for p, q in zip(log_prob, vine.proposal_log_prob[n].tolist(), strict=True)]
            advantage = (vine.q_value[n] - vine.q_value[n].mean()).tolist()
            total += sum(w * a for w, a in zip(weight, advantage, strict=True)) / sum(weight) / 16
        return total

    before = surrogate()
    figures = agent.update(vine)
    assert figures["loss/surrogate"].item() == pytest.approx(before, rel=1e-9, abs=1e-12)
    assert figures["loss/gain"].item() == pytest.approx(surrogate() - before, rel=1e-6) and figures["loss/gain"] > 0


def test_a_vine_of_squashed_actions_moves_the_policy():
    for proposal in ("policy", "uniform"):
        agent, env, obs = make(squash=True, vine_proposal=proposal, **VINE)
        policy = learned(agent.policy)
        live(agent, env, obs, 2)
        assert differ(policy, learned(agent.policy))


def test_training_on_vines_runs_to_its_end():
    agent, env, _ = make("CartPole-v1", **VINE)
    history = train(agent, env, 2000, eval_every=10**6, eval_episodes=1, progress=False)
    steps = history.column("steps")
    assert len(steps) > 2 and (steps[1:] - steps[:-1] == 128 + 16 * 2 * 8).all()
    assert (history.column("train/reward_mean") == 1.0).all(), "what the trunk paid"


def test_a_vine_prefers_the_better_action():
    """In the corridor's last state right pays 1 and left nothing: one step along the vine makes right more likely."""
    agent, env, obs = make("tabular", dtype=torch.float64, kl_bound=0.05, **VINE | {"vine_steps": 30})
    right = torch.nn.functional.one_hot(torch.tensor([4]), 5).double()
    before = agent.policy(right)[0].softmax(-1)[0, 1].item()
    live(agent, env, obs, 8)
    assert agent.policy(right)[0].softmax(-1)[0, 1].item() > before + 0.02


def test_a_misshapen_vine_is_named_before_anything_moves(same):
    agent, env, obs = make(**VINE)
    vine, _ = agent.collect(env, obs)
    before = copy.deepcopy(agent.state_dict())
    for change, message in [
        ({"q_value": vine.q_value[0]}, r"^q_value: wanted shape \(any, any\)"),
        ({"proposal_log_prob": vine.proposal_log_prob[:, :1]}, r"^proposal_log_prob: wanted shape \(16, 4\); got \(16, 1\)"),
        ({"action": vine.action[..., 0]}, r"^action: wanted shape \(16, 4, 1\); got \(16, 4\)"),
        ({"obs": vine.obs[:, :2]}, r"^obs: wanted shape \(16, 3\); got \(16, 2\)"),
        ({"q_value": vine.q_value.double()}, r"^q_value: wanted dtype torch.float32; got torch.float64"),
        ({"trunk": dataclasses.replace(vine.trunk, reward=vine.trunk.reward[:5])}, r"^reward: wanted shape \(32, 4\)"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            agent.update(dataclasses.replace(vine, **change))
    assert same(before, agent.state_dict())


def test_a_vine_needs_a_world_whose_state_can_be_set():
    config = TRPOConfig(**SMALL | VINE)
    env = make_env("Acrobot-v1", 4)
    agent = TRPOAgent(config, env.spec, device="cpu")
    with pytest.raises(ValueError, match="^env: wanted an environment whose state can be set.*; GymEnv has none"):
        agent.collect(env, env.reset())
    env.close()


def test_an_agent_that_walks_learns_from_no_vine():
    agent, env, obs = make("Pendulum-v1", **VINE)
    vine, _ = agent.collect(env, obs)
    walker, _, _ = make("Pendulum-v1")
    with pytest.raises(ValueError, match=r"^rollout: wanted a Rollout, what this agent collects; got a Vine"):
        walker.update(vine)


# A state that is complete


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("env_id", "options"), [*FAMILIES, ("CartPole-v1", VINE), ("Pendulum-v1", {"value_fit": "adam"})], ids=[*FAMILY_NAMES, "vine", "adam"])  # fmt: skip
def test_a_restored_agent_continues_to_the_bit(env_id, options, dtype, same):
    options = options | {"normalize_obs": True, "normalize_reward": "sampling" not in options}
    agent, env, obs = make(env_id, dtype=dtype, **options)
    check_restored(agent, env, obs, same)
    assert "optimizer" not in agent.state_dict()


def test_seeds_decide_everything():
    ends = []
    for seed in (0, 0, 1):
        agent, env, obs = make(seed=seed)
        live(agent, env, obs, 2)
        ends.append(learned(agent))
    assert not differ(ends[0], ends[1]) and differ(ends[0], ends[2])
