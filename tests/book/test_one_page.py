"""An algorithm on one page: what stands there is what runs, in the order in which it runs, and nothing else."""

from __future__ import annotations

import inspect
import pydoc
import re
import sys

import pytest

from minerva_lite.agents import AGENTS
from minerva_lite.worlds import make_env
from tests.book.test_annotated_source import ROOT, Text, build

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from annotated import anchor  # noqa: E402
from calling import Followed  # noqa: E402
from definitions import Package  # noqa: E402
from marked_source import find_modules, parse_source  # noqa: E402
from one_page import OnePage, anchor_here, folds_of  # noqa: E402

DIRECTIVE = re.compile(r"^```\{one_page\} (\S+)\n((?::.*\n)*)```$", re.M)
MODULES = find_modules(ROOT, "minerva_lite")
SOURCES = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
PACKAGE = Package(SOURCES, {name for name, path in MODULES.items() if path.name == "__init__.py"})
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "book/annotated").glob("one_*.md"))}
SMALL = {
    "ppo": {"minibatch_size": 4, "epochs": 2},
    "vmpo": {"inner_steps": 2},
    "mpo": {"minibatch_size": 4, "warmup_steps": 4, "learner_steps": 2},
}
pages = pytest.mark.parametrize("page", PAGES)


def directive(page: str) -> tuple[str, dict]:
    """The class that a page shows, and its options."""
    root, options = DIRECTIVE.search(PAGES[page]).groups()
    found = dict(re.findall(r"^:(\w+): (.*)$", options, re.M))
    return root, {name: OnePage.option_spec[name](text) for name, text in found.items()}


def followed(page: str) -> tuple[Followed, dict]:
    root, options = directive(page)
    walk = Followed(
        PACKAGE, root, settings=options.get("with", {}), where=options["where"], without=options["without"]
    )  # fmt: skip
    return walk, walk.follow(options["from"], options["last"])


def classes(root: str) -> tuple[type, type]:
    """The agent of this dotted name, and its settings."""
    return next(pair for pair in AGENTS.values() if f"{pair[0].__module__}.{pair[0].__name__}" == root)


def trace(page: str) -> tuple[dict[str, str], dict[str, str]]:
    """The functions of the package that run while a small agent acts and learns once, in the order of first calls.

    Each has its caller, "" where that ran before without this call. The second dictionary holds what runs inside the
    methods named by `last`.
    """
    root, options = directive(page)
    agent_class, config_class = classes(root)
    small = {"num_envs": 2, "rollout_steps": 8, "hidden": (8,), **SMALL[agent_class.name]}
    env = make_env("Pendulum-v1", num_envs=2, seed=0)
    agent = agent_class(config_class(**small, **options.get("with", {})), env.spec, seed=0, device="cpu")
    obs = env.reset()
    folder, runs, frames = str(ROOT / "minerva_lite"), ({}, {}), {}
    late = {followed(page)[0].start(name) for name in options["last"]}

    def name_of(frame) -> str:
        if not frame.f_code.co_filename.startswith(folder) or frame.f_code.co_name.endswith("comp>"):
            return ""
        name = f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname.partition('.<locals>')[0]}"
        return "" if any(name.startswith(f"{each}.") for each in options["without"]) else name

    def note(frame, event, argument) -> None:
        if event != "call" or not (name := name_of(frame)):
            return
        frames.setdefault(name, frame)
        above = []
        while frame := frame.f_back:
            above += [(other, frame)] if (other := name_of(frame)) not in ("", name) else []
        inside = not late.isdisjoint([name, *(other for other, _ in above)])
        runs[inside].setdefault(name, above[0][0] if above and frames[above[0][0]] is above[0][1] else "")

    sys.setprofile(note)
    try:
        rollout, _ = agent.collect(env, obs)
        agent.update(rollout)
    finally:
        sys.setprofile(None)
    return runs


def around_a_block(name: str) -> bool:
    """Whether this function holds a `with` block in its middle: what it calls after that is shown before it."""
    return inspect.isgeneratorfunction(inspect.unwrap(pydoc.locate(name)))


@pages
def test_what_runs_in_an_update_stands_on_the_page_once_and_in_the_order_of_first_calls(page):
    _, visits = followed(page)
    first, late = trace(page)
    runs = first | {name: caller for name, caller in late.items() if name not in first}
    shown = [name for name in visits if name in runs]
    assert len(runs) > 40 and sorted(shown) == sorted(runs)
    # A call that this update did not reach can bring a function to the page before it runs, and never after.
    callers = {name: visit.caller.function.target if visit.caller else "" for name, visit in visits.items()}
    early = []
    for name in visits:
        other = callers[name] != runs.get(name) or callers[name] in early or around_a_block(callers[name])
        if name in runs and callers[name] and other:
            early.append(name)
    rest = [name for name in shown if name not in early]
    assert rest == [name for name in runs if name not in early]
    for name in early:
        above = set(shown[: shown.index(name)]).intersection(rest)
        assert above <= set(list(runs)[: list(runs).index(name)]), f"{name} runs before it stands on the page"
    idle = [name for name in visits if name not in runs]
    assert len(early) + len(idle) < len(runs) / 5, f"not where an update calls them: {early}; not called: {idle}"


# How calls are found

SCRATCH = """
from dataclasses import dataclass
from typing import Protocol, Self
from .parts import Part, double as twice, third


class Actor(Protocol):
    def act(self): ...


@dataclass
class Config:
    loud: bool = False
    rate: float = positive(0.5)
    bound: float | None = None


class Base:
    config: Config
    part: Part

    def act(self):
        return self.size

    @property
    def size(self):
        return len(self.part)

    def learn(self, part: Part):
        twice(1)

    def log(self):
        third(2)


class Agent(Base):
    def run(self, data):
        walk(self, self.act_by)
        self.learn(data)
        self.log()

    def act_by(self):
        return self.part[0]

    def learn(self, part):
        c = self.config
        if c.loud:
            first(1)
            first(2)
        elif c.rate == 0.5 and (c.bound is None or c.bound > 1):
            rows = [row.total() for row in part.rows()]
        else:
            second(1)
        super().learn(part)
        raise ValueError(second("message"))


def walk(agent: Actor, move, extra=None):
    helper(move, "step")
    if extra is not None:
        second(extra)
    return agent.act()


def helper(move, name):
    other = lambda: third(name)
    return chosen(first)


def chosen(rule):
    return rule(1)


def first(x):
    return x


def second(x):
    return x
"""
PARTS = """
from typing import Iterator, Self


class Part:
    def __len__(self):
        return 1

    def __getitem__(self, i):
        return i

    def rows(self) -> Iterator[Self]:
        yield self

    def total(self):
        return 0


def double(x):
    return third(x)


def third(x):
    return x
"""


def reached(starts=("run",), last=(), scratch=SCRATCH, **settings) -> list[str]:
    package = Package({"room.agent": scratch, "room.parts": PARTS, "room": ""}, {"room"})
    walk = Followed(package, "room.agent.Agent", settings=settings, where={}, without=[])
    return [name.removeprefix("room.") for name in walk.follow(list(starts), list(last))]


PART = ["parts.Part.rows", "parts.Part.total"]
START = [
    "agent.Agent.run", "agent.walk", "agent.helper", "parts.third", "agent.chosen", "agent.first", "agent.Base.act",
    "agent.Base.size", "parts.Part.__len__", "agent.Agent.learn",
]  # fmt: skip


def test_calls_are_followed_through_properties_protocols_loops_super_and_functions_handed_on():
    assert reached() == [*START, *PART, "agent.Base.learn", "parts.double", "agent.Base.log"]


@pytest.mark.parametrize(("settings", "inner"), [
    ({"loud": True}, []), ({"rate": 0.1}, ["agent.second"]), ({"bound": 0.5}, ["agent.second"]), ({"bound": 2.0}, PART),
])  # fmt: skip
def test_a_branch_that_the_settings_do_not_take_is_left(settings, inner):
    assert reached(**settings) == [*START, *inner, "agent.Base.learn", "parts.double", "agent.Base.log"]


def test_an_argument_that_no_call_passes_keeps_its_default():
    assert "agent.second" not in reached()
    passed = SCRATCH.replace("walk(self, self.act_by)", "walk(self, self.act_by)\n        walk(self, 1, extra=2)")
    assert "agent.second" in reached(scratch=passed)


def test_what_is_last_comes_after_all_others():
    both = reached(last=["learn"])
    assert both[-4:] == ["agent.Agent.learn", *PART, "agent.Base.learn"] or both[-5:-1] == [
        "agent.Agent.learn", *PART, "agent.Base.learn",
    ]  # fmt: skip
    assert sorted(both) == sorted(reached())


@pytest.mark.parametrize(("change", "message"), [
    ({"quiet": True}, "settings: wanted fields of room.agent.Config; got quiet"),
])  # fmt: skip
def test_a_setting_that_is_none_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        reached(**change)


def test_a_method_that_is_none_is_named():
    with pytest.raises(ValueError, match=r"from: wanted methods of room\.agent\.Agent; got fly"):
        reached(starts=["fly"])


# What the page makes of it


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The directives of the pages alone, and in form A the rooms that they enter."""
    sources = {page: f"# Page\n\n{DIRECTIVE.search(text)[0]}\n" for page, text in PAGES.items()}
    modules = [name for name in MODULES if name.startswith(tuple(f"{room}." for room in ROOMS))]
    shown = "\n".join(f"```{{annotated}} {name}\n```\n" for name in modules)
    target, warnings = build(
        tmp_path_factory.mktemp("book"), sources | {"index": INDEX, "all": f"# All\n\n{shown}"},
        extensions=["myst_parser", "sphinx.ext.mathjax", "one_page"], annotated_packages=ROOMS,
        annotated_root=str(ROOT), annotated_mathjax="none",
    )  # fmt: skip
    assert warnings == ""
    return {path.stem: path.read_text(encoding="utf-8") for path in target.glob("*.html")}


ROOMS = ["minerva_lite.agents", "minerva_lite.experience", "minerva_lite.formulas"]
INDEX = "# Book\n\n```{toctree}\n:glob:\n*\n```\n"
SECTION = re.compile(r'<section class="one-function" id="([^"]+)">\s*<h\d[^>]*>(.*?)</h\d>(.*?)</pre>', re.S)
OUT_OF_FILE = re.compile(
    r'<span class="src-formula linenos">.*?</span></span>|<span class="src-folded linenos">.*?</span>|'
    r'<span class="src-equation linenos">.*?</span>|<(span|a) class="src-number linenos".*?</\1>', re.S
)  # fmt: skip


@pytest.mark.slow
@pages
def test_each_section_is_the_source_of_its_function_and_all_of_it(book, page):
    _, visits = followed(page)
    sections = {name: code for name, _, code in SECTION.findall(book[page])}
    assert list(sections) == [anchor_here(name) for name in visits]
    for name, visit in visits.items():
        first, last = visit.function.lines
        code = sections[anchor_here(name)].partition("<pre")[2].partition(">")[2]
        wanted = "\n".join(SOURCES[visit.function.module].split("\n")[first - 1 : last]) + "\n"
        assert Text(OUT_OF_FILE.sub("", code)).text == wanted, name
    assert book[page].count("<pre") == len(visits), "no other code stands on the page"


@pytest.mark.slow
@pages
def test_every_formula_of_what_runs_stands_in_its_place(book, page):
    _, visits = followed(page)
    wanted = []
    for visit in visits.values():
        first, last = visit.function.lines
        markers = [each for each in parse_source(SOURCES[visit.function.module]).markers if first <= each.line <= last]
        wanted += [anchor_here(f"{visit.function.module}.{each.scope}:{each.name}") for each in markers]
    assert re.findall(r'<span class="src-marked" id="([^"]+)"', book[page]) == wanted and len(wanted) > 20
    assert book[page].count('class="src-formula linenos"') == len(wanted)
    counted = sum(int(each) for each in re.findall(r"— (\d+) formula", book[page]))
    assert counted == len(wanted) and f"with {counted} formulas in" in book[page]


@pytest.mark.slow
@pages
def test_the_sections_are_numbered_as_they_call_each_other(book, page):
    _, visits = followed(page)
    numbers = [Text(title).text.split()[0] for _, title, _ in SECTION.findall(book[page])]
    parents = dict(zip(visits, numbers, strict=True))
    assert numbers == sorted(numbers, key=lambda number: [int(part) for part in number.split(".")])
    for name, visit in visits.items():
        above = visit.caller.function.target if visit.caller else ""
        assert parents[name].rpartition(".")[0] == parents.get(above, "")
    contents = book[page].partition('class="one-contents')[2].partition("</div>")[0]
    assert re.findall(r"<p>([\d.]+) <a", contents) == numbers


@pytest.mark.slow
@pages
def test_every_call_links_to_what_is_called(book, page):
    _, visits = followed(page)
    sections = {name: code for name, _, code in SECTION.findall(book[page])}
    for name, visit in visits.items():
        lines = SOURCES[visit.function.module].split("\n")
        code = sections[anchor_here(name)]
        found = {
            (Text(text).text, link.partition("#")[2])
            for link, text in re.findall(r'internal" href="([^"]+)"[^>]*>(.*?)</a>', code)
        }
        for each in visit.references:
            if not each.target.startswith(tuple(ROOMS)):
                continue
            place = (anchor_here if each.target in visits else anchor)(each.target)
            first = next(other for other in visit.references if (other.line, other.column) == (each.line, each.column))
            assert lines[each.line - 1][each.column :].startswith(each.name)
            if first is each and not any(start <= each.line <= head for start, head, _ in folds_of(visit)):
                assert (each.name, place) in found, (name, each)


@pytest.mark.slow
@pages
def test_every_link_of_the_page_arrives_and_no_name_is_that_of_an_annotated_page(book, page):
    text = Text(book[page])
    ids = [each for each in text.ids if each]
    assert len(set(ids)) == len(ids)
    assert not [each for each in ids if each.startswith("src-")]
    there = {f"{name}.html": set(re.findall(r' id="([^"]+)"', other)) for name, other in book.items()}
    there[""] = {"", *ids}
    links = [link.partition("#") for link in text.links if "#" in link and "://" not in link]
    lost = [link for link in links if link[2] not in there[link[0]]]
    assert not lost and len(links) > 150


@pytest.mark.slow
@pages
def test_the_page_says_what_it_shows_and_which_settings_it_reads(book, page):
    walk, _ = followed(page)
    text = " ".join(Text(book[page]).text.split())
    for name, value in walk.settings.items():
        assert f"{name} = {value!r}" in text
    listed = book[page].partition('class="one-settings')[2].partition("</ul>")[0]
    settings = re.findall(r"<p><code.*?>(\w+) = (.*?)</code>", re.sub(r"</?span[^>]*>", "", listed))
    made = classes(walk.root)[1](**walk.settings)
    assert len(settings) > 8
    for name, value in settings:
        assert repr(getattr(made, name)) == repr(eval(value)), name
