/*
 * uploads.c - graphs that were still being uploaded when the builder had to leave them. To destroy
 * one then crashes in the driver (580, on an H100, with the fuzzer), so they are kept until they
 * are there.
 */
#include "capture/graph.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct uploading {
    struct ag_variant *variant;
    CUcontext context;
    struct uploading *next;
} * uploading;

void ag_uploads_keep(struct ag_variant *v, CUcontext context)
{
    struct uploading *u = malloc(sizeof(*u));
    if (!u)
        return; /* it stays where it is */
    u->variant = v;
    u->context = context;
    pthread_mutex_lock(&mutex);
    u->next = uploading;
    uploading = u;
    pthread_mutex_unlock(&mutex);
}

/* Destroys those that have been uploaded since. */
void ag_uploads_collect(void)
{
    pthread_mutex_lock(&mutex);
    struct uploading *list = uploading;
    uploading = NULL;
    pthread_mutex_unlock(&mutex);
    while (list) {
        struct uploading *u = list;
        list = u->next;
        struct ag_context context = {.handle = u->context};
        bool entered = ag_context_enter(&(struct ag_stream){.context = &context});
        CUstreamCaptureMode mode = ag_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
        if (ag_build_upload(u->context) == AG_UPLOAD_DONE)
            ag_variant_destroy(u->variant);
        else
            ag_uploads_keep(u->variant, u->context);
        ag_capture_mode(mode);
        ag_context_leave(entered);
        free(u);
    }
}

void ag_uploads_forget(CUcontext ctx)
{
    pthread_mutex_lock(&mutex);
    for (struct uploading **link = &uploading; *link;) {
        struct uploading *u = *link;
        if (ctx && u->context != ctx) {
            link = &u->next;
            continue;
        }
        *link = u->next; /* the driver destroys the graph with the context */
        free(u);
    }
    pthread_mutex_unlock(&mutex);
}

bool ag_uploads_left(void)
{
    pthread_mutex_lock(&mutex);
    bool left = uploading != NULL;
    pthread_mutex_unlock(&mutex);
    return left;
}
