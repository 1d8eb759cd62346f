// Typeset every formula once with the MathJax that the pages use: which fail, and how large are the others?
// usage: node typeset.js path/to/node-main.js < {"formulas": [[tex, is displayed], ...], "macros": {...}}
// stdout: a list as long as `formulas`, of {fault} or {fault: "", width, height, depth}, lengths in the ex of the text.
const request = JSON.parse(require("fs").readFileSync(0, "utf8"));

async function typeset(mathjax, [formula, display]) {
  try {
    const drawn = mathjax.startup.adaptor.outerHTML(await mathjax.tex2svgPromise(formula, { display }));
    const error = /data-mjx-error="([^"]*)"/.exec(drawn);
    if (error || drawn.includes('data-mml-node="merror"')) return { fault: error ? error[1] : "MathJax error" };
    // A sign that no font of MathJax has is left to the system's, whose widths nobody knows.
    const strange = /<text [^>]*>([^<]+)/.exec(drawn);
    if (strange) return { fault: `no font of MathJax has the sign ${strange[1]}` };
    const [svg] = /<svg [^>]*>/.exec(drawn);
    const length = (name) => Number(new RegExp(`${name}[=:] ?"?(-?[\\d.]+)`).exec(svg)?.[1] ?? 0);
    return { fault: "", width: length(" width"), height: length(" height"), depth: -length("vertical-align") };
  } catch (error) {
    return { fault: String(error.message || error) };
  }
}

require(require("path").resolve(process.argv[2]))
  .init({
    loader: { load: ["input/tex", "output/svg"] },
    // Without `noundefined` an unknown command is an error; with it, it is red text on the page.
    tex: { packages: { "[-]": ["noundefined"] }, macros: request.macros },
  })
  .then(async (mathjax) => {
    const answers = [];
    for (const each of request.formulas) answers.push(await typeset(mathjax, each));
    process.stdout.write(JSON.stringify(answers));
  })
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
