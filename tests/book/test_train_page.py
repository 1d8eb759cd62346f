"""The page on training: its blocks run in order, in one folder, as a reader would run them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minerva_lite.training.studies import read_study

PAGE = Path(__file__).parents[2] / "book/train.md"


@pytest.mark.slow
def test_every_block_of_the_page_runs(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    assert [language for language, _ in blocks] == ["bash"] * 4 + ["python", "python", "bash", "bash", "python"]
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for i, (language, block) in enumerate(blocks):
        if language == "python":
            exec(compile(block, f"train.md, block {i + 1}", "exec"), names)
            continue
        for line in block.strip().splitlines():
            assert line.startswith("python -m minerva_lite ")
            command = [sys.executable, *line.split()[1:]]
            on_cpu = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
            done = subprocess.run(command, capture_output=True, text=True, env=on_cpu)
            assert done.returncode == 0, f"{line}\n{done.stderr[-2000:]}"
    variants = {row["variant"] for row in read_study(tmp_path / "grid.csv")}
    assert variants == {f"epochs={epochs}, clip_eps={clip}" for epochs in (2, 4) for clip in (0.1, 0.2)}
    told = capsys.readouterr().out
    assert "after 16384 steps" in told
    assert {path.name for path in tmp_path.iterdir()} >= {
        "cartpole.pt", "cartpole.best.pt", "cartpole.csv", "cartpole.mp4", "short.pt", "a2c.pt", "seeds.csv", "board",
        "acrobot.json", "grid.csv"
    }  # fmt: skip
