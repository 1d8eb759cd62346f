"""What the tests share: one thread, repeatable random examples, and toy environments that tell what they were asked."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import Phase, settings
from xdist.scheduler import LoadFileScheduling

from tests.chapters import kernels, record  # noqa: F401 (kernels: what it does)
from tests.chapters.watch import Watch

torch.set_num_threads(1)
os.environ["BOOK_FRAMES"] = "1"  # figures as the pages have them
settings.register_profile("book", max_examples=50, deadline=None, derandomize=True, database=None)
# The mutants only ask whether a property fails, not for its smallest counterexample.
settings.register_profile("no shrinking", settings.get_profile("book"), phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("BOOK_HYPOTHESIS", "book"))

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]  # of Chromium

# Three processes share the files; those that take longest start first, and pages last, so that both end together.
LONGEST = (
    "test_run.py", "test_classroom.py", "test_build.py", "test_mutants.py", "test_solves.py", "test_release.py",
    "test_studies.py", "test_chapters.py", "test_contributing.py", "test_resume.py", "test_questions.py",
    "test_widgets.py", "test_video.py",
)  # fmt: skip
LONG_RUN = 20  # minutes, after which a run says that it has outgrown itself
COPY = re.compile(r"^tests/copies/test_run.py::test_a_copy_gives_")
PAGE = re.compile(r"^tests/pages/.*\[(book/[\w/]+\.(?:md|ipynb))")


def in_turn(config) -> list[Path]:
    """The notebooks that nothing has changed since they were recorded, in this run's order."""
    if not config.getoption("--changed-chapters"):
        return []
    chapters = [Path(word).resolve() for word in config.args if word.endswith(".ipynb")]
    return record.in_turn(chapters, record.read(), record.Tree())


def pytest_configure(config):
    if folder := config.getoption("--watch-chapters"):
        config.pluginmanager.register(Watch(Path(folder).resolve()))


def pytest_collection_modifyitems(config, items):
    turn = in_turn(config)
    copied = record.by_copy(turn)
    not_here = record.at_rest(turn) + copied

    def left_out(item):
        if COPY.match(item.nodeid):  # a chapter is executed itself or from its copy
            return config.getoption("--changed-chapters") and item.callspec.params["chapter"] not in copied
        return item.path in not_here

    config.hook.pytest_deselected(items=[item for item in items if left_out(item)])
    items[:] = [item for item in items if not left_out(item)]

    def place(item):
        name = item.path.name
        if name in LONGEST:
            return LONGEST.index(name)
        return len(LONGEST) + (2 if item.get_closest_marker("page") else name.endswith(".py"))  # a chapter is long

    items.sort(key=place)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    result = yield
    os.environ.pop("MPLBACKEND", None)  # EnvPool sets it when imported, and the kernel of a notebook would inherit it
    return result


def pytest_addoption(parser):
    parser.addoption("--changed-chapters", action="store_true", help="leave out notebooks that nothing has changed")
    parser.addoption("--watch-chapters", metavar="FOLDER", help="write there what each notebook enters and opens")
    parser.addoption("--minutes", type=float, help="fail if the session takes longer (`make test MINUTES=30`)")


def pytest_sessionstart(session):
    session.config.began = time.perf_counter()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """A tier that has outgrown its minutes is red where a machine's time is limited; elsewhere it says so."""
    config = session.config
    if hasattr(config, "workerinput"):
        return
    config.took = (time.perf_counter() - config.began) / 60
    limit = config.getoption("--minutes")
    if limit is not None and config.took > limit and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    turn = in_turn(config)
    for said, paths in (
        ("Not executed, as nothing they depend on has changed", record.at_rest(turn)),
        ("Executed from its runnable copy", record.by_copy(turn)),
    ):
        if paths:
            terminalreporter.write_line(f"{said}: {', '.join(sorted(path.stem for path in paths))}")
    wanted = min(config.getoption("--minutes") or LONG_RUN, LONG_RUN)
    if config.took > wanted:
        terminalreporter.write_line(f"{config.took:.1f} minutes; wanted at most {wanted:g}", red=True)


class Together(LoadFileScheduling):
    """What runs in one process, in its order: a file, whose tests may share a run of minutes; all visits to a page.

    Each chapter that is executed from its copy may have a process to itself.
    """

    def _split_scope(self, nodeid):
        if COPY.match(nodeid):
            return nodeid
        page = PAGE.match(nodeid)
        return f"page {page[1]}" if page else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Together(config, log)


class CountEnv(gym.Env):
    """Observation (episode, step in it). Every episode lasts 3 steps; even ones terminate, odd ones are truncated."""

    observation_space = gym.spaces.Box(-1000.0, 1000.0, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
    episode = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        over = self.t == 3
        even = self.episode % 2 == 0
        return self._obs(), float(10 * self.episode + self.t), over and even, over and not even, {}

    def _obs(self):
        return np.array([self.episode, self.t], dtype=np.float64)

    def state_dict(self):
        return {"episode": self.episode, "t": self.t}

    def load_state_dict(self, state):
        vars(self).update(state)


class EchoEnv(gym.Env):
    """The observation is the action that arrived; bounds differ from dimension to dimension."""

    observation_space = gym.spaces.Box(-1000.0, 1000.0, (2,), np.float64)
    action_space = gym.spaces.Box(np.array([-3.0, 10.0]), np.array([1.0, 30.0]), dtype=np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2), {}

    def step(self, action):
        return np.asarray(action, dtype=np.float64), 0.0, False, False, {}


class EchoDiscreteEnv(EchoEnv):
    """Actions 5, 6 and 7. The third step both terminates and runs out of time."""

    action_space = gym.spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.t += 1
        return np.array([float(action), self.t]), 0.0, self.t == 3, self.t == 3, {}


class NoBoundsEnv(EchoEnv):
    action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)


class LotteryEnv(gym.Env):
    """Episode lengths 1, 2, …, 6 by the seed, reward 1 a step: whoever counts second episodes is found out.

    Six of a run have all six lengths, beginning with any: the low 32 bits of their seeds follow one another.
    """

    observation_space = gym.spaces.Box(-1000.0, 1000.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.length = seed % 2**32 % 6 + 1
        self.t = 0
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, dtype=np.float64), 1.0, self.t == self.length, False, {}

    def state_dict(self):
        return {"length": self.length, "t": self.t}

    def load_state_dict(self, state):
        vars(self).update(state)


TOYS = {
    "ToyCount-v0": CountEnv,
    "ToyEcho-v0": EchoEnv,
    "ToyEchoDiscrete-v0": EchoDiscreteEnv,
    "ToyNoBounds-v0": NoBoundsEnv,
    "ToyLottery-v0": LotteryEnv,
}
for env_id, env in TOYS.items():
    if env_id not in gym.registry:
        gym.register(env_id, entry_point=env, disable_env_checker=True)


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser():
    """One for all folders: a process takes no second one beside it."""
    if find_chromium() is None:
        pytest.skip("no Chromium on this machine (.ci/run installs it)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def registries():
    """What a test registers in the tables of agents, environments, presets and laws is forgotten again."""
    from minerva_lite.agents import AGENTS
    from minerva_lite.training.presets import PRESETS
    from minerva_lite.worlds.envs import TORCH_ENVS
    from tests.laws import LAWS

    tables = (AGENTS, TORCH_ENVS, PRESETS, LAWS, gym.registry)
    before = [dict(table) for table in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)


def _same(a, b) -> bool:
    """Whether two nests of dicts, lists and tensors are equal to the bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


@pytest.fixture
def same():
    """`_same` as a fixture: test files here cannot import one another."""
    return _same
