/* current.c - see current.h. */
#include "capture/system/current.h"
#include <string.h>

__thread struct ag_thread ag_thread __attribute__((tls_model("initial-exec")));

void ag_thread_knows_streams_of(uint64_t generation)
{
    struct ag_thread *t = &ag_thread;
    if (t->generation == generation)
        return;
    t->generation = generation;
    t->last = (struct ag_found_stream){0};
    memset(t->found, 0, sizeof(t->found));
    memset(t->dormant, 0xff, sizeof(t->dormant)); /* no stream has this handle */
}
