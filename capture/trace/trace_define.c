/* trace_define.c - see trace_define.h. */
#include "capture/trace/trace_define.h"
#include "capture/system/lock.h"
#include <stdlib.h>
#include <string.h>

_Atomic bool ag_tracing;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Waiting definitions, one after another: chunk type, size, bytes. */
static struct definitions {
    char *bytes;
    size_t used, room;
} waiting;
struct waiting_head {
    uint32_t type, size;
};

void ag_trace_give_up(void)
{
    atomic_store(&ag_tracing, false);
}

void ag_trace_definitions_take(void (*take)(uint32_t type, const void *bytes, size_t size))
{
    ag_mutex_lock(&mutex, AG_RANK_DEFINITIONS);
    struct definitions d = waiting;
    memset(&waiting, 0, sizeof(waiting));
    ag_mutex_unlock(&mutex);
    for (size_t at = 0; at < d.used;) {
        struct waiting_head head;
        memcpy(&head, d.bytes + at, sizeof(head));
        at += sizeof(head);
        take(head.type, d.bytes + at, head.size);
        at += head.size;
    }
    free(d.bytes);
}

void ag_trace_define(uint32_t type, const void *head, size_t head_size, const void *body,
                     size_t body_size)
{
    struct waiting_head before = {type, (uint32_t)(head_size + body_size)};
    size_t total = sizeof(before) + head_size + body_size;
    ag_mutex_lock(&mutex, AG_RANK_DEFINITIONS);
    if (waiting.used + total > waiting.room) {
        size_t room = (waiting.used + total) * 2 + 4096;
        char *bytes = realloc(waiting.bytes, room);
        if (!bytes) {
            ag_mutex_unlock(&mutex);
            ag_trace_give_up(); /* without the definition, events would use unknown names */
            return;
        }
        waiting.bytes = bytes;
        waiting.room = room;
    }
    char *at = waiting.bytes + waiting.used;
    memcpy(at, &before, sizeof(before));
    if (head_size)
        memcpy(at + sizeof(before), head, head_size);
    if (body_size)
        memcpy(at + sizeof(before) + head_size, body, body_size);
    waiting.used += total;
    ag_mutex_unlock(&mutex);
}
