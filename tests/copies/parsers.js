// What other front ends would make of Markdown cells: formulas by KaTeX, all else by markdown-it with HTML, as in VS Code.
// usage: node parsers.js path/to/node_modules < [text of a cell, ...]
// stdout: for each cell {formulas: [[TeX, is displayed], ...], faults: [...]}
const [katex, markdown] = ["katex", "markdown-it"].map((name) => require(require("path").resolve(process.argv[2], name)));
const parser = markdown({ html: true }).disable("text_join"); // else an escaped sign could not be told from a bare one

const CODE = /^(`{3,})[^`\n]*\n[\s\S]*?^\1$|(?<!`)(`+)[^`\n](?:[^\n]*?[^`\n])??\2(?!`)/gm;
const SIGN = /\$\$?|\\[{}$]|[{}]|\n\s*\n/g;
const HIDDEN = "\u0001"; // a dollar in code

// As JupyterLab finds formulas before it reads Markdown: braces balance, and no blank line is in them.
function takeOut(cell) {
  const text = cell.replace(CODE, (code) => code.replaceAll("$", HIDDEN));
  const formulas = [];
  const faults = [];
  let [rest, from, start, braces] = ["", 0, null, 0];
  for (const sign of text.matchAll(SIGN)) {
    if (start === null) {
      if (sign[0][0] === "$") [start, braces] = [sign, 0];
    } else if (sign[0] === start[0] && !braces) {
      const formula = text.slice(start.index + start[0].length, sign.index);
      rest += `${text.slice(from, start.index)}@@${formulas.length}@@`;
      from = sign.index + sign[0].length;
      formulas.push([formula, start[0] === "$$"]);
      // VS Code takes a dollar with a space inside, or a digit behind, for money.
      if (start[0] === "$" && (/^\s|\n|\s$/.test(formula) || /\d/.test(text[from] ?? ""))) faults.push(`money: $${formula}$`);
      if (/\n\s*>/.test(formula)) faults.push(`a sign of quotation in ${formula}`);
      start = null;
    } else if (sign[0] === "{") braces += 1;
    else if (sign[0] === "}") braces = Math.max(0, braces - 1);
    else if (sign[0][0] === "\n") start = null;
  }
  return { formulas, faults, rest: (rest + text.slice(from)).replaceAll(HIDDEN, "$") };
}

function* leftOver(tokens, open) {
  for (const token of tokens) {
    const { type, content } = token;
    if (type === "inline") yield* leftOver(token.children, open);
    // Signs of the text are escaped, so that a bare one is a mark that nobody has read.
    if (type === "text" && /[$*_`[\]<>|~]/.test(content)) yield `a mark is left: ${content}`;
    if (type.startsWith("code") || type === "fence") {
      if (type === "code_block" || /@@\d+@@/.test(content)) yield `in code: ${content}`;
    }
    if (!type.startsWith("html")) continue;
    if (/[$`*]/.test(content)) yield `a mark in HTML: ${content}`;
    for (const [, end, tag] of content.matchAll(/<(\/?)(\w+)[^>]*>/g)) {
      const name = `<${tag}> at level ${token.level}`;
      if (!end) open.push(name);
      else if (open.at(-1) === name) open.pop();
      else yield `closes nothing: ${name}`;
    }
  }
}

function read(cell) {
  const { formulas, faults, rest } = takeOut(cell);
  for (const [formula, displayMode] of formulas) {
    try {
      katex.renderToString(formula, { displayMode, strict: false, throwOnError: true });
    } catch (error) {
      faults.push(`KaTeX: ${error.message}`);
    }
  }
  const open = [];
  faults.push(...leftOver(parser.parse(rest, {}), open), ...open.map((name) => `stays open: ${name}`));
  return { formulas, faults };
}

process.stdout.write(JSON.stringify(JSON.parse(require("fs").readFileSync(0, "utf8")).map(read)));
