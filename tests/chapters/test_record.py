"""Which changes make a notebook stale, in a small package; and that a kernel notes what it enters and opens."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient

from . import record
from .watch import watched

FILES = {
    "pkg/__init__.py": "from .agents import Agent, Config\nfrom . import tools\n",
    "pkg/agents.py": '''
from .tools import RATE, helper
from . import tables

LIMITS = {"low": RATE}
LIMITS["high"] = 2

class Config:
    """Settings."""
    width: int = 3
    def check(self):
        return self.width > 0

class Agent:
    def __init__(self, config=None):
        self.config = config or Config()
    def act(self):
        return helper(2) + LIMITS["low"] + tables.OFFSET
    def rest(self):
        return 0

class Other:
    def act(self):
        return 1
''',
    "pkg/tools.py": """
RATE = 1
UNUSED = 5

def helper(x):
    return 10 * x  # tenfold

def lonely():
    return 0
""",
    "pkg/tables.py": "OFFSET = 100\n",
    "pkg/empty.py": '"""Nothing yet."""\n',
    "book/data.csv": "7\n",
    "book/other.csv": "8\n",
}
# The second cell takes names that the watching might use, and asks what it has left behind.
CELLS = [
    "%time 1\nfrom pkg import Agent",
    "roots = codes = files = data = []\nassert not {'os', 'sys', 'json', 'threading', 'watch', 'enter'} & set(dir())",
    'print(Agent().act(), open("data.csv").read())',
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the package and an executed notebook, and what was recorded of it."""
    root = tmp_path_factory.mktemp("tree").resolve()
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    path = root / "book" / "chapter.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS]), path)
    with pytest.MonkeyPatch.context() as patch, watched(path, root / "watched", root, ("pkg",)):
        patch.setenv("PYTHONPATH", str(root))
        client = NotebookClient(nbformat.read(path, 4), resources={"metadata": {"path": str(root / "book")}})
        executed = client.execute()
    assert executed.cells[2].outputs[0].text == "121 7\n\n"
    nbformat.write(executed, path)
    return root, path, record.entries(root / "watched", record.Tree(root, ["pkg"]))


def test_a_kernel_notes_what_it_enters_and_opens(place):
    _, path, found = place
    (entry,) = found.values()
    assert list(found) == ["book/chapter.ipynb"] and entry["files"] == ["book/data.csv"]
    assert entry["entered"] == {"pkg.agents": ["Agent.__init__", "Agent.act"], "pkg.tools": ["helper"]}


@pytest.mark.parametrize(("file", "old", "new", "stale"), [
    ("pkg/tools.py", "10 * x", "11 * x", True),
    ("pkg/tools.py", "RATE = 1", "RATE = 2", True),
    ("pkg/agents.py", '"low": RATE', '"low": 0', True),
    ("pkg/agents.py", "width: int = 3", "width: int = 4", True),
    ("pkg/agents.py", "class Agent:", "class Agent(Other):", True),
    ("pkg/tables.py", "OFFSET = 100", "OFFSET = 101", True),
    ("book/data.csv", "7", "9", True),
    ("book/chapter.ipynb", "Agent().act()", "Agent().rest()", True),
    ("book/chapter.ipynb", "121 7", "122 7", True),
    ("pkg/agents.py", '"high"] = 2', '"high"] = 3', True),
    ("pkg/tools.py", "# tenfold", "# ten times", False),
    ("pkg/tools.py", "UNUSED = 5", "UNUSED = 6", False),
    ("pkg/tools.py", "return 0", "return 1", False),
    ("pkg/agents.py", "return 0", "return 1", False),
    ("pkg/agents.py", "self.width > 0", "self.width > 1", False),
    ("pkg/agents.py", "Settings.", "The settings.", False),
    ("book/other.csv", "8", "9", False),
    ("book/chapter.ipynb", '"name": "stdout"', '"name" : "stdout"', False),
], ids=lambda each: None if isinstance(each, bool) else each)  # fmt: skip
def test_a_notebook_is_stale_if_what_it_depends_on_changed(place, file, old, new, stale):
    root, path, found = place
    text = (root / file).read_text()
    assert old in text
    try:
        (root / file).write_text(text.replace(old, new))
        assert record.fresh([path], found, record.Tree(root, ["pkg"])) == ([] if stale else [path])
    finally:
        (root / file).write_text(text)


def test_what_is_gone_or_was_never_recorded_or_has_other_libraries_is_stale(place, monkeypatch):
    root, path, found = place
    tree = record.Tree(root, ["pkg"])
    (entry,) = found.values()
    for gone in ({"files": ["book/gone.csv"]}, {"entered": {"pkg.tools": ["gone"]}}, {"entered": {"pkg.gone": ["f"]}}):
        assert record.fresh([path], {"book/chapter.ipynb": entry | gone}, tree) == []
    assert record.fresh([path], {}, tree) == [] and record.fresh([path], found, tree) == [path]
    monkeypatch.setattr(record, "surroundings", lambda: "others")
    assert record.fresh([path], found, tree) == []


def test_a_quarter_of_the_fresh_is_executed_all_the_same(place, monkeypatch):
    root, path, _ = place
    many = [path.with_name(f"{i}.ipynb") for i in range(10)]
    monkeypatch.setattr(record, "fresh", lambda notebooks, *_: list(notebooks)[2:])
    turn = record.in_turn(many, {}, record.Tree(root, ["pkg"]))
    left_out, (copied,) = record.at_rest(turn), record.by_copy(turn)
    assert len(left_out) == 6 and not {many[0], many[1], copied} & set(left_out) and copied in many[2:]


def test_a_record_changed_by_hand_is_refused(place, tmp_path):
    _, _, found = place
    path = tmp_path / "record.json"
    assert record.read(path) == {}
    record.write(found, path)
    assert record.read(path) == found
    path.write_text(path.read_text().replace("helper", "lonely"))
    with pytest.raises(ValueError, match="changed by hand"):
        record.read(path)


def test_the_record_of_the_tree_is_whole():
    """A notebook that is not in it is executed in every run, which costs minutes and nothing else."""
    told = record.read()
    assert told and all((record.ROOT / name).exists() for name in told)
