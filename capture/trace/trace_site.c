/*
 * trace_site.c - from where the program made a call: a few return addresses outside the library.
 *
 * Unwinding costs a microsecond or two. So after a thread's first sync points, the library unwinds
 * only at some of them. The writer's thread turns addresses into file names and offsets, because
 * that may wait for the loader's lock; the launching thread never waits for it.
 */
#include "capture/trace/trace_site.h"
#include "capture/system/hash.h"
#include "capture/system/lock.h"
#include "capture/trace/trace_define.h"
#include "capture/trace/trace_format.h"
#include "policy/constants.h"
#include <execinfo.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 6, MOST_STEPS = 24, MOST_SITES = 65536 };

struct site {
    uintptr_t frames[FRAMES]; /* the key; 0 after the last frame */
    uint32_t id;
    struct site *next; /* next of those that are not defined yet */
    UT_hash_handle hh;
};

static uintptr_t own_start, own_end;
static struct ag_lock lock;
static struct site *sites, *undefined, **last_undefined = &undefined;
static uint32_t num_sites;
static __thread uint32_t met __attribute__((tls_model("initial-exec")));

/* ---- addresses to files ----------------------------------------------------------------- */

struct lookup {
    uintptr_t address, base, end;
    char path[1024];
};

static int visit(struct dl_phdr_info *info, size_t unused, void *context)
{
    struct lookup *l = context;
    bool found = false;
    (void)unused;
    l->end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
        if (p->p_type != PT_LOAD)
            continue;
        found |= l->address >= start && l->address < end;
        if (end > l->end)
            l->end = end;
    }
    if (!found)
        return 0;
    l->base = info->dlpi_addr;
    const char *name = info->dlpi_name;
    if (!name || !*name) { /* the program's own file */
        ssize_t n = readlink("/proc/self/exe", l->path, sizeof(l->path) - 1);
        l->path[n > 0 ? n : 0] = 0;
    } else {
        strncpy(l->path, name, sizeof(l->path) - 1);
        l->path[sizeof(l->path) - 1] = 0;
    }
    return 1;
}

void ag_trace_sites_start(void)
{
    struct lookup l = {.address = (uintptr_t)&ag_trace_sites_start};
    if (dl_iterate_phdr(visit, &l)) {
        own_start = l.base;
        own_end = l.end;
    }
}

void ag_trace_sites_define(void)
{
    ag_lock(&lock, AG_RANK_SITES);
    struct site *list = undefined;
    undefined = NULL;
    last_undefined = &undefined;
    ag_unlock(&lock);
    for (; list; list = list->next) {
        struct ag_dump_site site = {list->id, 0};
        struct ag_dump_frame frames[FRAMES];
        memset(frames, 0, sizeof(frames));
        while (site.count < FRAMES && list->frames[site.count]) {
            struct ag_dump_frame *f = &frames[site.count];
            struct lookup l = {.address = list->frames[site.count]};
            f->offset = l.address;
            if (dl_iterate_phdr(visit, &l)) {
                f->object = ag_trace_string(l.path);
                f->offset = l.address - l.base;
            }
            site.count++;
        }
        ag_trace_define(AG_DUMP_SITE, &site, sizeof(site), frames, site.count * sizeof(*frames));
    }
}

/* ---- the launching thread's side -------------------------------------------------------- */

static struct site *find_or_make(const uintptr_t *frames)
{
    struct site *s;
    HASH_FIND(hh, sites, frames, sizeof(s->frames), s);
    if (s || num_sites >= MOST_SITES || !(s = calloc(1, sizeof(*s))))
        return s;
    memcpy(s->frames, frames, sizeof(s->frames));
    s->id = num_sites + 1;
    HASH_ADD(hh, sites, frames, sizeof(s->frames), s);
    if (!s->hh.tbl) {
        free(s);
        return NULL;
    }
    num_sites++;
    *last_undefined = s;
    last_undefined = &s->next;
    return s;
}

uint32_t ag_trace_site(void)
{
    uintptr_t frames[FRAMES] = {0};
    void *addresses[MOST_STEPS];
    unsigned int found = 0;
    if (met++ >= AG_TRACE_SITES_FIRST && met % AG_TRACE_SITES_ONE_IN)
        return 0;
    /* libc's backtrace() loads the unwinder at its first call: resolve.c makes that, for processes
     * with a dump */
    int n = backtrace(addresses, MOST_STEPS);
    for (int i = 0; i < n && found < FRAMES; i++) {
        uintptr_t pc = (uintptr_t)addresses[i];
        if (pc < own_start || pc >= own_end)
            frames[found++] = pc;
    }
    if (!found)
        return 0;
    ag_lock(&lock, AG_RANK_SITES);
    struct site *s = find_or_make(frames);
    ag_unlock(&lock);
    return s ? s->id : 0;
}
