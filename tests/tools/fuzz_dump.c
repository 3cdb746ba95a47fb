/*
 * fuzz_dump.c - libFuzzer target for the reader of dumps and for what is made of them. The input
 * becomes a dump with right checksums, so that what lies behind these is reached; an input that
 * begins with 0 is taken as the file itself.
 */
#include "tools/model.h"
#include "tools/names.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint32_t types[] = {
    AG_DUMP_PROCESS, AG_DUMP_STRING, AG_DUMP_SIGNATURE, AG_DUMP_STREAM, AG_DUMP_GRAPH,
    AG_DUMP_SITE,    AG_DUMP_EVENTS, AG_DUMP_COUNTERS,  AG_DUMP_END,    0x12345678};

/* Type, length (2 bytes), payload; again and again. */
static size_t build(const uint8_t *data, size_t size, unsigned char *out)
{
    struct ag_dump_header header = {
        .magic = AG_DUMP_MAGIC, .version = AG_DUMP_VERSION, .header_size = sizeof(header)};
    size_t at = sizeof(header);
    memcpy(out, &header, sizeof(header));
    while (size >= 3) {
        struct ag_dump_chunk chunk = {AG_DUMP_MARK, types[data[0] % 10],
                                      (uint32_t)data[1] | (uint32_t)data[2] << 8, 0};
        data += 3;
        size -= 3;
        if (chunk.length > size)
            chunk.length = (uint32_t)size;
        memcpy(out + at, &chunk, sizeof(chunk));
        memcpy(out + at + sizeof(chunk), data, chunk.length);
        chunk.crc = (uint32_t)crc32(crc32(0, out + at + 4, 8), data, chunk.length);
        memcpy(out + at, &chunk, sizeof(chunk));
        at += sizeof(chunk) + chunk.length;
        while (at % 8)
            out[at++] = 0;
        data += chunk.length;
        size -= chunk.length;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *why;
    char *advice[MODEL_MOST_ADVICE], text[300];
    unsigned char *file = malloc(64 + size * 16);
    size_t n = size && !data[0] ? size - 1 : build(data, size, file);
    if (size && !data[0])
        memcpy(file, data + 1, n);
    struct dump *d = dump_parse("fuzz", file, n, &why);
    free(file);
    if (!d)
        return 0;
    struct model *m = model_make(d);
    int count = model_advice(m, advice);
    while (count)
        free(advice[--count]);
    for (uint32_t i = 0; i < d->num_signatures; i++)
        names_of_signature(d, &d->signatures[i], text, sizeof(text));
    model_free(m);
    dump_free(d);
    return 0;
}
