/* log.c - the log of calls and of executed work, in one global order. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

struct entry {
    uint64_t stream; /* 0: a call */
    int thread;
    short symbol;
    short result;
    char kind[8];
    char *details;
};
static struct entry *entries;
static size_t count, capacity;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool on;

/* A run-away program must not take all memory: entries beyond this are dropped, and said so. */
#define MAX_ENTRIES 20000000u

static struct entry *append(void)
{
    if (count == capacity) {
        size_t more = capacity ? capacity * 2 : 4096;
        struct entry *grown = count < MAX_ENTRIES ? realloc(entries, more * sizeof *entries) : NULL;
        if (!grown)
            return NULL;
        entries = grown;
        capacity = more;
    }
    memset(&entries[count], 0, sizeof *entries);
    return &entries[count++];
}

bool sim_log_on(void)
{
    return atomic_load_explicit(&on, memory_order_relaxed);
}

void sim_log_call(enum sim_symbol symbol, CUresult result)
{
    static _Thread_local int thread;
    if (!thread)
        thread = (int)syscall(SYS_gettid);
    pthread_mutex_lock(&lock);
    struct entry *e = append();
    if (e) {
        e->thread = thread;
        e->symbol = (short)symbol;
        e->result = (short)result;
    }
    pthread_mutex_unlock(&lock);
}

void sim_log_exec(uint64_t stream, const char *kind, const char *details)
{
    char *copy = strdup(details);
    pthread_mutex_lock(&lock);
    struct entry *e = append();
    if (e) {
        e->stream = stream;
        snprintf(e->kind, sizeof e->kind, "%s", kind);
        e->details = copy;
        copy = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(copy);
}

SIM_EXPORT void cuSimLogStart(void)
{
    atomic_store(&on, true);
    atomic_fetch_or(&sim_attention, SIM_ATTEND_LOG);
}

SIM_EXPORT void cuSimLogStop(void)
{
    atomic_store(&on, false);
    atomic_fetch_and(&sim_attention, ~(unsigned int)SIM_ATTEND_LOG);
}

SIM_EXPORT void cuSimLogClear(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++)
        free(entries[i].details);
    count = 0;
    pthread_mutex_unlock(&lock);
}

static void print_entries(FILE *out, const char *kind, uint64_t stream, int order)
{
    bool calls = !kind || !strcmp(kind, "call"), execs = !kind || !strcmp(kind, "exec");
    for (size_t i = 0; i < count; i++) {
        const struct entry *e = &entries[i];
        if (e->stream ? !execs || (stream && e->stream != stream) : !calls || stream)
            continue;
        if (order)
            fprintf(out, "%zu ", i);
        if (e->stream)
            fprintf(out, "exec %llu %s %s\n", (unsigned long long)e->stream, e->kind, e->details);
        else
            fprintf(out, "call %d %s %d\n", e->thread, sim_symbol_table[e->symbol].name, e->result);
    }
}

SIM_EXPORT char *cuSimLogText(const char *kind, uint64_t stream, int order)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    pthread_mutex_lock(&lock);
    print_entries(out, kind, stream, order);
    pthread_mutex_unlock(&lock);
    fclose(out);
    return text;
}

void sim_log_write_file(void)
{
    char path[4096];
    const char *pattern = sim_settings.log_path, *p = strstr(pattern, "%p");
    if (p)
        snprintf(path, sizeof path, "%.*s%d%s", (int)(p - pattern), pattern, (int)getpid(), p + 2);
    else
        snprintf(path, sizeof path, "%s", pattern);
    FILE *out = fopen(path, "w");
    if (!out) {
        fprintf(stderr, "simcuda: cannot write the log %s: %m\n", path);
        return;
    }
    pthread_mutex_lock(&lock);
    print_entries(out, NULL, 0, 1);
    if (count >= MAX_ENTRIES)
        fprintf(out, "# entries after this were dropped\n");
    pthread_mutex_unlock(&lock);
    fclose(out);
}
