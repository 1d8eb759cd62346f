"""The wheel of both packages, built beside the tree: a build leaves traces where it is done."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = "minerva_lite", "book/minerva_book", "book/results", "pyproject.toml", "README.md", "LICENSE"


def build(into: Path) -> Path:
    """Build the wheel of the tree as it stands into a folder."""
    with tempfile.TemporaryDirectory() as place:
        for part in PARTS:
            source, target = ROOT / part, Path(place, "tree", part)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        how = ["-q", "--no-deps", "--no-build-isolation", "-w", f"{place}/made"]
        subprocess.run([sys.executable, "-m", "pip", "wheel", *how, f"{place}/tree"], check=True)
        (made,) = Path(place, "made").glob("*.whl")
        into.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(made, into))
