/* ranks.c - see ranks.h. */
#include "tools/ranks.h"
#include "tools/dump_merge.h"
#include "tools/tools.h"
#include "tools/need.h"
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static void fill_row(struct ranks_row *row, const struct model *m)
{
    snprintf(row->rank, sizeof(row->rank), "%s", dump_process(m->d, "rank"));
    snprintf(row->pid, sizeof(row->pid), "%s", dump_process(m->d, "pid"));
    row->host = need(strdup(dump_process(m->d, "host")));
    row->program = need(strdup(last_part(dump_process(m->d, "program"))));
    row->why = need(strdup(model_falls_short(m) ? m->why : ""));
    row->ops = m->ops;
    row->carried = m->replayed + m->covered;
    row->launches = m->launches;
    row->coverage = model_coverage(m);
    row->saved_ns = m->saved_ns;
}

static int by_rank(const void *a, const void *b)
{
    const char *x = dump_process(*(struct dump *const *)a, "rank");
    const char *y = dump_process(*(struct dump *const *)b, "rank");
    long i = *x ? strtol(x, NULL, 10) : LONG_MAX, k = *y ? strtol(y, NULL, 10) : LONG_MAX;
    return i < k ? -1 : i > k;
}

/* ---- sequences that several processes have ---------------------------------------------- */

struct same {
    struct model_sequence *first;
    uint64_t most; /* launches in the process whose graphs are shown */
    bool seen[DUMP_MOST_PROCESSES];
    UT_hash_handle hh;
    char names[];
};

static void add_sequence(struct model_sequence *to, const struct model_sequence *s)
{
    to->launches += s->launches;
    to->carried += s->carried;
    to->updates += s->updates;
    to->host_ns += s->host_ns;
    to->build_ns += s->build_ns;
    to->builds += s->builds;
    to->saved_ns += s->saved_ns;
}

/* Ids differ from process to process: what launches the same names is the same here. */
static void fold_sequences(struct model *m)
{
    struct same *all = NULL, *e, *next;
    uint32_t kept = 0;
    char names[2100];
    for (uint32_t i = 0; i < m->num_sequences; i++) {
        struct model_sequence s = m->sequences[i];
        uint32_t process = s.stream < m->num_streams ? m->d->streams[s.stream].reserved : 0;
        int n = snprintf(names, sizeof(names), "%u ", s.length);
        sequence_names(m, &s, names + n, sizeof(names) - (size_t)n);
        size_t size = strlen(names);
        HASH_FIND(hh, all, names, size, e);
        if (e) {
            add_sequence(e->first, &s);
            if (s.launches > e->most) {
                e->most = s.launches;
                e->first->graphs = s.graphs;
                e->first->num_graphs = s.num_graphs;
                e->first->stream = s.stream;
            }
        } else {
            e = need(calloc(1, sizeof(*e) + size + 1));
            memcpy(e->names, names, size + 1);
            e->first = &m->sequences[kept];
            e->most = s.launches;
            m->sequences[kept++] = s;
            e->first->processes = 0;
            HASH_ADD_KEYPTR(hh, all, e->names, size, e);
        }
        e->first->processes += !e->seen[process];
        e->seen[process] = true;
    }
    m->num_sequences = kept;
    model_sort_sequences(m);
    e = all;
    HASH_CLEAR(hh, all);
    for (; e; e = next) {
        next = e->hh.next;
        free(e);
    }
}

/* ---- loading ---------------------------------------------------------------------------- */

/* A copy has the same process and the same clocks in its header. */
static bool is_named_twice(struct dump *const *dumps, int i)
{
    for (int k = 0; k < i; k++)
        if (!memcmp(&dumps[k]->header, &dumps[i]->header, sizeof(dumps[i]->header))) {
            fprintf(stderr, "autograph: %s is the same dump as %s: it would count twice\n",
                    dumps[i]->path, dumps[k]->path);
            return true;
        }
    return false;
}

static bool load_all(struct dump **dumps, const char *const *paths, int count)
{
    for (int i = 0; i < count; i++)
        if (!(dumps[i] = dump_load(paths[i])) || is_named_twice(dumps, i))
            return false;
    for (int i = 0; i < count; i++)
        dump_complain(dumps[i]);
    return true;
}

static void join(struct ranks *r, struct dump **dumps)
{
    r->d = need(dump_merge_begin());
    for (int i = 0; i < r->count; i++) {
        struct model *m = model_make(dumps[i]);
        fill_row(&r->rows[i], m);
        r->sound &= model_is_sound(m);
        model_free(m);
        if (!dump_merge_add(r->d, dumps[i]))
            need(NULL);
        dump_free(dumps[i]);
        dumps[i] = NULL;
    }
    dump_merge_end(r->d);
    r->m = model_make(r->d);
    fold_sequences(r->m);
}

struct ranks *ranks_load(const char *const *paths, int count)
{
    struct dump **dumps = need(calloc((size_t)count, sizeof(*dumps)));
    struct ranks *r = need(calloc(1, sizeof(*r)));
    r->rows = need(calloc((size_t)count, sizeof(*r->rows)));
    r->sound = true;
    if (!load_all(dumps, paths, count)) {
        for (int i = 0; i < count; i++)
            dump_free(dumps[i]);
        free(dumps);
        ranks_free(r);
        return NULL;
    }
    r->count = count;
    if (count > 1) {
        qsort(dumps, (size_t)count, sizeof(struct dump *), by_rank);
        join(r, dumps);
    } else {
        r->d = dumps[0];
        r->m = model_make(r->d);
        fill_row(&r->rows[0], r->m);
        r->sound = model_is_sound(r->m);
    }
    free(dumps);
    return r;
}

void ranks_free(struct ranks *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->count; i++) {
        free(r->rows[i].host);
        free(r->rows[i].program);
        free(r->rows[i].why);
    }
    if (r->m)
        model_free(r->m);
    dump_free(r->d);
    free(r->rows);
    free(r);
}

/* ---- what is said of them --------------------------------------------------------------- */

void ranks_table(const struct ranks *r, struct table_output *o)
{
    if (r->count == 1)
        return;
    table_begin(o, "processes", "Processes",
                "<Rank|Pid|~<Host|<Program|Launches|By graphs (%)|~Graph launches|Saved (ms)|<Why "
                "not more");
    for (int i = 0; i < r->count; i++) {
        const struct ranks_row *row = &r->rows[i];
        table_text(o, row->rank);
        table_number(o, strtoull(row->pid, NULL, 10));
        table_text(o, row->host);
        table_text(o, row->program);
        table_number(o, row->ops);
        table_real(o, row->coverage, 1);
        table_number(o, row->launches);
        table_real(o, row->saved_ns / 1e6, 1);
        table_text(o, row->why);
    }
    table_end(o);
}

const struct ranks_row *ranks_partner(const struct ranks *before, int i, const struct ranks *after)
{
    const char *rank = before->rows[i].rank;
    for (int k = 0; *rank && k < after->count; k++)
        if (!strcmp(after->rows[k].rank, rank))
            return &after->rows[k];
    return !*rank && i < after->count && !*after->rows[i].rank ? &after->rows[i] : NULL;
}

const char *ranks_name(const struct ranks_row *row, char *text, size_t size)
{
    snprintf(text, size, "%s %s", *row->rank ? "rank" : "pid", *row->rank ? row->rank : row->pid);
    return text;
}
