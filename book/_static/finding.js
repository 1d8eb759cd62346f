// Finding one's way: where one is in the sidebars, the search, and what a term or an equation's number stands for.
(() => {
  const root = document.documentElement.dataset.content_root;
  const make = (tag, text, ...inside) => {
    const made = Object.assign(document.createElement(tag), { textContent: text });
    made.append(...inside);
    return made;
  };
  // What is big is loaded when it is first wanted, by a script: a page from disk may not fetch.
  const arrivals = {};
  const load = (name) =>
    (arrivals[name] ??= new Promise((done, failed) => {
      document.head.append(Object.assign(make("script", ""), { src: root + name, onload: done, onerror: failed }));
    }));

  // The sidebars show the entry where the reader is, also where they are longer than the window, and in a phone's drawer.
  const keep = (entry, selector) => {
    const frame = entry?.closest(selector);
    if (!frame) return;
    const [here, seen] = [entry, frame].map((each) => each.getBoundingClientRect());
    if (here.top < seen.top || here.bottom > seen.bottom) frame.scrollTop += here.top - seen.top - seen.height / 3;
  };
  const showPage = () => keep([...document.querySelectorAll(".bd-docs-nav a.current")].pop(), ".sidebar-primary-item");
  const links = [...document.querySelectorAll(".bd-sidebar-secondary .page-toc a")];
  const named = (hash) => document.getElementById(decodeURIComponent(hash.slice(1)));
  const parts = links.map((link) => named(link.hash));
  const topOf = (part) => part.getBoundingClientRect().top;
  let jumped = null; // where a link led, until the reader moves on
  const mark = () => {
    const list = links[0]?.getBoundingClientRect();
    if (!list?.width || list.left > innerWidth || list.right < 0) return; // what nobody sees need not be laid out
    const below = document.documentElement.scrollHeight - innerHeight - scrollY;
    // On the last screen all that can no longer come to its top has its turn.
    const line = innerHeight * Math.max(0.2, 1 - (0.8 * below) / innerHeight);
    const inView = jumped && topOf(jumped) > -1 && topOf(jumped) < innerHeight;
    const active = links.findLast((_, i) => (inView ? parts[i].contains(jumped) : topOf(parts[i]) <= line));
    for (const link of links) {
      const item = link.closest(".toc-entry");
      link.classList.toggle("active", link === active);
      link.setAttribute("aria-current", link === active);
      item.classList.toggle("active", item.contains(active));
    }
    keep(active, ".bd-sidebar-secondary");
  };
  const jump = () => {
    jumped = named(location.hash);
    mark();
  };
  let frame = 0;
  const soon = () => (frame ||= requestAnimationFrame(() => (frame = 0, mark())));
  for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"])
    addEventListener(kind, () => (jumped = null), { passive: true, capture: true });
  for (const kind of ["scroll", "resize"]) addEventListener(kind, soon, { passive: true });
  for (const kind of ["load", "hashchange"]) addEventListener(kind, jump);
  addEventListener("click", (event) => event.target.closest?.('a[href^="#"]') && setTimeout(jump));
  addEventListener("load", () => {
    showPage();
    for (const toggle of document.querySelectorAll(".sidebar-toggle"))
      toggle.addEventListener("click", () => setTimeout(() => (showPage(), mark())));
  });

  // The search. Letters go by their names, and a name of several parts is found by each.
  const GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau " +
    "upsilon phi chi psi omega";
  const letters = Object.fromEntries(GREEK.split(" ").map((name, i) => [String.fromCharCode(945 + i), name]));
  const tokens = (text) =>
    text.normalize("NFKC").toLowerCase().replace(/[α-ω]/g, (letter) => ` ${letters[letter]} `)
      .match(/[a-z0-9]+(?:[-_.][a-z0-9]+)*/g) ?? [];
  const withParts = (text) =>
    tokens(text).flatMap((one) => (/^\d|^[a-z0-9]+$/.test(one) ? one : [one, one.replace(/[-_.]/g, ""), ...one.split(/[-_.]/)]));
  const KINDS = {
    symbol: ["Notation", 2], term: ["Glossary", 2], chapter: ["Chapters", 1], equation: ["Equations", 1], source: ["Source", 0.6],
    page: ["Other pages", 0.6], exercise: ["Exercises", 0.5], helper: ["The book’s own functions", 0.1],
  };
  const SHOWN = 6;
  let index = null;
  const prepare = async () => {
    await Promise.all([load("vendor/minisearch.js"), load("_static/search_index.js")]);
    await window.minisearch; // where the book was built without npm it comes from a CDN
    if (index) return;
    index = new MiniSearch({
      fields: ["title", "words"],
      storeFields: ["kind", "title", "heading", "place", "words"],
      tokenize: withParts,
      processTerm: (term) => term,
      searchOptions: {
        tokenize: tokens,
        combineWith: "AND",
        prefix: (term) => term.length > 1,
        fuzzy: (term) => /^[a-z]{5}/.test(term) && 0.2,
        boost: { title: 4 },
        boostDocument: (_, __, entry) => KINDS[entry.kind][1],
      },
    });
    index.addAll(searchEntries.map(([kind, title, heading, place, words], id) => ({ id, kind, title, heading, place, words })));
  };
  const excerpt = (words, terms) => {
    const spelled = Object.entries(letters).filter(([, name]) => terms.includes(name)).map(([letter]) => letter);
    const whole = [...terms, ...spelled].map((term) => term.replace(/[.]/g, "\\.")).sort((a, b) => b.length - a.length);
    const found = new RegExp(`(?<!\\p{L})(${whole.join("|")})`, "giu");
    const lead = words.split(" … ")[0]; // behind it stand single words
    const start = lead.lastIndexOf(" ", Math.max(0, lead.search(found) - 60)) + 1;
    const part = lead.slice(start, lead.indexOf(" ", start + 180) + 1 || undefined);
    return make("p", start ? "… " : "", ...part.split(found).map((piece, i) => (i % 2 ? make("mark", piece) : piece)));
  };
  const listed = (hits) =>
    make("ul", "", ...hits.map((hit) => {
      const link = Object.assign(make("a", hit.title), { href: root + hit.place });
      return make("li", "", link, make("small", hit.heading), excerpt(hit.words, Object.keys(hit.match)));
    }));
  const form = document.querySelector(":not(dialog) > form.bd-search") ?? document.querySelector("form.bd-search");
  const field = form.querySelector("input");
  const results = document.getElementById("search-results") ?? form.parentElement.appendChild(make("div", ""));
  results.id = "search-results";
  const search = async () => {
    const query = field.value.trim();
    await prepare();
    if (query !== field.value.trim()) return;
    const asked = tokens(query).join(" ");
    // What is called just so was meant.
    const bonus = (hit) => (tokens(hit.title).join(" ") === asked ? 4 : 1);
    const hits = index.search(query).map((hit) => ({ ...hit, score: hit.score * bonus(hit) }));
    hits.sort((a, b) => b.score - a.score);
    const groups = [...new Set(hits.map((hit) => hit.kind))].map((kind) => {
      const own = hits.filter((hit) => hit.kind === kind);
      const more = own.slice(SHOWN, 10 * SHOWN);
      const rest = more.length ? [make("details", "", make("summary", `${more.length} more`), listed(more))] : [];
      return make("section", "", make("h2", KINDS[kind][0]), listed(own.slice(0, SHOWN)), ...rest);
    });
    const status = Object.assign(make("p", query && `${hits.length || "No"} place${hits.length === 1 ? "" : "s"}`), { role: "status" });
    results.replaceChildren(status, ...groups);
    results.classList.toggle("empty", !query);
    results.dataset.query = query;
  };
  const move = (event) => {
    const stops = [field, ...results.querySelectorAll("a, summary")].filter((each) => each.checkVisibility());
    const at = stops.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1, Enter: at === 0 ? 1 : 0 }[event.key];
    if (!step || at < 0 || !stops[at + step]) return;
    stops[at + step].focus();
    event.preventDefault();
  };
  results.classList.add("empty");
  form.parentElement.addEventListener("keydown", move);
  addEventListener("click", (event) => {
    if (event.target.closest("dialog a[href*='#']")) for (const open of document.querySelectorAll("dialog[open]")) open.close();
  });
  field.addEventListener("focus", prepare);
  field.addEventListener("input", search);
  field.value ||= new URLSearchParams(location.search).get("q") ?? "";
  if (field.value) search();

  // What a term or an equation's number stands for: on hover, focus and a first touch.
  const CITED = 'article a.reference:is([href*="#equation-"], [href*="#term-"])';
  const card = Object.assign(make("div", ""), { id: "meaning", className: "bd-article", popover: "manual", role: "tooltip" });
  document.body.append(card);
  let [shown, timer, touched] = [null, 0, false];
  const hide = () => {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    shown = null;
    card.hidePopover();
  };
  const show = async (link) => {
    hide();
    shown = link;
    const id = decodeURIComponent(link.hash.slice(1));
    let place = document.getElementById(id);
    if (!place) await load("_static/meanings.js");
    if (shown !== link) return;
    place ??= Object.assign(make("div", ""), { innerHTML: meanings[id] }).firstElementChild;
    const copy = (place.matches("dt") ? place.nextElementSibling : place).cloneNode(true);
    copy.removeAttribute("id");
    for (const each of copy.querySelectorAll(".headerlink")) each.remove();
    card.replaceChildren(...(place.matches("dt") ? [make("b", place.firstChild.textContent), ...copy.childNodes] : [copy]));
    await window.MathJax?.typesetPromise?.([card]); // where the book was built without node
    if (shown !== link) return;
    link.setAttribute("aria-describedby", card.id);
    card.showPopover();
    const line = link.getClientRects()[0];
    const { right } = document.querySelector("article").getBoundingClientRect(); // the list of contents stays in sight
    card.style.left = `${Math.max(8, Math.min(line.left, right - card.offsetWidth))}px`;
    const room = line.bottom + card.offsetHeight + 8 < innerHeight;
    card.style.top = `${scrollY + (room ? line.bottom + 6 : line.top - card.offsetHeight - 6)}px`;
  };
  const later = (action, milliseconds) => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds);
  };
  const cited = (event) => event.target.closest?.(CITED);
  addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const link = cited(event);
    if (link && link !== shown) later(() => show(link), 200);
    else if (link || card.contains(event.target)) clearTimeout(timer);
    else if (shown) later(hide, 250);
    else clearTimeout(timer);
  });
  addEventListener("focusin", (event) => cited(event)?.matches(":focus-visible") && show(cited(event)));
  addEventListener("focusout", (event) => cited(event) === shown && hide());
  addEventListener("pointerdown", (event) => (touched = event.pointerType === "touch"));
  addEventListener("click", (event) => {
    const link = cited(event);
    if (link && touched && link !== shown) {
      event.preventDefault();
      show(link);
    } else if (!card.contains(event.target)) hide();
  });
  addEventListener("keydown", (event) => event.key === "Escape" && hide());
})();
