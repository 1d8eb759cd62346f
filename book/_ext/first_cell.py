# @title Run this first: the package, and what this notebook runs on
import importlib
import os
import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from traceback import extract_tb

from IPython import get_ipython
from IPython.display import display

MARK, WHEEL = "@MARK@", "@WHEEL@"  # of the package that this copy was made with, and where it lies
NEEDS = ["@NEEDS@"]  # what the package itself needs, and its extra `book`
BY_HAND = f'pip install "minerva_lite[book] @ {WHEEL}"' if WHEEL else 'pip install ".[book]"  in the book\'s folder'
for place in ("..", "."):  # of a notebook that was handed out with it, or lies below it in a clone
    for wheel in Path(place).glob("minerva_lite-*.whl"):
        WHEEL, BY_HAND = f"{place}/{wheel.name}", f'pip install "{place}/{wheel.name}[book]"'


# In JupyterLab's and Notebook 7's dark themes pictures are dark, too: their colors keep their hue.
DARK = """<style>body[data-jp-theme-light="false"] :is(.jp-RenderedImage, .frames-figure, .figure-still) img
{ filter: invert(0.9) hue-rotate(180deg) }</style>"""


class Stopped(Exception):
    def _render_traceback_(self):  # IPython asks for it: the sentence alone, without the lines that led here
        return [str(self), "If Run All has emptied what is below: open this file again without saving it."]


def pip(*what):
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-color", *what], capture_output=True, text=True
    )
    if done.returncode:
        why = next((line for line in done.stderr.splitlines() if line.lower().startswith("error")), "error: unknown")
        how = f"with a network run this cell again, put the package's wheel beside this notebook, or type  {BY_HAND} "
        raise Stopped(f"Could not install the package: {how} ({why}).")


def told(shell, kind, error, trace, tb_offset=None):
    """Of a cell that was stopped, was run too early, or whose check fails, a sentence in the place of a traceback."""
    line, why = extract_tb(trace)[-1].line, "This check does not hold, most likely because a line above was changed."
    said = str(error) or f"{line}\n{why}\nChange it back and run from there, or go on below."
    if issubclass(kind, KeyboardInterrupt):
        said = "Stopped. Run this cell again, or go on below. What Run All had still to run is empty until it is run."
    elif issubclass(kind, NameError):
        said = f"{line}\n{error}: run the cells above first, or see how it is spelled."
    shell._showtraceback(kind, error, [said])  # the cell has failed, and Run All ends with it


get_ipython().set_custom_exc((KeyboardInterrupt, AssertionError, NameError), told)

if not find_spec("minerva_book"):
    if not WHEEL:
        how = f"put its wheel (minerva_lite-….whl, from where you have this notebook) beside it, or type  {BY_HAND} "
        raise Stopped(f"The book's package is missing: {how} and run this cell again.")
    if not find_spec("pip"):
        raise Stopped(f"This Python has no pip: type  {sys.executable} -m ensurepip  and run this cell again.")
    print("Installing the book's package")
    if not find_spec("torch") and platform.system() == "Linux" and not shutil.which("nvidia-smi"):
        how = "stop, install PyTorch's CPU build (pytorch.org, Get started: Pip, CPU) and run this cell again"
        print(f"PyTorch brings 5 GB for graphics cards, and here is none. To save them {how}.")
    new = not find_spec("ipywidgets")  # a page that is open has not loaded its part of it
    pip(*(need for need in NEEDS if not need.startswith("torch") or not find_spec("torch")))  # one that is here stays
    pip("--no-deps", WHEEL)  # last: if anything before fails, the package is still missing, and the next run goes on
    importlib.invalidate_caches()
    if new:
        os.environ["BOOK_RELOAD"] = "1"  # they say so, too
        print("Reload this page in the browser once: from then on figures have their controls.")

import torch

import minerva_book

gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
if "ipykernel" in sys.modules:
    display({"text/html": DARK, "text/plain": ""}, raw=True)
print(f"minerva_lite {minerva_book.mark()}, torch {torch.__version__}, Python {platform.python_version()}, {gpu}")
if minerva_book.mark() != MARK:
    how = f'pip install --force-reinstall --no-deps "{WHEEL}"' if WHEEL else BY_HAND
    print(f"This copy was made with {MARK} and may not fit: type  {how}  and restart, or take a fresh copy.")
