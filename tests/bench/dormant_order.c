/*
 * dormant_order.c - launches that pass unseen keep the program's order with those that are
 * deferred.
 *
 *     dormant_order legacy|blocking|threads
 *
 * Every launch multiplies one word by 31 and adds a number of its own: what is left tells the order
 * of all of them. A stream is put to sleep by launches that never repeat (each with another size of
 * shared memory). Then
 *   legacy    it is a blocking stream, and a sequence repeats on the legacy default stream
 *   blocking  the other way round
 *   threads   two threads use it in turn until it has woken up and its sequence is replayed
 * Exit 1 where the order was not that of the program.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "tests/simdriver/simprog.h"

enum {
    DORMANT = 41400, /* launches after which the stream is dormant, for 8192 more */
    STEP = 10,       /* launches of the sequence */
    STEPS = 3000,
    EVERY = 10 /* steps from one launch on the dormant stream to the next */
};

static CUcontext context;
static CUfunction kernel;
static CUdeviceptr word;
static uint64_t expected, number, random_state = 88172645463325252ull;

static unsigned int next_random(unsigned int below)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (unsigned int)(random_state * 0x2545F4914F6CDD1Dull >> 33) % below;
}

static void launch(CUstream stream, unsigned int shared_bytes)
{
    number++;
    expected = expected * 31 + number;
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, shared_bytes, stream, (void *[]){&word, &number},
                         NULL));
}

static void make_dormant(CUstream stream)
{
    for (int i = 0; i < DORMANT; i++)
        launch(stream, next_random(4096));
}

/* A sequence on `busy`, now and then torn at a random place by a launch on `dormant`. */
static void tear(CUstream busy, CUstream dormant)
{
    for (int i = 0; i < STEPS; i++) {
        unsigned int at = i % EVERY == 0 ? next_random(STEP) : STEP;
        for (unsigned int k = 0; k < STEP; k++) {
            if (k == at)
                launch(dormant, next_random(4096));
            launch(busy, k);
        }
        CHECK(cuStreamSynchronize(busy));
    }
}

/* Two threads, of which one launches at a time. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int whose, step;
} shared = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
static CUstream common;

static void *take_turns(void *argument)
{
    int me = argument != NULL;
    CHECK(cuCtxSetCurrent(context));
    pthread_mutex_lock(&shared.lock);
    while (shared.step < 40 * STEPS) {
        if (shared.whose != me) {
            pthread_cond_wait(&shared.turn, &shared.lock);
            continue;
        }
        for (unsigned int n = 1 + next_random(40); n && shared.step < 40 * STEPS; n--)
            launch(common, (unsigned int)(shared.step++ % STEP));
        shared.whose = !me;
        pthread_cond_signal(&shared.turn);
    }
    pthread_cond_signal(&shared.turn);
    pthread_mutex_unlock(&shared.lock);
    return NULL;
}

int main(int argc, char **argv)
{
    CUstream stream;
    pthread_t other;
    REQUIRE(argc == 2);
    context = ag_prog_start();
    kernel = ag_prog_function(ag_prog_module(), "hash");
    word = ag_prog_alloc(sizeof(uint64_t));
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    if (!strcmp(argv[1], "legacy")) {
        make_dormant(stream);
        tear(NULL, stream);
    } else if (!strcmp(argv[1], "blocking")) {
        make_dormant(NULL);
        tear(stream, NULL);
    } else {
        common = stream;
        make_dormant(stream);
        REQUIRE(pthread_create(&other, NULL, take_turns, &common) == 0);
        take_turns(NULL);
        pthread_join(other, NULL);
    }
    CHECK(cuCtxSynchronize());
    REQUIRE(ag_prog_read64(word) == expected);
    puts("in order");
    return 0;
}
