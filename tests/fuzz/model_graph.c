/* model_graph.c - the program's own captures and graphs. */
#include "tests/fuzz/model_step.h"
#include <string.h>

enum { CAPTURE_GLOBAL = 0 };

/* Others may go on meanwhile where neither the mode nor the stream concerns them; but while anybody
 * captures, nobody can wait for the context. */
static bool may_capture(const struct fz_step *s, int slot, int mode)
{
    struct fz_model *m = s->m;
    if (mode == CAPTURE_GLOBAL || !(m->stream[slot].kind & 1) || m->waiters & ~(1u << s->thread))
        return fz_take_phase(s);
    m->capturers |= 1u << s->thread;
    return true;
}

static bool graph_usable(const struct fz_step *s, int graph)
{
    struct fz_model *m = s->m;
    if (m->capturing[s->thread] || !in_range(graph, FZ_GRAPHS) ||
        !may_touch(s, m->graph[graph].toucher))
        return false;
    m->graph[graph].toucher = (uint8_t)(s->thread + 1);
    return true;
}

enum fz_legal fz_do_begin(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0];
    if (m->capturing[s->thread] || slot < FZ_FIRST_STREAM || !stream_usable(s, slot) ||
        !in_range(s->op->a[1], 3) || !may_capture(s, slot, s->op->a[1]))
        return FZ_ILLEGAL;
    m->toucher[m->stream[slot].clock] = (uint8_t)(s->thread + 1);
    memset(&m->capture[s->thread], 0, sizeof m->capture[s->thread]);
    m->stream[slot].capturing = true;
    m->capturing[s->thread] = slot + 1;
    return FZ_OK;
}

enum fz_legal fz_do_fork(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int first = s->op->a[0], second = s->op->a[1];
    if (m->capturing[s->thread] != first + 1 || m->fork[s->thread].second || second == first ||
        second < FZ_FIRST_STREAM || !stream_usable(s, second) ||
        (!(m->stream[second].kind & 1) && !fz_take_phase(s)))
        return FZ_ILLEGAL;
    memset(&m->fork[s->thread], 0, sizeof m->fork[s->thread]);
    m->toucher[m->stream[second].clock] = (uint8_t)(s->thread + 1);
    m->stream[second].capturing = true;
    m->fork[s->thread].second = second + 1;
    return FZ_OK;
}

enum fz_legal fz_do_merge(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int first = s->op->a[0], second = s->op->a[1];
    if (m->capturing[s->thread] != first + 1 || m->fork[s->thread].second != second + 1)
        return FZ_ILLEGAL;
    m->stream[second].capturing = false;
    m->fork[s->thread].second = 0;
    return FZ_OK;
}

enum fz_legal fz_do_end(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int slot = s->op->a[0], graph = s->op->a[1];
    if (m->capturing[s->thread] != slot + 1 || m->fork[s->thread].second ||
        !in_range(graph, FZ_GRAPHS) || m->graph[graph].live ||
        !may_touch(s, m->graph[graph].toucher))
        return FZ_ILLEGAL;
    m->stream[slot].capturing = false;
    m->capturing[s->thread] = 0;
    m->graph[graph] = m->capture[s->thread];
    m->graph[graph].live = true;
    m->graph[graph].toucher = (uint8_t)(s->thread + 1);
    return FZ_OK;
}

enum fz_legal fz_do_build(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    const int32_t *a = s->op->a; /* graph module nodes buf k waits records */
    if (!graph_usable(s, a[0]) || m->graph[a[0]].live || !module_usable(s, a[1]) || a[2] < 1 ||
        a[2] > FZ_MAX_NODES || !buf_usable(s, a[3], 0, 1) || (a[5] && a[5] == a[6]) ||
        (a[5] && !event_usable(s, a[5] - 1)) || (a[6] && !event_usable(s, a[6] - 1)))
        return FZ_ILLEGAL;
    memset(&m->capture[s->thread], 0, sizeof m->capture[s->thread]);
    fz_work_in_capture(s, &(struct fz_access){(uint8_t)a[3], true}, 1, a[1]);
    m->graph[a[0]] = m->capture[s->thread];
    m->graph[a[0]].live = true;
    m->graph[a[0]].toucher = (uint8_t)(s->thread + 1);
    m->graph[a[0]].nodes = (uint8_t)a[2];
    m->graph[a[0]].waits = (uint8_t)a[5];
    m->graph[a[0]].records = (uint8_t)a[6];
    return FZ_OK;
}

static bool graph_fresh(const struct fz_model *m, int graph)
{
    for (unsigned int i = 0; i < m->graph[graph].count; i++) {
        unsigned int b = m->graph[graph].access[i].buf;
        if (!m->buf[b].live || m->buf[b].generation != m->graph[graph].buf_generation[b])
            return false;
    }
    for (int i = 0; i < FZ_MODULES; i++)
        if (m->graph[graph].uses_module[i] &&
            (!m->module[i].live || m->module[i].generation != m->graph[graph].module_generation[i]))
            return false;
    return true;
}

enum fz_legal fz_do_inst(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int graph = s->op->a[0];
    if (!graph_usable(s, graph) || !m->graph[graph].live || m->graph[graph].inst ||
        !graph_fresh(m, graph))
        return FZ_ILLEGAL;
    m->graph[graph].inst = true;
    return FZ_OK;
}

static bool event_free(const struct fz_step *s, uint8_t slot_and_1)
{
    return !slot_and_1 || event_usable(s, slot_and_1 - 1);
}

/* The launch works with the event, which stands for its stream's work if `records`; a node anywhere
 * in the graph only for what is before that. */
static void use_event(const struct fz_step *s, uint8_t slot_and_1, unsigned int c, bool records,
                      bool anywhere)
{
    struct fz_model *m = s->m;
    if (!slot_and_1)
        return;
    m->event[slot_and_1 - 1].toucher = (uint8_t)(s->thread + 1);
    join(m->event[slot_and_1 - 1].used, m->clock[c]);
    if (!records)
        return;
    m->event[slot_and_1 - 1].recorded = true;
    memcpy(m->event[slot_and_1 - 1].clock, m->clock[c], sizeof(fz_clock));
    m->event[slot_and_1 - 1].clock[c] -= anywhere;
}

enum fz_legal fz_do_glaunch(const struct fz_step *s)
{
    struct fz_model *m = s->m;
    int graph = s->op->a[0], slot = s->op->a[1];
    if (!graph_usable(s, graph) || !m->graph[graph].inst || !graph_fresh(m, graph) ||
        !stream_usable(s, slot) || !event_free(s, m->graph[graph].waits) ||
        !event_free(s, m->graph[graph].records))
        return FZ_ILLEGAL;
    uint8_t waits = m->graph[graph].waits, records = m->graph[graph].records;
    for (unsigned int i = 0; i < m->graph[graph].count; i++)
        if (!may_touch(s, m->buf[m->graph[graph].access[i].buf].toucher))
            return FZ_ILLEGAL;
    unsigned int c = clock_of(m, s->thread, slot);
    fz_clock before;
    memcpy(before, m->clock[c], sizeof before);
    /* An executable graph's launches are ordered among themselves, but on a GPU not where there is
     * nothing in it: then the second stream does not wait (docs/proof.md). */
    if (!fz_limits.real || m->graph[graph].count)
        join(m->clock[c], m->graph[graph].clock);
    bool anywhere = !m->graph[graph].nodes; /* else they are the first and the last */
    if (waits && m->event[waits - 1].recorded && !anywhere)
        join(m->clock[c], m->event[waits - 1].clock);
    enum fz_legal r = fz_work(s, slot, m->graph[graph].access, m->graph[graph].count, -1);
    if (r != FZ_OK) {
        memcpy(m->clock[c], before, sizeof before);
        return r;
    }
    memcpy(m->graph[graph].clock, m->clock[c], sizeof(fz_clock));
    use_event(s, waits, c, false, anywhere);
    use_event(s, records, c, true, anywhere);
    return FZ_OK;
}

enum fz_legal fz_do_gupdate(const struct fz_step *s)
{
    const int32_t *a = s->op->a; /* graph module node k how */
    const struct fz_model *m = s->m;
    if (!graph_usable(s, a[0]) || !m->graph[a[0]].inst || !m->graph[a[0]].nodes ||
        !module_usable(s, a[1]) || !m->graph[a[0]].uses_module[a[1]] || !graph_fresh(m, a[0]) ||
        !in_range(a[2], m->graph[a[0]].nodes) || !in_range(a[4], 2))
        return FZ_ILLEGAL;
    return FZ_OK;
}

enum fz_legal fz_do_ungraph(const struct fz_step *s)
{
    int graph = s->op->a[0];
    if (!graph_usable(s, graph) || !s->m->graph[graph].live)
        return FZ_ILLEGAL;
    s->m->graph[graph].live = s->m->graph[graph].inst = false;
    return FZ_OK;
}
