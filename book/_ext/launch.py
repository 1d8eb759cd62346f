"""Make the chapters ready for machines that begin with nothing but the notebook: give each a first cell for Colab.

    python3 book/_ext/launch.py https://github.com/owner/repository

The workflow runs this on a copy whose branch `notebooks` the launch buttons open. Only Python's own library is
needed. On Colab the cell fetches that branch, since chapters read the recorded studies beside them, and installs the
package with the versions of requirements.txt, but for torch: Colab brings its own, made for its GPUs. Anywhere else
the cell does nothing.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "policy-optimization"
CELL = """# On Colab: fetch the book and install what it needs (its own torch stays). Elsewhere this does nothing.
import os
import sys

if "google.colab" in sys.modules:
    if not os.path.isdir("/content/{folder}"):
        !git clone -q --depth 1 --branch notebooks {repository} /content/{folder}
        %pip install -q {pins}
        %pip install -q --no-deps /content/{folder}
    %cd -q /content/{folder}/book"""


def pins(root: Path = ROOT) -> list[str]:
    """What the package and the chapters need, in the versions of requirements.txt, but for torch."""
    project = (root / "pyproject.toml").read_text("utf8")
    listed = re.findall(r"^(?:dependencies|book|studies) = \[(.*?)\]$", project, re.M | re.S)
    needed = set(re.findall(r'"([\w-]+)', "".join(listed))) - {"torch"} | {"scipy"}
    pinned = re.findall(r"^([\w-]+)==(\S+)", (root / "requirements.txt").read_text("utf8"), re.M)
    return [f"{name}=={version}" for name, version in pinned if name in needed]


def prepare(path: Path, repository: str) -> None:
    """Put the cell before all others of this notebook; outputs stay as recorded."""
    notebook = json.loads(path.read_text("utf8"))
    source = CELL.format(folder=FOLDER, repository=repository, pins=" ".join(pins()))
    cell = {"cell_type": "code", "id": "on-colab", "metadata": {"tags": ["remove-cell"]}, "execution_count": None,
            "outputs": [], "source": source.splitlines(keepends=True)}  # fmt: skip
    notebook["cells"] = [cell, *(each for each in notebook["cells"] if each.get("id") != cell["id"])]
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf8")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].startswith("https://"):
        sys.exit("Say where the repository is: python3 book/_ext/launch.py https://github.com/owner/repository")
    for chapter in sorted((ROOT / "book").glob("[0-9a]*_*.ipynb")):
        prepare(chapter, sys.argv[1])
