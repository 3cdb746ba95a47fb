/* json_out.c - see json_out.h. */
#include "tools/json_out.h"

void json_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc_unlocked('\\', out);
        putc_unlocked(*text, out);
    }
}

void json_raw(FILE *out, const char *text)
{
    fputs_unlocked(text, out);
}

void json_number(FILE *out, uint64_t n)
{
    char digits[24], *at = digits + sizeof(digits) - 1;
    *at = 0;
    do
        *--at = (char)('0' + n % 10);
    while (n /= 10);
    json_raw(out, at);
}

void json_add_number(FILE *out, const char *name, uint64_t n)
{
    json_raw(out, ",\"");
    json_raw(out, name);
    json_raw(out, "\":");
    json_number(out, n);
}

void json_add_us(FILE *out, const char *name, uint64_t ns)
{
    char rest[] = {'.', (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                   (char)('0' + ns % 10), 0};
    json_add_number(out, name, ns / 1000);
    json_raw(out, rest);
}

void json_add_text(FILE *out, const char *name, const char *text)
{
    json_raw(out, ",\"");
    json_raw(out, name);
    json_raw(out, "\":\"");
    json_escaped(out, text);
    json_raw(out, "\"");
}
