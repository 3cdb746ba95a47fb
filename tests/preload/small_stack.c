/*
 * small_stack.c - loads a library of the C compiler's with little room on the stack, as the C
 * library does by itself: `small_stack thread BYTES` at the end of a thread, `small_stack handler
 * BYTES` for the first backtrace, in a handler on an alternate stack.
 */
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *ends(void *unused)
{
    (void)unused;
    pthread_exit(NULL);
}

static int in_thread(size_t bytes)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, bytes) ||
        pthread_create(&thread, &attributes, ends, NULL))
        return 2;
    return pthread_join(thread, NULL);
}

static void handler(int signal)
{
    void *frames[4];
    (void)signal;
    _exit(backtrace(frames, 4) == 0);
}

/* Below the stack is a page that nobody may touch. */
static int in_handler(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    char *memory = mmap(NULL, page + room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + page, room, PROT_READ | PROT_WRITE))
        return 2;
    stack_t stack = {.ss_sp = memory + page, .ss_size = bytes};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL))
        return 2;
    return raise(SIGUSR1);
}

int main(int argc, char **argv)
{
    size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    return argc > 1 && !strcmp(argv[1], "thread") ? in_thread(bytes) : in_handler(bytes);
}
