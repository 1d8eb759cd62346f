"""What the book has beside its code: pictures, checks of a reader's answers, and what was recorded."""

from hashlib import sha256
from pathlib import Path

import minerva_lite

from .live import counted
from .tables import table

__all__ = ["counted", "mark", "recording", "table"]
HERE = Path(__file__).parent
RESULTS = HERE.with_name("results")


def recording(name: str) -> Path:
    """Where a recorded file lies: in `book/results`, or in the installed package, which has those that chapters read.

    name: as below `book/results`, such as "ppo_seeds.csv" or "search/ppo_hopper_1.csv".
    Raises FileNotFoundError: there is none.
    """
    path = (RESULTS if RESULTS.is_dir() else HERE / "recorded") / name
    if not path.is_file():
        raise FileNotFoundError(f"name: wanted a recorded file; got {name!r}")
    return path


def mark() -> str:
    """Of which source both packages are: "0.3.0+" and eight hexadecimal digits."""
    folders = HERE, Path(minerva_lite.__file__).parent
    files = sorted((path.relative_to(each.parent).as_posix(), path) for each in folders for path in each.rglob("*.py"))
    text = b"".join(name.encode() + path.read_bytes() for name, path in files)
    return f"{minerva_lite.__version__}+{sha256(text).hexdigest()[:8]}"
