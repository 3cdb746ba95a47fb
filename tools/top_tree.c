/* top_tree.c - see top_tree.h. */
#include "tools/top_tree.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 64 };

/* Texts of other processes must not control the terminal. */
static void clean(char *text, size_t size)
{
    text[size - 1] = 0;
    for (char *at = text; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

/* ---- pages ------------------------------------------------------------------------------ */

/* In a file of its own the process has the only page; in one of the command's the one that bears
 * its number. */
static struct ag_live_page *find_page(char *file, size_t size, long pid)
{
    bool shared = !memcmp(file, AG_LIVES_MAGIC, sizeof(AG_LIVES_MAGIC) - 1);
    for (size_t at = 0; at + AG_LIVE_SIZE <= size; at += AG_LIVE_SIZE) {
        struct ag_live_page *page = (struct ag_live_page *)(void *)(file + at);
        if (!memcmp(page->magic, AG_LIVE_MAGIC, sizeof(page->magic)) &&
            (!shared || (long)page->pid == pid))
            return page;
    }
    return NULL;
}

/* A child of fork has its parent's file open, which is none of its own. */
static bool is_anothers(const struct top_tree *t, const struct top_process *p)
{
    for (size_t i = 0; i < t->count; i++)
        if (&t->list[i] != p && t->list[i].page && t->list[i].file == p->file)
            return true;
    return false;
}

static void map_page(struct top_process *p, const struct top_tree *t, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size >= AG_LIVE_SIZE) {
        p->size = (size_t)st.st_size;
        p->map = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        p->page = p->map == MAP_FAILED ? NULL : find_page(p->map, p->size, p->pid);
        p->file = (void *)p->page == p->map ? (unsigned long)st.st_ino : 0;
        if (p->page && p->file && is_anothers(t, p))
            p->page = NULL;
        if (p->map != MAP_FAILED && !p->page)
            munmap(p->map, p->size);
    }
    if (fd >= 0)
        close(fd);
}

/* False with errno where its files may not be looked at. */
static bool open_page(struct top_process *p, const struct top_tree *t)
{
    char folder[64], path[400], target[256];
    struct dirent *entry;
    snprintf(folder, sizeof(folder), "/proc/%ld/fd", p->pid);
    DIR *dir = opendir(folder);
    if (!dir)
        return false;
    while (!p->page && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        ssize_t n = readlink(path, target, sizeof(target) - 1);
        target[n > 0 ? n : 0] = 0;
        if (!strncmp(target, "/memfd:" AG_LIVE_NAME " ", strlen("/memfd:" AG_LIVE_NAME " ")))
            map_page(p, t, path);
    }
    closedir(dir);
    return true;
}

/* A copy that was not written to meanwhile. */
static void read_page(struct ag_live_page *page, struct ag_live_page *copy)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t before = __atomic_load_n(&page->updates, __ATOMIC_SEQ_CST);
        memcpy(copy, page, sizeof(*copy));
        if (!(before & 1) && before == __atomic_load_n(&page->updates, __ATOMIC_SEQ_CST))
            break;
    }
    clean(copy->program, sizeof(copy->program));
    clean(copy->why, sizeof(copy->why));
    clean(copy->rank, sizeof(copy->rank));
}

/* ---- processes -------------------------------------------------------------------------- */

/* Parent and name, as /proc/PID/stat gives them: "7 (a name) S 1 ..." */
static bool describe(long pid, long *parent, char *program, size_t size)
{
    char path[64], text[512];
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    char *begin = strchr(text, '('), *end = strrchr(text, ')');
    if (!begin || !end || end < begin || end[1] != ' ' || !end[2])
        return false;
    *end = 0;
    snprintf(program, size, "%s", begin + 1);
    clean(program, size);
    *parent = strtol(end + 3, NULL, 10);
    return true;
}

static struct top_process *all_processes(size_t *count)
{
    struct top_process *list = NULL;
    struct dirent *entry;
    DIR *dir = opendir("/proc");
    *count = 0;
    while (dir && (entry = readdir(dir))) {
        struct top_process p = {.pid = strtol(entry->d_name, NULL, 10)};
        if (p.pid <= 0 || !describe(p.pid, &p.parent, p.program, sizeof(p.program)))
            continue;
        struct top_process *more = realloc(list, (*count + 1) * sizeof(*list));
        if (!more)
            break;
        list = more;
        list[(*count)++] = p;
    }
    if (dir)
        closedir(dir);
    return list;
}

static void take(struct top_tree *t, struct top_process *all, size_t count, size_t i, int depth)
{
    struct top_process p = all[i];
    all[i].pid = 0; /* once: the list was not made at one moment */
    p.depth = depth;
    t->list[t->count++] = p;
    for (size_t k = 0; depth < DEEPEST && k < count; k++)
        if (all[k].pid && all[k].parent == p.pid)
            take(t, all, count, k, depth + 1);
}

/* What is known of it from the look before: its page, and its figures then. */
static void remember(struct top_process *p, struct top_tree *before)
{
    for (size_t i = 0; i < before->count; i++) {
        struct top_process *old = &before->list[i];
        if (old->pid == p->pid && old->page) {
            p->map = old->map;
            p->size = old->size;
            p->page = old->page;
            p->file = old->file;
            p->now = old->now;
            old->page = NULL;
        }
    }
}

static void mark_shown(struct top_tree *t)
{
    int wanted = -1; /* depth of what is above something shown */
    for (size_t i = t->count; i--;) {
        struct top_process *p = &t->list[i];
        p->shown = p->page || p->depth == wanted;
        if (p->shown)
            wanted = p->depth - 1;
        else if (p->depth <= wanted)
            wanted = -1;
    }
}

bool top_tree_find(struct top_tree *t, long root)
{
    struct top_tree before = *t;
    size_t count = 0, first = 0;
    struct top_process *all = all_processes(&count);
    while (first < count && all[first].pid != root)
        first++;
    *t = (struct top_tree){calloc(count + 1, sizeof(*all)), 0};
    bool found = t->list && first < count;
    if (found)
        take(t, all, count, first, 0);
    free(all);
    errno = ESRCH;
    for (size_t i = 0; found && i < t->count; i++) {
        struct top_process *p = &t->list[i];
        remember(p, &before);
        if (p->page)
            continue;
        if (!open_page(p, t) && p->pid == root)
            found = false;
        else if (p->page)
            read_page(p->page, &p->now);
    }
    int why = errno;
    mark_shown(t);
    top_tree_free(&before);
    errno = why;
    return found;
}

void top_tree_ask(struct top_tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i].page)
            __atomic_store_n(&t->list[i].page->wanted, 1, __ATOMIC_SEQ_CST);
}

void top_tree_read(struct top_tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i].page) {
            t->list[i].before = t->list[i].now;
            read_page(t->list[i].page, &t->list[i].now);
        }
}

void top_tree_free(struct top_tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->list[i].page)
            munmap(t->list[i].map, t->list[i].size);
    free(t->list);
    *t = (struct top_tree){NULL, 0};
}
