"""The page on training: its blocks run in order, in one folder, as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from minerva_lite import load
from minerva_lite.training.studies import read_study

PAGE = Path(__file__).parents[2] / "book/train.md"


def blocks() -> list[tuple[str, str, str | None]]:
    """Language and text of each block, and what the page shows that it prints."""
    found = re.findall(r"^```(bash|python)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", PAGE.read_text(), re.M | re.S)
    return [(language, text, shown or None) for language, text, shown in found]


def commands(block: str) -> list[str]:
    """The commands of a block, each as one line: a backslash at the end of a line goes on with the next."""
    return re.sub(r" \\\n +", " ", block).strip().splitlines()


def call(line: str, returncode: int = 0) -> subprocess.CompletedProcess[str]:
    assert line.startswith("python -m minerva_lite ")
    on_cpu = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run([sys.executable, *line.split()[1:]], capture_output=True, text=True, env=on_cpu)
    assert done.returncode == returncode, f"{line}\n{done.stderr[-2000:]}"
    return done


def test_no_line_of_a_block_is_longer_than_the_page_is_wide():
    """At 1280 pixels a block shows 93 signs."""
    lines = [line for _, block, shown in blocks() for line in (block + (shown or "")).splitlines()]
    assert [line for line in lines if len(line) > 93] == []
    assert sum(line.endswith("\\") for line in lines) > 3


@pytest.mark.slow
def test_every_block_of_the_page_runs_and_prints_what_it_shows(tmp_path, monkeypatch, capsys):
    languages = ["bash"] * 5 + ["python", "python", "python"] + ["bash", "bash", "python"]
    assert [language for language, *_ in blocks()] == languages
    assert sum(shown is not None for *_, shown in blocks()) == 4
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for i, (language, block, shown) in enumerate(blocks()):
        if language == "python":
            exec(compile(block, f"train.md, block {i + 1}", "exec"), names)
            told = capsys.readouterr().out
        else:
            told = "".join(call(line).stdout for line in commands(block))
        assert shown is None or shown.split() == told.split(), block  # the page breaks a long line
    variants = {row["variant"] for row in read_study(tmp_path / "grid.csv")}
    assert variants == {f"epochs={epochs}, clip_eps={clip}" for epochs in (2, 4) for clip in (0.1, 0.2)}
    here = {path.name for path in tmp_path.iterdir()}
    assert here >= {"cartpole.best.pt", "cartpole.csv", "cartpole.mp4", "python.best.pt", "seeds.csv", "board"}
    shell, own = load("cartpole.pt"), load("python.pt")
    for name, weights in shell.policy.state_dict().items():
        assert torch.equal(weights, own.policy.state_dict()[name]), "the same in Python is the same"
    twice = commands(next(block for _, block, _ in blocks() if "--resume" in block))
    assert "exists; wanted --resume" in call(twice[0], 1).stderr
    longer = call(twice[1].replace("20000", "30000"), 1).stderr
    assert "wanted a training of a2c over 30000 steps; a2c.pt holds one of a2c over 20000" in longer
