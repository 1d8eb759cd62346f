"""An algorithm on one page: what stands there is what ran, in the order in which it ran, and nothing else."""

import re
import sys
from functools import cache

import pytest
from called import Package
from marked_source import find_modules
from one_page import OnePage, folds_of
from traced import Traced

from tests.book.test_annotated_source import Text, build, shown_on_pages
from tests.equations import ROOT

DIRECTIVE = re.compile(r"^```\{one_page\} (\S+)\n((?::.*\n)*)((?:.*\n)*?)```$", re.M)
MODULES = find_modules(ROOT, "minerva_lite")
SOURCES = {name: path.read_text(encoding="utf-8") for name, path in MODULES.items()}
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "book/annotated").glob("one_*.md"))}
pages = pytest.mark.parametrize("page", PAGES)


def directive(page: str) -> tuple[str, dict]:
    """The class that a page shows, and its options."""
    root, options, _ = DIRECTIVE.search(PAGES[page]).groups()
    found = dict(re.findall(r"^:(\w+): (.*)$", options, re.M))
    return root, {name: OnePage.option_spec[name](text) for name, text in found.items()}


@cache
def traced(page: str) -> tuple[Traced, dict]:
    root, options = directive(page)
    run = Traced(SOURCES, root, options.get("with", {}), last=options["last"], without=options["without"])
    return run, run.visits()


# What is noted while an agent runs

TOY = """
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Config:
    num_envs: int = 2
    warmup: int = 1
    loud: bool = False
    rate: float = 0.5
    spare: int = 3

    @property
    def doubled(self):
        return 2 * self.rate

class Body(torch.nn.Sequential):
    def __init__(self, size):
        super().__init__(torch.nn.Identity())
        sized(size)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body(2)

    def forward(self, x):
        return shared(self.body(x))

class Outside:
    def work(self):
        return shared(unseen(1))

class Rows(list):
    def __len__(self):
        return 1

    def __getitem__(self, place):
        return place

    def each(self):
        yield from (one_row(row) for row in range(self[2]))

class Base:
    config: Config

    def __init__(self, config, spec, *, seed, device):
        self.config, self.net, self.outside, self.updates = config, Net(), Outside(), 0
        self.modules = {"net": self.net}
        unseen(config.spare)

        one_row(0)

    def collect(self, env, obs):
        return self.act(obs), obs

    @torch.no_grad()
    def act(self, obs):
        self.outside.work()
        return self.net(obs)

    def learn(self, rollout):
        return rollout

class Agent(Base):
    def update(self, rollout):
        self.check(rollout)
        self.updates += 1
        with self.block():
            step = self.improve(rollout)
        return {"train/param_step_norm": step}

    def check(self, rollout):
        shared(rollout)
        only_checked(rollout)

    @contextmanager
    def block(self):
        opened()
        yield
        closed()

    def improve(self, rollout):
        c = self.config
        if self.updates <= c.warmup:
            return torch.zeros(())
        if c.loud:
            unseen(1)
            unseen(2)
        elif c.rate > 1 and c.spare:
            # Why it is so.
            unseen(3)
            unseen(4)
        else:
            self.learn(rollout)
        try:
            rows = Rows([c.doubled])
        except ValueError:
            unseen(5)
            raise
        for row in rows.each():
            applied(lambda x: handed_on(x), shared, rows[0])
        return torch.ones(len(rows)).sum()

    def learn(self, rollout):
        if rollout is not None:
            return super().learn(rollout)
        # Never so.
        unseen(6)
        unseen(7)
        return unseen(8)

def shared(x):
    if x is not None:
        # LaTeX: y = x
        y = x
    elif unseen(9):
        y = 1
    else:
        y = 2
    return y

def applied(first, second, x):
    return first(second(x))
def one_row(x):
    return x
def handed_on(x):
    return x
def sized(x):
    return x
def only_checked(x):
    return x
def opened():
    pass
def closed():
    pass
def unseen(x):
    return x
"""
TREE = """
Base.collect
    Base.act
        Net.forward
            shared
Agent.update
    Agent.block
        opened
        closed
    Agent.improve
        Agent.learn
            Base.learn
        Config.doubled
        Rows.each
            Rows.__getitem__
            one_row
        applied
        handed_on
        Rows.__len__
Base.__init__
    Net.__init__
        Body.__init__
            sized
    unseen
Agent.check
    only_checked
"""


@pytest.fixture(scope="module")
def toy_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy_agent.py").write_text(TOY, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder


@pytest.fixture(scope="module")
def toy(toy_folder):
    """Trace an agent of a few lines under these settings."""
    return lambda root="Agent", last=("check",), **settings: Traced(
        {"toy_agent": TOY}, f"toy_agent.{root}", settings, last=last, without=["toy_agent.Outside"]
    )


@pytest.fixture(scope="module")
def toy_visits(toy):
    return {name.removeprefix("toy_agent."): visit for name, visit in toy().visits().items()}


def toy_line(text: str) -> int:
    return next(number for number, line in enumerate(TOY.split("\n"), 1) if line.strip().startswith(text))


def test_each_function_stands_below_its_first_caller_in_the_order_of_first_calls(toy_visits):
    # The tree also says: what is called below a class that is not entered is not there, what ran only in the second
    # update stands with the rest of its caller, and what made the agent comes after the update, without what the
    # update calls too (`one_row`).
    depth, lines = {"": -1}, []
    for name, visit in toy_visits.items():
        depth[name] = depth[visit.caller.removeprefix("toy_agent.")] + 1
        lines.append("    " * depth[name] + name)
    assert lines == TREE.strip().split("\n")


def test_what_did_not_run_is_folded_below_what_opens_it(toy_visits):
    found = {name: visit.unreached for name, visit in toy_visits.items() if visit.unreached}
    loud, other, fails = toy_line("if c.loud"), toy_line("elif c.rate"), toy_line("except ValueError")
    rest, asks = toy_line("# Never so."), toy_line("elif unseen(9)")
    assert found == {
        "Agent.improve": [(loud, loud, loud + 2), (other, other, other + 3), (fails, fails, fails + 2)],
        "Agent.learn": [(rest, rest + 1, rest + 3)],
        "shared": [(asks, asks, asks + 3)],
    }


def test_a_name_links_to_what_it_stood_for(toy_visits):
    lines = TOY.split("\n")
    found = {}
    for name, visit in toy_visits.items():
        assert all(lines[each.line - 1][each.column :].startswith(each.name) for each in visit.calls)
        found[name] = {(each.name, each.target.removeprefix("toy_agent.")) for each in visit.calls}
    assert found["Rows.each"] == {("one_row", "one_row")}, "`self` is no name of a function"
    assert found["Base.act"] == {("work", "Outside.work"), ("net", "Net.forward")}
    assert found["Net.forward"] == {("shared", "shared"), ("body", "Body")}, "a layer links to what makes it"
    assert found["Agent.improve"] == {
        ("unseen", "unseen"), ("learn", "Agent.learn"), ("Rows", "Rows"), ("doubled", "Config.doubled"),
        ("each", "Rows.each"), ("applied", "applied"), ("handed_on", "handed_on"), ("shared", "shared"),
        ("rows", "Rows.__getitem__"), ("len", "Rows.__len__"),
    }  # fmt: skip


def test_a_run_leaves_no_trace_function_behind(toy):
    before = sys.gettrace()
    toy()
    with pytest.raises(ValueError, match="updates: wanted one of the first 100 to move the policy; got none"):
        toy(warmup=1000)
    assert sys.gettrace() is before


@pytest.mark.parametrize(("wrong", "error", "message"), [
    ({"last": ["fly"]}, AttributeError, "fly"),
    ({"quiet": True}, TypeError, "quiet"),
])  # fmt: skip
def test_what_is_wrong_with_the_options_is_named(toy, wrong, error, message):
    with pytest.raises(error, match=message):
        toy(**wrong)


SECTION = re.compile(r'<section class="one-function" id="([^"]+)">\s*<h\d[^>]*>(.*?)</h\d>(.*?)</pre>', re.S)
TOY_PAGE = """# Page

```{one_page} toy_agent.Agent
:last: check
:parts: improve, learn
:without: toy_agent.Outside

collect: A state comes in, and *an action* leaves.
improve: Below the outermost, and nobody has to say so.
applied: Two functions come in.
fly: Nothing of that name ran.
```

```{one_page} toy_agent.Nobody
```
"""


@pytest.fixture(scope="module")
def toy_page(toy_folder, tmp_path_factory):
    """The page of the toy, and its warnings."""
    target, warnings = build(
        tmp_path_factory.mktemp("toy_page"), {"index": TOY_PAGE}, annotated_packages=["toy_agent"],
        extensions=["myst_parser", "sphinx.ext.mathjax", "one_page"], annotated_root=str(toy_folder),
        annotated_mathjax="none",
    )  # fmt: skip
    return (target / "index.html").read_text(encoding="utf-8"), warnings


def test_a_stage_without_its_sentence_a_sentence_without_its_function_and_a_page_of_no_agent_are_warnings(toy_page):
    # A property of the config, `doubled`, is no stage, and neither is what only the parts of a part call.
    wanted = ["Agent.update", "Base.__init__", "Agent.check", "Agent.learn", "Rows.each", "handed_on", "Rows.__len__"]
    assert re.findall(r"wanted a sentence on (\S+); got none", toy_page[1]) == wanted
    # Two classes have a method `learn`.
    assert re.findall(r"wanted the name of one function that ran; got (\w+)", toy_page[1]) == ["fly", "learn"]
    assert "one_page: class: wanted that of an agent; got toy_agent.Nobody" in toy_page[1]
    assert toy_page[1].count("one_page:") == len(wanted) + 3


def test_a_sentence_stands_between_the_heading_and_the_code_of_its_function(toy_page):
    sections = {name: rest for name, _, rest in SECTION.findall(toy_page[0])}
    said = {name: rest.partition('class="one-place')[0] for name, rest in sections.items()}
    said = {name: Text(rest).text.strip() for name, rest in said.items() if "one-stage" in rest}
    assert said == {
        "one-toy_agent.Base.collect": "A state comes in, and an action leaves.",
        "one-toy_agent.Agent.improve": "Below the outermost, and nobody has to say so.",
        "one-toy_agent.applied": "Two functions come in.",
    }
    assert "<em>an action</em>" in toy_page[0]


def test_each_section_is_the_source_of_its_function_and_all_of_it_in_place_and_number(toy_page, toy_visits):
    lines, sections = TOY.split("\n"), SECTION.findall(toy_page[0])
    assert [name for name, _, _ in sections] == [f"one-toy_agent.{name}" for name in toy_visits]
    for (_, _, rest), visit in zip(sections, toy_visits.values(), strict=True):
        first, last = visit.lines
        code = rest.partition("<pre")[2].partition(">")[2]
        assert Text(code).copied == "\n".join(lines[first - 1 : last]) + "\n"
    assert toy_page[0].count("<pre") == len(sections), "no other code stands on the page"
    titles = [Text(title).text.split() for _, title, _ in sections]
    assert [title[0] for title in titles[:9]] == ["1", "1.1", "1.1.1", "1.1.1.1", "2", "2.1", "2.1.1", "2.1.2", "2.2"]
    assert re.findall(r'<p class="one-\w+">([\d.]*) ?<a', toy_page[0]) == [title[0] for title in titles]
    assert re.findall(r'<span class="src-marked" id="([^"]+)"', toy_page[0]) == ["one-toy_agent.shared-y"]
    assert toy_page[0].count('class="src-formula linenos"') == toy_page[0].count("— 1 formula") == 1
    assert f"The page holds {len(sections)} functions with 1 formulas in" in toy_page[0]


def test_every_name_that_is_called_leads_to_what_it_stood_for_unless_it_opens_a_fold(toy_page, toy_visits):
    sections = {name.removeprefix("one-toy_agent."): rest for name, _, rest in SECTION.findall(toy_page[0])}
    ids, count = [name for name in Text(toy_page[0]).ids if name], 0
    for name, visit in toy_visits.items():
        found = re.findall(r'internal" href="#([^"]+)"[^>]*>(.*?)</a>', sections[name].partition("<pre")[2])
        found = {(Text(text).text, place) for place, text in found}
        heads = {line for start, head, _ in folds_of(visit) for line in range(start, head + 1)}
        for call in visit.calls:
            target = call.target.removeprefix("toy_agent.")
            here = [each for each in (target, f"{target}.__init__") if each in toy_visits]
            if call.line not in heads and here:
                assert (call.name, f"one-toy_agent.{here[0]}") in found, (name, call)
                count += 1
        assert {place for _, place in found} <= {*ids}
    assert count > 15 and len({*ids}) == len(ids) and not [each for each in ids if each.startswith("src-")]


def test_the_page_says_what_it_shows_and_which_settings_it_reads(toy_page):
    text = " ".join(Text(toy_page[0]).text.split())
    assert "It had the defaults of Config. net is a Net. " in text
    assert "What lies in Outside is called and not shown. What only check calls stands at the end, folded." in text
    listed = re.sub(r"</?span[^>]*>", "", toy_page[0].partition('class="one-settings')[2].partition("</ul>")[0])
    settings = re.findall(r"<p><code.*?>(\w+) = (.*?)</code>", listed)
    assert settings == [("warmup", "1"), ("loud", "False"), ("rate", "0.5"), ("spare", "3")]


def test_the_tree_sets_apart_what_is_introduced_and_what_holds_no_formula(toy_page):
    contents = toy_page[0].partition('class="one-contents')[2].partition("</div>")[0]
    found = re.findall(r'<p class="one-(\w+)">.*?<a [^>]*href="#one-toy_agent\.([^"]+)"', contents)
    assert len(found) == len(TREE.split())
    assert [name for kind, name in found if kind == "bold"] == ["Base.collect", "Agent.improve", "applied"]
    assert [name for kind, name in found if kind == "named"] == ["shared"]


@pages
def test_every_function_that_ran_has_a_link_that_arrives(page):
    """Layers and other names for a function aside, and where a name stands for one of several classes."""
    run, visits = traced(page)
    package, targets = Package(MODULES), set()
    for visit in visits.values():
        known = {(call.line, call.column): call.target for call in package.calls(visit.module)}
        lines = SOURCES[visit.module].split("\n")
        for call in visit.calls:
            is_called = lines[call.line - 1][call.column :].startswith(f"{call.name}(")
            if is_called and (visit.module, call.line) in run.passed and call.target.endswith(f".{call.name}"):
                target = known.get((call.line, call.column), "")
                assert target.endswith(f".{call.name}") or call.name in ("tensors", "project", "log_prob", "to_env")
                targets.add(target)
    on_none = ["minerva_lite.checks", "minerva_lite.experience.rollout.Actor"]
    shown = tuple(f"{each}." for each in [*shown_on_pages("annotated"), *on_none])
    assert [each for each in targets if each and not f"{each}.".startswith(shown)] == [] and len(targets) > 50


def test_mpos_page_follows_retrace_and_says_that_it_is_not_the_default():
    run, visits = traced("one_mpo")
    assert visits["minerva_lite.formulas.returns.retrace_targets"].caller.endswith(".critic_targets")
    assert run.agent.config.critic_target == "retrace" and run.config_class().critic_target == "one_step"
    assert "although the package learns from one step by default" in PAGES["one_mpo"].replace("\n", " ")
