// The editor: a text area, with the same text in colour behind it. Problems are marked in the coloured
// text and in the line numbers.

/** Longer texts are not coloured, so that typing stays fast. */
const COLOURED = 60_000;
const NUMBERED_LINES = 3_000;

export class Editor {
  #text = document.getElementById("text");
  #paint = document.getElementById("paint");
  #gutter = document.getElementById("gutter");
  #numbers = document.createElement("div");
  #box = document.getElementById("editor");
  #shown = "";
  #marks = [];

  constructor(onChange) {
    this.#gutter.append(this.#numbers);
    this.#text.addEventListener("input", () => {
      this.#moveMarks();
      this.#draw();
      onChange();
    });
    this.#text.addEventListener("scroll", () => this.#scroll());
    this.#text.addEventListener("keydown", (event) => this.#key(event));
  }

  get value() {
    return this.#text.value;
  }

  set value(text) {
    this.#text.value = text;
    this.#text.setSelectionRange(0, 0);
    this.#text.scrollTop = 0;
    this.#marks = [];
    this.#draw();
    this.#scroll();
  }

  /** Marks problems: `{start, end, line, isError, title}`. */
  mark(marks) {
    this.#marks = marks.toSorted((a, b) => a.start - b.start || b.isError - a.isError);
    this.#text.setAttribute("aria-invalid", String(marks.some((mark) => mark.isError)));
    this.#draw();
  }

  /** Selects a range and scrolls to it. */
  select({ start, end, line }) {
    this.#text.focus();
    this.#text.setSelectionRange(start, end);
    const height = parseFloat(getComputedStyle(this.#text).lineHeight);
    this.#text.scrollTop = Math.max(0, (line - 1) * height - this.#text.clientHeight / 3);
    this.#scroll();
  }

  #key(event) {
    if (event.key === "F8" && this.#marks.length) {
      event.preventDefault();
      const at = this.#text.selectionStart;
      const after = this.#marks.find((mark) => mark.start > at) ?? this.#marks[0];
      const before = this.#marks.findLast((mark) => mark.start < at) ?? this.#marks.at(-1);
      this.select(event.shiftKey ? before : after);
    } else if (event.key === "Enter" && !event.isComposing) {
      const before = this.value.slice(0, this.#text.selectionStart);
      const line = before.slice(before.lastIndexOf("\n") + 1);
      const indent = line.match(/^ */)[0] + (/:\s*$/.test(line) ? "  " : "");
      if (!indent) return;
      event.preventDefault();
      // Unlike an assignment, this can be undone.
      document.execCommand("insertText", false, "\n" + indent);
    }
  }

  /** Moves marks with the text around an edit, until the next answer. Those in the edit disappear. */
  #moveMarks() {
    const [before, after] = [this.#shown, this.value];
    let start = 0;
    const shortest = Math.min(before.length, after.length);
    while (start < shortest && before[start] === after[start]) start++;
    let end = 0;
    while (end < shortest - start && before.at(-1 - end) === after.at(-1 - end)) end++;
    const moved = after.length - before.length;
    const lines = count(after, start, after.length - end) - count(before, start, before.length - end);
    this.#marks = this.#marks.flatMap((mark) => {
      if (mark.end <= start) return [mark];
      if (mark.start < before.length - end) return [];
      return [{ ...mark, start: mark.start + moved, end: mark.end + moved, line: mark.line + lines }];
    });
  }

  #draw() {
    const text = this.value;
    this.#shown = text;
    const isPlain = text.length > COLOURED;
    this.#box.classList.toggle("plain", isPlain);
    this.#paint.replaceChildren(...(isPlain ? [] : paint(text, this.#marks)));
    const worst = new Map();
    for (const { line, isError, title } of this.#marks) {
      const known = worst.get(line);
      if (!known || (isError && !known.isError)) worst.set(line, { isError, title });
    }
    const lines = Math.min(count(text, 0, text.length) + 1, NUMBERED_LINES);
    const numbers = Array.from({ length: lines }, (_, index) => {
      const number = document.createElement("span");
      number.textContent = index + 1;
      const mark = worst.get(index + 1);
      if (mark) {
        number.className = mark.isError ? "error" : "warning";
        number.title = mark.title;
      }
      return number;
    });
    this.#numbers.replaceChildren(...numbers);
  }

  #scroll() {
    const { scrollLeft, scrollTop } = this.#text;
    this.#paint.style.transform = `translate(${-scrollLeft}px, ${-scrollTop}px)`;
    this.#numbers.style.transform = `translateY(${-scrollTop}px)`;
  }
}

function count(text, from, to) {
  let lines = 0;
  for (let at = text.indexOf("\n", from); at !== -1 && at < to; at = text.indexOf("\n", at + 1)) lines++;
  return lines;
}

/** The nodes of a coloured text with marks. */
function paint(text, marks) {
  const nodes = [];
  let at = 0;
  for (const { start, end, isError } of marks) {
    if (start < at || start >= text.length) continue;
    nodes.push(...colour(text.slice(at, start)));
    const mark = document.createElement("mark");
    mark.className = isError ? "error" : "warning";
    mark.append(...colour(text.slice(start, end)));
    nodes.push(mark);
    at = Math.min(end, text.length);
  }
  nodes.push(...colour(text.slice(at)));
  return nodes;
}

const TOKEN = /(#[^\n]*)|("(?:[^"\\\n]|\\.)*"|'[^'\n]*')|([\w./-]+)(?=:(?:\s|$))|(\b(?:true|false|null)\b|\b\d[\d.]*\b)/g;

/** The nodes of YAML in colour: comments, strings, keys, numbers. An approximation is enough. */
export function colour(yaml) {
  const nodes = [];
  let at = 0;
  for (const match of yaml.matchAll(TOKEN)) {
    const kind = "csk"[[1, 2, 3].findIndex((group) => match[group] !== undefined)] ?? "n";
    const before = yaml[match.index - 1];
    if (kind === "c" && before !== undefined && !/\s/.test(before)) continue;
    if (kind === "n" && before !== undefined && /[\w.:/-]/.test(before)) continue;
    if (match.index > at) nodes.push(yaml.slice(at, match.index));
    const span = document.createElement("span");
    span.className = kind;
    span.textContent = match[0];
    nodes.push(span);
    at = match.index + match[0].length;
  }
  if (at < yaml.length) nodes.push(yaml.slice(at));
  return nodes;
}
