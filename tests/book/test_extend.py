"""The page on environments and agents of one's own: its blocks run, in order, and leave no trace behind."""

import re
import sys
import types
from pathlib import Path

PAGE = Path(__file__).parents[2] / "book/extend.md"


def test_every_block_of_the_page_runs(registries, capsys, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert len(blocks) == 6
    page = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # a dataclass looks up its module
    names = vars(page)
    for i, block in enumerate(blocks):
        exec(compile(block, f"extend.md, block {i + 1}", "exec"), names)
    assert "EnvSpec(env_id='Puck-v0'" in capsys.readouterr().out
    assert names["after"] > names["before"]
