// What a style sheet cannot know: which formulas and blocks hold more than their width shows, and a cell's column.
(() => {
  // Of an inline formula only what is drawn counts: its copy for screen readers lies invisible behind it, and is wider.
  const drawn = (math) => math.querySelector("mjx-math")?.getBoundingClientRect().width ?? 0;
  const width = (each) => (each.matches(".wide-inline") ? drawn(each) : each.scrollWidth);
  // What runs into the block's own padding can be read.
  const shown = (each) => each.scrollLeft + each.clientWidth + parseFloat(getComputedStyle(each).paddingRight);
  // All are measured before one is marked, or the browser would lay the page out anew for each.
  const mark = (some) =>
    some.map((each) => [each, shown(each) < width(each) - 2]).forEach(([each, more]) => each.classList.toggle("more-right", more));
  const watched = new WeakSet();
  const watch = (some) => {
    mark(some);
    for (const each of some) {
      if (!watched.has(each)) each.addEventListener("scroll", () => mark([each]), { passive: true });
      watched.add(each);
    }
  };
  const look = () => {
    const inline = document.querySelectorAll("article :is(p, li, td, dd) mjx-container:not([display])");
    // The first narrows the column it stands in; the second would stay on a formula that has room again.
    for (const math of inline) math.classList.remove("wide-inline", "more-right");
    for (const math of inline) {
      let line = math.closest("p, li, td, dd");
      while (!line.clientWidth && line.parentElement) line = line.parentElement; // an inline one has no width
      math.classList.toggle("wide-inline", drawn(math) > line.getBoundingClientRect().width + 1);
    }
    watch([...document.querySelectorAll("article :is(div.math mjx-container, div.math, .wide-inline, .highlight pre, .output:has(> .result-table))")]);
  };
  // What is copied has each formula as its TeX.
  addEventListener("copy", (event) => {
    const copied = getSelection().rangeCount ? getSelection().getRangeAt(0).cloneContents() : null;
    const formulas = copied?.querySelectorAll("mjx-container:has(annotation)") ?? [];
    if (!formulas.length) return;
    for (const each of formulas) {
      const mark = each.hasAttribute("display") ? "$$" : "$";
      each.replaceWith(mark + each.querySelector("annotation").textContent.trim() + mark);
    }
    event.clipboardData.setData("text/plain", copied.textContent);
    event.preventDefault();
  });
  // A chapter prints with its answers at the end; for a sheet of problems, without them and the solutions.
  const home = new Map();
  addEventListener("beforeprint", () => {
    const end = document.querySelector("article > section");
    for (const each of end?.querySelectorAll("details.answer") ?? []) {
      home.set(each, Object.assign(document.createElement("i"), { hidden: true }));
      each.replaceWith(home.get(each));
      end.append(each);
    }
  });
  addEventListener("afterprint", () => {
    for (const [each, place] of home) place.replaceWith(each);
    home.clear();
    document.documentElement.classList.remove("without-solutions");
  });
  addEventListener("DOMContentLoaded", () => {
    const item = document.querySelector(".btn-download-pdf-button")?.closest("li");
    if (!item || !document.querySelector("details.solution")) return;
    const sheet = item.cloneNode(true);
    const button = sheet.querySelector("button");
    button.querySelector(".btn__text-container").textContent = ".pdf, no solutions";
    button.removeAttribute("onclick");
    button.title = "Print without answers and solutions";
    button.addEventListener("click", () => {
      document.documentElement.classList.add("without-solutions");
      print();
    });
    item.after(sheet);
  });
  // A link into a fold opens it, also where a browser does not do so itself, and also for the second time.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    let opened = false;
    for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      opened ||= !fold.open;
      fold.open = true;
    }
    if (opened) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  addEventListener("load", reveal);
  addEventListener("click", (event) => {
    if (event.target.closest?.('a[href*="#"]')) setTimeout(reveal);
  });
  // On a phone a table's rows become blocks; each cell then says which column it is.
  for (const table of document.querySelectorAll("article table.table")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    const rows = [...table.querySelectorAll("tbody tr")];
    // The first cell is the block's title, unless a row's is a bare number or a whole sentence.
    const titled = rows.every(({ children: [first] }) => {
      const words = first?.textContent.trim() ?? "";
      return words.length < 60 && !/^[\d.,–]+$/.test(words);
    });
    for (const row of rows)
      [...row.children].forEach((cell, i) => {
        const words = cell.textContent.trim();
        const nothing = i > 0 && (words === "" || words === "—") && !cell.querySelector("img, input");
        cell.classList.toggle("nothing", nothing);
        if (heads[i] && !(i === 0 && titled)) cell.setAttribute("data-column", heads[i]);
      });
  }
  if (window.MathJax) MathJax.startup.promise.then(look);
  else look(); // a drawn formula has its width before its letters
  addEventListener("resize", look);
})();
