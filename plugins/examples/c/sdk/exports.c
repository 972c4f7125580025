// Implements the exports of the world `schema-adapter` with the functions of `plugin.h`.

#include <stdlib.h>
#include <string.h>

#include "plugin.h"
#include "schema_adapter.h"

#define PREFIX "llamastack.io/adapter/"

typedef exports_llamastack_config_adapter_types_document_t document_t;
typedef exports_llamastack_config_adapter_types_diagnostic_t diagnostic_t;
typedef exports_llamastack_config_adapter_types_outcome_t outcome_t;

struct diagnostics {
    diagnostic_t *all;
    size_t count, capacity;
    bool has_errors;
};

// The bindings refer to an object file with the types of the world. `llsd plugin build` adds the types itself.
void __component_type_object_force_link_schema_adapter(void) {}

static schema_adapter_string_t string_of(text_t text) {
    return (schema_adapter_string_t){(uint8_t *)text.bytes, text.length};
}

static text_t text_of(schema_adapter_string_t string) {
    return (text_t){(const char *)string.ptr, string.len};
}

static void add(diagnostics *all, bool is_error, const char *code, text_t field, text_t problem, text_t fix) {
    if (all->count == all->capacity) {
        all->capacity = 2 * all->capacity + 8;
        all->all = realloc(all->all, all->capacity * sizeof(diagnostic_t));
    }
    // Sorted by field; those of one field stay in the order in which they were added.
    size_t place = all->count;
    while (place > 0 && text_compare(text_of(all->all[place - 1].field), field) > 0) {
        all->all[place] = all->all[place - 1];
        place--;
    }
    all->all[place] = (diagnostic_t){
        .severity = is_error ? EXPORTS_LLAMASTACK_CONFIG_ADAPTER_TYPES_SEVERITY_ERROR
                             : EXPORTS_LLAMASTACK_CONFIG_ADAPTER_TYPES_SEVERITY_WARNING,
        .code = string_of(text(code)),
        .field = string_of(field),
        .problem = string_of(problem),
        .fix = string_of(fix),
    };
    all->count++;
    all->has_errors |= is_error;
}

void add_error(diagnostics *all, const char *code, text_t field, text_t problem, text_t fix) {
    add(all, true, code, field, problem, fix);
}

void add_warning(diagnostics *all, const char *code, text_t field, text_t problem, text_t fix) {
    add(all, false, code, field, problem, fix);
}

static void malformed(diagnostics *all, const char *problem) {
    add_error(all, "malformed-document", text(""), text(problem),
              text("send a document that fits the published JSON Schema"));
}

// The document as JSON. NULL, with a diagnostic, if it has another shape or is not JSON.
static json *read(const document_t *document, const char *shape, diagnostics *all) {
    if (!text_equals(text_of(document->shape), text(shape))) {
        text_t problem = text_join(text("a document of shape "), text_quoted(text_of(document->shape)),
                                   text(" was received where "), text_quoted(text(shape)),
                                   text(" was expected"), text(NULL));
        add_error(all, "unknown-shape", text(""), problem,
                  text("use a plugin and a host that share a version of the contract"));
        return NULL;
    }
    json *value = json_parse(text_of(document->json));
    if (value == NULL) malformed(all, "the document is not valid JSON, or is nested too deeply");
    return value;
}

// Whether a member is absent, null or of the kind.
static bool is_optional(const json *value, const char *key, json_kind kind) {
    const json *found = json_get(value, key);
    return found == NULL || found->kind == JSON_NULL || found->kind == kind;
}

static bool has(const json *value, const char *key, json_kind kind) {
    return json_get_kind(value, key, kind) != NULL;
}

// A variable name that servers substitute.
static bool is_variable(text_t name) {
    for (size_t i = 0; i < name.length; i++) {
        char c = name.bytes[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
    }
    return name.length > 0;
}

static bool check_expansion_request(const json *request, diagnostics *all) {
    const json *entry = json_get_kind(request, "entry", JSON_OBJECT);
    bool fits = has(request, "schema", JSON_STRING) && has(request, "api", JSON_STRING)
        && has(request, "path", JSON_STRING) && has(entry, "id", JSON_STRING) && has(entry, "provider", JSON_STRING)
        && is_optional(entry, "endpoint", JSON_STRING) && is_optional(entry, "host", JSON_STRING)
        && is_optional(entry, "settings", JSON_OBJECT) && is_optional(entry, "references", JSON_OBJECT);
    const json *references = fits ? json_get_kind(entry, "references", JSON_OBJECT) : NULL;
    for (size_t i = 0; references != NULL && i < references->count; i++) {
        fits &= references->items[i]->kind == JSON_STRING;
    }
    if (!fits) {
        malformed(all, "the expansion request does not fit its shape");
        return false;
    }
    for (size_t i = 0; references != NULL && i < references->count; i++) {
        text_t variable = references->items[i]->text;
        if (is_variable(variable)) continue;
        text_t field = text_join(json_get(request, "path")->text, text("."), references->keys[i], text(NULL));
        text_t problem = text_join(text_quoted(variable), text(" is not a valid variable name"), text(NULL));
        add_error(all, "malformed-reference", field, problem, text("use upper-case letters, digits and _"));
    }
    return !all->has_errors;
}

static bool are_resources(const json *resources, const char *kind) {
    if (!is_optional(resources, kind, JSON_ARRAY)) return false;
    const json *list = json_get_kind(resources, kind, JSON_ARRAY);
    for (size_t i = 0; list != NULL && i < list->count; i++) {
        if (!has(list->items[i], "path", JSON_STRING) || !has(list->items[i], "name", JSON_STRING)) return false;
    }
    return true;
}

static bool are_providers(const json *apis) {
    for (size_t i = 0; apis != NULL && i < apis->count; i++) {
        if (apis->items[i]->kind != JSON_ARRAY) return false;
        for (size_t j = 0; j < apis->items[i]->count; j++) {
            const json *expansion = json_get_kind(apis->items[i]->items[j], "expansion", JSON_OBJECT);
            if (!has(expansion, "id", JSON_STRING) || !has(expansion, "type", JSON_STRING)) return false;
            if (!is_optional(expansion, "config", JSON_OBJECT)) return false;
        }
    }
    return true;
}

static bool check_assembly_request(const json *request, diagnostics *all) {
    const json *resources = json_get_kind(request, "resources", JSON_OBJECT);
    bool fits = has(request, "schema", JSON_STRING) && is_optional(request, "providers", JSON_OBJECT)
        && is_optional(request, "resources", JSON_OBJECT) && is_optional(request, "server", JSON_OBJECT)
        && are_providers(json_get_kind(request, "providers", JSON_OBJECT)) && are_resources(resources, "models")
        && are_resources(resources, "tools") && are_resources(resources, "shields");
    if (!fits) malformed(all, "the assembly request does not fit its shape");
    return fits;
}

typedef bool check_t(const json *request, diagnostics *all);
typedef json *ask_t(const json *request, diagnostics *all);

// Reads a request, calls a function of the plugin, and writes its output. Returns false with all
// diagnostics if one is an error.
static bool answer(const document_t *request, const char *shape, check_t *check, ask_t *ask, const char *result,
                   outcome_t *outcome, diagnostics *all) {
    json *value = read(request, shape, all);
    if (value == NULL || !check(value, all)) return false;
    json *output = ask(value, all);
    if (all->has_errors) return false;
    outcome->output.shape = string_of(text(result));
    outcome->output.json = string_of(json_write(output));
    outcome->warnings.ptr = all->all;
    outcome->warnings.len = all->count;
    return true;
}

void exports_llamastack_config_adapter_identity_describe(document_t *ret) {
    ret->shape = string_of(text(PREFIX "description/v1"));
    ret->json = string_of(json_write(describe()));
}

void exports_llamastack_config_adapter_detection_detect(
    document_t *base, document_t *hints, exports_llamastack_config_adapter_detection_answer_t *ret) {
    diagnostics ignored = {0};
    json *base_value = read(base, PREFIX "base/v1", &ignored);
    json *hints_value = read(hints, PREFIX "hints/v1", &ignored);
    ret->tag = EXPORTS_LLAMASTACK_CONFIG_ADAPTER_DETECTION_ANSWER_NONE;
    // A document that cannot be read is not detected.
    if (base_value == NULL || hints_value == NULL) return;
    text_t found = detect(base_value, hints_value);
    if (found.length == 0) return;
    ret->tag = EXPORTS_LLAMASTACK_CONFIG_ADAPTER_DETECTION_ANSWER_ONE;
    ret->val.one = string_of(found);
}

bool exports_llamastack_config_adapter_expansion_expand(
    document_t *request, outcome_t *ret, exports_llamastack_config_adapter_expansion_list_diagnostic_t *err) {
    diagnostics all = {0};
    bool is_ok = answer(request, PREFIX "expansion-request/v1", check_expansion_request, expand,
                        PREFIX "expansion/v1", ret, &all);
    err->ptr = all.all;
    err->len = all.count;
    return is_ok;
}

bool exports_llamastack_config_adapter_assembly_assemble(
    document_t *request, outcome_t *ret, exports_llamastack_config_adapter_assembly_list_diagnostic_t *err) {
    diagnostics all = {0};
    bool is_ok = answer(request, PREFIX "assembly-request/v1", check_assembly_request, assemble,
                        PREFIX "assembly/v1", ret, &all);
    err->ptr = all.all;
    err->len = all.count;
    return is_ok;
}
