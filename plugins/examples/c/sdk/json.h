// JSON values. Numbers keep their text, so that 1.0 and large integers stay as they are.
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    const char *bytes;
    size_t length;
} text_t;

typedef enum { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;

typedef struct json json;

struct json {
    json_kind kind;
    // The string without escapes, or the digits of the number.
    text_t text;
    // The members of an array or object. An object has a key for each.
    size_t count, capacity;
    json **items;
    text_t *keys;
};

// Parses a document of at most 128 levels. NULL if it is not valid JSON.
json *json_parse(text_t source);

// JSON with sorted keys and without insignificant whitespace.
text_t json_write(const json *value);

json *json_object(void);
json *json_array(void);

// An object with the members of another one, or without members if `value` is not an object.
json *json_copy(const json *value);
json *json_string(text_t text);
json *json_count(size_t number);

// Adds or replaces a member. Sets nothing if the value is NULL.
void json_set(json *object, const char *key, json *value);
void json_push(json *array, json *value);

// The member of an object. NULL if it has none, or if `value` is not an object.
json *json_get(const json *value, const char *key);

// The member, if it has the kind.
json *json_get_kind(const json *value, const char *key, json_kind kind);

text_t text(const char *literal);
bool text_equals(text_t a, text_t b);
int text_compare(text_t a, text_t b);

// Joins texts; the last argument is `text(NULL)`.
text_t text_join(text_t first, ...);

// A string in double quotes, as JSON writes it.
text_t text_quoted(text_t value);
