// A provider pack: the expansion of `provider: acme`, for the schemas of two products.
//
// A pack does not assemble: the schema adapter of the distribution adds the result to the file.

import { Diagnostics, SHAPES, exportPack } from "./sdk.js";

const API = "inference";
const NAME = "acme";
const TYPE = "remote::acme";

// The Python module that the server loads the provider from.
const MODULE = "acme_provider";

// The schemas that the module works with.
const SCHEMAS = [
  { id: "ogx/1.0", product: "ogx", from: "1.0.0", role: "current" },
  { id: "llama-stack/0.7", product: "llama-stack", from: "0.7.0", before: "0.8.0", role: "previous" },
];

/** What the plugin is and serves. Must be constant. */
export function describe() {
  const known = { name: NAME, type: TYPE, endpoint: "base_url", credential: "api_key" };
  const forEach = (value) => Object.fromEntries(SCHEMAS.map(({ id }) => [id, value]));
  return {
    name: "acme",
    version: "0.1.0",
    vendor: "you",
    shapes: [SHAPES.expansionRequest, SHAPES.expansion],
    schemas: SCHEMAS,
    apis: forEach([API]),
    providers: forEach({ [API]: [known] }),
  };
}

/** The configuration of one provider. */
export function expand({ api, path, entry }) {
  const diagnostics = new Diagnostics();
  const config = { ...entry.settings };
  const wants = [];
  if (api !== API || ![NAME, TYPE].includes(entry.provider)) {
    diagnostics.error(
      "unknown-provider",
      `${path}.provider`,
      `${JSON.stringify(entry.provider)} is not a known ${api} provider`,
      `use the ${API} provider ${NAME}`,
    );
  }
  if (entry.endpoint === undefined) {
    diagnostics.error(
      "no-endpoint",
      `${path}.endpoint`,
      `is required for ${NAME}`,
      "set the URL of the service",
    );
  } else {
    config.base_url = entry.endpoint;
  }
  const variable = entry.references.apiKey;
  if (variable !== undefined) {
    config.api_key = `\${env.${variable}}`;
    wants.push({ env: variable, reference: variable, readAs: "convertedText" });
  }
  return diagnostics.finish({ id: entry.id, type: TYPE, config, module: MODULE, wants });
}

export const { types, identity, expansion } = exportPack({ describe, expand });
