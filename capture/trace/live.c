/*
 * live.c - the page of figures of a running process.
 *
 * If the command `autograph` runs the program, the page is part of the command's file. Otherwise
 * it is in a memfd that stays open: anyone who may look at the process (the same user) finds it in
 * /proc/PID/fd. A crash leaves nothing behind, and the page needs no name in a shared folder.
 */
#include "capture/trace/live.h"
#include "capture/system/clock.h"
#include "capture/system/lock.h"
#include "capture/settings/bounded.h"
#include "capture/settings/log.h"
#include "capture/settings/options.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct ag_live_page *ag_live;
static struct ag_lock lock;
static void (*fill_page)(struct ag_live_page *page);

static struct ag_lives_page *command; /* the first page of the command's file, or NULL */

static struct ag_live_page *page_of_command(uint32_t i)
{
    return (struct ag_live_page *)(void *)((char *)command + (size_t)(i + 1) * AG_LIVE_SIZE);
}

static struct ag_live_page *own_file(void)
{
    struct ag_bounded bounded;
    int fd = memfd_create(AG_LIVE_NAME, MFD_CLOEXEC);
    if (fd < 0)
        return NULL;
    ag_bounded_begin(&bounded);
    bool failed = ftruncate(fd, AG_LIVE_SIZE) != 0;
    ag_bounded_end(&bounded, failed);
    void *page =
        failed ? MAP_FAILED : mmap(NULL, AG_LIVE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    ag_keep_file(fd); /* `autograph top` finds it */
    return page;
}

/* A page of the file of the command that runs this process. The command may have ended long ago. */
static struct ag_live_page *file_of_command(void)
{
    struct stat st;
    int fd =
        ag_options.live ? open(ag_options.live, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    size_t size = (AG_LIVES_MOST + 1) * (size_t)AG_LIVE_SIZE;
    if (fd < 0)
        return NULL;
    void *map = fstat(fd, &st) || !S_ISREG(st.st_mode) || (size_t)st.st_size != size
                    ? MAP_FAILED
                    : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        close(fd);
        return NULL;
    }
    command = map;
    uint32_t mine = memcmp(command->magic, AG_LIVES_MAGIC, sizeof(command->magic))
                        ? AG_LIVES_MOST
                        : __atomic_fetch_add(&command->taken, 1, __ATOMIC_SEQ_CST);
    if (mine >= AG_LIVES_MOST) {
        munmap(map, size);
        command = NULL;
        close(fd);
        return NULL;
    }
    ag_keep_file(fd); /* `autograph top` finds it */
    return page_of_command(mine);
}

void ag_live_start(void (*fill)(struct ag_live_page *page))
{
    fill_page = fill;
    struct ag_live_page *page = file_of_command();
    if (!page)
        page = own_file();
    if (!page)
        return;
    page->pid = (uint32_t)getpid();
    page->start_ns = ag_clock_monotonic_ns();
    snprintf(page->program, sizeof(page->program), "%s", program_invocation_short_name);
    snprintf(page->rank, sizeof(page->rank), "%s", ag_rank() ? ag_rank() : "");
    ag_live = page;
    ag_live_update();
    memcpy(page->magic, AG_LIVE_MAGIC, sizeof(page->magic));
}

bool ag_live_is_of_command(void)
{
    return ag_live && command;
}

bool ag_live_claim_dump(const char *path)
{
    if (!ag_live)
        return true;
    snprintf(ag_live->dump, sizeof(ag_live->dump), "%s", path);
    /* an atomic exchange, so that one of two processes sees what the other has written */
    uint32_t taken =
        ag_live_is_of_command() ? __atomic_fetch_add(&command->taken, 0, __ATOMIC_SEQ_CST) : 0;
    for (uint32_t i = 0; i < taken && i < AG_LIVES_MOST; i++)
        if (page_of_command(i) != ag_live &&
            !strncmp(page_of_command(i)->dump, path, sizeof(ag_live->dump)))
            return false;
    return true;
}

void ag_live_end(void)
{
    if (!ag_live)
        return;
    ag_live_update();
    __atomic_store_n(&ag_live->ended, 1, __ATOMIC_RELEASE);
}

void ag_live_after_fork(void)
{
    ag_live = NULL; /* the page stays the parent's */
    command = NULL;
}

void ag_live_update(void)
{
    struct ag_live_page *page = ag_live;
    if (!page)
        return;
    ag_lock(&lock, AG_RANK_LIVE);
    __atomic_store_n(&page->wanted, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&page->updates, 1, __ATOMIC_SEQ_CST);
    fill_page(page);
    __atomic_fetch_add(&page->updates, 1, __ATOMIC_SEQ_CST);
    ag_unlock(&lock);
}
