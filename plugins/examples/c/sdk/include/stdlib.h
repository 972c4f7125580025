// The part of the C library that plugins and their bindings use; `sdk/runtime.c` implements it.
#pragma once

#include <stddef.h>

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *old, size_t size);
void free(void *old);
_Noreturn void abort(void);
