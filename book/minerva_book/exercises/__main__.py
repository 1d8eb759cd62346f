"""`python -m minerva_book.exercises hw2_gae.ipynb` runs a homework afresh: what would be handed in."""

import sys

from .selfcheck import examined

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m minerva_book.exercises NOTEBOOK.ipynb")
    try:
        found = examined(sys.argv[1])
    except (ValueError, OSError) as error:
        sys.exit(str(error))
    for question, why in found.faults.items():
        print(f"{question}: {why or 'nothing speaks against it'}")
    for remark in found.remarks:
        print(f"Note. {remark}")
    sys.exit(any(found.faults.values()))
