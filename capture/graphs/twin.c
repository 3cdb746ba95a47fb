/*
 * twin.c - see twin.h. A direct-mapped table of references, which keep nothing alive: the code
 * checks what a reference leads to before using it.
 */
#include "capture/graphs/twin.h"
#include "capture/graphs/budget.h"
#include "capture/system/digest.h"
#include "capture/graphs/graph.h"
#include "capture/tracking/stream.h"
#include "policy/policy.h"
#include <stdlib.h>
#include <string.h>

enum { PLACES = 256 };

struct ag_twins {
    struct place {
        uint64_t content;
        struct ag_chunk_ref chunk;
    } places[PLACES];
};

static uint64_t content_of(const struct ag_stream *s)
{
    uint64_t hash = s->engine.num_recorded;
    for (uint32_t i = 0; i < s->engine.num_recorded; i++)
        hash = ag_digest(hash, &s->engine.recorded[i].key, sizeof(ag_key));
    return ag_digest(hash, s->engine.bytes, s->engine.num_bytes);
}

/* Whether the graphs hold the recorded ops and arguments. */
static bool holds(const struct ag_graphs *g, const struct ag_stream *s)
{
    if (!g || g->count != s->engine.num_recorded || g->num_bytes != s->engine.num_bytes)
        return false;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->ops[i].key != s->engine.recorded[i].key ||
            g->ops[i].offset != s->engine.recorded[i].offset)
            return false;
    for (uint32_t i = 0; i < g->num_variants; i++)
        if (!memcmp(g->variants[i]->bytes, s->engine.bytes, s->engine.num_bytes))
            return true;
    return false;
}

enum ag_twin ag_twin_find(struct ag_stream *s, struct ag_chunk *chunk)
{
    if (!s->twins && !(s->twins = calloc(1, sizeof(*s->twins))))
        return AG_TWIN_NONE;
    uint64_t content = content_of(s);
    struct place *place = &s->twins->places[content % PLACES];
    struct ag_chunk *twin =
        place->content == content ? ag_policy_chunk_get(&s->engine.policy, place->chunk) : NULL;
    if (twin && twin != chunk) {
        /* the builder writes `user` before the state */
        int state = atomic_load_explicit(&twin->state, memory_order_acquire);
        if (state == AG_CHUNK_BUILDING)
            return AG_TWIN_COMING;
        if (state == AG_CHUNK_READY && holds(twin->user, s)) {
            ag_graphs_share(twin, chunk);
            ag_policy_built(chunk, true);
            return AG_TWIN_SHARED;
        }
    }
    *place = (struct place){content, ag_policy_chunk_ref(chunk)};
    return AG_TWIN_NONE;
}
