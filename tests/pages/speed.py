"""How fast a page opens: `python -m tests.pages.speed` prints a table of all pages.

The pages are served as GitHub Pages does, gzipped, to a headless Chromium with an empty cache: to a desktop with
nothing held back, and to a phone with 1.6 Mbit/s, 150 ms of latency and a processor held to a quarter of its speed. A
formula is there when its fonts are loaded and nothing in any formula changes afterwards. Medians of five visits.
"""

import contextlib
import gzip
import statistics
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

LIMITS = {
    "kB": 700,  # of a first visit
    "formulas after the first paint, desktop (s)": 1.0,
    "formulas, phone (s)": 4.0,
    "layout shift": 0.05,
}
FRONT_PAGE = {"kB": 550}
PHONE = {"latency": 150, "downloadThroughput": 1.6e6 / 8, "uploadThroughput": 1.6e6 / 8, "offline": False}
SLOWER = 4
VISITS = 5
PLAIN = {".png", ".webp", ".woff", ".woff2", ".jpg", ".gif"}  # packed already

# The browser keeps these figures itself; layout shift is the largest burst, as Web Vitals defines it.
WATCH = """
window.shifts = [];
new PerformanceObserver(list => {
  for (const each of list.getEntries()) if (!each.hadRecentInput) shifts.push([each.startTime, each.value]);
}).observe({type: 'layout-shift', buffered: true});
window.drawn = 0;
const formula = node => (node.closest ? node : node.parentElement)?.closest('mjx-container');
const changed = ({type, target, oldValue, attributeName, addedNodes}) =>
  formula(target) ? type !== 'attributes' || oldValue !== target.getAttribute(attributeName)
                  : [...addedNodes].some(node => formula(node) || node.querySelector?.('mjx-container'));
new MutationObserver(changes => { if (changes.some(changed)) window.drawn = performance.now(); })
  .observe(document, {childList: true, subtree: true, attributeOldValue: true, characterData: true});
addEventListener('DOMContentLoaded', () => {
  for (const face of document.fonts)
    if (face.family.startsWith('MJX')) face.loaded.then(() => { window.drawn = performance.now(); });
});
"""
READ = """() => {
  let worst = 0, sum = 0, first = -1e9, last = -1e9;
  for (const [at, value] of shifts) {
    if (at - last > 1000 || at - first > 5000) { sum = 0; first = at; }
    sum += value; last = at; worst = Math.max(worst, sum);
  }
  const paint = performance.getEntriesByName('first-contentful-paint')[0].startTime;
  return [paint / 1000, Math.max(window.drawn, paint) / 1000, worst];
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


def visit(browser, address: str, phone: bool) -> tuple[float, float, float, float]:
    """One first visit: kB over the line, seconds to the first content and to the last formula, layout shift."""
    context = browser.new_context(viewport={"width": 390, "height": 844} if phone else {"width": 1280, "height": 800})
    page = context.new_page()
    line = context.new_cdp_session(page)
    received, held = [], set()  # what a style sheet holds itself is no second visit

    def sent(event: dict) -> None:
        if event["request"]["url"].startswith("data:"):
            held.add(event["requestId"])

    def came(event: dict) -> None:
        received.append(0 if event["requestId"] in held else event["encodedDataLength"])

    line.on("Network.requestWillBeSent", sent)
    line.on("Network.loadingFinished", came)
    line.send("Network.enable")
    if phone:
        line.send("Network.emulateNetworkConditions", PHONE)
        line.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    page.add_init_script(WATCH)
    page.goto(address, wait_until="load", timeout=60_000)
    # Until nothing has come for a second: the browser itself sometimes never calls its network idle.
    arrived = -1
    while arrived < len(received):
        arrived = len(received)
        page.wait_for_timeout(1000)
    paint, drawn, shift = page.evaluate(READ)
    context.close()
    return sum(received) / 1e3, paint, drawn, shift


def measure(browser, address: str) -> dict[str, float]:
    """Medians over first visits; of the layout shift the larger of both devices, at the top and at a deep link."""

    def medians(where: str, phone: bool) -> list[float]:
        return [
            statistics.median(each) for each in zip(*(visit(browser, where, phone) for _ in range(VISITS)), strict=True)
        ]

    desktop, phone = medians(address, False), medians(address, True)
    deep = [medians(f"{address}#exercises", phone)[3] for phone in (False, True)]
    found = desktop[0], desktop[2] - desktop[1], phone[2], max(desktop[3], phone[3], *deep)
    return dict(zip(LIMITS, found, strict=True))


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
