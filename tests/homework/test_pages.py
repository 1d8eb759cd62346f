"""What a marker and a student see: harmless, with pictures and rubrics; and files read where they can harm nobody."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zlib
from functools import partial
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from PIL import Image

from .hostile import DRIVES, HIDDEN_WORDS, MADE, NAME, png
from .trials import page

from course import apart, graders, pictures, reading, rendering  # isort: skip - found by what trials puts on the path
from course import term as terms  # isort: skip
from course.tex import symbols_only  # isort: skip


@pytest.fixture
def term(graded) -> Path:
    """A term in which one student handed in what `illustrated` makes."""
    return graded / "term"


@pytest.fixture
def feedback(term) -> str:
    return page(term, "right")


def autograded(term: Path) -> Path:
    return term / "autograded" / "right" / NAME / f"{NAME}.ipynb"


# Markdown and pictures


@pytest.mark.parametrize("evil", [
    DRIVES, '<p style="position: fixed" onclick="x()" name="q1">x</p>', "<form action=x><input class=score></form>",
    "<textarea class=comment></textarea>", '<img src="http://example.org/a.png">', "![a](http://example.org/a.png)",
    '<img src="data:image/svg+xml;base64,AAAA">', "![a](data:image/png;base64,AAAA)", "[l](javascript:alert(1))",
    '<a href="data:text/html,x">l</a>', "[l](/formgrader/?path=x)", "[l](http://localhost:8888/formgrader)",
    "[l](http://127.0.0.1/x)", "[l](#q2-marked)", "# heading", "```python\nx = 1\n```", "<svg><a href=x>l</a></svg>",
    r"$\cssId{q2-marked}{\class{full-credit}{x}}$", r"$\\class{full-credit}{x}$", r"$\cl&#97;ss{full-credit}{x}$",
    r"$&#92;href{javascript:x}{y}$", r'<a href="http://127.0.0.1:8888\@example.org/formgrader/x">l</a>',
    r'<a href="http://localhost:8888\.x@example.org/">l</a>', "[l](http://localhost@example.org/)",
    "<script>alert(1)</script>", "<img src=x onerror=alert(2)>", "\\begin{a}" * 100,
])  # fmt: skip
def test_nothing_of_a_students_markdown_can_be_found_or_followed(evil):
    made = rendering.tamed(evil)
    for tag in BeautifulSoup(made, "html.parser").find_all():
        assert tag.name in rendering.TAGS and not tag.attrs, made
    assert not [word for word in ("\\class", "\\cssId", "\\href") if word in made], made


def test_all_that_a_student_adds_is_cut_where_nobody_would_read_on():
    release = nbformat.v4.new_notebook(cells=[])
    many = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("<" * 20_000) for _ in range(50)])
    made = graders.rebuilt(release, many)
    assert 60_000 <= sum(len(cell.source) for cell in made.cells) < 63_000
    assert len(made.cells) == 50 and "The rest was cut" in made.cells[-1].source


def test_formulas_tables_and_links_that_lead_away_stay():
    made = rendering.tamed(
        "$a < b_1$ and $$\\frac{1}{2} \\\\ \\text{x}$$\n\n|x|y|\n|-|-|\n|1|2|\n\n[p](https://example.org/x)"
    )
    assert "$a &lt; b_1$" in made and "\\frac{1}{2} \\\\ \\text{x}" in made and "<td>1</td>" in made
    assert '<a href="https://example.org/x" rel="noopener noreferrer nofollow" target="_blank">p</a>' in made
    assert "\\class" in rendering.tamed("`C:\\class`"), "in code nothing is a formula"


def test_a_picture_is_drawn_anew():
    photo, out = Image.effect_noise((3000, 1000), 80).convert("RGB"), io.BytesIO()
    exif = photo.getexif()
    exif[0x0112], exif[0x010F] = 6, HIDDEN_WORDS  # it was held upright
    photo.save(out, "JPEG", exif=exif)
    for given, wanted in ((base64.b64decode(png()), "image/png"), (out.getvalue(), "image/jpeg")):
        kind, made = pictures.redrawn(given)
        made = base64.b64decode(made)
        assert kind == wanted and HIDDEN_WORDS.encode() in given and HIDDEN_WORDS.encode() not in made
        image = Image.open(io.BytesIO(made))
        if kind == "image/png":
            assert image.size == (60, 40) and image.getpixel((5, 5)) == (0, 0, 255)
        else:
            assert image.height > image.width and max(image.size) <= pictures.SIDE and len(made) <= pictures.KEPT


def bytes_of(kind: str) -> bytes:
    """A file of four pixels."""
    out = io.BytesIO()
    Image.new("P", (4, 4)).save(out, kind)
    return out.getvalue()


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


BOMB = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", (30_000).to_bytes(4, "big") * 2 + bytes([1, 0, 0, 0, 0]))
BOMB += chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("data", "why"), [
    (BOMB, "more than 64 million pixels"), (bytes_of("GIF"), "no PNG or JPEG"), (b"<svg/>", "no PNG or JPEG"),
    (bytes_of("PNG")[:60], "cannot be read"), (bytes(pictures.LARGEST + 1), "more than 20 MB"),
], ids=["bomb", "gif", "svg", "cut", "large"])  # fmt: skip
def test_a_picture_that_is_none_or_too_large_is_told(data, why):
    with pytest.raises(pictures.NoPicture, match=why):
        pictures.redrawn(data)


def test_a_notebook_has_so_many_pictures():
    album = pictures.Album()
    for _ in range(pictures.COUNT):
        album.take(png(size=(4, 4)))
    with pytest.raises(pictures.NoPicture, match="more than 40"):
        album.take(png(size=(4, 4)))


def test_figures_and_scans_come_to_the_page_and_nothing_else_that_was_put_out(term, feedback):
    notebook = nbformat.read(autograded(term), as_version=4)
    nbformat.validate(notebook)
    cells = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in notebook.cells if "nbgrader" in cell.metadata}
    (scan,) = cells["q1-answer"].attachments.values()
    caption, figure = cells["q5-run"].outputs
    for place in (scan["image/png"], figure.data["image/png"]):
        assert HIDDEN_WORDS.encode() not in base64.b64decode(place)
        assert f"data:image/png;base64,{place}" in feedback
    assert caption.text == graders.HANDED_IN and graders.HANDED_IN.strip() in feedback
    assert "my own output" not in feedback and "drawn too" not in feedback and "<b>drawn</b>" not in feedback
    assert "attachment:" not in feedback and reading.MISSING.strip("*") in feedback
    assert feedback.count("<img") == 3 and "Every hidden case agrees" in feedback


@pytest.mark.parametrize(("source", "attachments", "shown"), [
    ("![a](attachment:x.png)", {"x.png": {"image/png": png()}}, True),
    ("![a](attachment:my%20scan.png)", {"my scan.png": {"image/png": png()}}, True),
    ('<img src="attachment:x.png" width="400">', {"x.png": {"image/png": png()}}, True),
    (f"![a](data:image/png;base64,{png()})", None, True),  # as Colab pastes one
    ("![a](attachment:x.png)", {"x.png": {"image/png": "AAAA"}}, False),
    ("![a](attachment:x.png)", {"x.png": {"image/svg+xml": "<svg/>"}}, False),
    ("![a](attachment:x.png)", {"x.png": ["not", "a", "bundle"]}, False),
    ("![a](attachment:x.png)", ["no", "names"], False),
])  # fmt: skip
def test_a_picture_in_text_is_shown_or_becomes_words(source, attachments, shown):
    cell = {"cell_type": "markdown", "source": source, "metadata": {}, "attachments": attachments}
    made = json.loads(reading.cleaned(json.dumps({"nbformat": 4, "nbformat_minor": 5, "cells": [cell]}).encode()))
    html = rendering.tamed(made["cells"][0]["source"], rendering.pictures_in(made["cells"][0]))
    assert ('<img src="data:image/png;base64,' in html) == shown, html
    assert ("cannot be shown" in html) != shown and "attachment:" not in html


# Reading


def code_cell(outputs: list) -> dict:
    return {"cell_type": "code", "source": "x = 1", "metadata": {}, "execution_count": None, "outputs": outputs}


@pytest.mark.parametrize("outputs", [
    [{"output_type": "zzz"}] * 160_000, [nbformat.v4.new_output("stream", name="stdout", text="y" * (25 << 20))],
], ids=["broken", "large"])  # fmt: skip
def test_what_is_drawn_costs_nothing_and_does_not_count_as_written(tmp_path, outputs):
    """160 000 broken outputs took 7 GB and 90 seconds in the grader's own process, and the class was lost."""
    file, began = tmp_path / f"{NAME}.ipynb", time.process_time()
    file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [code_cell(outputs)]}))
    made = reading.read(file)
    assert [cell.source for cell in made.cells] == ["x = 1"] and made.cells[0].outputs == []
    assert time.process_time() - began < 3


@pytest.mark.parametrize(("file", "why"), [
    (b"", "no JSON"), (b"null", "no notebook"), (b"[1]", "no notebook"), ("{}".encode("utf-16"), "no JSON"),
    (b"[" * 100_000, "no JSON"), (b'{"nbformat": 4}', "no notebook"), (b'{"nbformat": 4, "cells": [1]}', "is none"),
    (b'{"nbformat": 4, "cells": [' + b"{}," * 2000 + b"{}]}", "more than 2000 cells"),
])  # fmt: skip
def test_what_is_no_notebook_is_told(file, why):
    with pytest.raises(ValueError, match=why):
        reading.cleaned(file)


# A process of its own


def ask(
    task: str = "reading.cleaned", data: bytes | None = None, memory: int = 1 << 30, seconds: float = 20.0
) -> bytes:
    good = json.dumps({"nbformat": 4, "cells": [code_cell([])]}).encode()
    return apart.ask(task, good if data is None else data, memory=memory, seconds=seconds)


def test_what_takes_too_much_fails_alone():
    large = b"[" + b"{}," * 2_000_000 + b"{}]"
    for options, why in (
        ({"data": large, "memory": 64 << 20}, "takes more memory than it may"),
        ({"data": large, "seconds": 0.02}, "takes longer than it may"), ({"task": "os.abort"}, "KeyError"),
    ):  # fmt: skip
        with pytest.raises(apart.Failed, match=why):
            ask(**options)
    assert b"x = 1" in ask()


def test_the_process_that_reads_knows_no_secret_and_is_started_anew_where_it_was_killed(monkeypatch):
    monkeypatch.setenv("A_TOKEN", "of the instructor")
    monkeypatch.setattr(apart, "_server", None)
    ask()
    before = apart.server().process
    place = Path("/proc", str(before.pid))
    assert b"A_TOKEN" not in (place / "environ").read_bytes() and place.joinpath("cwd").resolve() == Path("/")
    assert "libtorch" not in (place / "maps").read_text(), "it loads no question, so it holds no case"
    opened = {os.readlink(each) for each in (place / "fd").iterdir() if each.exists() or each.is_symlink()}
    assert {name.split(":")[0] for name in opened} == {"/dev/null", "socket"}, opened
    before.kill()
    before.wait()
    assert b"x = 1" in ask() and apart.server().process.pid != before.pid


# Pages


NUMBERS = {"nbgrader": {"score": 3.0, "max_score": 23.0, "late_penalty": 0.0, "notebook": NAME}}


def json_of(*cells) -> str:
    return json.dumps(nbformat.v4.new_notebook(cells=cells))


def test_a_page_is_made_apart_within_its_time(monkeypatch):
    good = json_of(nbformat.v4.new_markdown_cell("An answer."))
    made = rendering.made_page(good, NUMBERS)
    assert "(Score: 3.0 / 23.0)" in made and "Added by the student" in made
    monkeypatch.setattr(rendering, "SECONDS", 0.0001)  # by the clock; a small page takes a hundredth
    with pytest.raises(apart.Failed, match=apart.TOO_LONG):
        rendering.made_page(good, NUMBERS)


def test_a_tables_columns_are_kept_apart_and_a_rubrics_list_is_a_list(feedback):
    assert "padding: 0.2em 0.7em" in feedback[feedback.index("</head>") : feedback.index("<table")]
    (first,) = [q.name for q in MADE.questions if getattr(q, "solution", "").strip().startswith("1.")]
    told = graders.rubric_of(Path(graders.__file__).parents[1], NAME, f"{first}-answer")
    assert "**Solution.**\n\n" in told and "<ol>" in rendering.tamed(told)
    assert "**Rubric.**\n\n" in terms.rubrics("example", [NAME])


# The marker's page


@pytest.fixture
def formgrader(graded, tmp_path):
    """nbgrader's own formgrader in a copy of the term's folder: the folder, and the address of a submission."""
    term = shutil.copytree(graded / "term", tmp_path / "term")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = {"port": port, "root_dir": str(term), "open_browser": False, "allow_root": True}
    server["jpserver_extensions"] = {"nbgrader.server_extensions.formgrader": True}
    options = {"ServerApp": server, "IdentityProvider": {"token": "marker"}}
    config = term.parent / "jupyter"
    config.mkdir()
    (config / "jupyter_server_config.json").write_text(json.dumps(options))
    surroundings = os.environ | {"JUPYTER_CONFIG_DIR": str(config), "JUPYTER_DATA_DIR": str(config)}
    command = [sys.executable, "-m", "jupyter_server"]
    with (term.parent / "formgrader.log").open("w") as log:
        process = subprocess.Popen(command, cwd=term, env=surroundings, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{address}/api", timeout=2).close()
                break
            except OSError:
                assert process.poll() is None, (term.parent / "formgrader.log").read_text()
                time.sleep(0.2)
        with terms.gradebook(terms.opened(term)) as book:
            number = book.find_submission_notebook(NAME, NAME, "right").id
        yield term, f"{address}/formgrader/submissions/{number}/?token=marker"
    finally:
        process.terminate()
        process.wait(20)


def rubric_words() -> list[str]:
    """A piece of each rubric that Markdown leaves as it is."""
    found = []
    for question in MADE.questions:
        pieces = [piece.strip() for piece in getattr(question, "rubric", "").replace("\n", " ").split(".")]
        plain = [piece for piece in pieces if len(piece) > 20 and not set(piece) & set("*_`$\\<>&'\"[")]
        found += plain[:1]
    return found


def test_the_marker_sees_rubrics_and_pictures_and_students_do_not_see_rubrics(term, feedback):
    words = rubric_words()
    cells = nbformat.read(autograded(term), as_version=4).cells
    page = marker_page(*cells, rubric=partial(graders.rubric_of, term))
    assert len(words) == 2 and all(page.count(each) == 1 for each in words)
    assert graders.HANDED_IN.strip() in page and page.count("data:image/png;base64,") == 3
    released = (term / "release" / NAME / f"{NAME}.ipynb").read_text()
    assert not [each for each in words if each in feedback + released + autograded(term).read_text()]
    for text in (page, feedback):
        assert text.count("Added by the student") == 2, "the cell of text and the cell of code"
        assert text.index("Added by the student") < text.index("question 1 was withdrawn")


RUBRIC = r"""One point for $\frac{\gamma}{\lambda} \le \sum_t \rho_t$, one for
$$\begin{aligned} \log \pi &= \mathbb{E}[A] - \varepsilon \\ &> 0. \end{aligned}$$"""
HONEST = r"So $\operatorname{E}[x_t] = \tfrac12$ by $$\begin{cases} 1 & \text{if } a \\ 0 \end{cases}$$"
DEFINES = r"""
\let\g=\gamma\let\gamma=\lambda\let\lambda=\g | \def\frac#1#2{1} | \gdef\pi{0} | \global\def\le{\ge} | \newcommand{\rho}{x}
\renewcommand\sum{1} | \renewcommand{\log}[1]{9} | \providecommand{\E}{1} | \DeclareMathOperator{\varepsilon}{0}
\DeclareMathOperator*{\log}{exp} | \newenvironment{aligned}{0}{1} | \renewenvironment{aligned}{0}{1}
\require{color}\definecolor{black}{named}{white} | \DeclarePairedDelimiter{\mathbb}{<}{>} | \edef\E{1} | \text{$\def\gamma{x}$}
\\\def\gamma{y} | \d<b></b>ef\gamma{x} | \d<br>ef\gamma{x} | \&#100;ef\gamma{x} | \newtagform{a}{b} | \unicode{65} | \catcode`x=0
"""
PAINTS = r"""
\smash{\rlap{\lower 30em{\color{white}{\Rule{60em}{28em}{0em}}}}} | \raise 14em{\Huge\color{red}{4 of 4}} | \rule[-30em]{60em}{28em}
\\[-40em] x \\[20em] y | \llap{\kern-9em\Huge X} | \style{position:fixed;top:0;left:0;font-size:90em}{X} | \bbox[red,90em]{x}
\vphantom{\Rule{0em}{9em}{90em}}\hspace{-90em}\Huge XXXXX | \mathrlap{\Huge XXXXXXXXXXXXXXXXXXX} | \genfrac{}{}{60em}{}{1}{2}
{1\above 60em 2} | \begin{array}{c}x\\[-90em]\Huge X\end{array} | \mmlToken{mo}[lspace="-90em" mathsize="900px"]{X} | \fcolorbox{red}{red}{\Huge X}
\sqrt{\sqrt{\sqrt{\sqrt{\boldsymbol{\underset{x\\y\\z}{\overset{x^{x^x}}{X}}}}}}} | \class{panel}{x} | \moveleft 50em{\Huge X}
"""


def marker_page(*cells, rubric=lambda assignment, cell: RUBRIC) -> str:
    """The formgrader's page of a notebook with these cells; without its server."""
    from nbconvert.exporters import HTMLExporter
    from nbgrader.server_extensions.formgrader import handlers
    from traitlets.config import Config

    config = Config()
    config.HTMLExporter.template_name = "formgrade"
    config.HTMLExporter.extra_template_basedirs = [handlers.template_path]
    config.HTMLExporter.filters = rendering.filters(rubric)
    asked = {"submission_id": "1", "assignment_id": NAME, "notebook_id": NAME, "base_url": "", "index": 0, "total": 1}
    return HTMLExporter(config=config).from_notebook_node(nbformat.v4.new_notebook(cells=list(cells)), resources=asked)[
        0
    ]


def answer_cell(source: str):
    about = {"grade_id": "q1-answer", "grade": True, "solution": True, "locked": False, "points": 4}
    return nbformat.v4.new_markdown_cell(source, metadata={"nbgrader": about})


MATHJAX = {  # what the page asks for, as Debian's libjs-mathjax has it; and with every package on, what the book's have
    "2.7": (Path("/usr/share/javascript/mathjax"), "MathJax.js", "{base}MathJax.js?config=TeX-AMS_CHTML-full"),
    "3.2": (Path(graders.__file__).parents[3] / ".assets/node_modules/mathjax/es5", "tex-chtml-full.js", ""),
}


@pytest.mark.page
@pytest.mark.parametrize("version", MATHJAX)
def test_no_formula_of_a_student_changes_or_covers_what_the_marker_sees(version, browser):
    """With the real MathJax: question, rubric and solution look the same to the pixel, whatever was handed in."""
    home, main, script = MATHJAX[version]
    if not (home / main).exists():
        pytest.skip(f"no MathJax {version} on this machine")
    base = "https://cdnjs.cloudflare.com/ajax/libs/mathjax/2.7.7/"
    begin = f"document.write('<script src=\"{script.format(base=base)}\"><\\/script>')"
    if version == "3.2":
        inline = (
            "window.MathJax = {tex: {inlineMath: [['$', '$'], ['\\\\(', '\\\\)']], packages: {'[+]': ['mathtools']}}};"
        )
        begin = f"{inline}\n{(home / main).read_text()};MathJax.Hub = {{Config() {{}}, Queue() {{}}}};"
    hostile = "\n\n".join(f"${each.strip()}$" for each in f"{DEFINES}|{PAINTS}".replace("\n", "|").split("|") if each)
    seen, text = {}, "given: $\\gamma$ and $\\frac{1}{2}$"
    given = nbformat.v4.new_markdown_cell(text, metadata={"nbgrader": {"grade_id": "q1-text", "locked": True}})
    own = nbformat.v4.new_markdown_cell
    for kind, source in (("honest", HONEST), ("hostile", hostile)):
        html = marker_page(own(source), answer_cell(source), given)

        def served(route, request, html=html):
            address = request.url.split("?")[0]
            file = home / address.removeprefix(base)
            if address.startswith("http://marker/page"):
                route.fulfill(status=200, content_type="text/html; charset=utf-8", body=html)
            elif address == f"{base}latest.js":
                route.fulfill(status=200, content_type="text/javascript", body=begin)
            elif address.startswith(base) and file.is_file():
                route.fulfill(status=200, path=file)
            else:
                route.fulfill(status=404, body="")

        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.route("**/*", served)
        page.goto("http://marker/page", wait_until="load")
        page.wait_for_function("window.MathJax && (MathJax.startup || MathJax.isReady)")
        page.evaluate(
            "MathJax.startup ? MathJax.startup.promise : new Promise(done => MathJax.Hub.Queue(() => done()))"
        )
        page.add_style_tag(content="[style*=contain] {height: 300px}")  # so that both pages are as long
        for name, place in (("rubric", "div:has(> p > strong:text-is('Rubric'))"), ("question", "p:text('given')")):
            seen[kind, name] = page.locator(place).last.screenshot(style="#MathJax_Message {display: none}")
        assert page.locator("mjx-container, .MathJax_CHTML, .mjx-chtml").count() >= 8, "formulas are set"
    for name in ("rubric", "question"):
        assert seen["honest", name] == seen["hostile", name], name


def test_of_a_students_tex_symbols_and_layouts_stay():
    tex = r"$\alpha_{t} \le \frac{1}{2} \\ \text{if } x$ and \\(a \,\mid\, b\\), C:\temp"
    assert symbols_only(tex) == tex.replace("\\temp", "∖temp")
    assert symbols_only(HONEST) == HONEST and symbols_only(r"x\\y") == r"x\\ y"
    assert "∖def" in rendering.tamed(r"![$\def\a{1}$](nowhere.png)"), "nor in the words for a picture that is missing"


CODE, TEXT = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
SLOW_TO_SHOW = {
    "quotes": (CODE, "'" * 100_000), "dots": (CODE, "." * 200_000), "indents": (CODE, "\n " * 20_000),
    "names": (CODE, "a." * 20_000), "brackets": (TEXT, "[" * 20_000), "pictures": (TEXT, "![" * 10_000),
    "nested": (TEXT, "<b>" * 6_600),
}  # fmt: skip


@pytest.mark.parametrize("what", ["quotes", *(pytest.param(w, marks=pytest.mark.slow) for w in [*SLOW_TO_SHOW][1:])])
def test_what_is_slow_to_show_stops_neither_the_marker_nor_the_page(what, monkeypatch):
    """The formgrader makes its pages in Jupyter's own process; this is what it does there."""
    monkeypatch.setattr(rendering, "CELLS_SECONDS", 1.0)
    named = {"grade_id": "q2-code", "grade": False, "solution": True, "locked": False}
    made, source = SLOW_TO_SHOW[what]
    cells = [*(made(source) for _ in range(3)), CODE(source, metadata={"nbgrader": named})]
    apart.server(), apart.ask("rendering.cells", b"[]", memory=1 << 30, seconds=20.0)
    began, spent = time.monotonic(), time.process_time()
    page = marker_page(*cells, answer_cell("$x$"))
    assert time.process_time() - spent < 4 and time.monotonic() - began < 60
    assert page.count("Added by the student") == 3 and "One point for" in page
    assert rendering.made_page(json_of(*cells), NUMBERS).count("Added by the student") == 3


@pytest.mark.page
def test_a_students_text_cannot_drive_the_markers_buttons(formgrader, browser):
    """One click on it gave full points for every question, and a number typed into one went into five."""
    term, address = formgrader
    stub = "window.MathJax = {Hub: {Config() {}, Queue() {}, Startup: {signal: {Interest() {}}}}};"
    page = browser.new_page(extra_http_headers={"Authorization": "token marker"})
    page.route(lambda address: "127.0.0.1" not in address, lambda route: route.fulfill(status=200, body=stub))
    page.goto(address, wait_until="load")
    page.wait_for_function("formgrader.grades && formgrader.grades.loaded && formgrader.comments.loaded")
    assert page.locator(".full-credit").count() == 5, "a button for each question, and none more"
    assert all(page.content().count(each) == 1 for each in rubric_words())
    page.get_by_text("I am sure.").click()
    page.locator("input.score#q1-answer").fill("1")
    with page.expect_response(lambda response: "/api/grade/" in response.url):
        page.locator("input.score#q1-answer").press("Tab")
    page.wait_for_load_state("networkidle")
    with terms.gradebook(terms.opened(term)) as book:
        given = {grade.name: grade.manual_score for grade in book.find_submission_notebook(NAME, NAME, "right").grades}
    assert given == {"q1-answer": 1.0, "q2-marked": None, "q3-marked": None, "q4-marked": None, "q5-answer": None}
