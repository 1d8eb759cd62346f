"""What students are given: the released notebooks, the package, and a version for Colab."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import nbformat

from . import names_of, pack_of
from .term import ROOT, done, gradebook, known, new_term, opened, released, requirements
from .variants import given, write_variants
from .variants import variants as has_variants


def release(
    term: Path,
    *,
    seed: str | None = None,
    names: Iterable[str] | None = None,
    due: dict[str, str] | None = None,
    package: str | None = None,
    wheel: bool = True,
    pack: Path | None = None,
    guessable: bool = False,
    variants: int = 0,
) -> Path:
    """Make the term's folder if there is none, release its assignments; the folder to hand out.

    names: all assignments unless given. due: by assignment, ISO times with a zone. package: what the Colab version
    installs, as pip takes it. pack: a folder of the instructor's own assignments. guessable: take any seed; for tests.
    variants: so many different notebooks, one of them for each student of the term's roster.csv.
    Raises RuntimeError: nbgrader refused an assignment. ValueError: a seed or a pack that is not the term's or not
    secret, an unknown name.
    """
    pack = pack or (pack_of(term) if (term / "seed.txt").exists() else None)
    names = list(names_of(pack)) if names is None else known(names, pack)
    new_term(term, seed, names, pack, guessable=guessable, variants=variants)
    api = opened(term)
    for name in names:
        if not done(term, api.generate_assignment(name, force=True), f"release {name}"):
            raise RuntimeError(f"{name}: nbgrader could not release it; see {term / 'grading.log'}")
    with gradebook(api) as book:
        for name, when in (due or {}).items():
            moment = datetime.datetime.fromisoformat(when).astimezone(datetime.UTC)
            book.update_or_create_assignment(known([name], pack)[0], duedate=moment.replace(tzinfo=None))
    handout = term / "handout"
    shutil.rmtree(handout, ignore_errors=True)
    (handout / "colab").mkdir(parents=True)
    if has_variants(term):
        write_variants(term, names)
    for name in released(term):
        for student, base in given(term, name):
            for folder in (handout / name / student, handout / "colab" / student):
                folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(base, handout / name / student)
            on_colab = nbformat.read(base, as_version=4)
            on_colab.cells.insert(0, colab_cell(package or package_of_this()))
            nbformat.write(on_colab, handout / "colab" / student / f"{name}.ipynb")
        shutil.copy(term / "release" / name / "requirements.txt", handout / name)
    text = requirements()
    if wheel:
        build_wheel(handout)
        text += "".join(f"./{file.name}\n" for file in handout.glob("*.whl"))
    (handout / "requirements.txt").write_text(text)
    return handout


def build_wheel(folder: Path) -> None:
    """The package as students install it, from a copy: building leaves traces where it is done."""
    with tempfile.TemporaryDirectory() as name:
        for part in ("minerva_lite", "pyproject.toml", "README.md", "LICENSE"):
            copy_ = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
            copy_(ROOT / part, Path(name, part))
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
        subprocess.run([*command, name], check=True, capture_output=True)


def package_of_this() -> str:
    """This very version of the package, as pip takes it: the repository's address and commit if it has one."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    address = git("config", "--get", "remote.origin.url")
    if address.startswith("https://"):
        return f"minerva_lite @ git+{address}@{git('rev-parse', 'HEAD')}"
    return f"minerva_lite=={version('minerva_lite')}"


def colab_cell(package: str) -> nbformat.NotebookNode:
    cell = nbformat.v4.new_code_cell(
        f'# Run this first on Colab: its torch stays, the package comes as of this term.\n%pip install -q "{package}"'
    )
    cell["id"] = "colab"
    return cell
