// The SDK for plugins in JavaScript: documents, diagnostics and canonical JSON.
//
// `exportAdapter` and `exportPack` turn plain functions into the interfaces of the contract
// (`wit/adapter.wit`). The functions take and return JavaScript values; the JSON Schemas in
// `wit/schemas` describe them. An exception in your code becomes a diagnostic instead of a trap.
//
// A number that JavaScript would change (1.0, or an integer above 2^53) is an `ExactNumber`.

const PREFIX = "llamastack.io/adapter/";

/** The shapes that the host sends, and those that it reads. */
export const SHAPES = {
  base: PREFIX + "base/v1",
  hints: PREFIX + "hints/v1",
  expansionRequest: PREFIX + "expansion-request/v1",
  assemblyRequest: PREFIX + "assembly-request/v1",
  expansion: PREFIX + "expansion/v1",
  assembly: PREFIX + "assembly/v1",
};

// Deeper documents are rejected before JSON.parse, which recurses and would exhaust the stack.
const MAX_DEPTH = 128;

/** Collects diagnostics, so that all of them are returned at once. */
export class Diagnostics {
  #all = [];

  error(code, field, problem, fix) {
    this.#all.push({ severity: "error", code, field, problem, fix });
  }

  warning(code, field, problem, fix) {
    this.#all.push({ severity: "warning", code, field, problem, fix });
  }

  /** Returns the output with its warnings, or throws all diagnostics if one is an error. */
  finish(output) {
    this.#all.sort((a, b) => compare(a.field, b.field) || compare(a.code, b.code));
    if (this.#all.some((one) => one.severity === "error")) {
      throw new Rejection(this.#all);
    }
    return { output, warnings: this.#all };
  }
}

/** Thrown by `Diagnostics.finish`. */
export class Rejection extends Error {
  constructor(diagnostics) {
    super(diagnostics.map((one) => `${one.field}: ${one.problem}; ${one.fix}`).join("\n"));
    this.diagnostics = diagnostics;
  }
}

/** The interfaces of the world `provider-pack`, for an object with `describe` and `expand`. */
export function exportPack({ describe, expand }) {
  return {
    types: {},
    identity: {
      describe: () => ({ shape: PREFIX + "description/v1", json: canonical(describe()) }),
    },
    expansion: {
      expand: (request) =>
        answer(request, SHAPES.expansionRequest, "expansion/v1", (value) => {
          checkExpansionRequest(value);
          return expand(value);
        }),
    },
  };
}

/** The interfaces of the world `schema-adapter`. */
export function exportAdapter({ describe, detect, expand, assemble }) {
  return {
    ...exportPack({ describe, expand }),
    detection: {
      // A document that cannot be read is not detected.
      detect(base, hints) {
        try {
          const found = detect(read(base, SHAPES.base), read(hints, SHAPES.hints));
          if (Array.isArray(found)) return { tag: "one-of", val: found };
          return found === null ? { tag: "none" } : { tag: "one", val: found };
        } catch {
          return { tag: "none" };
        }
      },
    },
    assembly: {
      assemble: (request) =>
        answer(request, SHAPES.assemblyRequest, "assembly/v1", (value) => {
          checkAssemblyRequest(value);
          return assemble(value);
        }),
    },
  };
}

/**
 * A number that a double does not hold exactly, or that JavaScript writes in another way, such as 1.0.
 * It is written as it was read. Use `Number(value)` to calculate with it.
 */
export class ExactNumber {
  constructor(text) {
    this.text = text;
  }

  valueOf() {
    return Number(this.text);
  }
}

/** JSON with sorted keys and without insignificant whitespace. */
export function canonical(value) {
  if (value instanceof ExactNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  // Not JSON.stringify, because JavaScript puts keys that look like numbers first.
  const pairs = [];
  for (const key of sorted(Object.keys(value))) {
    if (value[key] !== undefined) pairs.push(`${JSON.stringify(key)}:${canonical(value[key])}`);
  }
  return `{${pairs.join(",")}}`;
}

/** Orders strings by Unicode code points, as the host does. */
export function compare(a, b) {
  if (!SURROGATE.test(a) && !SURROGATE.test(b)) return a < b ? -1 : a > b ? 1 : 0;
  const [x, y] = [[...a], [...b]];
  for (let i = 0; i < x.length && i < y.length; i++) {
    if (x[i] !== y[i]) return x[i].codePointAt(0) - y[i].codePointAt(0);
  }
  return x.length - y.length;
}

// The engine's own order, which is that of UTF-16, costs much less fuel and mostly is the same.
function sorted(keys) {
  return SURROGATE.test(keys.join("")) ? keys.sort(compare) : keys.sort();
}

const SURROGATE = /[\ud800-\udfff]/;

/** Parses the JSON of a document. Throws a `Rejection` if it has another shape or is invalid. */
export function read({ shape, json }, expected) {
  if (shape !== expected) {
    reject(
      "unknown-shape",
      `a document of shape ${JSON.stringify(shape)} was received where ${JSON.stringify(expected)} was expected`,
      "use a plugin and a host that share a version of the contract",
    );
  }
  if (depth(json) > MAX_DEPTH) malformed(expected, `it is nested more than ${MAX_DEPTH} levels deep`);
  try {
    return parse(json);
  } catch {
    return malformed(expected, "it is not valid JSON");
  }
}

// A number with a fraction, an exponent or many digits. Strings can match too, which only costs time.
const INEXACT = /[:[,]-?[0-9]+(?:\.|[eE]|[0-9]{15})/;
const STRING_OR_NUMBER = /"(?:[^"\\]+|\\.)*"|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/g;
// No document of the host contains this character.
const MARK = "\u0000number ";

function parse(json) {
  if (!INEXACT.test(json)) return JSON.parse(json);
  const marked = json.replace(STRING_OR_NUMBER, (token) =>
    token[0] === '"' || String(Number(token)) === token ? token : JSON.stringify(MARK + token),
  );
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(MARK)
      ? new ExactNumber(value.slice(MARK.length))
      : value,
  );
}

function depth(json) {
  // Regular expressions run natively, which is much cheaper than a loop over all characters.
  const brackets = json.replace(/"(?:[^"\\]+|\\.)*"/g, "").replace(/[^[\]{}]+/g, "");
  let [now, deepest] = [0, 0];
  for (let i = 0; i < brackets.length; i++) {
    const c = brackets.charCodeAt(i);
    if (c === 0x5b || c === 0x7b) deepest = Math.max(deepest, ++now);
    else now--;
  }
  return deepest;
}

/** Calls `ask`, and returns what the contract wants: an outcome, or thrown diagnostics. */
function answer(request, expected, shape, ask) {
  try {
    const { output, warnings } = ask(read(request, expected));
    return { output: { shape: PREFIX + shape, json: canonical(output) }, warnings };
  } catch (error) {
    if (error instanceof Rejection) throw error.diagnostics;
    throw [
      {
        severity: "error",
        code: "internal-error",
        field: "",
        problem: `the plugin failed: ${String(error?.message ?? error).replace(/\.+$/, "")}`,
        fix: "report this to the plugin's author",
      },
    ];
  }
}

function reject(code, problem, fix) {
  throw new Rejection([{ severity: "error", code, field: "", problem, fix }]);
}

function malformed(shape, problem) {
  return reject(
    "malformed-document",
    `the ${JSON.stringify(shape)} document does not fit its shape: ${problem}`,
    "send a document that fits the published JSON Schema",
  );
}

// The checks below cover what every plugin relies on. They also fill in the defaults of optional keys.

const isObject = (value) =>
  value !== null &&
  typeof value === "object" &&
  !Array.isArray(value) &&
  !(value instanceof ExactNumber);

function checkExpansionRequest(request) {
  const shape = SHAPES.expansionRequest;
  const strings = (value, keys) =>
    keys.every((key) => typeof value[key] === "string") || malformed(shape, `${keys} must be strings`);
  if (!isObject(request) || !isObject(request.entry)) malformed(shape, "it must have an entry");
  strings(request, ["schema", "api", "path"]);
  strings(request.entry, ["id", "provider"]);
  for (const key of ["endpoint", "host"]) {
    request.entry[key] ??= undefined;
    if (request.entry[key] !== undefined) strings(request.entry, [key]);
  }
  for (const key of ["settings", "references"]) {
    request.entry[key] ??= {};
    if (!isObject(request.entry[key])) malformed(shape, `entry.${key} must be an object`);
  }
  const diagnostics = new Diagnostics();
  for (const [field, variable] of Object.entries(request.entry.references)) {
    if (typeof variable !== "string") malformed(shape, "references must be strings");
    if (!/^[A-Z0-9_]+$/.test(variable)) {
      diagnostics.error(
        "malformed-reference",
        `${request.path}.${field}`,
        `${JSON.stringify(variable)} is not a valid variable name`,
        "use upper-case letters, digits and _",
      );
    }
  }
  diagnostics.finish();
}

function checkAssemblyRequest(request) {
  const shape = SHAPES.assemblyRequest;
  if (!isObject(request) || typeof request.schema !== "string") malformed(shape, "it must have a schema");
  request.providers ??= {};
  request.resources ??= {};
  request.server ??= {};
  if (![request.providers, request.resources, request.server].every(isObject)) {
    malformed(shape, "providers, resources and server must be objects");
  }
  for (const placed of Object.values(request.providers).flat()) {
    const expansion = isObject(placed) ? placed.expansion : undefined;
    if (!isObject(expansion) || typeof expansion.id !== "string" || typeof expansion.type !== "string") {
      malformed(shape, "a provider must have a path and an expansion");
    }
    expansion.config ??= {};
    if (!isObject(expansion.config)) malformed(shape, "the config of an expansion must be an object");
  }
  for (const key of ["configFile", "dataDir"]) {
    request.server[key] ??= "";
    if (typeof request.server[key] !== "string") malformed(shape, `server.${key} must be a string`);
  }
  for (const kind of ["models", "tools", "shields"]) {
    request.resources[kind] ??= [];
    const all = request.resources[kind];
    const isValid = (one) => isObject(one) && typeof one.path === "string" && typeof one.name === "string";
    if (!Array.isArray(all) || !all.every(isValid)) malformed(shape, `resources.${kind} is invalid`);
    const isProvider = ({ provider = null }) => provider === null || typeof provider === "string";
    if (!all.every(isProvider)) malformed(shape, `a provider of resources.${kind} must be a string`);
  }
}
