import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { assembly, detection, expand, expansion, identity } from "../src/adapter.js";
import { SHAPES, canonical } from "../src/sdk.js";

const entry = { id: "vllm", provider: "vllm", endpoint: "http://vllm:8000/v1", settings: {}, references: {} };
const request = { path: "spec.providers.inference", entry };

test("an endpoint becomes the base URL", () => {
  assert.equal(expand(request).output.config.base_url, "http://vllm:8000/v1");
});

test("a missing endpoint is rejected", () => {
  const call = () => expand({ ...request, entry: { ...entry, endpoint: undefined } });
  assert.throws(call, /spec.providers.inference.endpoint: is required/);
});

test("numbers keep their form", () => {
  const base = '{"a":1.0,"b":12345678901234567890,"c":"1.0","d":0.5,"10":0,"9":0}';
  const json = `{"base":${base},"schema":"acme/1.0"}`;
  const { output } = assembly.assemble({ shape: SHAPES.assemblyRequest, json });
  assert.match(output.json, /"10":0,"9":0,"a":1.0,"b":12345678901234567890,"c":"1.0","d":0.5/);
});

test("a deeply nested document is rejected", () => {
  const json = "[".repeat(20000);
  assert.throws(
    () => expansion.expand({ shape: SHAPES.expansionRequest, json }),
    ([problem]) => problem.code === "malformed-document",
  );
});

const folder = new URL("./golden/", import.meta.url);
for (const name of readdirSync(folder)) {
  test(`fixture ${name} is answered as recorded`, () => {
    const read = (file) => JSON.parse(readFileSync(new URL(`${name}/${file}`, folder), "utf8"));
    const { call, request } = read("request.json");
    assert.equal(canonical(ask(call, request)), canonical(read("answer.json")));
  });
}

/** What `llsd plugin run` prints for a call. */
function ask(call, request) {
  const document = (shape, value) => ({ shape, json: canonical(value) });
  if (call === "describe") return JSON.parse(identity.describe().json);
  if (call === "detect") {
    const { base, hints } = request;
    const found = detection.detect(document(SHAPES.base, base), document(SHAPES.hints, hints));
    return { one: { one: found.val }, "one-of": { oneOf: found.val }, none: { none: true } }[found.tag];
  }
  try {
    const { output, warnings } =
      call === "expand"
        ? expansion.expand(document(SHAPES.expansionRequest, request))
        : assembly.assemble(document(SHAPES.assemblyRequest, request));
    return { output: JSON.parse(output.json), warnings };
  } catch (problems) {
    return { problems };
  }
}
