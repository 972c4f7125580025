// A schema adapter for the dialect `acme/1.0`.

#include "plugin.h"

static const char SCHEMA[] = "acme/1.0";

static json *list(const char *item) {
    json *array = json_array();
    json_push(array, json_string(text(item)));
    return array;
}

json *describe(void) {
    json *shapes = list("llamastack.io/adapter/base/v1");
    json_push(shapes, json_string(text("llamastack.io/adapter/hints/v1")));
    json_push(shapes, json_string(text("llamastack.io/adapter/expansion-request/v1")));
    json_push(shapes, json_string(text("llamastack.io/adapter/assembly-request/v1")));
    json_push(shapes, json_string(text("llamastack.io/adapter/expansion/v1")));
    json_push(shapes, json_string(text("llamastack.io/adapter/assembly/v1")));

    json *schema = json_object(), *schemas = json_array();
    json_set(schema, "id", json_string(text(SCHEMA)));
    json_set(schema, "product", json_string(text("acme")));
    json_set(schema, "from", json_string(text("1.0.0")));
    json_set(schema, "role", json_string(text("current")));
    json_push(schemas, schema);

    json *vllm = json_object(), *known = json_array();
    json_set(vllm, "name", json_string(text("vllm")));
    json_set(vllm, "type", json_string(text("remote::vllm")));
    json_set(vllm, "endpoint", json_string(text("base_url")));
    json_set(vllm, "credential", json_string(text("api_token")));
    json_push(known, vllm);

    json *apis = json_object(), *by_api = json_object(), *providers = json_object();
    json_set(apis, SCHEMA, list("inference"));
    json_set(by_api, "inference", known);
    json_set(providers, SCHEMA, by_api);

    json *description = json_object();
    json_set(description, "name", json_string(text("acme")));
    json_set(description, "version", json_string(text("0.1.0")));
    json_set(description, "vendor", json_string(text("you")));
    json_set(description, "shapes", shapes);
    json_set(description, "schemas", schemas);
    json_set(description, "apis", apis);
    json_set(description, "providers", providers);
    return description;
}

static bool is_text(const json *value, const char *expected) {
    return value != NULL && value->kind == JSON_STRING && text_equals(value->text, text(expected));
}

text_t detect(const json *base, const json *hints) {
    bool is_ours = is_text(json_get(hints, "schema"), SCHEMA) || is_text(json_get(base, "distro_name"), "acme");
    return text(is_ours ? SCHEMA : "");
}

json *expand(const json *request, diagnostics *all) {
    text_t path = json_get(request, "path")->text;
    const json *entry = json_get(request, "entry");
    const json *settings = json_get(entry, "settings"), *references = json_get(entry, "references");
    json *config = json_copy(settings), *wants = json_array();
    json *endpoint = json_get_kind(entry, "endpoint", JSON_STRING);
    if (endpoint == NULL) {
        add_error(all, "no-endpoint", text_join(path, text(".endpoint"), text(NULL)),
                  text("is required for vllm"), text("set the URL of the vLLM server"));
    }
    json_set(config, "base_url", endpoint);
    json *variable = json_get(references, "apiKey");
    if (variable != NULL) {
        text_t expression = text_join(text("${env."), variable->text, text("}"), text(NULL));
        json_set(config, "api_token", json_string(expression));
        json *want = json_object();
        json_set(want, "env", variable);
        json_set(want, "reference", variable);
        json_set(want, "readAs", json_string(text("convertedText")));
        json_push(wants, want);
    }
    const json *provider = json_get(entry, "provider");
    if (!is_text(provider, "vllm") && !is_text(provider, "remote::vllm")) {
        text_t problem = text_join(text_quoted(provider->text), text(" is not a known provider"), text(NULL));
        add_error(all, "unknown-provider", text_join(path, text(".provider"), text(NULL)), problem, text("use vllm"));
    }
    json *expansion = json_object();
    json_set(expansion, "id", json_get(entry, "id"));
    json_set(expansion, "type", json_string(text("remote::vllm")));
    json_set(expansion, "config", config);
    json_set(expansion, "wants", wants);
    return expansion;
}

// The providers of all APIs, as the server's file lists them.
static json *provider_list(const json *request) {
    json *found = json_array();
    const json *apis = json_get(request, "providers");
    for (size_t i = 0; apis != NULL && i < apis->count; i++) {
        for (size_t j = 0; j < apis->items[i]->count; j++) {
            const json *expansion = json_get(apis->items[i]->items[j], "expansion");
            json *config = json_get(expansion, "config"), *entry = json_object();
            json_set(entry, "provider_id", json_get(expansion, "id"));
            json_set(entry, "provider_type", json_get(expansion, "type"));
            json_set(entry, "config", config == NULL ? json_object() : config);
            json_push(found, entry);
        }
    }
    return found;
}

json *assemble(const json *request, diagnostics *all) {
    const json *base = json_get(request, "base");
    // Start from the base configuration, so that unknown keys are preserved.
    json *config = json_copy(base), *providers = provider_list(request);
    json *models = json_array(), *registered = json_array();
    const json *wanted = json_get(json_get(request, "resources"), "models");
    for (size_t i = 0; wanted != NULL && i < wanted->count; i++) {
        json *name = json_get(wanted->items[i], "name");
        json *provider = json_get_kind(wanted->items[i], "provider", JSON_STRING);
        if (provider == NULL && providers->count > 0) provider = json_get(providers->items[0], "provider_id");
        if (provider == NULL) {
            add_error(all, "no-provider", json_get(wanted->items[i], "path")->text,
                      text("no provider serves this model"), text("add a provider under spec.providers.inference"));
            continue;
        }
        json *model = json_object(), *id = json_object();
        json_set(model, "model_id", name);
        json_set(model, "provider_id", provider);
        json_push(registered, model);
        json_set(id, "id", json_string(text_join(provider->text, text("/"), name->text, text(NULL))));
        json_set(id, "name", name);
        json_push(models, id);
    }
    json *by_api = json_object(), *resources = json_object();
    json_set(by_api, "inference", providers);
    json_set(config, "providers", by_api);
    json_set(resources, "models", registered);
    json_set(config, "registered_resources", resources);

    json *env = json_object(), *startup = json_object(), *counts = json_object();
    json *file = json_get_kind(json_get(request, "server"), "configFile", JSON_STRING);
    json_set(env, "RUN_CONFIG_PATH", file == NULL ? json_string(text("")) : file);
    json_set(startup, "env", env);
    json_set(startup, "command", json_array());
    json_set(startup, "args", json_array());
    json_set(counts, "providers", json_count(providers->count));
    json_set(counts, "models", json_count(models->count));
    json_set(counts, "tools", json_count(0));
    json_set(counts, "shields", json_count(0));

    json *assembly = json_object();
    json_set(assembly, "config", config);
    json_set(assembly, "variables", json_array());
    json_set(assembly, "startup", startup);
    json_set(assembly, "counts", counts);
    json_set(assembly, "models", models);
    return assembly;
}
