"""`python -m minerva_book.exercises hw2_gae.ipynb` runs a homework afresh: what would be handed in."""

import datetime
import sys
from pathlib import Path

from .selfcheck import examined, meant

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m minerva_book.exercises NOTEBOOK.ipynb")
    try:
        path = meant(sys.argv[1])
        saved = datetime.datetime.fromtimestamp(path.stat().st_mtime)
        below = "" if path == Path(sys.argv[1]) else ", the only one below this folder,"
        print(f"{path}{below} as saved at {saved:%H:%M:%S} on {saved:%Y-%m-%d}", flush=True)
        found = examined(path)
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    for question, why in found.faults.items():
        print(f"{question}: {why or 'nothing speaks against it'}")
    for remark in found.remarks:
        print(f"Note. {remark}")
    sys.exit(any(found.faults.values()))
