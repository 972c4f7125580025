// A schema adapter for the dialect `acme/1.0`.

import { Diagnostics, SHAPES, exportAdapter } from "./sdk.js";

const SCHEMA = "acme/1.0";

/** What the plugin is and serves. Must be constant. */
export function describe() {
  return {
    name: "acme",
    version: "0.1.0",
    vendor: "you",
    shapes: Object.values(SHAPES),
    schemas: [{ id: SCHEMA, product: "acme", from: "1.0.0", role: "current" }],
    apis: { [SCHEMA]: ["inference"] },
    providers: {
      [SCHEMA]: {
        inference: [
          { name: "vllm", type: "remote::vllm", endpoint: "base_url", credential: "api_token" },
        ],
      },
    },
  };
}

/** The schema of a base configuration: an id, a list of ids that are all possible, or null. */
export function detect(base, hints) {
  return hints.schema === SCHEMA || base?.distro_name === "acme" ? SCHEMA : null;
}

/** The configuration of one provider. */
export function expand({ path, entry }) {
  const diagnostics = new Diagnostics();
  const config = { ...entry.settings };
  const wants = [];
  if (entry.endpoint === undefined) {
    diagnostics.error(
      "no-endpoint",
      `${path}.endpoint`,
      "is required for vllm",
      "set the URL of the vLLM server",
    );
  } else {
    config.base_url = entry.endpoint;
  }
  const variable = entry.references.apiKey;
  if (variable !== undefined) {
    config.api_token = `\${env.${variable}}`;
    wants.push({ env: variable, reference: variable, readAs: "convertedText" });
  }
  if (!["vllm", "remote::vllm"].includes(entry.provider)) {
    diagnostics.error(
      "unknown-provider",
      `${path}.provider`,
      `${JSON.stringify(entry.provider)} is not a known provider`,
      "use vllm",
    );
  }
  return diagnostics.finish({ id: entry.id, type: "remote::vllm", config, wants });
}

/** The complete configuration. */
export function assemble({ base, providers, resources, server }) {
  const diagnostics = new Diagnostics();
  const expansions = Object.values(providers)
    .flat()
    .map(({ expansion }) => expansion);
  const models = [];
  const registered = [];
  for (const model of resources.models) {
    const provider = model.provider ?? expansions[0]?.id;
    if (provider === undefined) {
      diagnostics.error(
        "no-provider",
        model.path,
        "no provider serves this model",
        "add a provider under spec.providers.inference",
      );
      continue;
    }
    registered.push({ model_id: model.name, provider_id: provider });
    models.push({ id: `${provider}/${model.name}`, name: model.name });
  }
  // Start from the base configuration, so that unknown keys are preserved.
  const isObject = base !== null && typeof base === "object" && !Array.isArray(base);
  const config = {
    ...(isObject ? base : {}),
    providers: {
      inference: expansions.map(({ id, type, config }) => ({
        provider_id: id,
        provider_type: type,
        config,
      })),
    },
    registered_resources: { models: registered },
  };
  return diagnostics.finish({
    config,
    variables: [],
    startup: { env: { RUN_CONFIG_PATH: server.configFile }, command: [], args: [] },
    counts: { providers: expansions.length, models: models.length, tools: 0, shields: 0 },
    models,
  });
}

export const { types, identity, detection, expansion, assembly } = exportAdapter({
  describe,
  detect,
  expand,
  assemble,
});
