"""The book is rendered without a warning; the browser's tests find it built."""

import base64
import io
import re
import subprocess

import fonts
import pytest
from fontTools.ttLib import TTFont

from tests.pages import build


def test_the_book_is_rendered_without_a_warning():
    assert (build.site() / "book" / "index.html").is_file()


def test_each_sign_of_the_formulas_and_each_piece_of_a_tall_one_is_in_their_fonts():
    style, held = (build.site() / "_static" / "formulas.css").read_text("utf8"), set()
    for data in re.findall(r"base64,([^)]+)", style):
        held |= TTFont(io.BytesIO(base64.b64decode(data))).getBestCmap().keys()
    named = {sign for quoted in re.findall(f"content: ({fonts.QUOTED})", style) for sign in fonts.decoded(quoted)}
    brace = {0x23A7, 0x23A8, 0x23A9, 0x23AA}
    assert brace <= named <= held


def test_pages_are_built_anew_after_a_change_or_a_failure_and_else_never(tmp_path, monkeypatch):
    trees, built, fails = tmp_path / "built" / "_build" / ".doctrees", [], False

    def run(command, **options):
        trees.mkdir(parents=True, exist_ok=True)
        built.append(command)
        return subprocess.CompletedProcess(command, int(fails), "", "a warning")

    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "FOLDER", tmp_path / "built")
    monkeypatch.setattr(build.subprocess, "run", run)
    for count, name in enumerate(("book/index.md", "book/_ext/x.py", "_toc.yml", "book/index.md"), 1):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(str(count))
        for _ in range(2):
            build.site()
            assert len(built) == count, name
    fails = True
    (tmp_path / "_toc.yml").write_text("changed")
    for count in (5, 6):
        with pytest.raises(AssertionError, match="a warning"):
            build.site()
        assert len(built) == count and not trees.exists()
