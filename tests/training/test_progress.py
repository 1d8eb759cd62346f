"""What a training shows in a notebook, on a display that only remembers."""

from __future__ import annotations

import re
import signal
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from minerva_book import counted
from minerva_lite import PPOAgent, PPOConfig, make_env, train
from minerva_lite.training import progress
from minerva_lite.training.progress import LIVE, PAUSE, Live, State, picture


class Screen:
    """In place of IPython's display: what was shown, one state after another."""

    def __init__(self):
        self.states, self.shown = [], 0

    def display(self, data, **how):
        self.shown += 1
        assert how == {"raw": True, "metadata": LIVE, "display_id": True}
        self.states.append(data)
        return SimpleNamespace(update=lambda data, raw, metadata: self.states.append(data))


@pytest.fixture
def clock(monkeypatch):
    """Seconds, which pass when the test says so."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def notebook(clock, monkeypatch):
    """A kernel that has asked for a cell; `asked` is replaced when it asks for another."""
    kernel = SimpleNamespace(screen=Screen(), asked={"msg_id": "a"})
    kernel.get_parent, kernel.ends = (lambda: kernel.asked), []
    kernel.events = SimpleNamespace(register=lambda _, end: kernel.ends.append(end), unregister=lambda _, end: None)
    monkeypatch.delenv(progress.FRAMES, raising=False)
    monkeypatch.setattr(progress, "_shell", lambda: kernel)
    monkeypatch.setitem(progress.sys.modules, "IPython.display", SimpleNamespace(display=kernel.screen.display))
    return kernel


def new(seconds=1.0, clock=None, **settings):
    """An agent whose updates take so long by the clock, and its environment."""
    config = PPOConfig(num_envs=8, rollout_steps=8, minibatch_size=64, epochs=1, **settings)
    env = make_env("CartPole-v1", 8, seed=0)
    agent = PPOAgent(config, env.spec, seed=0, device="cpu")
    update = agent.update

    def slow(*args, **how):
        if clock is not None:
            clock[0] += seconds
        return update(*args, **how)

    agent.update = slow
    return agent, env


def curves(html):
    """The numbers of points of each curve in a state, and how strong each is."""
    svg = ElementTree.fromstring(re.search("<svg.*</svg>", html)[0])
    lines = svg.iter("polyline")
    return [(len(line.get("points").split()), float(line.get("stroke-opacity"))) for line in lines]


def test_states_are_a_pause_apart_and_a_line_of_text_is_left_with_its_curve(notebook, clock):
    asked = []
    for thing in counted(range(20), "updates", asked):
        clock[0] += PAUSE / 4
        asked.append(thing)
    first, *_, last = notebook.screen.states
    assert notebook.screen.shown == 1 and len(notebook.screen.states) == 5
    assert first["text/plain"] == "4 of 20 updates" and '<progress value="0.200"' in first["text/html"]
    assert curves(first["text/html"]) == [(4, 0.7)]
    assert last["text/plain"] == "20 of 20 updates" and "<progress" not in last["text/html"]
    assert curves(last["text/html"]) == [(20, 0.7)]


def test_what_takes_no_longer_than_a_pause_leaves_nothing(notebook, clock):
    assert list(counted("abc", "letters")) == ["a", "b", "c"] and notebook.screen.states == []


def test_what_runs_inside_adds_its_line_and_former_curves_turn_pale(notebook, clock):
    for _ in counted(range(3), "runs"):
        returns = []
        for _ in counted(range(3), "updates", returns):
            clock[0] += 2 * PAUSE
            returns.append(1.0)
    told = [state["text/plain"] for state in notebook.screen.states]
    assert curves(notebook.screen.states[-1]["text/html"])[:3] == [(3, 0.25)] * 3
    assert "2 of 3 runs; 2 of 3 updates" in told and told[-1] == "3 of 3 runs"
    inside = notebook.screen.states[told.index("2 of 3 runs; 2 of 3 updates")]["text/html"]
    assert '<progress value="0.667"' in inside and curves(inside) == [(3, 0.25), (3, 0.25), (2, 0.7)]


def test_every_cell_has_an_output_of_its_own(notebook, clock):
    for name in "ab":
        notebook.asked = {"msg_id": name}
        for _ in range(3):
            for _ in counted(range(3), "steps"):
                clock[0] += 1
    assert notebook.screen.shown == 2


def test_elsewhere_and_for_the_book_things_pass_unseen(notebook, clock, monkeypatch):
    monkeypatch.setenv(progress.FRAMES, "1")
    agent, env = new(clock=clock)
    train(agent, env, 256, eval_episodes=1)
    for _ in counted(range(3), "steps"):
        clock[0] += 1
    monkeypatch.delenv(progress.FRAMES)
    monkeypatch.setattr(progress, "_shell", lambda: None)
    for _ in counted(range(3), "steps"):
        clock[0] += 1
    assert notebook.screen.states == []


def test_a_training_shows_its_returns_and_leaves_its_last_ones(notebook, clock):
    agent, env = new(clock=clock)
    history = train(agent, env, 640, eval_every=128, eval_episodes=1)
    last = notebook.screen.states[-1]
    trained, evaluated = len(history.column("train/episode_return")), len(history.column("eval/mean"))
    assert curves(last["text/html"]) == [(trained, 0.7), (evaluated, 0.9)]
    means = history.column("train/episode_return")[-1], history.column("eval/mean")[-1]
    told = r"CartPole-v1: 640 of 640 steps in \d+ s, train return {:.1f}, eval return {:.1f}".format(*means)
    assert re.fullmatch(told, last["text/plain"])


def test_the_stop_button_ends_a_training_and_leaves_agent_history_and_curve(notebook, clock):
    agent, env = new(clock=clock)
    stops = iter([False, False, False, True])
    history = train(
        agent, env, 6400, eval_every=64, eval_episodes=1,
        callback=lambda row: "train/reward_mean" in row and next(stops) and signal.raise_signal(signal.SIGINT),
    )  # fmt: skip
    assert len(history.updates) == 4 and len(history.evaluations) == 3
    last = notebook.screen.states[-1]
    assert last["text/plain"].startswith("CartPole-v1: 256 of 6,400 steps")
    assert "<progress" not in last["text/html"] and curves(last["text/html"])[1] == (3, 0.9)
    with pytest.raises(KeyboardInterrupt):  # what comes next in this cell does not begin
        train(agent, env, 64, eval_episodes=1)
    result = SimpleNamespace(error_in_exec=None)
    notebook.ends.pop()(result)
    assert isinstance(result.error_in_exec, KeyboardInterrupt), "cells that wait are not run"
    notebook.asked = {"msg_id": "b"}
    train(agent, env, 64, eval_episodes=1)  # it can go on


def test_without_a_display_ctrl_c_is_an_error_as_everywhere(notebook, clock):
    agent, env = new(clock=clock)
    with pytest.raises(KeyboardInterrupt):
        train(agent, env, 640, progress=False, callback=lambda row: signal.raise_signal(signal.SIGINT))


def test_an_error_leaves_the_curve(notebook, clock):
    returns = []
    with pytest.raises(ZeroDivisionError):
        for update in counted(range(1, 9), "updates", returns):
            clock[0] += 1
            returns.append(1 / (5 - update))
    assert notebook.screen.states[-1]["text/plain"] == "4 of 8 updates, stopped"
    assert curves(notebook.screen.states[-1]["text/html"]) == [(4, 0.7)]


def test_a_picture_has_few_points_and_no_others_than_numbers():
    curve = [(i / 5000, float(i)) for i in range(5000)]
    assert curves(picture([], {"": curve})) == [(200, 0.7)]
    assert picture([], {}) == picture([], {"": [(0.5, float("nan"))]}) == ""
    assert curves(picture([], {"": [(0.1, 1.0), (0.2, float("inf")), (0.3, 1.0)]})) == [(2, 0.7)]


@pytest.mark.parametrize("height", [0.0, 0.5, 1.0])
def test_words_of_curves_that_end_together_stand_below_one_another_in_the_frame(height):
    ends = {"train": [(0.0, 0.0), (0.1, 1.0), (1.0, height)], "eval": [(1.0, height)]}
    places = [float(y) for y in re.findall(r'y="([\d.]+)" dx', picture([], ends))]
    assert len(places) == 2 and places[1] - places[0] >= 11 and max(places) + 4 < 120


def test_a_state_is_asked_for_only_when_it_is_shown(clock):
    asked = []
    page = Live(Screen().display)
    with page.following(lambda: (asked.append(clock[0]), State("", 1.0))[1]) as tell:
        for _ in range(1000):
            clock[0] += PAUSE / 100
            tell()
    assert 10 < len(asked) < 13, "five seconds, and the end"
