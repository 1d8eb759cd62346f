"""What a kernel runs first, put into a profile of IPython by `watch.py`: notes which functions a notebook enters, and
which files it opens. Standard library alone: it must change nothing of what it watches.
"""

import json
import os
import sys
import threading

codes, files = set(), set()
roots = tuple(os.environ["CHAPTERS_ROOTS"].split(os.pathsep))  # folders of sources, then that of data


def enter(frame, event, argument):
    if event == "call":
        codes.add(frame.f_code)


def opened(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        files.add(os.path.abspath(arguments[0]))


def cell_begins(info):
    sys.setprofile(enter)


def cell_ended(result):
    """Write what is known so far: a kernel is not always told that it ends."""
    sys.setprofile(None)
    entered = {(c.co_filename, c.co_firstlineno) for c in list(codes) if c.co_filename.startswith(roots[:-1])}
    data = {f for f in list(files) if f.startswith(roots[-1])}
    path = os.path.join(os.environ["CHAPTERS_WATCH"], f"{os.getpid()}.json")
    told = {"notebook": os.environ["CHAPTERS_NOTEBOOK"], "entered": sorted(entered), "files": sorted(data)}
    with open(path, "w") as file:
        json.dump(told, file)


threading.setprofile(enter)
sys.addaudithook(opened)
get_ipython().events.register("pre_run_cell", cell_begins)  # noqa: F821
get_ipython().events.register("post_run_cell", cell_ended)  # noqa: F821
