// A displayed formula in lines that a phone has room for. It is broken where two formulas stand side by side, else before
// relations, else before plus and minus, at last between factors. What belongs together stays so: braces, \left … \right.
const TOKEN = /\\(?:begin|end)\{\w+\}|\\(?:left|right)\s*(?:\\[a-zA-Z]+|\\.|.)|\\[a-zA-Z]+|\\.|[\s\S]/g;
const RELATION = /^(?:[=<>]|\\(?:leq?|geq?|neq?|approx|propto|equiv|Longrightarrow|xrightarrow))$/;
const FACTOR = /^\\(?:[,;]|sum|prod|int)$/;
const OPEN = /^(?:\{$|\\begin\b|\\left\b)/, CLOSE = /^(?:\}$|\\end\b|\\right\b)/;
const SPACE = /^(?:\\q?quad(?![a-z])|\\[,;!]|\{\}|\s)+/;

// Whether a formula may be broken before a token, from the best place for that to the worst.
function places(token, before, paren) {
  const sign = /^[+-]$/.test(token) && before && !RELATION.test(before) && !/^(?:[([,^_]|\\[,;!])$/.test(before);
  const gap = /^\\q?quad$/;
  return [
    paren === 0 && gap.test(token) && !RELATION.test(before) && !gap.test(before),
    paren === 0 && RELATION.test(token) && !gap.test(before),
    paren === 0 && sign,
    paren === 1 && sign,
    paren <= 1 && FACTOR.test(token) && before && !RELATION.test(before) && !/^(?:[-+([]|\\(?:log|exp|min|max))$/.test(before),
  ];
}

function split(formula, breaks) {
  const found = [""];
  let depth = 0, paren = 0, before = "";
  for (const token of formula.match(TOKEN) ?? []) {
    if (CLOSE.test(token)) depth -= 1;
    if (depth === 0 && /^[)\]]$/.test(token)) paren -= 1;
    if (depth === 0 && breaks(token, before, paren)) found.push("");
    found[found.length - 1] += token;
    if (depth === 0 && /^[([]$/.test(token)) paren += 1;
    if (OPEN.test(token)) depth += 1;
    if (token.trim()) before = token;
  }
  return found;
}

// Add a formula to the lines, as much in a line as it has room for.
function fill(lines, formula, fits, level = 0) {
  const last = lines.length - 1;
  if (fits(lines[last] + formula)) lines[last] += formula;
  else if (level === 5 || (lines[last] && fits(formula))) lines.push(formula);
  else {
    const pieces = split(formula, (token, before, paren) => places(token, before, paren)[level]);
    if (level === 1 && lines[last] && SPACE.test(formula)) lines.push("");
    for (const piece of pieces) if (piece) fill(lines, piece, fits, level + 1);
  }
  return lines;
}

// A formula of a line of text in the pieces between which a line may end; none if one of them is too long.
exports.pieces = function pieces(formula, room, width) {
  const at = (levels) => (token, before, paren) => levels.some((level) => places(token, before, paren)[level]);
  const short = (piece) => width(piece) <= room;
  const found = split(formula.trim(), at([0, 1, 2])).flatMap((piece) => (short(piece) ? piece : split(piece, at([3, 4]))));
  return found.every(short) ? found.map((piece, i) => (i ? "{}" : "") + piece.replace(SPACE, "")) : [];
};

// The formula in lines of at most `room` em, where it has places for that; `width` tells that of a formula.
exports.narrow = function narrow(formula, room, width) {
  let whole = formula.trim(), outer;
  while ((outer = /^\\begin\{(split|aligned|gathered)\}([\s\S]*)\\end\{\1\}$/.exec(whole))) whole = outer[2].trim();
  const rows = split(whole, (token) => token === "\\\\").map((row) => row.replace(/^\\\\/, "").trim());
  const set = rows.flatMap((row, number) => {
    // Of the signs that align columns each second one separates two formulas.
    const cells = split(row, (token) => token === "&").map((cell) => cell.replace(/^&/, ""));
    const text = cells.map((cell, i) => (i % 2 || i === 0 ? "" : "\\qquad ") + cell).join("").replace(SPACE, "");
    const start = text.match(TOKEN)[0];
    const indent = number > 0 && (RELATION.test(start) || /[+-]/.test(start)) ? 1 : 0;
    const lines = fill([""], text, (line) => width(line) <= room - indent - 1).filter((line) => line.trim());
    return lines.map((line, i) => `&${"\\quad ".repeat(indent + (i > 0))}{}${line.replace(SPACE, "").trim()}`);
  });
  return `\\begin{aligned}${set.join(" \\\\ ")}\\end{aligned}`;
};
