// The table of releases: which of them accept the resource, which one is shown, which two are compared.

import { element, verdict } from "./panels.js";

export class Releases {
  #body = document.querySelector("#releases tbody");
  #rows = new Map();
  #shown = "";
  #compared = [];
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
    this.#add("", "As the operator decides", false);
  }

  /** The dialect that is shown; null for the one that the operator selects. */
  get shown() {
    return this.#shown || null;
  }

  /** Two dialects, or null. */
  get compared() {
    return this.#compared.length === 2 ? [...this.#compared] : null;
  }

  restore(shown, compared) {
    this.#shown = shown ?? "";
    this.#compared = compared ?? [];
    this.#select();
  }

  /** All rows are of an older answer. */
  begin() {
    for (const { row } of this.#rows.values()) row.classList.add("stale");
  }

  /** Shows one row of an answer. */
  set(release) {
    const { dialect, releases, adapter, isOwn, isPlugin, errors, warnings, reason } = release;
    const { row, name, result, why } = this.#rows.get(dialect) ?? this.#add(dialect, dialect, true);
    row.classList.remove("stale");
    row.title = `${adapter}${isPlugin ? " (from --plugin)" : ""}`;
    name.replaceChildren(dialect + " ", element("span", { className: "faint" }, releases));
    if (isPlugin) name.append(element("span", { className: "own" }, "plugin"));
    if (isOwn) name.append(element("span", { className: "own" }, "own"));
    const counts = [];
    if (errors > 1) counts.push(`${errors} problems`);
    else if (!errors && warnings > 1) counts.push(`${warnings} warnings`);
    result.replaceChildren(verdict(release.verdict));
    why.textContent = [...counts, reason].filter(Boolean).join(": ");
    why.title = reason ?? "";
  }

  /** Shows the verdict of the operator's own choice, and removes dialects that no plugin serves now. */
  end(view, dialects) {
    const own = this.#rows.get("");
    own.row.classList.remove("stale");
    if (view && !this.#shown) {
      own.result.replaceChildren(verdict(view.verdict));
      own.why.textContent = view.dialect ? `${view.dialect} (${source(view.dialectSource)})` : view.summary;
    }
    for (const [dialect, { row }] of this.#rows) {
      if (!dialect || dialects.has(dialect)) continue;
      if (dialects.size) {
        row.remove();
        this.#rows.delete(dialect);
      } else {
        row.classList.add("stale");
      }
    }
  }

  #add(dialect, label, isComparable) {
    const show = element("input", { type: "radio", name: "shown", value: dialect, checked: dialect === this.#shown });
    show.setAttribute("aria-label", `Show ${label}`);
    show.addEventListener("change", () => {
      this.#shown = dialect;
      this.#select();
      this.#onChange("shown");
    });
    const compare = element("input", { type: "checkbox", value: dialect });
    compare.setAttribute("aria-label", `Compare ${label}`);
    compare.addEventListener("change", () => {
      const others = this.#compared.filter((other) => other !== dialect);
      // The third one replaces the first.
      this.#compared = compare.checked ? [...others.slice(-1), dialect] : others;
      this.#select();
      this.#onChange("compared");
    });
    const name = element("th", { scope: "row" }, label);
    const result = element("td");
    const why = element("td");
    const row = element("tr", {}, element("td", {}, show), name, result, why, element("td", {}, ...(isComparable ? [compare] : [])));
    const entry = { row, name, result, why, show, compare };
    this.#rows.set(dialect, entry);
    this.#body.append(row);
    this.#select();
    return entry;
  }

  #select() {
    for (const [dialect, { row, show, compare }] of this.#rows) {
      show.checked = dialect === this.#shown;
      row.classList.toggle("shown", show.checked);
      compare.checked = this.#compared.includes(dialect);
    }
  }
}

function source(source) {
  return {
    stated: "stated",
    serverVersion: "by the release of the server",
    detected: "detected in the base configuration",
    runningServer: "by the running server",
  }[source] ?? source;
}
