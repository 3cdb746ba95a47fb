/* dump_merge.c - see dump_merge.h. */
#include "tools/dump_merge.h"
#include <stdlib.h>
#include <string.h>

/* Thread ids have this many bits (PID_MAX_LIMIT). In a merged dump the process and the thread id
 * together name a thread. */
enum { THREAD_BITS = 22 };

struct merge {
    struct dump *to;
    const struct dump *from;
    uint32_t *strings;                           /* by id there: the id here */
    uint32_t signatures, streams, graphs, sites; /* ids there become these and the following ones */
    uint32_t process;
    uint64_t later; /* what its clock is to be put forward by */
};

struct dump *dump_merge_begin(void)
{
    return calloc(1, sizeof(struct dump));
}

/* Room for `more` entries behind *count, and for entry 0; NULL without memory. */
static void *extend(void *list, uint32_t count, uint32_t more, size_t size)
{
    char *longer = realloc(list, ((size_t)count + more + 1) * size);
    if (longer)
        memset(longer + count * size, 0, ((size_t)more + 1) * size);
    return longer;
}

/* An id that its own dump does not define stays one that nobody defines. */
static uint32_t moved(uint32_t id, uint32_t count, uint32_t first)
{
    return !id ? 0 : id < count ? first + id - 1 : UINT32_MAX;
}

static uint32_t string_of(const struct merge *g, uint32_t id)
{
    return id < g->from->num_strings ? g->strings[id] : UINT32_MAX;
}

/* Reasons and kernels are added up by the ids of their texts: equal texts get one id. */
static bool add_strings(struct merge *g)
{
    struct dump *d = g->to;
    uint32_t known = d->num_strings ? d->num_strings : 1, n = known;
    g->strings = calloc((size_t)g->from->num_strings + 1, sizeof(*g->strings));
    if (!g->strings)
        return false;
    char **list = extend(d->strings, d->num_strings, g->from->num_strings + 1, sizeof(*list));
    if (!list)
        return false;
    d->strings = list;
    for (uint32_t i = 1; i < g->from->num_strings; i++) {
        const char *text = g->from->strings[i];
        if (!text) {
            g->strings[i] = UINT32_MAX;
            continue;
        }
        uint32_t k = 1;
        if (i < known && !strcmp(list[i], text))
            k = i; /* ranks of one program report alike */
        while (k < known && strcmp(list[k], text))
            k++;
        if (k == known && !(list[k = n++] = strdup(text)))
            return false;
        g->strings[i] = k;
        d->num_strings = n;
    }
    return true;
}

static bool add_signatures(struct merge *g)
{
    struct dump *d = g->to;
    uint32_t count = g->from->num_signatures, n = d->num_signatures ? d->num_signatures : 1;
    struct ag_dump_signature *list =
        extend(d->signatures, d->num_signatures, count + 1, sizeof(*list));
    if (!list)
        return false;
    g->signatures = n;
    for (uint32_t i = 1; i < count; i++, n++) {
        list[n] = g->from->signatures[i];
        list[n].name = string_of(g, list[n].name);
    }
    d->signatures = list;
    d->num_signatures = n;
    return true;
}

static bool add_streams(struct merge *g)
{
    struct dump *d = g->to;
    uint32_t count = g->from->num_streams, n = d->num_streams ? d->num_streams : 1;
    struct ag_dump_stream *list = extend(d->streams, d->num_streams, count + 1, sizeof(*list));
    if (!list)
        return false;
    g->streams = n;
    for (uint32_t i = 1; i < count; i++, n++) {
        list[n] = g->from->streams[i];
        list[n].id = list[n].id ? n : 0;
        list[n].reserved = g->process;
    }
    d->streams = list;
    d->num_streams = n;
    return true;
}

static bool add_graphs(struct merge *g)
{
    struct dump *d = g->to;
    uint32_t count = g->from->num_graphs, n = d->num_graphs ? d->num_graphs : 1;
    struct dump_graph *list = extend(d->graphs, d->num_graphs, count + 1, sizeof(*list));
    if (!list)
        return false;
    g->graphs = n;
    d->graphs = list;
    for (uint32_t i = 1; i < count; i++, n++) {
        list[n].d = g->from->graphs[i].d;
        list[n].d.id = list[n].d.id ? n : 0;
        list[n].d.stream = moved(list[n].d.stream, g->from->num_streams, g->streams);
        list[n].signatures = malloc((list[n].d.count + 1) * sizeof(uint32_t));
        if (!list[n].signatures)
            return false;
        d->num_graphs = n + 1;
        for (uint32_t k = 0; k < list[n].d.count; k++)
            list[n].signatures[k] =
                moved(g->from->graphs[i].signatures[k], g->from->num_signatures, g->signatures);
    }
    return true;
}

static bool add_sites(struct merge *g)
{
    struct dump *d = g->to;
    uint32_t count = g->from->num_sites, n = d->num_sites ? d->num_sites : 1;
    struct dump_site *list = extend(d->sites, d->num_sites, count + 1, sizeof(*list));
    if (!list)
        return false;
    g->sites = n;
    d->sites = list;
    for (uint32_t i = 1; i < count; i++, n++) {
        const struct dump_site *s = &g->from->sites[i];
        list[n].frames = malloc((s->count + 1) * sizeof(*s->frames));
        if (!list[n].frames)
            return false;
        list[n].count = s->count;
        d->num_sites = n + 1;
        for (uint32_t k = 0; k < s->count; k++) {
            list[n].frames[k] = s->frames[k];
            list[n].frames[k].object = string_of(g, s->frames[k].object);
        }
    }
    return true;
}

static void move_ids(const struct merge *g, struct ag_dump_event *e)
{
    const struct dump *from = g->from;
    e->stream = moved(e->stream, from->num_streams, g->streams);
    switch (e->kind) {
    case AG_EVENT_OP:
        e->a = moved(e->a, from->num_signatures, g->signatures);
        e->b = string_of(g, e->b);
        if (e->what == AG_DONE_IMMEDIATE && e->value <= UINT32_MAX)
            e->value = moved((uint32_t)e->value, from->num_sites, g->sites);
        break;
    case AG_EVENT_CALL:
        e->a = moved(e->a, from->num_signatures, g->signatures);
        break;
    case AG_EVENT_GRAPH:
    case AG_EVENT_TAKEN:
    case AG_EVENT_UPDATE:
    case AG_EVENT_BUILD:
    case AG_EVENT_DROP:
        e->a = moved(e->a, from->num_graphs, g->graphs);
        break;
    case AG_EVENT_SYNC_POINT:
        e->b = moved(e->b, from->num_sites, g->sites);
        e->a = string_of(g, e->a);
        break;
    case AG_EVENT_FLUSH:
    case AG_EVENT_NOTE:
        e->a = string_of(g, e->a);
        break;
    default:
        break;
    }
}

static bool add_events(struct merge *g)
{
    struct dump *d = g->to;
    size_t count = g->from->num_events;
    struct dump_event *list = realloc(d->events, (d->num_events + count + 1) * sizeof(*list));
    if (!list)
        return false;
    d->events = list;
    for (size_t i = 0; i < count; i++) {
        struct dump_event *event = &list[d->num_events];
        *event = g->from->events[i];
        event->order = (uint32_t)d->num_events++;
        event->thread |= g->process << THREAD_BITS;
        event->e.reserved = (uint16_t)g->process;
        event->e.time += g->later;
        move_ids(g, &event->e);
    }
    return true;
}

/* ---- the process ------------------------------------------------------------------------ */

static bool is_in(const char *list, const char *value)
{
    for (size_t n = strlen(value); *list; list += strncmp(list, ", ", 2) ? 0 : 2) {
        size_t k = strcspn(list, ",");
        if (k == n && !strncmp(list, value, n))
            return true;
        list += k;
        if (*list && strncmp(list, ", ", 2))
            return false; /* a value with a comma of its own */
    }
    return false;
}

static bool set_value(struct dump_pair **list, size_t *count, const char *name, char *value)
{
    for (size_t i = 0; i < *count; i++)
        if (!strcmp((*list)[i].name, name)) {
            free((*list)[i].value);
            (*list)[i].value = value;
            return true;
        }
    struct dump_pair *more = realloc(*list, (*count + 1) * sizeof(*more));
    if (!more)
        return false;
    *list = more;
    more[*count] = (struct dump_pair){strdup(name), value};
    return more[(*count)++].name;
}

/* The same in all of them, or one behind the other. */
static bool add_process(struct merge *g)
{
    struct dump *d = g->to;
    for (size_t i = 0; i < g->from->num_process; i++) {
        const struct dump_pair *p = &g->from->process[i];
        const char *before = dump_process(d, p->name);
        char *value = NULL;
        if (!*p->value || !strcmp(before, p->value) || (*before && is_in(before, p->value)))
            continue;
        if (asprintf(&value, "%s%s%s", before, *before ? ", " : "", p->value) < 0 ||
            !set_value(&d->process, &d->num_process, p->name, value))
            return false;
    }
    return true;
}

/* Numbers are added up. The reason why not more was replayed is that of the process that fell
 * short by most. */
static bool add_counters(struct merge *g, bool most)
{
    struct dump *d = g->to;
    for (size_t i = 0; i < g->from->num_counters; i++) {
        const struct dump_pair *p = &g->from->counters[i];
        bool is_number = *p->value && !p->value[strspn(p->value, "0123456789")];
        char *value = NULL;
        if (!is_number && !most)
            continue;
        if ((is_number ? asprintf(&value, "%llu",
                                  (unsigned long long)(dump_counter(d, p->name) +
                                                       strtoull(p->value, NULL, 10)))
                       : asprintf(&value, "%s", p->value)) < 0 ||
            !set_value(&d->counters, &d->num_counters, p->name, value))
            return false;
    }
    return true;
}

/* Launches that graphs did not carry. */
static uint64_t shortfall(const struct dump *d)
{
    uint64_t ops = dump_counter(d, "ops");
    uint64_t carried = dump_counter(d, "replayed") + dump_counter(d, "covered");
    return carried < ops ? ops - carried : 0;
}

static bool add_state(struct merge *g)
{
    struct dump *d = g->to;
    const char *theirs = g->from->end;
    bool first = !g->process;
    if (first) {
        d->header = g->from->header;
        d->path = strdup(g->from->path);
    }
    if (!theirs || (!first && !d->end)) {
        free(d->end); /* one of them is not complete */
        d->end = NULL;
    } else if (first || !strcmp(theirs, "full")) {
        free(d->end);
        d->end = strdup(theirs);
    }
    d->size += g->from->size;
    d->cut += g->from->cut;
    d->damaged += g->from->damaged;
    d->lost += g->from->lost;
    if (shortfall(g->from) >= d->most_short || first) {
        d->most_short = shortfall(g->from);
        return add_counters(g, true);
    }
    return add_counters(g, false);
}

bool dump_merge_add(struct dump *to, const struct dump *from)
{
    struct merge g = {.to = to, .from = from, .process = to->num_processes};
    bool good = to->num_processes < DUMP_MOST_PROCESSES && add_state(&g);
    g.later =
        (from->header.wall_ns - from->header.clock_ns) - (to->header.wall_ns - to->header.clock_ns);
    good = good && add_strings(&g) && add_signatures(&g) && add_streams(&g) && add_graphs(&g) &&
           add_sites(&g) && add_events(&g) && add_process(&g);
    free(g.strings);
    to->num_processes++;
    return good;
}

void dump_merge_end(struct dump *d)
{
    dump_sort_events(d);
}
