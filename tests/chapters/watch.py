"""A kernel that notes what it enters: `with watched(notebook, folder):` around whatever starts it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .record import FOLDERS, ROOT


@contextmanager
def watched(notebook: Path, folder: Path, root: Path = ROOT, folders: tuple[str, ...] = FOLDERS) -> Iterator[None]:
    """A kernel started in here writes into `folder` what the cells of this notebook enter and open."""
    home = folder / "ipython" / notebook.stem  # each its own: another kernel may read while this is written
    startup = home / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "00.py").write_text(Path(__file__).with_name("startup.py").read_text("utf8"), "utf8")
    roots = os.pathsep.join(f"{root / each}{os.sep}" for each in (*folders, "book"))
    given = {"IPYTHONDIR": str(home), "CHAPTERS_WATCH": str(folder), "CHAPTERS_ROOTS": roots}
    given["CHAPTERS_NOTEBOOK"] = str(notebook)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        yield


class Watch:
    """A plugin of pytest by which the kernels of nbval are watched; a notebook's starts with its first cell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        if item.path.suffix != ".ipynb":
            return (yield)
        with watched(item.path, self.folder):
            return (yield)
