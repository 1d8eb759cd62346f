"""Give the pages all that they load, so that they work from disk with no network.

`npm ci` in `.assets` fetches fonts, MathJax, require.js and the widget manager. Formulas are drawn while the book is
built; without node the pages load MathJax and draw their own. Scripts go to `vendor/` beside the pages, outside
`_static`. Without `.assets` the pages load the same versions from a CDN. The build says so.
Also here, since the command line of Jupyter Book has no option for them: BOOK_CACHE=<folder> takes the chapters'
outputs from there, executing what is missing, and BOOK_REPOSITORY=<address> adds the buttons that lead to the
repository and to the machines that run its chapters. A build without it knows no address and shows no such button.
"""

import base64
import gc
import hashlib
import html
import json
import os
import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import fonts
from docutils import nodes
from sphinx.errors import ExtensionError
from typeset import find_mathjax, typeset

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / ".assets" / "node_modules"
CDN = "https://cdn.jsdelivr.net/npm/"
NODE_MAIN = MODULES / "mathjax" / "es5" / "node-main.js"
MATHJAX = ["tex-mml-chtml.js", "input/tex", "output/chtml", "a11y", "sre", "ui"]
MANAGER = "@jupyter-widgets/html-manager"
# Where a published book's chapters run. The workflow keeps a branch whose chapters install the package first.
LAUNCHED_BRANCH = "notebooks"
BINDER, COLAB = "https://mybinder.org", "https://colab.research.google.com"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
# Where a long name may break: after its marks, and not before the last letters of a file's name.
PLACE = re.compile(r"(?<=[A-Za-z0-9_][_./(:=])(?=[A-Za-z]\w{3})")
TEXT = re.compile(r'<span class="math.*?</span>|(?<=>)[^<]+', re.S)  # between two tags; formulas stay as they are
# Names that a line may not end within, where they are text: not in tags, nor in what is no prose.
NAMES = re.compile(
    r"<(script|style|svg|pre|code|noscript)\b.*?</\1>|<[^>]*>|(?P<name>\b(?:V-MPO|[EM]-step|Q-learning)\b)(?:[,.;:)]+)?",
    re.S,
)
SHORT = 24  # characters of code that a phone has room for in one line
MENDED = "<!-- mended -->\n"
# As Sphinx writes a formula: tag, the rest of the tag and perhaps the equation's number, the TeX and it between marks.
FORMULA = re.compile(
    r'(<(?:span|div) class="math notranslate nohighlight"[^>]*)(>\s*(?:<span class="eqno">.*?</span>\s*)?)'
    r"(\\[(\[](.*?)\\[)\]])", re.S
)  # fmt: skip
# A formula in a sentence, with the sign before and behind it that no line may end between.
INLINE = re.compile(r'(\()?<span class="math notranslate nohighlight">[^<]*</span>(?(1)[,.;:!?)\]]*|[,.;:!?)\]]+)')
# What a first visit's theme is. The theme's own "auto" is no scheme: its page has no colors until its scripts have run.
SCHEME = 'matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"'
# A page that shows formulas, also those that a link stands for.
MATH = re.compile("mjx-container|#equation-|#term-")
# What a page loads to draw formulas by itself.
DRAWER = re.compile(r"\s*<script>window\.MathJax = .*?</script>|\s*<script [^>]*tex-mml-chtml\.js[^>]*></script>", re.S)
# The first part of the list of pages: the chapters.
DOOR = re.compile(r'(<li class="[^"]*toctree-l0[^>]*><details)(?: open[^>]*)?>')
# The search is the book's own (finding.js).
STATE = re.compile(r'\s*<script type="application/vnd\.jupyter\.widget-state\+json">.*?</script>', re.S)
AT_ONCE = re.compile(r"<script (?=[^>]*\bsrc=)(?![^>]*\b(?:defer|async)\b)")
# The theme makes a tab stop of what scrolls, and to find out lays out the whole page many times over (so book.js does).
STOPS = re.compile(r"\w\.tabIndex=\w\.scrollWidth>[^?]*\?0:-1")
SEARCH = re.compile(r"\s*<script [^>]*(?:searchtools|language_data|searchindex)\.js[^>]*></script>")


def configure(app, config):
    if "BOOK_CACHE" in os.environ:
        config.nb_execution_mode, config.nb_execution_cache_path = "cache", os.environ["BOOK_CACHE"]
    repository = os.environ.get("BOOK_REPOSITORY")
    if repository:
        config.html_theme_options.update(
            repository_url=repository,
            repository_branch=os.environ.get("BOOK_BRANCH", "main"),
            use_repository_button=True,
            use_issues_button=True,
            use_edit_page_button=True,
            launch_buttons={"notebook_interface": "jupyterlab", "binderhub_url": BINDER, "colab_url": COLAB},
        )
    scripts = dependencies()
    config.myst_substitutions = {"run_online": run_online(repository), "version": book_version()}
    app.assets_are_local = MODULES.is_dir()
    if not app.assets_are_local:
        print("assets: .assets/node_modules is missing (no npm?): the pages load their scripts from a CDN")
    config.mathjax_path = (
        "../vendor/mathjax/tex-mml-chtml.js" if app.assets_are_local
        else f"{CDN}mathjax@{scripts['mathjax']}/es5/tex-mml-chtml.js"
    )  # fmt: skip
    # myst-nb adds this to the pages that hold widgets, and to no other. The text need not wait for it.
    elsewhere = [
        f"{CDN}requirejs@{scripts['requirejs']}/require.js",
        f"{CDN}{MANAGER}@{scripts[MANAGER]}/dist/embed-amd.js",
    ]
    told = {} if app.assets_are_local else {"data-from": " ".join(elsewhere)}
    config.nb_ipywidgets_js = {"../vendor/widgets_page.js": {"defer": "defer", **told}}


def dependencies() -> dict[str, str]:
    """The version of each script and font of the pages."""
    return json.loads((ROOT / ".assets" / "package.json").read_text("utf8"))["dependencies"]


def book_version() -> str:
    return re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf8"), re.M)[1]


def run_online(repository: str | None) -> str:
    """The front page's sentence on where the chapters run without an installation."""
    if not repository:
        return ""
    path = urlsplit(repository).path.strip("/")
    first = f"{path}/blob/{LAUNCHED_BRANCH}/book/01_mdp.ipynb"
    return (
        f"**In the browser:** [Colab]({COLAB}/github/{first}) opens a chapter whose first cell installs the package, "
        f"[Codespaces](https://codespaces.new/{path}) a whole machine with everything in place, and "
        f"[Binder]({BINDER}/v2/gh/{path}/{LAUNCHED_BRANCH}?urlpath=lab/tree/book/01_mdp.ipynb) JupyterLab with the "
        "recorded outputs. The rocket at the top of each chapter does the same for that chapter. **On your machine:**"
    )


def aim_launches(app, pagename, templatename, context, doctree):
    """The edit button leads to the branch that people write on, the launch buttons to the one that is launched."""
    for group in context.get("header_buttons", []):
        if group.get("label") == "launch-buttons":
            for button in group["buttons"]:
                branch = re.escape(app.config.html_theme_options["repository_branch"])
                place = rf"(/blob|/v2/gh/[^/]+/[^/]+)/{branch}\b"
                button["url"] = re.sub(place, rf"\1/{LAUNCHED_BRANCH}", button["url"])


def name_folds(app, pagename, templatename, context, doctree):
    """A fold is called by the words that stand on it, and not by a label that whoever listens hears in their place."""
    if "body" in context:
        context["body"] = context["body"].replace(' aria-label="Toggle hidden content"', "")


def copy_vendor(app):
    if app.builder.format != "html":
        return
    vendor = Path(app.outdir) / "vendor"
    copy(Path(__file__).with_name("widgets_page.js"), vendor / "widgets_page.js")
    if not app.assets_are_local:
        module = f"{CDN}minisearch@{dependencies()['minisearch']}/dist/es/index.js"
        found = "({ default: found }) => (window.MiniSearch = found)"
        (vendor / "minisearch.js").write_text(f'window.minisearch = import("{module}").then({found});\n', "utf8")
        return
    # Wrapped, or it would hand itself to the widgets' require.js and give the page no name.
    search = (MODULES / "minisearch" / "dist" / "umd" / "index.js").read_text("utf8")
    (vendor / "minisearch.js").write_text(f"(function (define) {{\n{search}\n}}).call(window);\n", "utf8")
    copy(MODULES / "requirejs" / "require.js", vendor / "require.js")
    if not find_mathjax(NODE_MAIN):
        print("assets: node is missing: the pages draw their formulas themselves, which takes them seconds")
        for name in MATHJAX:
            copy(MODULES / "mathjax" / "es5" / name, vendor / "mathjax" / name)
    rules, files = fonts.faces(MODULES)
    for file in files:
        copy(file, Path(app.outdir) / "_static" / "fonts" / file.name)
    (Path(app.outdir) / "_static" / "faces.css").write_text(rules, "utf8")
    copy(MODULES / MANAGER / "dist" / "embed-amd.js", vendor / "widgets" / "embed-amd.js")
    for font in (MODULES / MANAGER / "dist").glob("*.woff2"):  # its parts look for them in one folder or the other
        copy(font, vendor / "@jupyter-widgets" / font.name)
        copy(font, vendor / MANAGER / "dist" / font.name)


def mend_theme(app, exception):
    """What the theme leaves to be wished for.

    Two of its controls have no name that a screen reader could say, each page loads the search's index and a script
    that draws the icons once more, its text has no colors until the theme's scripts have run, long identifiers break
    anywhere, a line may end between a formula and its comma, and formulas wait for scripts.
    """
    if exception is not None or app.builder.format != "html":
        return
    found = (page for page in Path(app.outdir).rglob("*.html") if not {"vendor", "_static"} & set(page.parts))
    texts = {page: page.read_text("utf8") for page in found}
    # Others an earlier build has mended, and Sphinx has left them alone since.
    pages = {page: text for page, text in texts.items() if not text.endswith(MENDED)}
    drawn = formulas("".join(pages.values()), app) if pages else {}
    write_icons("".join(texts.values()), app)
    theme = Path(app.outdir) / "_static" / "scripts" / "pydata-sphinx-theme.js"
    theme.write_text(STOPS.sub("0", theme.read_text("utf8")), "utf8")
    for page, text in pages.items():
        toggle = '<span class="toctree-toggle"'
        named = text.replace(f"<summary>{toggle}", f'<summary aria-label="Show or hide the pages below">{toggle}')
        # Its visible words, "Search the book" and the keys, are its name.
        named = re.sub(r'(<button class="[^"]*search-button-field[^"]*"[^>]*?)\s*aria-label="Search"', r"\1", named)
        literal = r'<code class="([^"]*\bliteral\b[^"]*)">((?:<span class="pre">[^<]*</span>\s*)+)</code>'
        named = re.sub(literal, breakable, named)
        named = re.sub(r"<(h[1-4])>.*?</\1>", lambda found: TEXT.sub(broken, found[0]), named, flags=re.S)
        if page.name == "genindex.html":
            named = re.sub(r'(?<=<a href=")[^<]*</a>', lambda found: TEXT.sub(broken, found[0]), named)
        if 'id="pst-secondary-sidebar"' not in named:  # a wider column, from the first paint on
            named = re.sub(r'<body(?: class="([^"]*)")?', r'<body class="without-contents \1"', named, count=1)
        named = named.replace('<div role="list" class="citation-list">', '<div class="citation-list">')
        named = INLINE.sub(r'<span class="unbroken">\g<0></span>', named)
        start = named.find("<article")
        named = named[:start] + NAMES.sub(whole, named[start:]) if start >= 0 else named
        named = AT_ONCE.sub("<script defer ", SEARCH.sub("", named))
        named = named.replace("<script>DOCUMENTATION_OPTIONS", '<script type="module">DOCUMENTATION_OPTIONS')
        named = re.sub(r'\s*<link rel="preload" as="script"[^>]*>', "", named)
        if state := STATE.search(named):  # as long as many a page, and not wanted before a figure is
            named = named.replace(state[0], "", 1).replace("</body>", f"{state[0]}\n</body>", 1)
        named = DOOR.sub(r"\1 open>", named, count=1)
        named = named.replace('id="pst-page-toc-nav"', "")  # finding.js says where one is, and not the theme
        named = FORMULA.sub(lambda found: found[1] + found[2] + drawn.get(found[3], found[3]), named)
        named = re.sub(r"\s*<script [^>]*scripts/fontawesome\.js[^>]*></script>", "", named)
        named = named.replace('localStorage.getItem("theme") || "auto"', f'localStorage.getItem("theme") || ({SCHEME})')
        if drawn:
            named = DRAWER.sub("", named)
        up = "../" * (len(page.relative_to(app.outdir).parts) - 1)
        sheets = ["icons.css"] + ["formulas.css"] * bool(MATH.search(named))
        linked = "".join(f'<link rel="stylesheet" href="{up}_static/{sheet}">\n' for sheet in sheets)
        if app.assets_are_local:
            linked += f'<link rel="stylesheet" href="{up}_static/faces.css" onload="shown()" onerror="shown()">\n'
            named = named.replace("<head>", f"<head>\n{LATE}", 1)
        named = named.replace("</head>", f"{linked}</head>", 1)
        page.write_text(named + MENDED, "utf8")


def formulas(text: str, app) -> dict[str, str]:
    """Each formula, as Sphinx wrote it, and as it looks; also writes their style sheet. Without node there is none."""
    if find_mathjax(NODE_MAIN) is None:
        return {}
    found = {each[3]: (html.unescape(each[4]), each[3].startswith(r"\[")) for each in FORMULA.finditer(text)}
    drawn = typeset(list(found.values()), app.config.mathjax3_config["tex"]["macros"], NODE_MAIN)
    if wrong := [f"{fault}: {tex}" for fault, tex in zip(drawn.faults, found, strict=True) if fault]:
        raise ExtensionError("formulas that MathJax cannot draw:\n" + "\n".join(wrong))
    kept = Path(app.doctreedir) / "formulas.css"  # of pages that have not changed since
    style = fonts.merged(kept.read_text("utf8") if kept.exists() else "", drawn.style)
    kept.write_text(style, "utf8")
    static = Path(app.outdir) / "_static"
    woff = MODULES / "mathjax" / "es5" / "output" / "chtml" / "fonts" / "woff-v2"
    (static / "formulas.css").write_text(fonts.formulas(style, woff), "utf8")
    return dict(zip(found, drawn.drawn, strict=True))


def write_icons(text: str, app) -> None:
    static = Path(app.outdir) / "_static"
    sheet = static / "styles" / "pydata-sphinx-theme.css"
    theme = re.sub(r"@font-face\s*\{[^}]*fa-(?:solid|regular)[^}]*\}", "", sheet.read_text("utf8"))
    sheet.write_text(theme, "utf8")  # or a page that is laid out early loads all icons
    font = static / "vendor" / "fontawesome" / "webfonts" / "fa-solid-900.ttf"
    (static / "icons.css").write_text(fonts.icons(text, theme, font), "utf8")


# Until the text's faces are decoded nothing is shown: lines would break by the widths of another, and break again.
# Before all style sheets, since for a script behind one the page waits to be read.
LATE = """<script>
  document.documentElement.classList.add("faceless");
  const faces = ["1em 'Source Serif'", "italic 1em 'Source Serif'", "1em 'Source Sans'"];
  const shown = () =>
    Promise.race([
      Promise.all(faces.map((face) => document.fonts.load(face))),
      new Promise((done) => setTimeout(done, 1000)),
    ]).then(() => document.documentElement.classList.remove("faceless"));
</script>
"""


def breakable(code: re.Match) -> str:
    """Code that may break within its words; where it is short, only a heading's does (book.css). Options stay whole."""
    words = html.unescape(re.sub(r"<[^>]*>", "", code[2]))
    short = " short" if len(words) <= SHORT else ""
    inside = re.sub(r"(?<![\w-])--[a-z][a-z-]*", r'<span class="unbroken">\g<0></span>', PLACE.sub("<wbr>", code[2]))
    return f'<code class="{code[1]}{short}">{inside}</code>'


def whole(found: re.Match) -> str:
    return f'<span class="unbroken">{found[0]}</span>' if found["name"] else found[0]


def broken(text: re.Match) -> str:
    return text[0] if text[0].startswith("<") else PLACE.sub("<wbr>", text[0])


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def add_fallbacks(app, doctree):
    """Show a widget's stored picture until it is drawn: to readers without JavaScript for good."""
    source = Path(app.env.doc2path(app.env.docname))
    if source.suffix != ".ipynb":
        return
    cells = json.loads(source.read_text("utf8"))["cells"]
    bundles = [out.get("data", {}) for cell in cells for out in cell.get("outputs", [])]
    bundles = [data for data in bundles if WIDGET_VIEW in data]
    views = [node for node in doctree.findall(nodes.raw) if WIDGET_VIEW in node.astext()]
    for node, data in zip(views, bundles, strict=False):
        if "image/png" in data:
            png = base64.b64encode(base64.b64decode("".join(data["image/png"]))).decode()
            alt = nodes.unescape("".join(data.get("text/plain", ""))).replace('"', "&quot;")
            image = f'<img class="widget-still" alt="{alt}" src="data:image/png;base64,{png}">'
            node.parent.insert(node.parent.index(node) + 1, nodes.raw("", image, format="html"))


def digest(folders) -> str:
    """A fingerprint of the files in these folders."""
    files = sorted(path for folder in folders for path in Path(folder).iterdir() if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def setup(app):
    # Trees of millions of nodes that stay: to look through them for garbage as often as usual is a third of a build.
    gc.set_threshold(500_000, 20, 20)
    # Sphinx writes every page again when this has changed: the pages are made by these files.
    app.add_config_value("made_by", digest([ROOT / "book" / "_ext", ROOT / "book" / "_static"]), "html")
    app.connect("config-inited", configure)
    app.connect("builder-inited", copy_vendor)
    app.connect("doctree-read", add_fallbacks)
    app.connect("html-page-context", name_folds)
    app.connect("html-page-context", aim_launches, priority=900)  # after the theme made the buttons
    app.connect("build-finished", mend_theme)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
