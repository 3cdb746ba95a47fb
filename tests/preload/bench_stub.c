/*
 * bench_stub.c - what a stub costs over the driver's own function while nothing is open:
 * instructions, which no load of the machine changes, and nanoseconds, which are printed alone. The
 * call is one that has nothing to tell capture/ then.
 *
 * The processor's trap flag stops the thread behind every instruction; the handler counts. Fails
 * above the limit given as first argument, and where an instruction of the stub locks the bus or
 * enters the kernel: those cost more than they look. Status 77 where instructions cannot be
 * counted.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

typedef int (*function)(uint64_t);

enum { CALLS = 2000, ROUNDS = 2000, SKIPPED = 77 };

static double nanoseconds_per_call(function call)
{
    struct timespec begin;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < CALLS; i++)
        call((uint64_t)i);
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
           CALLS;
}

/* Rounds so short that some pass undisturbed on a busy machine. */
static double least_nanoseconds(function call)
{
    double least = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double now = nanoseconds_per_call(call);
        least = now < least ? now : least;
    }
    return least;
}

#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };
static volatile bool counting;
static volatile int instructions, dear;

static void on_trap(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *next = (const uint8_t *)(uintptr_t)registers[REG_RIP];
    if (!counting) {
        registers[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    registers[REG_EFL] |= TRAP_FLAG;
    instructions = instructions + 1;
    if (next[0] == 0xf0 || (next[0] == 0x0f && next[1] == 0x05)) /* lock, syscall */
        dear = dear + 1;
}

/* Of one call, and those of this function around it, which are the same for all. */
static int instructions_of(function call)
{
    counting = true;
    instructions = dear = 0;
    __asm__ volatile("int3"); /* from the handler on, every instruction traps */
    call(1);
    counting = false;
    return instructions;
}

static bool count(function direct, function stub, int *more, int *stub_dear)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGTRAP, &action, NULL))
        return false;
    int of_direct = instructions_of(direct);
    int direct_dear = dear;
    *more = instructions_of(stub) - of_direct;
    *stub_dear = dear - direct_dear;
    return true;
}
#else
static bool count(function direct, function stub, int *more, int *stub_dear)
{
    (void)direct;
    (void)stub;
    *more = *stub_dear = 0;
    return false;
}
#endif

int main(int argc, char **argv)
{
    int limit = argc > 1 ? atoi(argv[1]) : 0;
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda)
        return 2;
    void *(*address_of)(const char *);
    *(void **)&address_of = dlsym(libcuda, "fake_address");
    function stub;
    function direct;
    *(void **)&stub = dlsym(libcuda, "cuMemGetInfo_v2");
    *(void **)&direct = address_of("cuMemGetInfo_v2");
    if (stub == direct)
        return 2;
    double of_direct = least_nanoseconds(direct), of_stub = least_nanoseconds(stub);
    printf("direct %.2f ns, stub %.2f ns, more by %.2f ns\n", of_direct, of_stub,
           of_stub - of_direct);
    int more, more_dear;
    if (!count(direct, stub, &more, &more_dear))
        return SKIPPED;
    printf("more instructions: %d, of them locked or system calls: %d\n", more, more_dear);
    return more > 0 && more <= limit && more_dear == 0 ? 0 : 1;
}
