# @title The package, and what this notebook runs on
import importlib
import platform
import subprocess
import sys
from importlib.metadata import requires
from importlib.util import find_spec

MARK, WHEEL = "@MARK@", "@WHEEL@"  # of the package that this copy was made with, and where it lies


def install():
    """The package, and what it needs of what is missing; a torch that is here stays."""

    def pip(*what):
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", *what], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"Could not install {what[-1]}. With a network, type: pip install '{WHEEL}'\n{done.stderr[-300:]}")

    pip("--no-deps", WHEEL)
    importlib.invalidate_caches()
    needs = [need.partition(";") for need in requires("minerva_lite")]
    needs = [name.strip() for name, _, when in needs if not when or '"book"' in when.replace("'", '"')]
    pip(*(need for need in needs if not (need.startswith("torch") and find_spec("torch"))))
    importlib.invalidate_caches()


if not find_spec("minerva_book"):
    if not WHEEL:
        sys.exit("The book's package is missing: in the book's folder type  pip install '.[book]'  and run this again.")
    install()

import torch

import minerva_book

here = minerva_book.mark()
device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
print(f"minerva_lite {here}, torch {torch.__version__}, Python {platform.python_version()}, {device}")
if here != MARK:
    print(f"This copy was made with {MARK}: what it prints, and names it imports, may differ.")
