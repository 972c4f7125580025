#include "json.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The parser and the writer recurse, and the stack is limited.
enum { MAX_DEPTH = 128 };

// ---- Texts

text_t text(const char *literal) {
    return (text_t){literal, literal == NULL ? 0 : strlen(literal)};
}

int text_compare(text_t a, text_t b) {
    size_t shorter = a.length < b.length ? a.length : b.length;
    int order = memcmp(a.bytes, b.bytes, shorter);
    if (order != 0) return order;
    return a.length < b.length ? -1 : a.length > b.length;
}

bool text_equals(text_t a, text_t b) {
    return a.length == b.length && memcmp(a.bytes, b.bytes, a.length) == 0;
}

typedef struct {
    char *bytes;
    size_t length, capacity;
} buffer;

static void append(buffer *out, const char *bytes, size_t length) {
    if (out->length + length > out->capacity) {
        size_t wanted = 2 * out->capacity + length + 64;
        out->bytes = realloc(out->bytes, wanted);
        out->capacity = wanted;
    }
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
}

static void append_char(buffer *out, char c) {
    append(out, &c, 1);
}

text_t text_join(text_t first, ...) {
    buffer out = {0};
    va_list all;
    va_start(all, first);
    for (text_t part = first; part.bytes != NULL; part = va_arg(all, text_t)) {
        append(&out, part.bytes, part.length);
    }
    va_end(all);
    return (text_t){out.bytes, out.length};
}

// ---- Values

static json *value_of(json_kind kind) {
    json *value = calloc(1, sizeof(json));
    value->kind = kind;
    return value;
}

json *json_object(void) {
    return value_of(JSON_OBJECT);
}

json *json_array(void) {
    return value_of(JSON_ARRAY);
}

json *json_string(text_t text) {
    json *value = value_of(JSON_STRING);
    value->text = text;
    return value;
}

json *json_count(size_t number) {
    char *digits = malloc(20);
    size_t start = 20;
    do {
        digits[--start] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    json *value = value_of(JSON_NUMBER);
    value->text = (text_t){digits + start, 20 - start};
    return value;
}

static void add(json *container, text_t key, json *value) {
    if (container->count == container->capacity) {
        container->capacity = 2 * container->capacity + 4;
        container->items = realloc(container->items, container->capacity * sizeof(json *));
        if (container->kind == JSON_OBJECT) {
            container->keys = realloc(container->keys, container->capacity * sizeof(text_t));
        }
    }
    container->items[container->count] = value;
    if (container->kind == JSON_OBJECT) container->keys[container->count] = key;
    container->count++;
}

void json_push(json *array, json *value) {
    add(array, text(""), value);
}

json *json_copy(const json *value) {
    json *copy = json_object();
    if (value == NULL || value->kind != JSON_OBJECT) return copy;
    for (size_t i = 0; i < value->count; i++) add(copy, value->keys[i], value->items[i]);
    return copy;
}

// Of several members with one key the last one counts, so this does not search for an earlier one.
void json_set(json *object, const char *key, json *value) {
    if (value != NULL) add(object, text(key), value);
}

json *json_get(const json *value, const char *key) {
    if (value == NULL || value->kind != JSON_OBJECT) return NULL;
    text_t wanted = text(key);
    // Of several members with one key the last one counts.
    for (size_t i = value->count; i > 0; i--) {
        if (text_equals(value->keys[i - 1], wanted)) return value->items[i - 1];
    }
    return NULL;
}

json *json_get_kind(const json *value, const char *key, json_kind kind) {
    json *found = json_get(value, key);
    return found != NULL && found->kind == kind ? found : NULL;
}

// ---- Parsing

typedef struct {
    const char *at, *end;
} reader;

static json *parse_value(reader *in, int depth);

static void skip_space(reader *in) {
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\n' || *in->at == '\r' || *in->at == '\t')) in->at++;
}

static bool take(reader *in, char c) {
    if (in->at == in->end || *in->at != c) return false;
    in->at++;
    return true;
}

static bool take_word(reader *in, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length) != 0) return false;
    in->at += length;
    return true;
}

static bool take_hex(reader *in, uint32_t *unit) {
    *unit = 0;
    if (in->end - in->at < 4) return false;
    for (int i = 0; i < 4; i++) {
        char c = *in->at++;
        uint32_t digit;
        if (c >= '0' && c <= '9') digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f') digit = (uint32_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F') digit = (uint32_t)(c - 'A' + 10);
        else return false;
        *unit = *unit * 16 + digit;
    }
    return true;
}

static void append_utf8(buffer *out, uint32_t c) {
    if (c < 0x80) {
        append_char(out, (char)c);
    } else if (c < 0x800) {
        append_char(out, (char)(0xc0 | c >> 6));
        append_char(out, (char)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        append_char(out, (char)(0xe0 | c >> 12));
        append_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
        append_char(out, (char)(0x80 | (c & 0x3f)));
    } else {
        append_char(out, (char)(0xf0 | c >> 18));
        append_char(out, (char)(0x80 | (c >> 12 & 0x3f)));
        append_char(out, (char)(0x80 | (c >> 6 & 0x3f)));
        append_char(out, (char)(0x80 | (c & 0x3f)));
    }
}

static bool take_escape(reader *in, buffer *out) {
    static const char codes[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (in->at == in->end) return false;
    char code = *in->at++;
    if (code == 'u') {
        uint32_t unit, low;
        if (!take_hex(in, &unit)) return false;
        if (unit >= 0xdc00 && unit < 0xe000) return false;
        if (unit >= 0xd800 && unit < 0xdc00) {
            if (!take(in, '\\') || !take(in, 'u') || !take_hex(in, &low)) return false;
            if (low < 0xdc00 || low >= 0xe000) return false;
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        }
        append_utf8(out, unit);
        return true;
    }
    for (size_t i = 0; i < sizeof(codes) - 1; i++) {
        if (codes[i] == code) {
            append_char(out, values[i]);
            return true;
        }
    }
    return false;
}

// The input is UTF-8: the contract passes strings.
static bool take_string(reader *in, text_t *string) {
    if (!take(in, '"')) return false;
    const char *start = in->at;
    while (in->at < in->end && *in->at != '"' && *in->at != '\\' && (unsigned char)*in->at >= 0x20) in->at++;
    if (in->at < in->end && *in->at == '"') {
        // Without escapes the string is a part of the input.
        *string = (text_t){start, (size_t)(in->at - start)};
        in->at++;
        return true;
    }
    buffer out = {0};
    append(&out, start, (size_t)(in->at - start));
    while (in->at < in->end) {
        char c = *in->at++;
        if (c == '"') {
            *string = (text_t){out.bytes, out.length};
            return true;
        }
        if ((unsigned char)c < 0x20) return false;
        if (c != '\\') append_char(&out, c);
        else if (!take_escape(in, &out)) return false;
    }
    return false;
}

static bool take_digits(reader *in) {
    const char *start = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9') in->at++;
    return in->at > start;
}

static json *parse_number(reader *in) {
    const char *start = in->at;
    take(in, '-');
    bool valid = take(in, '0') || take_digits(in);
    if (valid && take(in, '.')) valid = take_digits(in);
    if (valid && (take(in, 'e') || take(in, 'E'))) {
        if (!take(in, '+')) take(in, '-');
        valid = take_digits(in);
    }
    if (!valid) return NULL;
    json *value = value_of(JSON_NUMBER);
    value->text = (text_t){start, (size_t)(in->at - start)};
    return value;
}

static json *parse_members(reader *in, json *container, char close, int depth) {
    skip_space(in);
    if (take(in, close)) return container;
    do {
        text_t key = {0};
        skip_space(in);
        if (container->kind == JSON_OBJECT) {
            if (!take_string(in, &key)) return NULL;
            skip_space(in);
            if (!take(in, ':')) return NULL;
        }
        json *member = parse_value(in, depth);
        if (member == NULL) return NULL;
        add(container, key, member);
        skip_space(in);
    } while (take(in, ','));
    return take(in, close) ? container : NULL;
}

static json *parse_value(reader *in, int depth) {
    skip_space(in);
    if (in->at == in->end || depth == MAX_DEPTH) return NULL;
    switch (*in->at) {
    case '{':
        in->at++;
        return parse_members(in, json_object(), '}', depth + 1);
    case '[':
        in->at++;
        return parse_members(in, json_array(), ']', depth + 1);
    case '"': {
        json *value = value_of(JSON_STRING);
        return take_string(in, &value->text) ? value : NULL;
    }
    case 'n':
        return take_word(in, "null") ? value_of(JSON_NULL) : NULL;
    case 't':
        return take_word(in, "true") ? value_of(JSON_TRUE) : NULL;
    case 'f':
        return take_word(in, "false") ? value_of(JSON_FALSE) : NULL;
    default:
        return parse_number(in);
    }
}

json *json_parse(text_t source) {
    reader in = {source.bytes, source.bytes + source.length};
    json *value = parse_value(&in, 0);
    skip_space(&in);
    return in.at == in.end ? value : NULL;
}

// ---- Writing

static void write_string(buffer *out, text_t string) {
    static const char digits[] = "0123456789abcdef", codes[] = "btn\0fr";
    append_char(out, '"');
    size_t start = 0;
    for (size_t i = 0; i < string.length; i++) {
        unsigned char c = (unsigned char)string.bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        append(out, string.bytes + start, i - start);
        start = i + 1;
        append_char(out, '\\');
        if (c >= 0x20) {
            append_char(out, (char)c);
        } else if (c >= 8 && c <= 13 && c != 11) {
            append_char(out, codes[c - 8]);
        } else {
            append(out, "u00", 3);
            append_char(out, digits[c >> 4]);
            append_char(out, digits[c & 15]);
        }
    }
    append(out, string.bytes + start, string.length - start);
    append_char(out, '"');
}

text_t text_quoted(text_t value) {
    buffer out = {0};
    write_string(&out, value);
    return (text_t){out.bytes, out.length};
}

// Sorts member numbers by their keys. Merging keeps the order of equal keys.
static void sort(const json *object, size_t *order, size_t *scratch, size_t count) {
    if (count < 2) return;
    size_t half = count / 2;
    sort(object, order, scratch, half);
    sort(object, order + half, scratch, count - half);
    memcpy(scratch, order, count * sizeof(size_t));
    for (size_t left = 0, right = half, i = 0; i < count; i++) {
        bool take_left = right == count
            || (left < half && text_compare(object->keys[scratch[left]], object->keys[scratch[right]]) <= 0);
        order[i] = take_left ? scratch[left++] : scratch[right++];
    }
}

static void write_value(buffer *out, const json *value) {
    switch (value->kind) {
    case JSON_NULL:
        append(out, "null", 4);
        break;
    case JSON_FALSE:
        append(out, "false", 5);
        break;
    case JSON_TRUE:
        append(out, "true", 4);
        break;
    case JSON_NUMBER:
        append(out, value->text.bytes, value->text.length);
        break;
    case JSON_STRING:
        write_string(out, value->text);
        break;
    case JSON_ARRAY:
        append_char(out, '[');
        for (size_t i = 0; i < value->count; i++) {
            if (i > 0) append_char(out, ',');
            write_value(out, value->items[i]);
        }
        append_char(out, ']');
        break;
    case JSON_OBJECT: {
        size_t *order = malloc(2 * (value->count + 1) * sizeof(size_t));
        for (size_t i = 0; i < value->count; i++) order[i] = i;
        sort(value, order, order + value->count, value->count);
        append_char(out, '{');
        bool is_first = true;
        for (size_t i = 0; i < value->count; i++) {
            text_t key = value->keys[order[i]];
            // Of several members with one key the last one counts.
            if (i + 1 < value->count && text_equals(key, value->keys[order[i + 1]])) continue;
            if (!is_first) append_char(out, ',');
            is_first = false;
            write_string(out, key);
            append_char(out, ':');
            write_value(out, value->items[order[i]]);
        }
        append_char(out, '}');
        break;
    }
    }
}

text_t json_write(const json *value) {
    buffer out = {0};
    write_value(&out, value);
    return (text_t){out.bytes, out.length};
}
