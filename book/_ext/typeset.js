// Typeset every formula with MathJax's CHTML, as its scripts would do it in the page.
// usage: node typeset.js path/to/node-main.js < {"formulas": [[tex, is displayed], ...], "macros": {...}}
// stdout: {"formulas": [{fault, drawn}, ...], "style": "..."}; the style has the signs that these formulas need.
const request = JSON.parse(require("fs").readFileSync(0, "utf8"));
const { narrow, pieces } = require("./narrow.js");
const MATH = /<mjx-math.*<\/mjx-math>/s;
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

const LONG = 14.5; // em: a phone may have no room for it in a line of text
const WIDE = 22; // nor for a displayed one in letters of a size that can be read: it gets lines for the phone

// How wide a formula that has been drawn is, in em.
function width({ document }, formula, display) {
  const math = new document.options.MathItem(formula, document.inputJax[0], display);
  math.compile(document);
  return document.outputJax.getBBox(math, document).w;
}

async function typeset({ startup, tex2chtmlPromise }, [formula, display]) {
  try {
    const drawn = startup.adaptor.outerHTML(await tex2chtmlPromise(formula, { display }));
    const error = /data-mjx-error="([^"]*)"/.exec(drawn);
    if (error || drawn.includes("<mjx-merror")) return { fault: error ? error[1] : "MathJax error" };
    // A sign that no font of MathJax has is left to the system's, whose widths nobody knows.
    const strange = /<mjx-utext [^>]*>([^<]+)/.exec(drawn);
    if (strange) return { fault: `no font of MathJax has the sign ${strange[1]}` };
    // What a screen reader hears holds the TeX, too, for who copies it.
    const annotation = `<annotation encoding="application/x-tex">${escaped(formula)}</annotation></semantics></math>`;
    const told = drawn.replace(/(<math [^>]*>)(.*)<\/math>/s, (_, begin, inside) => `${begin}<semantics><mrow>${inside}</mrow>${annotation}`);
    const wide = width(startup, formula, display);
    // A number of its own, as copies have it, ends a formula and stands in no part of it.
    if (wide <= LONG || formula.includes("\\tag{")) return { fault: "", drawn: told };
    // What a phone shows instead, where there is room for no more than a part of it.
    const measured = (part) => width(startup, part, display);
    const parts = !display ? pieces(formula, LONG, measured) : wide > WIDE ? [narrow(formula, WIDE, measured)] : [];
    let inside = "";
    for (const part of parts) {
      const piece = startup.adaptor.outerHTML(await tex2chtmlPromise(part, { display }));
      if (piece.includes("data-mjx-error")) return { fault: `no formula for a phone: ${part}` };
      inside += MATH.exec(piece)[0];
    }
    const both = inside ? told.replace("</mjx-math>", () => `</mjx-math><mjx-narrow>${inside}</mjx-narrow>`) : told;
    if (!display) return { fault: "", drawn: both.replace('class="', 'class="long ') };
    const widths = `--wide:${wide.toFixed(1)}; --em:${(inside ? measured(parts[0]) : wide).toFixed(1)}; `;
    return { fault: "", drawn: both.replace('style="', `style="${widths}`) };
  } catch (error) {
    return { fault: String(error.message || error) };
  }
}

require(require("path").resolve(process.argv[2]))
  .init({
    loader: { load: ["input/tex", "output/chtml", "a11y/assistive-mml"] },
    // Without `noundefined` an unknown command is an error; with it, it is red text on the page.
    tex: { packages: { "[-]": ["noundefined"] }, macros: request.macros },
  })
  .then(async (MathJax) => {
    const formulas = [];
    for (const each of request.formulas) formulas.push(await typeset(MathJax, each));
    const style = MathJax.startup.adaptor.textContent(MathJax.chtmlStylesheet());
    process.stdout.write(JSON.stringify({ formulas, style }));
  })
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
