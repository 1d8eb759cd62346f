"""What a kernel runs first, put into a profile of IPython by `watch.py`: notes which functions a notebook enters, and
which files it opens. It must change nothing of what it watches: no name of it is left, the standard library is enough.
"""


def watch(shell):
    import json
    import os
    import sys
    import threading

    codes, files = set(), set()
    *sources, data = os.environ["CHAPTERS_ROOTS"].split(os.pathsep)  # folders of sources, then that of data
    notebook, folder = os.environ["CHAPTERS_NOTEBOOK"], os.environ["CHAPTERS_WATCH"]

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
        places = {(c.co_filename, c.co_firstlineno) for c in list(codes) if c.co_filename.startswith(tuple(sources))}
        read = [file for file in list(files) if file.startswith(data)]
        with open(os.path.join(folder, f"{os.getpid()}.json"), "w") as file:
            json.dump({"notebook": notebook, "entered": sorted(places), "files": sorted(read)}, file)

    threading.setprofile(enter)
    sys.addaudithook(opened)
    shell.events.register("pre_run_cell", cell_begins)
    shell.events.register("post_run_cell", cell_ended)


watch(get_ipython())  # noqa: F821
del watch
