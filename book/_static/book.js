// What a style sheet cannot do.
(() => {
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
    const answers = [...(end?.querySelectorAll("details.answer") ?? [])];
    answers.forEach((each, i) => {
      const place = Object.assign(document.createElement("p"), { className: "moved" });
      place.dataset.number = each.querySelector("summary").dataset.number = i + 1;
      home.set(each, place);
      each.replaceWith(place);
      end.append(each);
    });
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
  // What scrolls sideways can be reached by Tab; the theme would lay out the whole page to find it.
  const stops = new ResizeObserver((seen) => {
    const more = seen.map(({ target }) => target.scrollWidth > target.clientWidth); // all are measured before one changes
    seen.forEach(({ target }, i) => (target.tabIndex = more[i] ? 0 : -1));
  });
  for (const each of document.querySelectorAll("pre, .output, .pst-scrollable-table-container")) stops.observe(each);
  // Where the book was built without node, formulas are drawn here, and so are their widths found (typeset.js).
  window.MathJax?.startup.promise.then(() => {
    for (const math of document.querySelectorAll("mjx-container:not([display])"))
      math.classList.toggle("long", math.offsetWidth > 14.5 * parseFloat(getComputedStyle(math).fontSize));
  });
})();
