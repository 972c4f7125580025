// The panels with what becomes of a resource. Text of others is only ever set as text.

import { colour } from "./editor.js";

/** Lines that a panel shows. The saved report has all of them. */
const LINES = 3_000;
const CONTEXT = 3;

/** Creates an element. */
export function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

const WORDS = {
  accepted: "✓ accepted",
  warnings: "! warnings",
  refused: "✕ refused",
  failed: "✕ failed",
};

/** A verdict: a sign, a word and a colour. */
export function verdict(kind) {
  return element("span", { className: `verdict ${kind}` }, WORDS[kind] ?? kind);
}

const note = (text) => element("p", { className: "note" }, text);

/** The configuration with its difference from the base. */
export function showConfig(panel, view, onlyChanges) {
  if (!view.config) {
    panel.replaceChildren(note(view.summary));
    return;
  }
  const isChanged = view.diff.map(([sign]) => sign !== " ");
  if (onlyChanges && !isChanged.includes(true)) {
    panel.replaceChildren(note("The base configuration is used as it is."));
    return;
  }
  const code = element("div", { className: "code" });
  const classes = { "+": "plus", "-": "minus", " ": "same" };
  let skipped = 0;
  let shown = 0;
  view.diff.forEach(([sign, line], index) => {
    if (onlyChanges && !near(isChanged, index)) {
      skipped++;
      return;
    }
    if (++shown > LINES) return;
    if (skipped) code.append(gap(skipped));
    skipped = 0;
    code.append(element("div", { className: classes[sign] }, ...colour(line)));
  });
  if (skipped) code.append(gap(skipped));
  panel.replaceChildren(code, ...rest(shown));
}

/** The Kubernetes objects. */
export function showObjects(panel, view) {
  const open = new Set([...panel.querySelectorAll("details[open]")].map((one) => one.dataset.key));
  const isFirst = !panel.querySelector("details");
  const objects = view.objects.map(({ kind, name, yaml }, index) => {
    const code = element("div", { className: "code" });
    const lines = yaml.trimEnd().split("\n");
    const fill = () => {
      if (code.childElementCount) return;
      for (const line of lines.slice(0, LINES)) code.append(element("div", {}, ...colour(line)));
      code.append(...rest(lines.length));
    };
    const key = `${kind} ${name}`;
    const details = element("details", {}, element("summary", {}, element("strong", {}, kind), ` ${name}`), code);
    details.dataset.key = key;
    details.addEventListener("toggle", () => details.open && fill());
    details.open = isFirst ? index === 0 : open.has(key);
    if (details.open) fill();
    return details;
  });
  panel.replaceChildren(...(objects.length ? objects : [note(view.summary)]));
}

/** The variables of the pod, how the server is started, and the ids of models. */
export function showVariables(panel, view) {
  const sections = [];
  if (view.variables.length) {
    const rows = view.variables.map((one) => [code(one.name), origin(one), one.readAs]);
    sections.push(table("Variables of the pod", ["Name", "Value", "Read as"], rows));
  }
  const { startup, counts, models } = view.facts ?? {};
  const env = Object.entries(startup?.env ?? {});
  if (env.length) {
    sections.push(table("Start of the server", ["Name", "Value"], env.map(([name, value]) => [code(name), code(value)])));
  }
  if (models?.length) {
    sections.push(table("Models", ["Name in the resource", "Id for clients"], models.map((one) => [code(one.name), code(one.id)])));
  }
  if (counts) {
    sections.push(table("Entries of the configuration", ["Kind", "Number"], Object.entries(counts)));
  }
  panel.replaceChildren(...(sections.length ? sections : [note(view.summary)]));
}

function origin({ secret, key, part, value }) {
  if (secret === undefined) return code(value);
  const of = part ? `the part ${part} of ` : "";
  return element("span", {}, `${of}key `, code(key), " of Secret ", code(secret));
}

/** The receipt. */
export function showReceipt(panel, view) {
  if (!view.receipt) {
    panel.replaceChildren(note(view.summary));
    return;
  }
  const meanings = {
    plugin: "adapter that generated the file",
    version: "its version",
    component: "its digest",
    input: "digest of everything that it was asked",
    output: "digest of the file",
    fuel: "work that it needed; the same for the same input",
    engine: "program that ran it",
    packs: "provider packs that took part",
  };
  const rows = Object.entries(view.receipt).map(([key, value]) => [
    key,
    code(typeof value === "object" ? JSON.stringify(value) : String(value)),
    meanings[key] ?? "",
  ]);
  panel.replaceChildren(table("Receipt", ["", "Value", "Meaning"], rows));
}

/** Two releases side by side. */
export function showComparison(panel, comparison, onlyChanges) {
  if (!comparison) {
    panel.replaceChildren(note("Select two releases in the column “Compare” of the table above."));
    return;
  }
  const { left, right, rows } = comparison;
  const head = element("tr");
  for (const side of [left, right]) {
    head.append(element("th", { colSpan: 2, scope: "col" }, `${side.dialect} `, verdict(side.verdict)));
  }
  const body = element("tbody");
  const reasons = Math.max(left.problems.length, right.problems.length);
  for (let index = 0; index < Math.min(reasons, 20); index++) {
    body.append(
      element("tr", {}, ...[left, right].flatMap(({ problems }) => {
        const one = problems[index];
        const text = one ? `${one.isError ? "✕" : "!"} ${one.field}: ${one.problem}` : "";
        return [element("td", { className: "number" }), element("td", {}, text)];
      })),
    );
  }
  const isChanged = rows.map((row) => row.left?.[1] !== row.right?.[1]);
  let skipped = 0;
  let shown = 0;
  const skip = () => {
    if (skipped) body.append(element("tr", { className: "gap" }, element("td", { colSpan: 4 }, same(skipped))));
    skipped = 0;
  };
  rows.forEach((row, index) => {
    if (onlyChanges && !near(isChanged, index)) {
      skipped++;
      return;
    }
    if (++shown > LINES) return;
    skip();
    const cells = [[row.left, "minus"], [row.right, "plus"]].flatMap(([side, mark]) => [
      element("td", { className: "number" }, String(side?.[0] ?? "")),
      element("td", { className: isChanged[index] && side ? mark : "" }, ...colour(side?.[1] ?? "")),
    ]);
    body.append(element("tr", {}, ...cells));
  });
  skip();
  const columns = element("colgroup", {}, ...[0, 1, 0, 1].map((wide) => element("col", { className: wide ? "" : "number" })));
  const table = element("table", { className: "sides" }, columns, element("thead", {}, head), body);
  panel.replaceChildren(table, ...rest(shown));
}

const near = (isChanged, index) => isChanged.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).includes(true);
const same = (lines) => `${lines} ${lines === 1 ? "line is" : "lines are"} the same`;
const gap = (lines) => element("div", { className: "gap" }, same(lines));
const rest = (shown) => (shown > LINES ? [note(`${shown - LINES} more lines are in the saved report.`)] : []);
const code = (text) => element("code", {}, text);

function table(caption, headings, rows) {
  const cells = (tag, row) => row.map((cell) => element(tag, {}, cell instanceof Node ? cell : String(cell)));
  return element(
    "table",
    { className: "data" },
    element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...cells("th", headings))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row)))),
  );
}
