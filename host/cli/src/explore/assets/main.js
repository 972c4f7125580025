// Connects the parts of the page.

import { Asker, explain, get, post } from "./answer.js";
import { Editor } from "./editor.js";
import * as link from "./link.js";
import { element, showComparison, showConfig, showObjects, showReceipt, showVariables, verdict } from "./panels.js";
import { Releases } from "./releases.js";

const $ = (id) => document.getElementById(id);
const TABS = ["config", "objects", "variables", "receipt", "compare"];
const LINK_DELAY = 500;

let tab = "config";
let view = null;
let comparison = null;
let dialects = new Set();
let token = sessionStorage.getItem("token");
const opened = new Map();

const editor = new Editor(() => {
  $("open").value = "";
  ask();
});

const releases = new Releases((what) => {
  if (what === "compared" && releases.compared) select("compare");
  if (what === "shown" && tab === "compare") select("config");
  ask(0);
});

const asker = new Asker({
  begin() {
    dialects = new Set();
    releases.begin();
    // Fast answers do not flicker.
    clearTimeout(asker.busy);
    asker.busy = setTimeout(() => ($("working").textContent = "working…"), 300);
  },
  part(part) {
    switch (part.part) {
      case "view":
        view = part;
        comparison = null;
        fail(null);
        showProblems();
        showPanels();
        break;
      case "release":
        dialects.add(part.dialect);
        releases.set(part);
        break;
      case "comparison":
        comparison = part;
        showPanels();
        break;
      case "end":
        done(`${part.millis} ms`);
        break;
      case "stopped":
        done("stopped");
        fail(part.problem);
        break;
    }
  },
  end() {
    if ($("working").textContent === "working…") done("");
  },
  fail(message) {
    done("");
    fail(message);
  },
});

function done(text) {
  clearTimeout(asker.busy);
  $("working").textContent = text;
  releases.end(view, dialects);
}

function fail(message) {
  $("failure").hidden = !message;
  if ($("failure").textContent !== (message ?? "")) $("failure").textContent = message ?? "";
}

/** What the server is asked. */
function question() {
  return { text: editor.value, dialect: releases.shown, compare: releases.compared };
}

let linkTimer = 0;

function ask(delay) {
  asker.ask(question(), delay);
  clearTimeout(linkTimer);
  linkTimer = setTimeout(updateLink, LINK_DELAY);
}

/** Writes the state into the address. */
async function updateLink() {
  const fragment = await link.encode({ ...question(), tab });
  history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname);
  return fragment;
}

function restore(state) {
  editor.value = state.text;
  const isPair = Array.isArray(state.compare) && state.compare.length === 2;
  releases.restore(state.dialect, isPair ? state.compare.map(String) : null);
  select(TABS.includes(state.tab) ? state.tab : "config");
  ask(0);
}

function showProblems() {
  const { problems, moreProblems } = view;
  const items = problems.map((problem) => {
    const { isError, field, fix, mark } = problem;
    const button = element(
      "button",
      { type: "button", className: isError ? "error" : "warning" },
      element("span", { className: "line faint" }, mark ? `line ${mark.line}` : ""),
      element("strong", {}, `${isError ? "" : "warning: "}${field}`),
      element("span", {}, problem.problem),
      element("span", { className: "faint" }, `Fix: ${fix}`),
    );
    button.addEventListener("click", () => mark && editor.select(mark));
    return element("li", {}, button);
  });
  if (moreProblems) items.push(element("li", { className: "note" }, `and ${moreProblems} more`));
  $("problems").replaceChildren(...items);
  const marks = problems.filter((one) => one.mark);
  editor.mark(marks.map(({ mark, isError, field, problem }) => ({ ...mark, isError, title: `${field}: ${problem}` })));
  const errors = problems.filter((one) => one.isError).length + moreProblems;
  const warnings = problems.filter((one) => !one.isError).length;
  const text = [counted(errors, "problem"), counted(warnings, "warning")].filter(Boolean).join(", ") || "no problems";
  // A status is read out when it changes.
  if ($("count").textContent !== text) $("count").textContent = text;
  const base = view.base === "example" ? ", over an example base configuration" : "";
  const where = view.dialect ? `${view.dialect}${view.releases ? `, releases ${view.releases}` : ""}${base}` : view.summary;
  $("summary").replaceChildren(verdict(view.verdict), ` ${where}`);
  $("summary").title = view.summary;
  if (view.verdict === "failed") fail(view.summary);
}

const counted = (number, what) => (number ? `${number} ${what}${number === 1 ? "" : "s"}` : "");

function showPanels() {
  if (!view) return;
  const onlyChanges = $("only-changes").checked;
  const panel = $(`panel-${tab}`);
  switch (tab) {
    case "config": return showConfig(panel, view, onlyChanges);
    case "objects": return showObjects(panel, view);
    case "variables": return showVariables(panel, view);
    case "receipt": return showReceipt(panel, view);
    case "compare": return showComparison(panel, comparison, onlyChanges);
  }
}

/** Shows a tab. */
function select(name) {
  tab = name;
  for (const one of TABS) {
    const isSelected = one === name;
    $(`tab-${one}`).setAttribute("aria-selected", String(isSelected));
    $(`tab-${one}`).tabIndex = isSelected ? 0 : -1;
    $(`panel-${one}`).hidden = !isSelected;
  }
  document.querySelector("#tabs .option").hidden = !["config", "compare"].includes(name);
  showPanels();
}

for (const name of TABS) {
  $(`tab-${name}`).addEventListener("click", () => {
    select(name);
    updateLink();
  });
}
$("tabs").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const at = event.key === "Home" ? 0 : event.key === "End" ? TABS.length - 1 : TABS.indexOf(tab) + (step ?? NaN);
  if (Number.isNaN(at) || event.target.role !== "tab") return;
  event.preventDefault();
  select(TABS.at(at % TABS.length));
  $(`tab-${tab}`).focus();
});
$("only-changes").addEventListener("change", showPanels);

// Saving and links

let toastTimer = 0;

function toast(text) {
  clearTimeout(toastTimer);
  $("toast").textContent = text;
  toastTimer = setTimeout(() => ($("toast").textContent = ""), 4000);
}

function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const fileName = () => (view?.name || "resource").replace(/[^\w.-]/g, "-").slice(0, 80);

$("save-resource").addEventListener("click", () => save(`${fileName()}.yaml`, "application/yaml", editor.value));
async function savePage(kind) {
  try {
    const response = await post(`/api/${kind}`, question());
    save(`${fileName()}-${kind}.html`, "text/html", await response.blob());
  } catch (error) {
    toast(explain(error));
  }
}
for (const kind of ["report", "plan"]) {
  $(`save-${kind}`).addEventListener("click", () => savePage(kind));
}
$("copy-link").addEventListener("click", async () => {
  if (!(await updateLink())) return toast("The resource is too large for a link. Save it instead.");
  try {
    await navigator.clipboard.writeText(location.href);
    toast("The link is copied. It works wherever llsd explore runs on the same port.");
  } catch {
    toast("The link is in the address bar.");
  }
});

// Light and dark

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
}
setTheme(localStorage.getItem("theme"));
$("theme").addEventListener("click", () => {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(isDark ? "light" : "dark");
  localStorage.setItem("theme", isDark ? "light" : "dark");
});

// What can be opened

$("open").addEventListener("change", async () => {
  const name = $("open").value;
  try {
    const text = await opened.get(name)?.();
    if (text === undefined) return;
    editor.value = text;
    ask(0);
  } catch (error) {
    toast(explain(error));
  }
});

function offer(label, entries) {
  const group = element("optgroup", { label });
  for (const [name, text] of entries) {
    opened.set(`${label}: ${name}`, text);
    group.append(element("option", { value: `${label}: ${name}` }, name));
  }
  if (entries.length) $("open").append(group);
}

async function offerCluster() {
  try {
    const { namespace, names } = await get("/api/cluster", token);
    const text = (name) => async () => (await get(`/api/cluster/${encodeURIComponent(name)}`, token)).text;
    offer(`Cluster, namespace ${namespace}`, names.map((name) => [name, text(name)]));
    if (!names.length) toast(`Namespace ${namespace} has no LlamaStackDistribution.`);
  } catch (error) {
    toast(explain(error));
  }
}

// Plugins of --plugin

function showPlugin({ given, problem }) {
  $("plugin").hidden = !given.length;
  $("plugin").textContent = problem ? "plugin failed to load" : `plugin ${given.join(", ")}`;
  $("plugin").classList.toggle("bad", Boolean(problem));
  $("plugin").title = problem ?? "";
  if (problem) toast(problem);
}

async function watchPlugins(known) {
  for (;;) {
    try {
      const plugins = await get(`/api/plugins?known=${known}`);
      if (plugins.version !== known) {
        known = plugins.version;
        showPlugin(plugins);
        ask(0);
      }
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
}

async function begin() {
  select("config");
  const fragment = location.hash.slice(1);
  if (fragment.startsWith("token=")) {
    token = fragment.slice("token=".length);
    sessionStorage.setItem("token", token);
  }
  const start = await get("/api/start");
  $("release").textContent = start.version;
  if (start.hasFile) {
    const text = async () => (await get("/api/opened", token)).text;
    offer("Yours", [["the file of --filename", text]]);
  }
  offer("Samples", start.samples.map(({ name, text }) => [name, async () => text]));
  const state = await link.decode(fragment);
  if (state) {
    restore(state);
  } else {
    const first = start.hasFile && token ? "Yours: the file of --filename" : "Samples: minimal";
    $("open").value = first;
    restore({ text: await opened.get(first)() });
  }
  if (start.hasCluster) offerCluster();
  if (start.plugins.given.length) {
    showPlugin(start.plugins);
    watchPlugins(start.plugins.version);
  }
}

window.addEventListener("hashchange", async () => {
  const state = await link.decode(location.hash.slice(1));
  if (state) restore(state);
});

begin().catch((error) => fail(explain(error)));
