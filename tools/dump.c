/* dump.c - reads a dump. */
#include "tools/dump.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uthash.h>
#include <zlib.h>

/* Every definition takes at least this much of the file, and ids have no gaps: a larger id than
 * there is room for is damage, not a reason to allocate. */
enum { LEAST_DEFINITION = sizeof(struct ag_dump_chunk) + 8 };

struct reader {
    struct dump *d;
    uint32_t most_ids;
    bool no_memory;
    size_t events_room;
};

static bool grow(struct reader *r, void *list, uint32_t *count, uint32_t id, size_t size)
{
    if (!id || id > r->most_ids)
        return false;
    if (id < *count)
        return true;
    uint32_t room = *count * 2 > id + 1 ? *count * 2 : id + 1;
    char *more = realloc(*(void **)list, room * size);
    if (!more) {
        r->no_memory = true;
        return false;
    }
    memset(more + *count * size, 0, (room - *count) * size);
    *(void **)list = more;
    *count = room;
    return true;
}

/* Bytes of the UTF-8 character at `at`, 0 where it is none or must not reach a terminal. */
static size_t printable(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80)
        return at[0] >= 0x20 && at[0] != 0x7f;
    size_t n = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (at[0] < 0xc2 || at[0] > 0xf4 || n > left)
        return 0;
    uint32_t c = at[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (at[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || (c >= 0x80 && c < 0xa0))
        return 0;
    return n;
}

static char *copy_text(const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    char *text = malloc(n + 1);
    if (!text)
        return NULL;
    for (size_t i = 0; i < n;) {
        size_t length = printable(from + i, n - i);
        if (length)
            memcpy(text + i, from + i, length);
        else
            text[i] = '?';
        i += length ? length : 1;
    }
    text[n] = 0;
    return text;
}

static void read_pairs(struct dump_pair **list, size_t *count, const char *bytes, size_t n)
{
    const char *end = bytes + n;
    while (bytes < end) {
        const char *stop = memchr(bytes, 0, (size_t)(end - bytes));
        if (!stop)
            return;
        const char *equals = memchr(bytes, '=', (size_t)(stop - bytes));
        if (equals) {
            struct dump_pair *more = realloc(*list, (*count + 1) * sizeof(*more));
            if (!more)
                return;
            *list = more;
            char *name = copy_text(bytes, (size_t)(equals - bytes));
            char *value = copy_text(equals + 1, (size_t)(stop - equals - 1));
            if (!name || !value) {
                free(name);
                free(value);
                return;
            }
            more[(*count)++] = (struct dump_pair){name, value};
        }
        bytes = stop + 1;
    }
}

static void read_events(struct reader *r, const unsigned char *at, size_t n)
{
    struct dump *d = r->d;
    struct ag_dump_events head;
    if (n < sizeof(head))
        return;
    memcpy(&head, at, sizeof(head));
    size_t count = (n - sizeof(head)) / sizeof(struct ag_dump_event);
    if (count > head.count)
        count = head.count;
    if (d->num_events + count > r->events_room) {
        size_t room = (d->num_events + count) * 2;
        struct dump_event *more = realloc(d->events, room * sizeof(*more));
        if (!more) {
            r->no_memory = true;
            return;
        }
        d->events = more;
        r->events_room = room;
    }
    at += sizeof(head);
    for (size_t i = 0; i < count; i++, at += sizeof(struct ag_dump_event)) {
        struct dump_event *event = &d->events[d->num_events];
        memcpy(&event->e, at, sizeof(event->e));
        event->e.reserved = 0;
        event->thread = head.thread;
        event->order = (uint32_t)d->num_events++;
        if (event->e.kind == AG_EVENT_LOST)
            d->lost += event->e.value;
    }
}

static void read_graph(struct reader *r, const unsigned char *at, size_t n)
{
    struct ag_dump_graph g;
    struct dump *d = r->d;
    if (n < sizeof(g))
        return;
    memcpy(&g, at, sizeof(g));
    if (g.count > (n - sizeof(g)) / sizeof(uint32_t) ||
        !grow(r, &d->graphs, &d->num_graphs, g.id, sizeof(*d->graphs)))
        return;
    uint32_t *signatures = malloc((g.count + 1) * sizeof(*signatures));
    if (!signatures)
        return;
    memcpy(signatures, at + sizeof(g), g.count * sizeof(*signatures));
    free(d->graphs[g.id].signatures);
    d->graphs[g.id] = (struct dump_graph){g, signatures};
}

static void read_site(struct reader *r, const unsigned char *at, size_t n)
{
    struct ag_dump_site s;
    struct dump *d = r->d;
    if (n < sizeof(s))
        return;
    memcpy(&s, at, sizeof(s));
    if (s.count > (n - sizeof(s)) / sizeof(struct ag_dump_frame) ||
        !grow(r, &d->sites, &d->num_sites, s.id, sizeof(*d->sites)))
        return;
    struct ag_dump_frame *frames = malloc((s.count + 1) * sizeof(*frames));
    if (!frames)
        return;
    memcpy(frames, at + sizeof(s), s.count * sizeof(*frames));
    free(d->sites[s.id].frames);
    d->sites[s.id] = (struct dump_site){s.count, frames};
}

static void read_string(struct reader *r, const unsigned char *at, size_t n)
{
    struct ag_dump_string s;
    struct dump *d = r->d;
    if (n < sizeof(s))
        return;
    memcpy(&s, at, sizeof(s));
    if (s.size > n - sizeof(s) || !grow(r, &d->strings, &d->num_strings, s.id, sizeof(char *)))
        return;
    free(d->strings[s.id]);
    d->strings[s.id] = copy_text(at + sizeof(s), s.size);
}

static void read_chunk(struct reader *r, uint32_t type, const unsigned char *at, size_t n)
{
    struct dump *d = r->d;
    struct ag_dump_signature signature;
    struct ag_dump_stream stream;
    switch (type) {
    case AG_DUMP_PROCESS:
        read_pairs(&d->process, &d->num_process, (const char *)at, n);
        break;
    case AG_DUMP_COUNTERS:
        read_pairs(&d->counters, &d->num_counters, (const char *)at, n);
        break;
    case AG_DUMP_STRING:
        read_string(r, at, n);
        break;
    case AG_DUMP_SIGNATURE:
        if (n < sizeof(signature))
            break;
        memcpy(&signature, at, sizeof(signature));
        if (grow(r, &d->signatures, &d->num_signatures, signature.id, sizeof(signature)))
            d->signatures[signature.id] = signature;
        break;
    case AG_DUMP_STREAM:
        if (n < sizeof(stream))
            break;
        memcpy(&stream, at, sizeof(stream));
        stream.reserved = 0;
        if (grow(r, &d->streams, &d->num_streams, stream.id, sizeof(stream)))
            d->streams[stream.id] = stream;
        break;
    case AG_DUMP_GRAPH:
        read_graph(r, at, n);
        break;
    case AG_DUMP_SITE:
        read_site(r, at, n);
        break;
    case AG_DUMP_EVENTS:
        read_events(r, at, n);
        break;
    case AG_DUMP_END:
        free(d->end);
        d->end = copy_text(at, n);
        break;
    default: /* of a later version */
        break;
    }
}

/* Size of the whole chunk at `at` with its padding, 0 where there is none. */
static size_t chunk_at(const unsigned char *at, size_t left, struct ag_dump_chunk *chunk)
{
    if (left < sizeof(*chunk))
        return 0;
    memcpy(chunk, at, sizeof(*chunk));
    if (chunk->mark != AG_DUMP_MARK || chunk->length > AG_DUMP_MAX_CHUNK ||
        chunk->length > left - sizeof(*chunk))
        return 0;
    uLong crc = crc32(0, at + offsetof(struct ag_dump_chunk, type), 8);
    if (crc32(crc, at + sizeof(*chunk), chunk->length) != chunk->crc)
        return 0;
    size_t whole = sizeof(*chunk) + ((chunk->length + 7u) & ~(size_t)7);
    return whole < left ? whole : left;
}

static int by_time(const void *a, const void *b)
{
    const struct dump_event *x = a, *y = b;
    if (x->e.time != y->e.time)
        return x->e.time < y->e.time ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void dump_sort_events(struct dump *d)
{
    for (size_t i = 1; i < d->num_events; i++)
        if (d->events[i - 1].e.time > d->events[i].e.time) {
            qsort(d->events, d->num_events, sizeof(*d->events), by_time);
            return;
        }
}

static void read_chunks(struct reader *r, const unsigned char *bytes, size_t size)
{
    struct ag_dump_chunk chunk;
    size_t at = r->d->header.header_size, skipped = 0;
    while (at < size) {
        size_t n = chunk_at(bytes + at, size - at, &chunk);
        if (n) {
            read_chunk(r, chunk.type, bytes + at + sizeof(chunk), chunk.length);
            r->d->damaged += skipped;
            skipped = 0;
            at += n;
        } else { /* chunks begin at multiples of 8 */
            size_t step = size - at < 8 ? size - at : 8;
            skipped += step;
            at += step;
        }
    }
    if (r->d->end) /* nothing belongs behind it */
        r->d->damaged += skipped;
    else
        r->d->cut = skipped;
}

struct dump *dump_parse(const char *path, const unsigned char *bytes, size_t size, const char **why)
{
    struct dump *d = calloc(1, sizeof(*d));
    struct reader r = {.d = d, .most_ids = (uint32_t)(size / LEAST_DEFINITION) + 1};
    *why = "out of memory";
    if (!d || !(d->path = strdup(path)))
        goto fail;
    *why = size ? "it is not a dump of libautograph" : "it is empty";
    if (size < sizeof(d->header) || memcmp(bytes, AG_DUMP_MAGIC, AG_DUMP_MAGIC_SIZE))
        goto fail;
    memcpy(&d->header, bytes, sizeof(d->header));
    *why = "it was written by a newer version of libautograph";
    if (d->header.version > AG_DUMP_VERSION)
        goto fail;
    *why = "its header is damaged";
    if (d->header.version < 1 || d->header.header_size < sizeof(d->header) ||
        d->header.header_size > size || d->header.header_size % 8)
        goto fail;
    d->size = size;
    d->num_processes = 1;
    read_chunks(&r, bytes, size);
    *why = "out of memory";
    if (r.no_memory)
        goto fail;
    dump_sort_events(d);
    return d;
fail:
    dump_free(d);
    return NULL;
}

struct dump *dump_load(const char *path)
{
    const char *why = NULL;
    struct dump *d = NULL;
    unsigned char *bytes = NULL;
    FILE *f = fopen(path, "re");
    struct stat st;
    if (f && !fstat(fileno(f), &st) && !S_ISREG(st.st_mode))
        why = S_ISDIR(st.st_mode) ? "it is a folder" : "it is a pipe or a device, and no file";
    long size = f && !why && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    if (size >= 0 && !fseek(f, 0, SEEK_SET) && (bytes = malloc((size_t)size + 1)))
        d = dump_parse(path, bytes, fread(bytes, 1, (size_t)size, f), &why);
    if (!d)
        fprintf(stderr, "autograph: cannot read %s: %s\n", path, why ? why : strerror(errno));
    if (f)
        fclose(f);
    free(bytes);
    return d;
}

static void free_pairs(struct dump_pair *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(list[i].name);
        free(list[i].value);
    }
    free(list);
}

void dump_free(struct dump *d)
{
    if (!d)
        return;
    for (uint32_t i = 0; i < d->num_strings; i++)
        free(d->strings[i]);
    for (uint32_t i = 0; i < d->num_graphs; i++)
        free(d->graphs[i].signatures);
    for (uint32_t i = 0; i < d->num_sites; i++)
        free(d->sites[i].frames);
    free_pairs(d->process, d->num_process);
    free_pairs(d->counters, d->num_counters);
    free(d->strings);
    free(d->signatures);
    free(d->streams);
    free(d->graphs);
    free(d->sites);
    free(d->events);
    free(d->end);
    free(d->path);
    free(d);
}

bool dump_is_whole(const struct dump *d)
{
    return d->end && strcmp(d->end, "full") && !d->lost;
}

void dump_complain(const struct dump *d)
{
    if (!d->end)
        fprintf(
            stderr,
            "autograph: %s: the process did not end orderly, is still running, or could not write "
            "more; this is what it had written\n",
            d->path);
    else if (!strcmp(d->end, "full"))
        fprintf(stderr, "autograph: %s: full (AUTOGRAPH_TRACE_MB) before the process ended\n",
                d->path);
    if (d->cut)
        fprintf(stderr, "autograph: %s: cut: the last %llu bytes are not a whole chunk\n", d->path,
                (unsigned long long)d->cut);
    if (d->damaged)
        fprintf(stderr, "autograph: %s: damaged: %llu bytes were skipped\n", d->path,
                (unsigned long long)d->damaged);
    if (d->lost)
        fprintf(stderr, "autograph: %s: %llu events are missing (they came faster than the disk)\n",
                d->path, (unsigned long long)d->lost);
}

const char *dump_string(const struct dump *d, uint32_t id)
{
    return id < d->num_strings && d->strings[id] ? d->strings[id] : "?";
}

const struct ag_dump_signature *dump_signature(const struct dump *d, uint32_t id)
{
    static const struct ag_dump_signature none;
    return id < d->num_signatures ? &d->signatures[id] : &none;
}

const struct dump_graph *dump_graph(const struct dump *d, uint32_t id)
{
    static const struct dump_graph none;
    return id < d->num_graphs ? &d->graphs[id] : &none;
}

static const char *find(const struct dump_pair *list, size_t n, const char *name)
{
    for (size_t i = n; i--;)
        if (!strcmp(list[i].name, name))
            return list[i].value;
    return "";
}

const char *dump_process(const struct dump *d, const char *name)
{
    return find(d->process, d->num_process, name);
}

uint64_t dump_counter(const struct dump *d, const char *name)
{
    return strtoull(find(d->counters, d->num_counters, name), NULL, 10);
}

const char *dump_said(const struct dump *d, const char *name)
{
    return find(d->counters, d->num_counters, name);
}

uint32_t *dump_link_threads(const struct dump *d)
{
    struct thread {
        uint32_t id, next;
        UT_hash_handle hh;
    } *all = NULL, *t = NULL;
    uint32_t *next = calloc(d->num_events + 1, sizeof(*next));
    for (size_t i = d->num_events; next && i--;) {
        uint32_t id = d->events[i].thread;
        if (!t || t->id != id)
            HASH_FIND(hh, all, &id, sizeof(id), t);
        if (!t) {
            if (!(t = calloc(1, sizeof(*t))))
                break;
            t->id = id;
            HASH_ADD(hh, all, id, sizeof(id), t);
        }
        next[i] = t->next;
        t->next = (uint32_t)i;
    }
    t = all;
    HASH_CLEAR(hh, all);
    for (struct thread *after; t; t = after) {
        after = t->hh.next;
        free(t);
    }
    return next;
}
