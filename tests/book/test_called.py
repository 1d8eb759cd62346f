"""Called functions are links: what a name means is read from the sources.

test_one_page.py compares it with what a run really calls, test_annotated_source.py looks at the links.
"""

import re

from called import Call, Package, linked

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


def test_a_name_means_what_imports_and_annotations_say(tmp_path):
    lines, found = FILES["pack.high"].split("\n"), []
    paths = {name: tmp_path / "pack" / f"{name.partition('.')[2] or '__init__'}.py" for name in FILES}
    paths["pack"].parent.mkdir()
    for name, path in paths.items():
        path.write_text(FILES[name], "utf8")
    for call in Package(paths).calls("pack.high"):
        line = lines[call.line - 1]
        assert line[call.column :].startswith(call.name)
        found.append((re.search(r"[\w.()]*$", line[: call.column + len(call.name)])[0], call.target[len("pack.") :]))
    assert found == [
        ("Child(Base", "low.Base"),
        ("Part", "low.Part"),
        ("helped", "low.helper"),
        ("helped", "low.helper"),
        ("self.shared", "low.Base.shared"),
        ("self.shared().shared", "low.Base.shared"),
        ("super().shared", "low.Base.shared"),
        ("self.first.work", "low.Part.work"),
        ("self.second.work", "low.Part.work"),
        ("self.here.work", "low.Part.work"),
        ("part.work", "low.Part.work"),
        ("make", "low.make"),
        ("maybe", "low.maybe"),
        ("either", "low.either"),
        ("one.work", "low.Part.work"),
        ("three.work", "low.Part.work"),
        ("make", "low.make"),
        ("maybe", "low.maybe"),
        ("either", "low.either"),
        ("a.work", "low.Part.work"),
        ("b.work", "low.Part.work"),
        ("c.work", "low.Part.work"),
        ("helped", "high.Child.local.helped"),
    ], "nothing of what has no type, or is hidden by a variable"


def test_a_place_that_holds_another_token_is_no_link():
    string, name = '<span class="s2">&quot;low&quot;</span> ', '<span class="n">low</span>'
    calls = [Call(1, 1, "low", "a.low"), Call(1, 6, "low", "b.low")]
    assert linked(string + name, calls) == [(string, ""), (name, "b.low"), ("", "")]
    assert linked(string + name, [Call(1, 6, "slow", "b.slow")]) == [(string + name, "")]
