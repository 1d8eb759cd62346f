"""A Python in which the book is not installed, though all that it needs is: nothing is fetched twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.test_packaging import CORE, EXTRAS

TOOLS = "ipykernel", "nbclient"  # what runs a notebook
RUN = "import nbclient, nbformat, sys; nbclient.execute(nbformat.read(sys.argv[1], as_version=4))"


def linked(folder: Path, without: Iterable[str] = ()) -> Path:
    """Links to the package's needs as they are installed here, and to theirs; nothing else that is installed here.

    They lie outside the environment, where pip takes nothing away.
    """
    folder.mkdir()
    wanted, found = [*map(str, [*CORE, *EXTRAS["book"]]), *TOOLS], {*without}
    while wanted:
        need = Requirement(wanted.pop())
        name = canonicalize_name(need.name)
        if name not in found and (need.marker is None or need.marker.evaluate({"extra": ""})):
            found.add(name)
            here = distribution(name)
            wanted += here.requires or []
            for top in {file.parts[0] for file in here.files or []} - {"..", "__pycache__"}:
                if not (folder / top).exists():
                    (folder / top).symlink_to(here.locate_file(top))
    return folder


def environment(folder: Path, links: Path, pip: bool = True) -> tuple[Path, Path]:
    """Its Python, and where it installs what."""
    venv.create(folder, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (site / "links.pth").write_text(str(links))
    if pip:
        (site / "pip").symlink_to(str(distribution("pip").locate_file("pip")))
    return folder / "bin" / "python", site


def run(python: Path, *words: object, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command without this environment's own settings, and without an index of packages."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP", "BOOK"))}
    env |= {"PIP_NO_INDEX": "1", "PIP_RETRIES": "0", "HOME": str(cwd), **more}
    return subprocess.run([*map(str, (python, *words))], cwd=cwd, env=env, capture_output=True, text=True)


def install(python: Path, wheel: Path) -> None:
    done = run(python, "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=wheel.parent)
    assert done.returncode == 0, done.stderr


def execute(python: Path, copy: Path, folder: Path) -> None:
    """Run a notebook in a folder that has nothing else."""
    folder.mkdir()
    shutil.copy(copy, folder)
    done = run(python, "-c", RUN, copy.name, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
