"""Agents driven as on a GPU: masked refusals, no questions, recorded updates and compiled steps equal the plain way."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import shutil
from collections import Counter
from operator import attrgetter
from types import SimpleNamespace

import pytest
import torch

from minerva_lite import make_env, train
from minerva_lite.agents import AGENTS
from minerva_lite.agents.base import NonFiniteGuard
from minerva_lite.training import gpu
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
from tests.runs import new
from tests.tape import Questions, Rated, as_on_a_gpu, tape_instead_of_cuda

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
    ("mpo", "Pendulum-v1", {"target_period": 5}),
    ("mpo", "CartPole-v1", {"target_period": 3}),
    ("mpo", "Pendulum-v1", {"critic_target": "retrace", "sequence_length": 4, "action_penalty": True}),
    ("mpo", "Pendulum-v1", {"replay_steps": 100, "warmup_steps": 0, "normalize_obs": True}),
    ("vmpo", "Pendulum-v1", {"target_period": 3}),
]
ANSWERING = [
    ("sequence", "tokens/copy", {"advantage": "rloo"}),
    ("sequence", "tokens/copy", {"advantage": "grpo", "objective": "gspo", "kl": "loss"}),
    ("sequence", "tokens/copy", {"advantage": "critic", "kl": "reward", "lam": 0.9}),
]
SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in ANSWERING]
IDS = ["-".join([a, e.split("-")[0], *c]) for a, e, c in CASES]


def made(algorithm, env_id, changes, **where):
    """Every update of theirs is the same, unless `changes` say otherwise."""
    usual = {"target_period": 1, "baseline": "value", "group": 2, "kl": "none"}
    agent, env = new(algorithm, env_id, **usual | changes | where)
    if algorithm == "sequence":  # a verifier that pays something for nearly all answers: a small agent is seldom right
        env.task = copy.copy(env.task)
        env.task.judge = lambda prompt, answer, mask: ((answer * mask).sum(0) % 7).float() / 7
    return agent, env


def lived(agent, env, updates):
    """Figures of every update."""
    obs, figures = env.reset(), []
    for i in range(updates):
        rollout, obs = agent.collect(env, obs)
        figures.append(floats(agent.update(rollout, i / 10)))
    return figures


def assert_same(agent, other):
    ours, theirs = learned_state(agent), learned_state(other)
    assert ours.keys() == theirs.keys() and len(ours) > 10
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


def counts_of(agent):
    return [attrgetter(name)(agent) for name in KNOWN[type(agent)].counters]


def same_figures(ours, theirs):
    return all(a == pytest.approx(b, rel=0, abs=0, nan_ok=True) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize(("algorithm", "env_id", "changes"), [*CASES, *NUMBERED, *SLOW[:2], ANSWERING[2]])
def test_masked_and_recorded_updates_are_the_plain_ones_to_the_bit(algorithm, env_id, changes, monkeypatch):
    def after(drive):
        agent, env = made(algorithm, env_id, changes)
        runner = drive(agent)
        return runner, lived(runner, env, max(9, WARM_UP + 4))

    plain, expected = after(Plain)
    masked, figures = after(as_on_a_gpu)
    assert same_figures(figures, expected)
    assert_same(masked.agent, plain.agent)
    assert counts_of(masked.agent) == counts_of(plain.agent)
    known, config = KNOWN[type(plain.agent)], plain.agent.config
    assert known.same(config) != ((algorithm, env_id, changes) in NUMBERED)
    if not known.same(config):
        return
    # A learning rate that lives on the device has 24 bits: the recording is compared with one that has them too.
    rated, expected = after(lambda agent: as_on_a_gpu(agent, kind=Rated))
    with tape_instead_of_cuda(monkeypatch):
        runner, figures = after(lambda agent: as_on_a_gpu(agent, record=True))
    assert runner.recorded_update.graph and (not known.walks(config) or runner.recorded_walk.graph), "were recorded"
    assert same_figures(figures, expected)
    assert_same(runner.agent, rated.agent)
    for ours, theirs in zip(rated.agent.modules.parameters(), plain.agent.modules.parameters(), strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("at", [0, 5])
@pytest.mark.parametrize("how", ["going on", "saved"])
@pytest.mark.parametrize(("algorithm", "env_id", "changes"), [*CASES[1::2], *NUMBERED])  # of every agent
def test_a_refused_rollout_is_taken_back_whole(algorithm, env_id, changes, at, how):
    """Tensors at once; Python's numbers, the replay's place among them, before they are used or saved again."""
    bad = {"going on": math.nan, "saved": math.inf}[how]

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
            reward[1, 0] = bad
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
    assert agent.replay.size == len(columns["reward"]) == 25 - 16 and columns["reward"].max() < 1e38


@pytest.mark.parametrize(("algorithm", "env_id", "changes"), CASES + NUMBERED + ANSWERING)
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


def check_refused(runner, update, rollout, times=1):
    """Updates are refused and move nothing; the one after them, on a sound rollout, learns."""
    agent, before = runner.agent, copied(learned_state(runner.agent))
    for i in range(1, times + 1):
        assert floats(update())["train/skipped_batches"] == i == agent.guard.in_a_row
    assert agent.guard.skipped == {"step": times}
    after = copied(learned_state(agent))
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]), name
    again = floats(runner.update(rollout, 0.1))
    assert again["train/skipped_batches"] == times and agent.guard.in_a_row == 0
    assert all(math.isfinite(x) for x in again.values())
    moved = [name for name, tensor in learned_state(agent).items() if not torch.equal(tensor, after[name])]
    assert bool(moved) == any(name.startswith("loss/") for name in again), "MPO may wait for a longer replay"


SPOILED = [("a2c", 1), ("ppo", 1), ("ppo", 3), ("vmpo", 2), ("mpo", 1), ("mpo", 2), ("mpo", 4), ("mpo", 8)]


@pytest.mark.parametrize("how", ["loss", "gradient"])
@pytest.mark.parametrize(("algorithm", "at"), SPOILED)
def test_a_step_that_is_not_finite_takes_its_update_back_without_a_question(algorithm, at, how, monkeypatch):
    """Here the whole update is put back: which of its steps it was is not asked."""
    agent, env = made(algorithm, "Pendulum-v1", {})
    runner = as_on_a_gpu(agent)
    lived(runner, env, 2)
    rollout, _ = runner.collect(env, env.reset())
    step, calls = agent.gradient_step, []

    def spoiled(*given):
        *words, loss = given
        calls.append(1)
        if len(calls) == at:
            network = getattr(agent, words[0]) if words else agent.policy
            loss = loss * math.inf if how == "loss" else loss + (0.0 * next(network.parameters()).sum()).sqrt()
        return step(*words, loss)

    def update():
        with monkeypatch.context() as patch, tape_instead_of_cuda(monkeypatch), Questions() as questions:
            patch.setattr(agent, "gradient_step", spoiled)
            figures = runner.update(rollout, 0.1)
        assert questions.asked == [] and len(calls) >= at
        return figures

    check_refused(runner, update, rollout)


@pytest.mark.parametrize("algorithm", ["a2c", "ppo", "vmpo"])
def test_a_recorded_update_refuses_its_steps_too(algorithm, monkeypatch):
    with tape_instead_of_cuda(monkeypatch):
        agent, env = made(algorithm, "CartPole-v1", {"normalize_reward": False})
        runner = as_on_a_gpu(agent, record=True)
        lived(runner, env, WARM_UP + 2)
        rollout, _ = runner.collect(env, env.reset())
        huge = dataclasses.replace(rollout, reward=torch.full_like(rollout.reward, 1e26))
        check_refused(runner, lambda: runner.update(huge, 0.1), rollout, times=2)
        assert runner.recorded_update.graph


def test_the_masked_guard_counts_as_the_other_does():
    """Both doors: what a rollout holds, and what a step goes by. And it goes on with what was counted before."""
    good, bad, sound, broken = torch.ones(2), torch.tensor([1.0, math.nan]), torch.ones(()), torch.tensor(math.nan)
    guard, counted, in_a_row = MaskedGuard("cpu"), Counter({"loss/value": 4}), 1
    guard.load_state_dict({"skipped": dict(counted), "skipped_in_a_row": in_a_row})
    for tensors, steps, blamed in (
        ({"obs": good, "reward": good}, [], None),  # an update without a step
        ({"obs": good, "reward": bad}, [], "reward"),
        ({"obs": bad, "reward": bad}, [], "obs"),
        ({"obs": good}, [(sound, sound), (sound, broken)], "step"),
        ({"obs": bad}, [(broken, sound)], "obs"),  # refused once, by the first door
        ({"obs": good}, [(sound,)], None),
        ({"obs": good}, [(broken,)], "step"),
    ):
        assert guard.finite(**tensors) == (blamed in (None, "step"))
        for step in steps:
            guard.admit("loss", *step)
        assert guard.admitted() == (blamed is None)
        counted += Counter({blamed: 1} if blamed else {})
        in_a_row = in_a_row + 1 if blamed else 0
        twins = MaskedGuard("cpu"), NonFiniteGuard()
        for twin in twins:
            twin.load_state_dict(copy.deepcopy(guard.state_dict()))
        for each in (guard, *twins):
            assert each.skipped == counted and each.in_a_row == in_a_row
        assert guard.total == counted.total()


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
    moving = {"generator", "learning_rate"}  # an update changes the latter
    before = {name: value for name, value in vars(agent).items() if name not in moving}
    driven = Accelerated(agent, KNOWN[type(agent)], masked=True, record=record)
    with tape_instead_of_cuda(monkeypatch), driven as runner:
        assert type(agent.guard) is MaskedGuard
        lived(runner, env, WARM_UP + 2)
    assert vars(agent).keys() == before.keys() | moving
    assert [name for name, value in before.items() if vars(agent)[name] is not value] == []
    assert [type(group["lr"]) for group in agent.optimizer.param_groups] == [float]
    assert math.isfinite(lived(agent, env, 1)[0]["kl/exact"])


def test_an_agent_that_is_not_known_runs_plainly():
    """Numbers of Python's may change its update, and by recording they would freeze without a word."""
    agent, _ = made("ppo", "Pendulum-v1", {})
    unknown = type("Unknown", (type(agent),), {})(agent.config, agent.spec, device="cpu", compile=True)
    unknown.device = torch.device("cuda")  # no tensor is touched: only what would be done is asked
    assert type(accelerate(unknown)) is Plain
    agent.device = torch.device("cuda")
    assert type(accelerate(agent)) is Accelerated and accelerate(agent).masked and not accelerate(agent).record


def test_another_shape_than_the_recorded_one_is_refused(monkeypatch):
    with tape_instead_of_cuda(monkeypatch):
        doubled = Recorded(lambda given: {"y": 2.0 * given["x"]}, [])
        for i in range(WARM_UP + 2):
            assert torch.equal(doubled({"x": torch.full((3,), float(i))})["y"], torch.full((3,), 2.0 * i))
        with pytest.raises(ValueError, match=r"^inputs: wanted shape \(3,\), what was recorded; got \(4,\)"):
            doubled({"x": torch.ones(4)})


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
    *(pytest.param(*case, "aot_eager", marks=pytest.mark.slow) for case in ANSWERING),
    *(pytest.param(*case, "inductor", marks=[pytest.mark.slow, needs_compiler]) for case in CASES),
], ids=[f"{IDS[0]}-traced", *(case[2]["advantage"] for case in ANSWERING), *IDS])  # fmt: skip
def test_compiled_and_eager_agree_within_float32(algorithm, env_id, changes, backend, monkeypatch):
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    walked, learned = compiled_beside_eager(algorithm, env_id, changes)
    assert walked < 1e-4 and learned < 1e-4
    breaks = dict(counters["graph_break"])
    assert not breaks or changes.get("squash"), f"compiled whole, but for a squashed entropy's own draw: {breaks}"
    assert counters["stats"]["unique_graphs"] >= 2 - (algorithm == "sequence"), "walk and loss"


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


# Few steps, because both solvers of TRPO make much of what is rounded away.
WAITING = {"mpo": {"learner_steps": 2}, "trpo": {"cg_iterations": 3, "value_iterations": 5}}


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("algorithm", WAITING)
def test_agents_that_wait_compile_what_they_can(algorithm):
    walked, learned = compiled_beside_eager(algorithm, "Pendulum-v1", WAITING[algorithm], dtype=torch.float64)
    assert walked < 1e-10 and learned < 1e-8


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
def test_a_former_graph_is_not_freed_while_another_is_recorded():
    def busy(inputs):
        lists = [[] for _ in range(100_000)]  # so many that Python looks for garbage
        return {"x": inputs["x"] + len(lists)}

    x = {"x": torch.zeros(1, device="cuda")}
    former = SimpleNamespace(graph=gpu.record(lambda inputs: {"x": inputs["x"] * 2}, x, [])[0])
    former.itself = former
    del former
    graph, outputs = gpu.record(busy, x, [])
    graph.replay()
    assert outputs["x"].item() == 100_000


@pytest.mark.parametrize("algorithm", [pytest.param(name, marks=CUDA) for name in AGENTS])
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
