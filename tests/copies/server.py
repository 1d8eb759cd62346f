"""What `make lab` starts, for tests that look at it."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from minerva_book.figures.widgets import FRAMES
from tests.equations import ROOT
from tests.pages import build

LAB, NOTEBOOK = "lab/tree", "notebooks"
EXPOSED = (f"--{app}.expose_app_in_browser=True" for app in ("LabApp", "JupyterNotebookApp"))
WORDS = "--no-browser", "--allow-root", "--port-retries=0", *EXPOSED
SERVE = "import sys; from pathlib import Path; from lab import serve; serve(*map(Path, sys.argv[1:3]), sys.argv[3:])"


def copies() -> Path:
    return build.site().parents[1] / "copies"


def environment(**more: str) -> dict[str, str]:
    """A reader's: figures are live."""
    kept = {name: value for name, value in os.environ.items() if name != FRAMES}
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "book", ROOT / "book" / "_ext")))} | more


@contextlib.contextmanager
def served(folder: Path, settings: Path) -> Iterator[Callable[..., str]]:
    """What `make lab` starts, with nothing of the user's own: address(front end, name) of a notebook."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port, token = free.getsockname()[1], secrets.token_hex(8)
    own = {f"JUPYTER_{name}_DIR": str(settings / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    words = [copies() / "lab", folder, *WORDS, f"--port={port}", f"--IdentityProvider.token={token}"]
    with (settings / "said").open("a") as log:
        server = subprocess.Popen([sys.executable, "-c", SERVE, *words], env=environment(**own), stdout=log, stderr=log)
    here = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{here}/api?token={token}"):
                break
            assert server.poll() is None, (settings / "said").read_text()
            time.sleep(0.1)
        yield lambda front, name="": f"{here}/{front}{name and f'/{name}.ipynb'}?token={token}&reset"
    finally:
        server.terminate()
        server.wait(30)
