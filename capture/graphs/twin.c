/*
 * twin.c - see twin.h. A direct-mapped table of references, which keep nothing alive: the code
 * checks what a reference leads to before using it.
 */
#include "capture/graphs/twin.h"
#include "capture/graphs/budget.h"
#include "capture/system/digest.h"
#include "capture/graphs/graph.h"
#include "capture/tracking/stream.h"
#include "policy/engine.h"
#include <stdlib.h>
#include <string.h>

enum { PLACES = 256 };

struct ag_twins {
    struct place {
        uint64_t content;
        struct ag_chunk_ref chunk;
    } places[PLACES];
};

static uint64_t digest(const struct ag_engine_content *recorded)
{
    uint64_t hash = recorded->num_ops;
    for (uint32_t i = 0; i < recorded->num_ops; i++)
        hash = ag_digest(hash, &recorded->ops[i].key, sizeof(ag_key));
    return ag_digest(hash, recorded->bytes, recorded->num_bytes);
}

/* Whether the graphs hold the recorded ops and arguments. */
static bool holds(const struct ag_graphs *g, const struct ag_engine_content *recorded)
{
    if (!g || g->count != recorded->num_ops || g->num_bytes != recorded->num_bytes)
        return false;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->ops[i].key != recorded->ops[i].key || g->ops[i].offset != recorded->ops[i].offset)
            return false;
    for (uint32_t i = 0; i < g->num_variants; i++)
        if (!memcmp(g->variants[i]->bytes, recorded->bytes, recorded->num_bytes))
            return true;
    return false;
}

enum ag_twin ag_twin_find(struct ag_stream *s, struct ag_chunk *chunk)
{
    if (!s->twins && !(s->twins = calloc(1, sizeof(*s->twins))))
        return AG_TWIN_NONE;
    struct ag_engine_content recorded = ag_engine_content(&s->engine);
    uint64_t content = digest(&recorded);
    struct place *place = &s->twins->places[content % PLACES];
    struct ag_chunk *twin = place->content == content
                                ? ag_policy_chunk_get(ag_engine_policy(&s->engine), place->chunk)
                                : NULL;
    if (twin && twin != chunk) {
        enum ag_chunk_state state = ag_chunk_state(twin); /* first: only then its graphs */
        if (state == AG_CHUNK_BUILDING)
            return AG_TWIN_COMING;
        if (state == AG_CHUNK_READY && holds(ag_chunk_user(twin), &recorded)) {
            ag_graphs_share(twin, chunk);
            ag_policy_built(chunk, true);
            return AG_TWIN_SHARED;
        }
    }
    *place = (struct place){content, ag_policy_chunk_ref(chunk)};
    return AG_TWIN_NONE;
}
