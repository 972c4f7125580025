// The SDK for plugins in C: your functions, and diagnostics.
//
// `sdk/exports.c` implements the exports of the contract. It reads documents, rejects what does not fit
// their shape, calls your functions, and writes what they return. The JSON Schemas in `wit/schemas`
// describe the documents. Memory is never freed: a call ends with its instance.
#pragma once

#include "json.h"

typedef struct diagnostics diagnostics;

// Adds an error: there is no result until it is fixed.
void add_error(diagnostics *all, const char *code, text_t field, text_t problem, text_t fix);

// Adds a warning.
void add_warning(diagnostics *all, const char *code, text_t field, text_t problem, text_t fix);

// Your functions. The requests fit their shape: keys that must exist exist, with the right kind.

// A `description/v1`. Must be constant.
json *describe(void);

// The schema id of a base, or no bytes if it is not written in a schema that you serve.
text_t detect(const json *base, const json *hints);

// An `expansion/v1` for one provider entry.
json *expand(const json *request, diagnostics *all);

// An `assembly/v1`: the complete configuration.
json *assemble(const json *request, diagnostics *all);
