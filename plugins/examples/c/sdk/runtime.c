// What a plugin needs of a C library. A plugin runs once and ends, so memory is never freed.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern unsigned char __heap_base;

enum { PAGE = 65536, ALIGNMENT = 16 };

static uintptr_t next_free;

_Noreturn void abort(void) {
    __builtin_trap();
}

// Each block starts with its size, for `realloc`.
void *malloc(size_t size) {
    if (next_free == 0) next_free = (uintptr_t)&__heap_base;
    if (size > UINT32_MAX / 2) abort();
    uintptr_t start = (next_free + sizeof(size_t) + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
    uintptr_t end = start + size;
    uintptr_t available = (uintptr_t)__builtin_wasm_memory_size(0) * PAGE;
    if (end > available) {
        // A call traps if the host does not grant the memory.
        size_t pages = (end - available + PAGE - 1) / PAGE;
        if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) abort();
    }
    ((size_t *)start)[-1] = size;
    next_free = end;
    return (void *)start;
}

void *calloc(size_t count, size_t size) {
    if (size != 0 && count > UINT32_MAX / size) abort();
    void *block = malloc(count * size);
    return memset(block, 0, count * size);
}

void *realloc(void *old, size_t size) {
    if (old == NULL) return malloc(size);
    size_t before = ((size_t *)old)[-1];
    if (size <= before) return old;
    void *block = malloc(size);
    return memcpy(block, old, before);
}

void free(void *old) {
    (void)old;
}

// With bulk memory operations, the builtins are single instructions.

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    return __builtin_memcpy(to, from, size);
}

void *memmove(void *to, const void *from, size_t size) {
    return __builtin_memmove(to, from, size);
}

void *memset(void *to, int value, size_t size) {
    return __builtin_memset(to, value, size);
}

int memcmp(const void *a, const void *b, size_t size) {
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < size; i++) {
        if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    }
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length] != 0) length++;
    return length;
}
