import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { expansion, identity } from "../src/pack.js";
import { SHAPES, canonical } from "../src/sdk.js";

test("every schema has the provider", () => {
  const { providers, schemas } = JSON.parse(identity.describe().json);
  assert.deepEqual(Object.keys(providers).sort(), schemas.map(({ id }) => id).sort());
});

const folder = new URL("./golden/", import.meta.url);
for (const name of readdirSync(folder)) {
  test(`fixture ${name} is answered as recorded`, () => {
    const read = (file) => JSON.parse(readFileSync(new URL(`${name}/${file}`, folder), "utf8"));
    assert.equal(canonical(answer(read("request.json").request)), canonical(read("answer.json")));
  });
}

/** What `llsd plugin run` prints. */
function answer(request) {
  try {
    const document = { shape: SHAPES.expansionRequest, json: canonical(request) };
    const { output, warnings } = expansion.expand(document);
    return { output: JSON.parse(output.json), warnings };
  } catch (problems) {
    return { problems };
  }
}
