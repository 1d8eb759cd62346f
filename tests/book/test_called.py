"""Called functions are links: what a name means is read from the source, and compared with what a run really calls."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.book.test_annotated_source import Text, block, build
from tests.living import make_agent

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

from called import Call, Package, linked  # noqa: E402
from marked_source import find_modules, others, parse_source  # noqa: E402

FILES = {
    "pack": "from .low import helper\n",
    "pack.low": """
class Base:
    part: "Part"
    def shared(self) -> "Base": ...
    @property
    def here(self) -> Part: ...
class Part:
    def work(self): ...
def helper(x): ...
def make() -> Part: ...
def either() -> Part | Base: ...
def maybe() -> Part | None: ...
""",
    "pack.high": """
from pack import helper as helped
from .low import Base, Part, either, make, maybe
class Child(Base):
    first: Part
    def setup(self):
        self.second = Part()
    def own(self, part: Part, unknown, make=None):
        'helped(1)  # helped(1)'
        helped(f"{helped(2)} helped(3)")  # helped(4)
        self.shared().shared(), super().shared(), self.first.work(), self.second.work(), self.here.work()
        part.work(), unknown.work(), make()
    def local(self):
        one, two, three = make(), maybe(), either()
        one.work(), three.work()
        a = make()
        b = maybe()
        c = either()
        é = a.work(), b.work(), c.work()
        def helped(): ...
        helped()
        a = b
    @staticmethod
    def alone(part):
        part.work()
""",
}


def test_a_name_means_what_imports_and_annotations_say():
    lines, found = FILES["pack.high"].split("\n"), []
    for call in Package(FILES).calls("pack.high"):
        line = lines[call.line - 1]
        assert line[call.column :].startswith(call.name)
        found.append((re.search(r"[\w.()]*$", line[: call.column + len(call.name)])[0], call.target[len("pack.") :]))
    assert found == [
        ("Child(Base", "low.Base"),
        ("Part", "low.Part"),
        ("helped", "low.helper"),
        ("helped", "low.helper"),
        ("self.shared", "low.Base.shared"),
        ("super().shared", "low.Base.shared"),
        ("self.first.work", "low.Part.work"),
        ("self.second.work", "low.Part.work"),
        ("self.here.work", "low.Part.work"),
        ("part.work", "low.Part.work"),
        ("make", "low.make"),
        ("maybe", "low.maybe"),
        ("either", "low.either"),
        ("one.work", "low.Part.work"),
        ("make", "low.make"),
        ("maybe", "low.maybe"),
        ("either", "low.either"),
        ("b.work", "low.Part.work"),
        ("helped", "high.Child.local.helped"),
    ], "no word of what is stored twice, has two types or none, or is hidden by a variable"


HERE = (
    "import torch\n\n\ndef low(x):\n    return x\n\n\n"
    + '''
class Agent:
    """low(1) is called."""

    def step(self, x):
        y = self.other(low(x))  # low(x) again
        # LaTeX: z = y + 1
        z = low(y) + 1
        text = f"low(2) {low(z)}", "low(3)"
        return torch.relu(z), text

    def other(self, x): return low(x)
'''
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    text = "# A\n\n```{annotated} scratch\n:fold: Agent.other\n```\n"
    target, warnings = build(tmp_path_factory.mktemp("called"), {"index": text}, HERE)
    assert warnings == ""
    return (target / "index.html").read_text("utf8")


def test_a_called_function_is_a_link_to_its_definition(page):
    inner = block(page)
    links = re.findall(r'<a class="reference internal" href="#([^"]*)"[^>]*>(?:<[^>]*>)*(\w+)', inner)
    assert links == [("src-scratch.Agent.other", "other"), *[("src-scratch.low", "low")] * 3]
    assert all(Text(page).ids.count(target) == 1 for target, _ in links)


def test_no_link_stands_in_a_string_a_comment_or_what_opens_a_fold(page):
    inner = block(page)
    assert all(words in inner for words in ("low(1)", "low(x) again", "low(2)", "low(3)")), (
        "whole, and so without a tag"
    )
    assert "<a " not in re.search(r"<summary>(.*?)</summary>", inner, re.S)[1]


def test_what_is_copied_has_no_trace_of_the_links(page):
    code = re.sub(r'<span class="src-formula linenos">.*?</span></span>', "", block(page), flags=re.S)
    code = re.sub(r'<(span|a) class="src-(number|folded) linenos".*?</\1>', "", code)
    assert Text(code).text == HERE


def test_a_function_on_no_page_is_no_link(tmp_path):
    text = "# A\n\n```{annotated} scratch.Agent.step\n```\n"
    target, warnings = build(tmp_path, {"index": text}, HERE)
    assert warnings == "" and "reference internal" not in block((target / "index.html").read_text("utf8"))


def test_a_place_that_holds_another_token_is_no_link():
    string, name = '<span class="s2">&quot;low&quot;</span> ', '<span class="n">low</span>'
    calls = [Call(1, 1, "low", "a.low"), Call(1, 6, "low", "b.low")]
    assert linked(string + name, calls) == [(string, ""), (name, "b.low"), ("", "")]
    assert linked(string + name, [Call(1, 6, "slow", "b.slow")]) == [(string + name, "")]


# The book's own pages


@pytest.fixture(scope="module")
def package():
    return Package({name: path.read_text("utf8") for name, path in find_modules(ROOT, "minerva_lite").items()})


@pytest.fixture(scope="module")
def shown(package):
    """Every function and class that stands in form A on some page."""
    texts = [path.read_text("utf8") for path in (ROOT / "book/annotated").glob("*.md")]
    named = re.findall(r"```\{annotated\} (\S+)\n(?::fold: .*\n)?```", "\n".join(texts))
    for room in [each.removesuffix(".*") for each in named if each.endswith(".*")]:
        named += others(room, package.sources, texts, "annotated")
    every = {f"{module}.{each}" for module, text in package.sources.items() for each in parse_source(text).objects}
    return {each for each in every if any(f"{each}.".startswith(f"{name}.") for name in named)}


SIZES = {
    "ppo": {"minibatch_size": 32, "epochs": 1, "entropy_coef": 0.1, "target_kl": 9.0},
    "mpo": {"num_envs": 2, "rollout_steps": 8, "warmup_steps": 8, "learner_steps": 1, "sequence_length": 2},
}
# What runs without standing there as a call by its name: generated methods and what an expression holds.
UNNAMED = re.compile(r"__\w+__|forward|<\w+>")


def called_in_a_run(name: str) -> set[tuple[int, str]]:
    """What the agent's own file calls in an update: the line of the call, the name of the function of this package."""
    agent, env, obs = make_agent(
        name, "Pendulum-v1", hidden=(4,), **{"num_envs": 4, "rollout_steps": 16} | SIZES.get(name, {})
    )
    rollout, _ = agent.collect(env, obs)
    ran, package, own = set(), str(ROOT / "minerva_lite"), str(ROOT / "minerva_lite" / "agents" / f"{name}.py")

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(package) and frame.f_back.f_code.co_filename == own:
            ran.add((frame.f_back.f_lineno, frame.f_code.co_name))

    sys.setprofile(profile)
    try:
        agent.improve(rollout, 0.5)
    finally:
        sys.setprofile(None)
    return {(line, called) for line, called in ran if not UNNAMED.fullmatch(called)}


@pytest.mark.parametrize("name", ["ppo", "trpo", "mpo", "vmpo", "a2c"])
def test_every_function_that_an_update_calls_is_a_link_that_arrives(package, shown, name):
    module = f"minerva_lite.agents.{name}"
    targets = {(call.line, call.name): call.target for call in package.calls(module)}
    lines = package.sources[module].split("\n")
    ran = {(line, called) for line, called in called_in_a_run(name) if re.search(rf"\b{called}\(", lines[line - 1])}
    assert len(ran) > 2
    assert [(lines[line - 1].strip(), called) for line, called in sorted(ran - targets.keys())] == []
    assert {target for call, target in targets.items() if call in ran} <= shown, "called, and on no annotated page"


def test_every_call_of_an_update_of_ppo_has_its_link(package, shown):
    _, improve = package.definitions["minerva_lite.agents.ppo.PPOAgent.improve"]
    inside = [
        call for call in package.calls("minerva_lite.agents.ppo") if improve.lineno <= call.line <= improve.end_lineno
    ]
    assert [call.name for call in inside] == [
        "set_learning_rate", "prepare", "prepare", "minibatches", "loss", "kl_estimates", "gradient_step", "diagnose",
        "adapt_kl_penalty",
    ]  # fmt: skip
    assert {call.target for call in inside} <= shown
