/*
 * hostile.c - a good dump, cut at every byte and with every byte damaged in turn: the reader never
 * fails on it, tells what is wrong, and keeps everything that lies in undamaged chunks.
 *
 *     hostile DUMP
 */
#include "tools/dump_merge.h"
#include "tools/model.h"
#include <stdlib.h>
#include <string.h>

static int failures;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s: ", #condition);                                                   \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

struct result {
    bool read;
    size_t events;
    uint64_t wrong; /* bytes that the reader complains of */
    bool ended;
};

static struct result try(const unsigned char *bytes, size_t size)
{
    const char *why = NULL;
    char *advice[MODEL_MOST_ADVICE];
    unsigned char *copy = malloc(size + 1); /* so that a byte too far is seen */
    copy = realloc(copy, size ? size : 1);
    memcpy(copy, bytes, size);
    struct dump *d = dump_parse("hostile", copy, size, &why);
    free(copy);
    if (!d)
        return (struct result){.read = false};
    struct result r = {true, d->num_events, d->cut + d->damaged, d->end != NULL};
    struct model *m = model_make(d);
    int n = model_advice(m, advice);
    while (n)
        free(advice[--n]);
    model_free(m);
    struct dump *twice = dump_merge_begin(); /* as with a rank's dump beside it */
    CHECK(dump_merge_add(twice, d) && dump_merge_add(twice, d), "no memory");
    dump_merge_end(twice);
    model_free(model_make(twice));
    dump_free(twice);
    dump_free(d);
    return r;
}

static size_t most_events_of_a_chunk(const unsigned char *bytes, size_t size)
{
    size_t most = 0;
    for (size_t at = sizeof(struct ag_dump_header); at + sizeof(struct ag_dump_chunk) <= size;) {
        struct ag_dump_chunk c;
        struct ag_dump_events e;
        memcpy(&c, bytes + at, sizeof(c));
        memcpy(&e, bytes + at + sizeof(c), sizeof(e));
        if (c.type == AG_DUMP_EVENTS && e.count > most)
            most = e.count;
        at += sizeof(c) + ((c.length + 7u) & ~7u);
    }
    return most;
}

/* Behind a chunk's payload, where nothing is checked. */
static bool is_padding(const unsigned char *bytes, size_t size, size_t offset)
{
    for (size_t at = sizeof(struct ag_dump_header); at + sizeof(struct ag_dump_chunk) <= size;) {
        struct ag_dump_chunk c;
        memcpy(&c, bytes + at, sizeof(c));
        if (offset < at + sizeof(c) + c.length)
            return false;
        at += sizeof(c) + ((c.length + 7u) & ~7u);
        if (offset < at)
            return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    static unsigned char bytes[4 << 20];
    FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
    size_t size = f ? fread(bytes, 1, sizeof(bytes), f) : 0;
    if (!size || size == sizeof(bytes)) {
        fprintf(stderr, "usage: hostile DUMP (a small one)\n");
        return 2;
    }
    fclose(f);
    struct result good = try(bytes, size);
    size_t most = most_events_of_a_chunk(bytes, size), before = 0;
    CHECK(good.read && good.ended && !good.wrong && good.events > 20, "the dump as it is");

    for (size_t n = 0; n < size; n++) {
        struct result r = try(bytes, n);
        CHECK(r.read == (n >= sizeof(struct ag_dump_header)), "cut at %zu", n);
        CHECK(r.events >= before, "cut at %zu: fewer events than in a shorter part", n);
        CHECK(n + 8 > size || !r.ended, "cut at %zu", n);
        before = r.events;
    }
    for (size_t n = 0; n < size; n++) {
        unsigned char kept = bytes[n];
        bool padding = is_padding(bytes, size, n);
        bytes[n] ^= (unsigned char)(1u << (n % 8));
        struct result r = try(bytes, size);
        bytes[n] = kept;
        if (n < sizeof(struct ag_dump_header))
            continue; /* the header has no checksum; that it does no harm is all */
        CHECK(r.read && r.events + most >= good.events, "byte %zu: %zu of %zu events", n, r.events,
              good.events);
        CHECK(padding == !r.wrong, "byte %zu: %llu bytes are complained of", n,
              (unsigned long long)r.wrong);
    }
    printf("%zu bytes, %zu events, %d failures\n", size, good.events, failures);
    return failures != 0;
}
