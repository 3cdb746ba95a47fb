/* free_ops.c - see free_ops.h. */
#define _GNU_SOURCE
#include "tests/bench/free_ops.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t none;
_Atomic uint64_t *ag_ops_to_run = &none;

void ag_free_ops_start(void)
{
    const char *path = getenv("AG_FREE_FILE");
    if (!path)
        return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *page = file < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof(none), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        perror(path); /* what would be measured is something else */
        _exit(96);
    }
    close(file);
    ag_ops_to_run = page;
}
