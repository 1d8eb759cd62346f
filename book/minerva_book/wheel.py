"""The wheel of both packages, for the book's pages and for a class."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = "minerva_lite", "book/minerva_book", "book/results", "pyproject.toml", "README.md", "LICENSE"


def build_wheel(folder: Path) -> None:
    """Build the tree as it stands, from a copy: building leaves traces where it is done.

    Raises subprocess.CalledProcessError, with what pip said in its `stderr`.
    """
    with tempfile.TemporaryDirectory() as name:
        for part in PARTS:
            source, target = ROOT / part, Path(name, part)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
        subprocess.run([*command, name], check=True, capture_output=True)
