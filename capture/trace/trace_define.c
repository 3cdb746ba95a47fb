/* trace_define.c - see trace_define.h. */
#include "capture/trace/trace_define.h"
#include "capture/system/hot.h"
#include "capture/system/hash.h"
#include "capture/system/lock.h"
#include "capture/trace/trace_format.h"
#include <stdlib.h>
#include <string.h>

_Atomic bool ag_tracing AG_HOT;

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

struct text {
    uint32_t id;
    UT_hash_handle hh;
    char bytes[];
};
static struct text *texts;
static uint32_t num_texts;
static struct ag_lock texts_lock;

uint32_t ag_trace_string(const char *bytes)
{
    size_t n = strlen(bytes);
    struct text *t;
    ag_lock(&texts_lock, AG_RANK_TEXTS);
    HASH_FIND(hh, texts, bytes, n, t);
    if (!t && (t = malloc(sizeof(*t) + n + 1))) {
        memcpy(t->bytes, bytes, n + 1);
        t->id = num_texts + 1;
        HASH_ADD_KEYPTR(hh, texts, t->bytes, n, t);
        if (t->hh.tbl) {
            struct ag_dump_string head = {t->id, (uint32_t)n};
            ag_trace_define(AG_DUMP_STRING, &head, sizeof(head), bytes, n);
            num_texts++;
        } else {
            free(t);
            t = NULL;
        }
    }
    ag_unlock(&texts_lock);
    return t ? t->id : 0;
}
