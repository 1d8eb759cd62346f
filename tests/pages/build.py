"""The pages with the stored outputs: built once, whoever asks first, and again when something they show has changed."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".build" / "stored"
SOURCES = (
    "book", "minerva_lite", "tests/markers", "_config.yml", "_toc.yml", "requirements.txt",
    ".assets/node_modules/.package-lock.json",
)  # fmt: skip


def fingerprint() -> str:
    """The hash of all that a build reads."""
    found = hashlib.sha256()
    for source in SOURCES:
        for file in sorted(each for each in [ROOT / source, *(ROOT / source).rglob("*")] if each.is_file()):
            if not {"__pycache__", ".ipynb_checkpoints"} & set(file.parts):
                found.update(f"{file.relative_to(ROOT)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def site() -> Path:
    """Folder of the rendered pages: warnings are errors, nothing is executed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    stamp, now = FOLDER / "built_from", fingerprint()
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.is_file() or stamp.read_text() != now:
            stamp.unlink(missing_ok=True)
            render()
            stamp.write_text(now)
    return FOLDER / "_build" / "html"


def render() -> None:
    jupyter_book = Path(sys.executable).with_name("jupyter-book")
    command = [jupyter_book, "build", ".", "--path-output", FOLDER, "-W", "--keep-going", "-q"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("BOOK_")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        # What was read is not read again, and its warnings would be silent the next time.
        shutil.rmtree(FOLDER / "_build" / ".doctrees", ignore_errors=True)
        raise AssertionError(done.stdout[-3000:] + done.stderr[-6000:])
