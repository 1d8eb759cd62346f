"""How fast a page opens over a slow line: `python -m tests.pages.speed` prints a table of all pages.

The pages are served as GitHub Pages does, gzipped, to a headless Chromium with an empty cache, 10 Mbit/s, 40 ms of
latency and a processor held to half its speed. Medians of five visits.
"""

import contextlib
import gzip
import statistics
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LIMITS = {"megabytes": 2.5, "first paint (s)": 1.5, "layout shift": 0.1}
VISITS = 5
PLAIN = {".png", ".webp", ".woff", ".woff2", ".jpg", ".gif"}  # packed already

# The browser keeps these figures itself; layout shift is the largest burst, as Web Vitals defines it.
WATCH = """
window.shifts = [];
new PerformanceObserver(list => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) shifts.push([each.startTime, each.value]);
}).observe({type: 'layout-shift', buffered: true});
"""
READ = """() => {
  let worst = 0, sum = 0, first = -1e9, last = -1e9;
  for (const [at, value] of shifts) {
    if (at - last > 1000 || at - first > 5000) { sum = 0; first = at; }
    sum += value; last = at; worst = Math.max(worst, sum);
  }
  return [performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000, worst];
}"""


class Zipped(SimpleHTTPRequestHandler):
    """Serves files, gzipped where that helps."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        packed = path.suffix not in PLAIN
        body = gzip.compress(path.read_bytes(), 6) if packed else path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(body)))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(site: Path):
    """The address at which these pages can be visited."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Zipped, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


def visit(browser, address: str) -> dict[str, float]:
    """One first visit: megabytes over the line, seconds to the first content, layout shift."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    line = context.new_cdp_session(page)
    received = []
    line.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    line.send("Network.enable")
    line.send("Network.setCacheDisabled", {"cacheDisabled": False})
    speed = 10e6 / 8
    line.send("Network.emulateNetworkConditions",
              {"offline": False, "latency": 40, "downloadThroughput": speed, "uploadThroughput": speed})  # fmt: skip
    line.send("Emulation.setCPUThrottlingRate", {"rate": 2})
    page.add_init_script(WATCH)
    page.goto(address, wait_until="load", timeout=60_000)
    page.evaluate("window.MathJax?.startup?.promise")
    # Until nothing has come for a second: the browser itself sometimes never calls its network idle.
    arrived = -1
    while arrived < len(received):
        arrived = len(received)
        page.wait_for_timeout(1000)
    paint, shift = page.evaluate(READ)
    context.close()
    return {"megabytes": sum(received) / 1e6, "first paint (s)": paint, "layout shift": shift}


def measure(browser, address: str) -> dict[str, float]:
    """Medians over first visits."""
    seen = [visit(browser, address) for _ in range(VISITS)]
    return {name: statistics.median(one[name] for one in seen) for name in LIMITS}


def main() -> None:
    from playwright.sync_api import sync_playwright

    from tests.conftest import FLAGS, find_chromium

    site = Path(__file__).parents[2] / ".build" / "_build" / "html"
    with sync_playwright() as playwright, served(site) as address:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        print("| page |", " | ".join(LIMITS), "|")
        print("|---|" + "---|" * len(LIMITS))
        for path in sorted((site / "book").rglob("*.html")):
            name = path.relative_to(site).as_posix()
            row = measure(browser, f"{address}/{name}")
            print(f"| {name} |", " | ".join(f"{row[key]:.2f}" for key in LIMITS), "|", flush=True)


if __name__ == "__main__":
    main()
