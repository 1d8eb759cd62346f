"""Files that are written whole or not at all, and read without running what they hold."""

from __future__ import annotations

import csv
import io
import os
import pickle
import secrets
import shutil
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch


@contextmanager
def replacing(path: str | Path, *, name: str = "path") -> Iterator[Path]:
    """A name to write to. The file takes the place of `path` when the block ends, or goes if it fails.

    A symbolic link stays, and the file that it leads to is replaced. A device or a pipe is written to.
    Raises OSError: it cannot be written; the message begins with `name`, and what stood there is untouched.
    """
    path, real, stream = Path(path), Path(os.path.realpath(path)), stream_of(path)
    folder = real.parent if stream is None else Path(tempfile.gettempdir())
    part = folder / f"{real.name}.{secrets.token_hex(4)}.part"
    try:
        yield part
        if stream is None:
            with part.open("r+b") as file:  # on the disk before the old one goes
                os.fsync(file.fileno())
            os.replace(part, real)
        else:
            sys.stdout.flush()
            with part.open("rb") as file, open(stream, "wb", closefd=not isinstance(stream, int)) as target:
                shutil.copyfileobj(file, target)
    except OSError as error:
        raise OSError(f"{name}: wanted to write {path}, where nothing has changed; got {error}") from error
    finally:
        part.unlink(missing_ok=True)


def write_text(path: str | Path, text: str, *, name: str = "path") -> None:
    """Replace a file by this text, in UTF-8 and with the text's own line ends. Raises what `replacing` raises."""
    with replacing(path, name=name) as part:
        part.write_text(text, "utf8", newline="")


def as_csv(rows: Iterable[Iterable[Any]]) -> str:
    """The rows as a table of CSV."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


def stream_of(path: str | Path) -> str | int | None:
    """What to open in order to write to a device, a pipe or the standard output; None for a file, a folder, nothing."""
    try:
        there = os.stat(path)
    except OSError:
        return None
    for number in (1, 2):  # /dev/stdout may lead to a file, which what is printed later must not write over
        with suppress(OSError):
            if os.path.samestat(there, os.fstat(number)):
                return number
    return None if stat.S_ISREG(there.st_mode) or stat.S_ISDIR(there.st_mode) else str(path)


def loaded(path: Path, *, in_place: bool = False) -> Any:
    """What `torch.save` wrote, if it is tensors and plain values, and every byte has its checksum.

    in_place: leave tensors in the file. Raises FileNotFoundError, or ValueError: it cannot be read, and why.
    """
    try:
        with zipfile.ZipFile(path) as file:  # torch writes the checksums, and does not compare them
            whole = file.testzip() is None
        if whole:
            return torch.load(path, map_location="cpu", weights_only=True, mmap=in_place)
        why = "a byte of it has changed since it was written"
    except FileNotFoundError:
        raise
    except OSError as error:
        why = error.strerror or "the system does not let it"
    except pickle.UnpicklingError:
        why = "it holds more than tensors and plain values, and such a file may run code"
    except Exception:  # a damaged file is told by half a dozen exception types
        why = "it is damaged, or was never written by torch.save"
    raise ValueError(f"{path.name} cannot be read: {why}")
