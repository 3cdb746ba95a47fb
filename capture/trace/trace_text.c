/* trace_text.c - see trace_text.h. */
#include "capture/trace/trace_text.h"
#include "capture/system/lock.h"
#include "capture/trace/trace_define.h"
#include "capture/trace/trace_format.h"
#include <stdlib.h>
#include <string.h>
/* by default uthash ends the program if memory runs out; with this, `hh.tbl` stays NULL after
 * adding */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

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
