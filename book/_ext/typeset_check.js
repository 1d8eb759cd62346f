// Typeset every formula once with the MathJax that the pages use, and report those that fail.
// usage: node typeset_check.js path/to/node-main.js < {"formulas": [...], "macros": {...}}
// stdout: a list as long as `formulas`, holding "" or the reason for the failure.
const request = JSON.parse(require("fs").readFileSync(0, "utf8"));

async function fault(mathjax, formula) {
  try {
    const mathml = await mathjax.tex2mmlPromise(formula, { display: true });
    const error = /<merror data-mjx-error="([^"]*)"/.exec(mathml);
    return error ? error[1] : /<merror/.test(mathml) ? "MathJax error" : "";
  } catch (error) {
    return String(error.message || error);
  }
}

require(require("path").resolve(process.argv[2]))
  .init({
    loader: { load: ["input/tex"] },
    // Without `noundefined` an unknown command is an error; with it, it is red text on the page.
    tex: { packages: { "[-]": ["noundefined"] }, macros: request.macros },
  })
  .then(async (mathjax) => {
    const faults = [];
    for (const formula of request.formulas) faults.push(await fault(mathjax, formula));
    process.stdout.write(JSON.stringify(faults));
  })
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
