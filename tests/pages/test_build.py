"""The book is rendered without a warning; the browser's tests find it built."""

from __future__ import annotations

import subprocess

import pytest

from tests.pages import build


def test_the_book_is_rendered_without_a_warning():
    assert (build.site() / "book" / "index.html").is_file()


@pytest.fixture
def builds(tmp_path, monkeypatch):
    """The commands that were run, in a house of three files; `fails` lets them fail."""
    for name in ("book/index.md", "book/_ext/x.py", "_toc.yml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("as it was")
    commands: list = []

    def run(command, **options):
        commands.append(command)
        (tmp_path / "built" / "_build" / ".doctrees").mkdir(parents=True, exist_ok=True)
        return subprocess.CompletedProcess(command, int(commands[0] == "fails"), "", "a warning")

    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "FOLDER", tmp_path / "built")
    monkeypatch.setattr(build.subprocess, "run", run)
    return commands


def test_pages_are_built_anew_only_after_a_change(builds, tmp_path):
    for _ in range(2):
        build.site()
    assert len(builds) == 1
    for count, name in enumerate(("book/index.md", "book/_ext/x.py", "_toc.yml", "book/new.md"), 2):
        (tmp_path / name).write_text("changed")
        build.site()
        assert len(builds) == count, name


def test_a_build_that_failed_is_no_build(builds, tmp_path):
    build.site()
    builds[:] = ["fails"]
    (tmp_path / "_toc.yml").write_text("changed")
    for count in (2, 3):
        with pytest.raises(AssertionError, match="a warning"):
            build.site()
        assert len(builds) == count and not (tmp_path / "built" / "_build" / ".doctrees").exists()
