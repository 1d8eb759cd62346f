"""Agents driven as on a GPU: masked refusals, no questions, recorded updates and compiled steps equal the plain way."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import shutil
from operator import attrgetter
from types import SimpleNamespace

import pytest
import torch

from minerva_lite import make_env, preset, train
from minerva_lite.agents import AGENTS
from minerva_lite.agents.base import MAX_SKIPS, NonFiniteGuard
from minerva_lite.training import gpu, loop
from minerva_lite.training.checkpoints import load, save
from minerva_lite.training.defaults import settings_for
from minerva_lite.training.gpu import (
    KNOWN,
    WARM_UP,
    Accelerated,
    MaskedGuard,
    Plain,
    Recorded,
    accelerate,
    copied,
    floats,
    learned_state,
)
from minerva_lite.training.presets import PRESETS
from tests.tape import Questions, Rated, as_on_a_gpu, tape_instead_of_cuda

SMALL = {
    "reinforce": {"num_envs": 4, "rollout_steps": 20, "whole_episodes": False, "baseline": "value"},
    "a2c": {"num_envs": 4, "rollout_steps": 8, "normalize_obs": True, "normalize_reward": True},
    "ppo": {"num_envs": 4, "rollout_steps": 16, "minibatch_size": 32, "epochs": 2, "normalize_obs": True},
    "vmpo": {"num_envs": 4, "rollout_steps": 16, "inner_steps": 3, "normalize_reward": True},
    "mpo": {
        "num_envs": 4,
        "rollout_steps": 8,
        "learner_steps": 2,
        "minibatch_size": 16,
        "warmup_steps": 64,
        "target_period": 5,
    },
}
CASES = [
    ("ppo", "Pendulum-v1", {}),
    ("ppo", "CartPole-v1", {"entropy_coef": 0.01}),
    ("ppo", "Pendulum-v1", {"squash": True, "entropy_coef": 0.01, "normalize_reward": True}),
    ("ppo", "Pendulum-v1", {"clip_value": True, "minibatch_size": 24}),
    ("a2c", "CartPole-v1", {}),
    ("a2c", "Pendulum-v1", {}),
    ("vmpo", "Pendulum-v1", {}),
    ("vmpo", "Pendulum-v1", {"kl_over": "kept", "importance_clip": 2.0, "act_by": "online", "top_k_frac": 0.3}),
    ("vmpo", "CartPole-v1", {"log_normalizer": "count"}),
    ("reinforce", "CartPole-v1", {}),
]
NUMBERED = [  # these keep numbers of Python's between two updates, and cannot be recorded
    ("mpo", "Pendulum-v1", {}),
    ("mpo", "CartPole-v1", {"target_period": 3}),
    ("mpo", "Pendulum-v1", {"critic_target": "retrace", "sequence_length": 4, "action_penalty": True}),
    ("mpo", "Pendulum-v1", {"replay_steps": 100, "warmup_steps": 0, "normalize_obs": True}),
    ("vmpo", "Pendulum-v1", {"target_period": 3}),
]
IDS = ["-".join([a, e.split("-")[0], *c]) for a, e, c in CASES]


def made(algorithm, env_id, changes, **where):
    known = preset(algorithm, "CartPole-v1" if algorithm in ("reinforce", "a2c") else env_id).config
    config = dataclasses.replace(known, **SMALL[algorithm] | changes)
    env = make_env(env_id, config.num_envs, seed=1, device=where.get("device", "cpu"))
    return AGENTS[algorithm][0](config, env.spec, seed=2, **{"device": "cpu"} | where), env


def lived(agent, env, updates, progress=lambda i: i / 10):
    """Figures of every update."""
    obs, told = env.reset(), []
    for i in range(updates):
        rollout, obs = agent.collect(env, obs)
        told.append(floats(agent.update(rollout, progress(i))))
    return told


def assert_same(agent, other):
    ours, theirs = learned_state(agent), learned_state(other)
    assert ours.keys() == theirs.keys() and len(ours) > 10
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


def counts_of(agent):
    assert KNOWN[type(agent)].counters, "these keep numbers"
    return [attrgetter(name)(agent) for name in KNOWN[type(agent)].counters]


def same_figures(ours, theirs):
    return all(
        a.keys() == b.keys() and all(a[k] == b[k] or (math.isnan(a[k]) and math.isnan(b[k])) for k in a)
        for a, b in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize(("algorithm", "env_id", "changes"), CASES, ids=IDS)
def test_masked_and_recorded_updates_are_the_plain_ones_to_the_bit(algorithm, env_id, changes, monkeypatch):
    def after(drive):
        agent, env = made(algorithm, env_id, changes)
        runner = drive(agent)
        return runner, lived(runner, env, WARM_UP + 4)

    plain, expected = after(Plain)
    masked, figures = after(as_on_a_gpu)
    assert same_figures(figures, expected)
    assert_same(masked.agent, plain.agent)
    # A learning rate that lives on the device has 24 bits: the recording is compared with one that has them too.
    rated, expected = after(lambda agent: as_on_a_gpu(agent, kind=Rated))
    with tape_instead_of_cuda(monkeypatch):
        runner, figures = after(lambda agent: as_on_a_gpu(agent, record=True))
    assert runner.recorded_update.graph and runner.recorded_walk.graph, "both were recorded"
    assert same_figures(figures, expected)
    assert_same(runner.agent, rated.agent)
    for ours, theirs in zip(rated.agent.modules.parameters(), plain.agent.modules.parameters(), strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("algorithm", "env_id", "changes"), NUMBERED)
def test_masked_updates_that_are_not_recorded_are_the_plain_ones_too(algorithm, env_id, changes):
    (plain, env), (masked, twin) = made(algorithm, env_id, changes), made(algorithm, env_id, changes)
    assert not KNOWN[type(plain)].same(plain.config)
    assert same_figures(lived(as_on_a_gpu(masked), twin, 9), lived(plain, env, 9))
    assert_same(masked, plain)
    assert counts_of(masked) == counts_of(plain)


@pytest.mark.parametrize("at", [0, 5])
@pytest.mark.parametrize("how", ["going on", "saved"])
@pytest.mark.parametrize(("algorithm", "env_id", "changes"), NUMBERED)
def test_a_refused_rollout_is_taken_back_whole(algorithm, env_id, changes, at, how):
    """Tensors at once; Python's numbers, the replay's place among them, before they are used or saved again."""

    def after(refused):
        agent, env = made(algorithm, env_id, changes)
        runner = as_on_a_gpu(agent)
        lived(runner, env, at)
        if refused:
            generators = agent.generator, agent.minibatch_generator
            drawn = [generator.get_state() for generator in generators]
            elsewhere = copy.deepcopy(env)
            rollout, _ = runner.collect(elsewhere, elsewhere.reset())
            reward = rollout.reward.clone()
            reward[1, 0] = math.nan
            assert floats(runner.update(dataclasses.replace(rollout, reward=reward)))["train/skipped_batches"] == 1
            if how == "saved":
                runner.load_state_dict(copy.deepcopy(runner.state_dict()))
            for generator, state in zip(generators, drawn, strict=True):
                generator.set_state(state)  # what was drawn for it is gone; this alone is not taken back
        return agent, lived(runner, env, 6)

    (once, figures), (never, expected) = after(True), after(False)
    for row in figures:
        row["train/skipped_batches"] -= 1
    assert same_figures(figures, expected)
    # A replay that was loaded holds the same steps from another place on.
    for agent in (once, never):
        if algorithm == "mpo" and how == "saved":
            agent.replay.load_state_dict(agent.replay.state_dict())
    assert_same(once, never)
    assert counts_of(once) == counts_of(never)
    if algorithm == "mpo":
        columns = [agent.replay.columns for agent in (once, never)]
        assert all(torch.equal(columns[0][name], columns[1][name]) for name in columns[0])


@pytest.mark.parametrize("masked", [True, False])
def test_a_rollout_refused_by_a_full_replay_is_in_no_save(masked):
    """Its rows have replaced the oldest ones; counted as those, they would stand in the next checkpoint."""
    agent, env = made("mpo", "Pendulum-v1", {"replay_steps": 100})
    runner = as_on_a_gpu(agent) if masked else Plain(agent)
    lived(runner, env, 5)
    assert agent.replay.size == agent.replay.capacity == 25
    rollout, _ = runner.collect(env, env.reset())
    reward = torch.full_like(rollout.reward, 3e38)  # finite; its square, in the critic's loss, is not
    assert floats(runner.update(dataclasses.replace(rollout, reward=reward)))["train/skipped_batches"] == 1
    columns = runner.state_dict()["replay"]["columns"]
    assert agent.replay.size == len(columns["reward"]) == 17 and columns["reward"].max() < 1e38


@pytest.mark.parametrize(("algorithm", "env_id", "changes"), CASES + NUMBERED)
def test_an_iteration_asks_for_no_number(algorithm, env_id, changes, monkeypatch):
    agent, env = made(algorithm, env_id, changes)
    with tape_instead_of_cuda(monkeypatch):
        agent, obs = as_on_a_gpu(agent), env.reset()  # it collects and updates as the agent does
        rollout, obs = agent.collect(env, obs)
        for _ in range(2):
            agent.update(rollout)
        with Questions() as questions:
            rollout, obs = agent.collect(env, obs)
            agent.update(rollout, 0.5)
    assert questions.asked == []


@pytest.mark.parametrize("changes", [{"target_kl": 0.02}, {"objective": "kl_penalty"}], ids=["target_kl", "kl_penalty"])
def test_an_agent_that_waits_is_known_to_wait(changes):
    agent, env = made("ppo", "Pendulum-v1", changes)
    rollout, _ = agent.collect(env, env.reset())
    with Questions() as questions:
        agent.update(rollout)
    assert KNOWN[type(agent)].waits(agent.config) and questions.asked[0] == "tolist", "the guard's one"
    assert len(questions.asked) > 1


def test_the_counter_of_questions_sees_them():
    x = torch.arange(4.0)
    with Questions() as questions:
        bool(x.any()), x[x > 1], x.nonzero(), float(x.sum()), x.tolist(), x.numpy(), x[torch.tensor([0, 1])]
    assert len(questions.asked) == 6


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "vmpo", "reinforce", "mpo"])
@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_masked_step_leaves_everything_as_it_was(algorithm, at, bad):
    agent, env = made(algorithm, "CartPole-v1", {})
    runner = as_on_a_gpu(agent)
    lived(runner, env, at)
    rollout, _ = runner.collect(env, env.reset())
    reward = rollout.reward.clone()
    reward[1, 0] = bad
    before = {name: tensor.clone() for name, tensor in learned_state(agent).items()}
    figures = floats(runner.update(dataclasses.replace(rollout, reward=reward), 0.1))
    assert figures["train/skipped_batches"] == 1 and agent.guard.skipped == {"reward": 1} and agent.guard.in_a_row == 1
    for name, tensor in learned_state(agent).items():
        wanted = before.get(name)
        if wanted is None or wanted.shape != tensor.shape:
            assert not tensor.any(), name
        else:
            assert torch.equal(tensor, wanted), name
    again = floats(runner.update(rollout, 0.1))
    assert again["train/skipped_batches"] == 1 and agent.guard.in_a_row == 0
    assert all(math.isfinite(x) for x in again.values())


STEPS_OF = {"ppo": "gradient_step", "a2c": "gradient_step", "vmpo": "gradient_step", "mpo": "gradient_step"}
SPOILED = [("a2c", 1), ("ppo", 1), ("ppo", 3), ("vmpo", 2), ("mpo", 1), ("mpo", 2), ("mpo", 4), ("mpo", 8)]


@pytest.mark.parametrize("how", ["loss", "gradient"])
@pytest.mark.parametrize(("algorithm", "at"), SPOILED)
def test_a_step_that_is_not_finite_takes_its_update_back_without_a_question(algorithm, at, how, monkeypatch):
    """Here the whole update is put back: which of its steps it was is not asked."""
    agent, env = made(algorithm, "Pendulum-v1", {})
    runner = as_on_a_gpu(agent)
    lived(runner, env, 2)
    rollout, _ = runner.collect(env, env.reset())
    step, calls = getattr(agent, STEPS_OF[algorithm]), []

    def spoiled(*given):
        *words, loss = given
        calls.append(1)
        if len(calls) == at:
            network = getattr(agent, words[0]) if words else agent.policy
            loss = loss * math.inf if how == "loss" else loss + (0.0 * next(network.parameters()).sum()).sqrt()
        return step(*words, loss)

    before = {name: tensor.clone() for name, tensor in learned_state(agent).items()}
    with monkeypatch.context() as patch, tape_instead_of_cuda(monkeypatch), Questions() as questions:
        patch.setattr(agent, STEPS_OF[algorithm], spoiled)
        figures = runner.update(rollout, 0.1)
    assert questions.asked == [] and len(calls) >= at
    assert floats(figures)["train/skipped_batches"] == 1 and agent.guard.skipped == {"step": 1}
    assert agent.guard.in_a_row == 1
    after = learned_state(agent)
    assert after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in after)
    again = floats(runner.update(rollout, 0.1))
    assert again["train/skipped_batches"] == 1 and agent.guard.in_a_row == 0
    assert all(math.isfinite(x) for x in again.values())
    assert any(not torch.equal(tensor, before[name]) for name, tensor in learned_state(agent).items())


@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "vmpo"])
def test_a_recorded_update_refuses_its_steps_too(algorithm, monkeypatch):
    with tape_instead_of_cuda(monkeypatch):
        agent, env = made(algorithm, "CartPole-v1", {"normalize_reward": False})
        runner = as_on_a_gpu(agent, record=True)
        lived(runner, env, WARM_UP + 2)
        rollout, _ = runner.collect(env, env.reset())
        huge = dataclasses.replace(rollout, reward=torch.full_like(rollout.reward, 1e26))
        before = copied(learned_state(agent))
        for i in (1, 2):
            assert floats(runner.update(huge, 0.1))["train/skipped_batches"] == i == agent.guard.in_a_row
        assert runner.recorded_update.graph and agent.guard.skipped == {"step": 2}
        after = learned_state(agent)
        assert all(torch.equal(after[name], before[name]) for name in before)
        again = floats(runner.update(rollout, 0.1))
        assert again["train/skipped_batches"] == 2 and agent.guard.in_a_row == 0
        assert any(not torch.equal(tensor, before[name]) for name, tensor in learned_state(agent).items())


def test_the_masked_guard_counts_both_doors_as_the_other_does():
    good, bad, one = torch.ones(2), torch.tensor([1.0, math.nan]), torch.ones(())
    guard = MaskedGuard("cpu")
    guard.load_state_dict({"skipped": {"loss/value": 4}, "skipped_in_a_row": 1})
    guard.finite(obs=good), guard.admit("loss", one, one), guard.admit("loss", one, one * math.nan)
    assert not guard.admitted() and guard.in_a_row == 2
    guard.finite(obs=bad), guard.admit("loss", one * math.nan, one)
    assert not guard.admitted() and guard.in_a_row == 3, "refused once, by the first door"
    assert guard.skipped == {"obs": 1, "step": 1, "loss/value": 4} and guard.total == 6
    guard.finite(obs=good), guard.admit("loss", one)
    assert guard.admitted() and guard.in_a_row == 0
    guard.finite(obs=good)
    assert guard.admitted(), "an update without a step"
    plain = NonFiniteGuard()
    plain.load_state_dict(guard.state_dict())
    assert plain.skipped == guard.skipped


def test_the_masked_guard_counts_as_the_other_does():
    good, bad = torch.ones(2), torch.tensor([1.0, math.nan])
    guard = MaskedGuard("cpu")
    assert guard.finite(obs=good, reward=good)
    assert not guard.finite(obs=good, reward=bad)
    assert not guard.finite(obs=bad, reward=bad)
    assert guard.skipped == {"reward": 1, "obs": 1} and guard.in_a_row == 2 and guard.total == 2
    twin = MaskedGuard("cpu")
    twin.load_state_dict(copy.deepcopy(guard.state_dict()))
    assert twin.skipped == {"reward": 1, "obs": 1} and twin.in_a_row == 2
    for one in (guard, twin):
        assert one.finite(obs=good, reward=good) and one.in_a_row == 0 and one.total == 2


def test_three_refusals_in_a_row_end_a_training_on_a_gpu_too(monkeypatch):
    agent, env = made("a2c", "CartPole-v1", {})
    monkeypatch.setattr(
        loop, "accelerate", lambda agent: Accelerated(agent, KNOWN[type(agent)], masked=True, record=False)
    )
    step, calls = env.step, []

    def broken(action):
        calls.append(1)
        done = step(action)
        return done._replace(reward=done.reward / 0.0) if len(calls) > 2 * agent.config.rollout_steps else done

    env.step = broken
    with pytest.raises(FloatingPointError, match=r"^reward: not finite in 3 batches in a row; .*\{'reward': 3\}"):
        train(agent, env, 10_000, eval_every=10_000, progress=False)
    assert len(calls) == (2 + MAX_SKIPS) * agent.config.rollout_steps
    assert type(agent.guard) is NonFiniteGuard and agent.guard.skipped == {"reward": 3}, (
        "its own guard, which has learned"
    )


def test_a_checkpoint_of_a_recorded_agent_goes_on_as_a_plain_one(tmp_path, monkeypatch):
    with tape_instead_of_cuda(monkeypatch):
        agent, env = made("ppo", "Pendulum-v1", {})
        runner = as_on_a_gpu(agent, record=True)
        lived(runner, env, WARM_UP + 2)
        save(runner, tmp_path / "agent.pt")
    twin = load(tmp_path / "agent.pt", device="cpu")
    assert_same(twin, agent)
    assert isinstance(twin.optimizer.param_groups[0]["lr"], float) and not twin.optimizer.param_groups[0]["capturable"]
    rollout, _ = twin.collect(env, env.reset())
    assert floats(twin.update(rollout, 0.7))["train/learning_rate"] == pytest.approx(0.3 * twin.config.learning_rate)
    with tape_instead_of_cuda(monkeypatch):
        third = as_on_a_gpu(made("ppo", "Pendulum-v1", {})[0], record=True)
        lived(third, make_env("Pendulum-v1", 4, seed=3), WARM_UP + 2)
        third.load_state_dict(copy.deepcopy(twin.state_dict()))
        assert third.recorded_update.graph is None, "what was recorded refers to tensors that are gone"
        assert floats(third.update(rollout, 0.7)) == floats(twin.update(rollout, 0.7))


@pytest.mark.parametrize("record", [False, True])
def test_after_its_block_an_agent_is_as_it_was(record, monkeypatch):
    agent, env = made("ppo", "Pendulum-v1", {})
    before = {name: value for name, value in vars(agent).items() if name != "generator"}
    driven = Accelerated(agent, KNOWN[type(agent)], masked=True, record=record)
    with tape_instead_of_cuda(monkeypatch), driven as runner:
        assert type(agent.guard) is MaskedGuard
        lived(runner, env, WARM_UP + 2)
    assert vars(agent).keys() == before.keys() | {"generator"}
    assert [name for name, value in before.items() if vars(agent)[name] is not value] == []
    assert [type(group["lr"]) for group in agent.optimizer.param_groups] == [float]
    assert math.isfinite(
        floats(lived(agent, env, 1)[0] and agent.update(agent.collect(env, env.reset())[0]))["kl/exact"]
    )


class Cooling(AGENTS["ppo"][0]):
    """An agent that nobody told `training.gpu` about; a number of Python's changes its update."""

    def setup(self):
        super().setup()
        self.heat = 1.0

    def improve(self, rollout, progress):
        figures = super().improve(rollout, progress)
        self.heat *= 0.7
        with torch.no_grad():
            self.policy.log_std.add_(0.01 * self.heat)
        return figures


def test_an_agent_that_is_not_known_runs_plainly():
    """By recording, its number would freeze without a word."""
    agent, _ = made("ppo", "Pendulum-v1", {})
    unknown = Cooling(agent.config, agent.spec, device="cpu", compile=True)
    unknown.device = torch.device("cuda")  # no tensor is touched: only what would be done is asked
    assert type(accelerate(unknown)) is Plain
    agent.device = torch.device("cuda")
    assert type(accelerate(agent)) is Accelerated and accelerate(agent).masked and not accelerate(agent).record


def test_an_agent_that_is_not_known_learns_as_it_does_alone(monkeypatch):
    """To the bit, also where others are recorded. A recording would keep the first value of its number for good."""

    def after(drive):
        known, env = made("ppo", "Pendulum-v1", {})
        agent = Cooling(known.config, known.spec, seed=2, device="cpu")
        with tape_instead_of_cuda(monkeypatch), drive(agent) as runner:
            figures = lived(runner, env, WARM_UP + 4)
        return agent, figures

    def driven(agent):
        agent.compile, agent.device = True, torch.device("cuda")
        runner = accelerate(agent)
        agent.device = torch.device("cpu")
        return runner

    (alone, expected), (unknown, figures) = after(Plain), after(driven)
    assert same_figures(figures, expected) and unknown.heat == alone.heat == pytest.approx(0.7 ** (WARM_UP + 4))
    assert_same(unknown, alone)
    monkeypatch.setitem(KNOWN, Cooling, KNOWN[AGENTS["ppo"][0]])
    frozen, _ = after(lambda agent: Accelerated(agent, KNOWN[Cooling], masked=True, record=True))
    assert frozen.heat > 2 * alone.heat and not torch.equal(frozen.policy.log_std, alone.policy.log_std)


def test_another_shape_than_the_recorded_one_is_refused(monkeypatch):
    with tape_instead_of_cuda(monkeypatch):
        doubled = Recorded(lambda given: {"y": 2.0 * given["x"]}, [])
        for i in range(WARM_UP + 2):
            assert torch.equal(doubled({"x": torch.full((3,), float(i))})["y"], torch.full((3,), 2.0 * i))
        with pytest.raises(ValueError, match=r"^inputs: wanted shape \(3,\), what was recorded; got \(4,\)"):
            doubled({"x": torch.ones(4)})


def test_figures_keep_their_order_and_their_value():
    figures = {"b": torch.tensor(2.5), "a": torch.tensor(1), "c": torch.tensor(3.0, dtype=torch.float64)}
    assert list(floats(figures).items()) == [("b", 2.5), ("a", 1.0), ("c", 3.0)]


needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a C++ compiler")


def compiled_beside_eager(algorithm, env_id, changes, **where):
    """Largest differences of a rollout, and of the parameters after an update on the same rollout."""
    eager, env = made(algorithm, env_id, changes, **where)
    agent, twin = made(algorithm, env_id, changes, **where, compile=True)
    rollout, last = eager.collect(env, env.reset())
    fast = accelerate(agent).__enter__()
    other, other_last = fast.collect(twin, twin.reset())
    pairs = [(rollout.tensors()[name].double(), tensor.double()) for name, tensor in other.tensors().items()]
    walked = max(float((a - b).abs().max()) for a, b in [*pairs, (last, other_last)])
    fast.update(rollout, 0.5), eager.update(rollout, 0.5)
    pairs = zip(eager.modules.state_dict().values(), agent.modules.state_dict().values(), strict=True)
    return walked, max(float((a - b).abs().max()) for a, b in pairs if a.numel())


# By "aot_eager" the steps are traced whole, forward and backward, and run without generated code, in a quarter of the
# time; "inductor" is what users get.
@pytest.mark.parametrize(("algorithm", "env_id", "changes", "backend"), [
    (*CASES[0], "aot_eager"),
    *(pytest.param(*case, "inductor", marks=[pytest.mark.slow, needs_compiler]) for case in CASES),
], ids=[f"{IDS[0]}-traced", *IDS])  # fmt: skip
def test_compiled_and_eager_agree_within_float32(algorithm, env_id, changes, backend, monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    walked, learned = compiled_beside_eager(algorithm, env_id, changes)
    assert walked < 1e-4 and learned < 1e-4
    breaks = dict(counters["graph_break"])
    assert not breaks or changes.get("squash"), f"compiled whole, but for a squashed entropy's own draw: {breaks}"
    assert counters["stats"]["unique_graphs"] >= 2, "walk and loss"


@pytest.mark.parametrize(("algorithm", "env_id", "changes"), [CASES[1], CASES[4]], ids=["ppo", "a2c"])
def test_nothing_is_compiled_while_a_graph_is_recorded(algorithm, env_id, changes, monkeypatch):
    """A compiler asks the device for numbers, which a recording does not survive: seen on a GPU."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    torch.compiler.reset()
    compiled = torch._dynamo.utils.counters["stats"]
    news = []

    def record(function, inputs, generators):
        before = compiled["unique_graphs"]
        outputs = function(inputs)
        news.append(compiled["unique_graphs"] - before)
        return SimpleNamespace(replay=lambda: None), outputs

    with tape_instead_of_cuda(monkeypatch), monkeypatch.context() as patch:
        patch.setattr(gpu, "record", record)
        agent, env = made(algorithm, env_id, changes, compile=True)
        lived(as_on_a_gpu(agent, record=True), env, WARM_UP + 1)
    assert compiled["unique_graphs"] >= 2 and news == [0, 0], "walk and update"


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["trpo", "mpo"])
def test_agents_that_wait_compile_what_they_can(algorithm):
    def of(compile):
        config = dataclasses.replace(
            preset(algorithm, "Pendulum-v1").config,
            **{"num_envs": 4, "rollout_steps": 16}
            | ({"learner_steps": 2, "warmup_steps": 64} if algorithm == "mpo" else {}),
        )
        env = make_env("Pendulum-v1", 4, seed=1)
        return AGENTS[algorithm][0](config, env.spec, seed=2, device="cpu", compile=compile), env

    (eager, env), (agent, twin) = of(False), of(True)
    rollout, _ = eager.collect(env, env.reset())
    with accelerate(agent) as fast:
        other, _ = fast.collect(twin, twin.reset())
        assert (rollout.next_obs - other.next_obs).abs().max() < 1e-4
        eager.update(rollout), fast.update(rollout)
    for ours, theirs in zip(eager.modules.parameters(), agent.modules.parameters(), strict=True):
        assert (ours - theirs).abs().max() < 1e-3


CUDA = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")]


def on_cuda(algorithm, env_id, changes, *, compile):
    agent, env = made(algorithm, env_id, changes, device="cuda", compile=compile)
    runner = accelerate(agent).__enter__()
    assert runner.masked and runner.record == (compile and KNOWN[type(agent)].same(agent.config))
    return runner, env


@pytest.mark.parametrize(("algorithm", "env_id", "changes"), [pytest.param(*c, marks=CUDA) for c in CASES], ids=IDS)
def test_a_recorded_agent_on_cuda_does_what_an_eager_one_does(algorithm, env_id, changes):
    eager, env = on_cuda(algorithm, env_id, changes, compile=False)
    expected = lived(eager, env, WARM_UP + 4)
    fast, env = on_cuda(algorithm, env_id, changes, compile=True)
    figures = lived(fast, env, WARM_UP + 4)
    assert fast.recorded_update.graph and fast.recorded_walk.graph
    # Seven updates let differences of rounding grow; a stale address or a frozen number is far outside.
    for ours, theirs in zip(figures, expected, strict=True):
        for name in theirs:
            assert ours[name] == pytest.approx(theirs[name], rel=2e-2, abs=2e-3, nan_ok=True), name
    for ours, theirs in zip(fast.agent.modules.parameters(), eager.agent.modules.parameters(), strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=5e-3)


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize(("algorithm", "env_id", "changes"), [pytest.param(*c, marks=CUDA) for c in CASES + NUMBERED])
def test_an_iteration_on_cuda_waits_once(algorithm, env_id, changes, compile):
    agent, env = on_cuda(algorithm, env_id, changes, compile=compile)
    lived(agent, env, WARM_UP + 2)
    rollout, obs = agent.collect(env, env.reset())
    torch.cuda.set_sync_debug_mode("error")
    try:
        rollout, obs = agent.collect(env, obs)
        figures = agent.update(rollout, 0.5)
        with pytest.raises(RuntimeError, match="synchronizing"):  # the one, where the figures are read
            floats(figures)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("algorithm", AGENTS)
def test_every_agent_trains_on_cuda(algorithm):
    env_id = "Pendulum-v1" if (algorithm, "Pendulum-v1") in PRESETS else "CartPole-v1"
    env_id = "tokens/sort" if algorithm == "sequence" else env_id
    config = settings_for(algorithm, env_id).config
    env = make_env(env_id, config.num_envs, device="cuda")
    agent = AGENTS[algorithm][0](config, env.spec, device="cuda")
    before = [p.clone() for p in agent.policy.parameters()]
    first = getattr(config, "first_learning", 0) // config.batch_size
    history = train(agent, env, (first + 3) * config.batch_size, eval_episodes=2, progress=False)
    assert len(history.updates) == first + 3 and all(p.device.type == "cuda" for p in agent.modules.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, agent.policy.parameters(), strict=True))
