/*
 * runs.c - steps of launches by one process, or by several ranks on one GPU, for runs.py.
 *
 * `runs --steps=N --ops=N` does N steps of so many small kernels; --help has the rest. Ranks are
 * processes that begin a repetition together. With --meet they also meet behind each step, so that
 * each paces the others. The time of a repetition ends when the last rank has ended it.
 */
#define _GNU_SOURCE
#include "tests/gpu/matrix/spin.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: runs [--steps=N] [--ops=N] [--warm=N] [--work=US] [--sync] [--ranks=N [--meet]]\n"
    "            [--reps=N] [--gated]\n"
    "  --steps=N  of a repetition (100)     --ops=N    launches of a step (20)\n"
    "  --warm=N   steps that are not timed (0)\n"
    "  --work=US  of the host behind each launch (0)\n"
    "  --sync     behind each step, and not only behind the last one\n"
    "  --ranks=N  processes that do the same (1)\n"
    "  --meet     each rank waits for all others behind each step\n"
    "  --gated    says LOADED ahead of the first context and waits for a line\n"
    "Repetitions are paced, as with --paced elsewhere.\n";

/* What all ranks see. Between repetitions they sleep; to meet behind a step they look. */
struct meeting {
    pthread_barrier_t rest;
    _Atomic int arrived, times;
};

struct run {
    struct ex_pace pace;
    int steps, ops, warm, work_us, ranks;
    bool sync, meet, gated;
    bool is_warm;
    struct meeting *meeting;
    struct spin spin;
    CUstream stream;
};

static void *must(void *memory)
{
    if (!memory || memory == MAP_FAILED) {
        perror("memory");
        exit(1);
    }
    return memory;
}

static struct meeting *make_meeting(int ranks)
{
    pthread_barrierattr_t shared;
    struct meeting *m =
        must(mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&m->rest, &shared, (unsigned int)ranks);
    return m;
}

static void meet_all(struct meeting *m, int ranks)
{
    int times = m->times;
    if (++m->arrived == ranks) {
        m->arrived = 0;
        m->times++;
    } else {
        while (m->times == times) {
            sched_yield();
        }
    }
}

/* Starts the ranks and returns the number of each in itself. What started them ends here: as soon
 * as one of them fails, none goes on. */
static int start_ranks(int ranks)
{
    pid_t *pids = must(calloc((size_t)ranks, sizeof *pids));
    int status = 0;
    for (int rank = 0; rank < ranks; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            free(pids);
            return rank;
        }
        if (pids[rank] < 0) {
            perror("fork");
            ranks = rank;
            status = 1;
        }
    }
    for (int ended = 0; ended < ranks && !status; ended++) {
        if (wait(&status) < 0) {
            status = 1;
        }
    }
    for (int rank = 0; rank < ranks && status; rank++) {
        kill(pids[rank], SIGKILL);
    }
    free(pids);
    exit(status ? 1 : 0);
}

static void wait_at_gate(const struct run *r, int rank)
{
    char line[64];
    CHECK(cuInit(0));
    pthread_barrier_wait(&r->meeting->rest);
    if (rank == 0) {
        printf("LOADED\n");
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin)) {
            clearerr(stdin);
        }
    }
    pthread_barrier_wait(&r->meeting->rest);
}

/* The first one warms up. */
static double repetition(void *arg)
{
    struct run *r = arg;
    int steps = r->is_warm ? r->steps : r->warm;
    pthread_barrier_wait(&r->meeting->rest);
    for (int step = 0; step < steps; step++) {
        for (int k = 0; k < r->ops; k++) {
            spin_launch(&r->spin, r->stream, 1, k, 0);
            spin_host(r->work_us);
        }
        if (r->sync) {
            CHECK(cuStreamSynchronize(r->stream));
        }
        if (r->meet) {
            meet_all(r->meeting, r->ranks);
        }
    }
    CHECK(cuStreamSynchronize(r->stream));
    pthread_barrier_wait(&r->meeting->rest);
    r->is_warm = true;
    return (double)steps * r->ops;
}

int main(int argc, char **argv)
{
    struct run r = {.pace = {.repetitions = 1}, .steps = 100, .ops = 20, .ranks = 1};
    const struct ex_option options[] = {{.name = "steps", .number = &r.steps, .least = 1},
                                        {.name = "ops", .number = &r.ops, .least = 1},
                                        {.name = "warm", .number = &r.warm},
                                        {.name = "work", .number = &r.work_us},
                                        {.name = "ranks", .number = &r.ranks, .least = 1},
                                        {.name = "sync", .flag = &r.sync},
                                        {.name = "meet", .flag = &r.meet},
                                        {.name = "gated", .flag = &r.gated},
                                        {.name = NULL}};
    ex_options(argc, argv, usage, &r.pace, options);
    r.meeting = make_meeting(r.ranks);
    int rank = r.ranks > 1 ? start_ranks(r.ranks) : 0, status = 0;
    if (r.gated) {
        wait_at_gate(&r, rank);
    }
    spin_start(&r.spin);
    CHECK(cuStreamCreate(&r.stream, CU_STREAM_NON_BLOCKING));
    /* The first launch of a kernel loads it. */
    spin_launch(&r.spin, r.stream, 0, 0, 0);
    CHECK(cuStreamSynchronize(r.stream));
    r.pace.paced = rank == 0;
    ex_launches_per_step(r.ops);
    double us = ex_measure(&r.pace, repetition, &r);
    spin_verify(&r.spin, "runs");
    pthread_barrier_wait(&r.meeting->rest); /* all are right */
    if (rank == 0) {
        status = ex_result("runs", "driver", r.meet ? "meet" : "apart", us,
                           ex_checksum(&r.spin.expected, sizeof r.spin.expected), true);
    }
    CHECK(cuStreamDestroy(r.stream));
    spin_stop(&r.spin);
    return status;
}
