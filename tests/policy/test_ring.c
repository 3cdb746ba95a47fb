/* test_ring.c - the ring of chunks and single ops: order, room, credit, and two threads at it at
 * once. */
#include "rig.h"
#include "policy/ring.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static int graphs[8];

static void ring_free(struct ag_ring *r)
{
    free(r->bytes);
}

static bool put(struct ag_ring *r, uint32_t number, uint32_t ops, uint32_t bytes)
{
    uint8_t argument[256];
    memset(argument, (uint8_t)number, sizeof(argument));
    return ag_ring_put(r, &graphs[number % 8], ops, argument, bytes);
}

/* Takes the next chunk, which must be this one. */
static void take(struct ag_ring *r, uint32_t number, uint32_t ops, uint32_t bytes)
{
    const struct ag_ring_slot *slot = ag_ring_next(r);
    assert_non_null(slot);
    assert_ptr_equal(slot->graphs, &graphs[number % 8]);
    assert_int_equal(slot->ops, ops);
    assert_int_equal((uintptr_t)slot->bytes % 64, 0); /* no cache line is of two chunks */
    for (uint32_t i = 0; i < bytes; i++)
        assert_int_equal(slot->bytes[i], (uint8_t)number);
    ag_ring_took(r, slot);
}

static void test_order(void **state)
{
    (void)state;
    struct ag_ring r = {0};
    assert_true(ag_ring_is_at_rest(&r));
    for (uint32_t number = 0; number < 1000; number++) { /* sizes that grow and shrink */
        assert_true(put(&r, number, 1 + number % 3, number % 200));
        assert_true(put(&r, number + 1, 2, (number * 7) % 256));
        assert_true(r.active);
        assert_false(ag_ring_is_at_rest(&r));
        assert_true(ag_ring_take_role(&r));
        take(&r, number, 1 + number % 3, number % 200);
        take(&r, number + 1, 2, (number * 7) % 256);
        assert_null(ag_ring_next(&r));
        ag_ring_give_role(&r);
    }
    ring_free(&r);
}

/* Chunks and single ops keep their order, and the owner knows whether a chunk is left. */
static void test_single_ops(void **state)
{
    (void)state;
    struct ag_ring r = {0};
    for (uint32_t number = 1; number < 2000; number++) {
        uint32_t bytes = (number * 13) % 256;
        if (number % 3) {
            uint8_t *room = ag_ring_op_room(&r, bytes);
            assert_non_null(room);
            memset(room, (uint8_t)number, bytes);
            ag_ring_put_op(&r, number);
        } else {
            assert_true(put(&r, number, 2, bytes));
        }
        assert_int_equal(ag_ring_has_chunks(&r), number >= 3);
        if (number < 10) /* from here on there are as many as that in it */
            continue;
        uint32_t first = number - 9;
        const struct ag_ring_slot *slot = ag_ring_next(&r);
        assert_int_equal(slot->key, first % 3 ? first : 0);
        if (first % 3 == 0) {
            take(&r, first, 2, (first * 13) % 256);
            continue;
        }
        assert_null(slot->graphs);
        assert_int_equal(slot->ops, 1);
        for (uint32_t i = 0; i < (first * 13) % 256; i++)
            assert_int_equal(slot->bytes[i], (uint8_t)first);
        ag_ring_took(&r, slot);
    }
    for (uint32_t left = ag_ring_held(&r); left; left--) {
        assert_int_equal(ag_ring_held(&r), left);
        ag_ring_took(&r, ag_ring_next(&r));
    }
    assert_false(ag_ring_has_chunks(&r));
    for (uint32_t i = 0; i < AG_RING_CREDIT; i++) {
        assert_non_null(ag_ring_op_room(&r, 8));
        ag_ring_put_op(&r, 1);
    }
    assert_null(ag_ring_op_room(&r, 8));
    assert_false(ag_ring_has_chunks(&r));
    ring_free(&r);
}

/* The thread that looks for work knows from it how much came, whoever did it. */
static void test_work(void **state)
{
    (void)state;
    struct ag_ring r = {.stream = NULL};
    for (uint32_t i = 1; i <= 3; i++) {
        assert_true(put(&r, i, 2, 8));
        ag_ring_took(&r, ag_ring_next(&r));
        assert_non_null(ag_ring_op_room(&r, 8));
        ag_ring_put_op(&r, i);
        assert_int_equal(r.work, (i - 1) * (AG_WORK_OF_CHUNK + 1) + AG_WORK_OF_CHUNK);
        ag_ring_took(&r, ag_ring_next(&r));
        assert_int_equal(r.work, i * (AG_WORK_OF_CHUNK + 1));
    }
    ring_free(&r);
}

/* One at a time has the role. Whoever waits for the ring waits for the role as well. */
static void test_role(void **state)
{
    (void)state;
    struct ag_ring r = {0};
    assert_true(put(&r, 1, 1, 8));
    assert_false(ag_ring_is_busy(&r));
    assert_true(ag_ring_take_role(&r));
    assert_false(ag_ring_take_role(&r));
    take(&r, 1, 1, 8);
    assert_true(ag_ring_is_empty(&r));
    assert_true(ag_ring_is_busy(&r));
    assert_false(ag_ring_is_at_rest(&r));
    ag_ring_give_role(&r);
    assert_true(ag_ring_is_at_rest(&r));
    ring_free(&r);
}

static void test_room(void **state)
{
    (void)state;
    struct ag_ring r = {0};
    for (uint32_t i = 0; i < AG_RING_SLOTS; i++)
        assert_true(put(&r, i, 1, 16));
    assert_false(put(&r, 99, 1, 16));
    take(&r, 0, 1, 16);
    assert_true(put(&r, AG_RING_SLOTS, 1, 16));
    assert_false(put(&r, 99, 1, 16));
    for (uint32_t i = 1; i <= AG_RING_SLOTS; i++)
        take(&r, i, 1, 16);
    assert_true(ag_ring_is_empty(&r));
    ring_free(&r);
}

/* What is noted is the next chunk's, and none's that is in the ring, even if that is full. */
static void test_times(void **state)
{
    (void)state;
    struct ag_ring r = {0};
    for (uint32_t i = 0; i < AG_RING_SLOTS; i++) {
        ag_ring_note_time(&r, i);
        assert_true(put(&r, i, 1, 16));
    }
    for (uint32_t i = 0; i < 3 * AG_RING_SLOTS; i++) {
        ag_ring_note_time(&r, AG_RING_SLOTS + i);
        assert_false(put(&r, AG_RING_SLOTS + i, 1, 16));
        assert_int_equal(ag_ring_next(&r)->put_ns, i);
        take(&r, i, 1, 16);
        assert_true(put(&r, AG_RING_SLOTS + i, 1, 16));
    }
    ring_free(&r);
}

/* Both sides say the same of it. */
static void test_what_is_timed(void **state)
{
    (void)state;
    struct ag_ring r = {0};
    uint32_t timed = 0;
    for (uint32_t i = 0; i < AG_TIMED_FIRST + 100 * AG_TIMED_ONE_IN; i++) {
        bool times = ag_ring_times_put(&r);
        assert_true(put(&r, i, 1, 16));
        assert_int_equal(ag_ring_times_next(&r), times);
        take(&r, i, 1, 16);
        timed += times;
    }
    /* every eighth at first, and one in AG_TIMED_ONE_IN: the first is both */
    assert_int_equal(timed, AG_TIMED_FIRST / 8 + AG_TIMED_FIRST / AG_TIMED_ONE_IN + 100);
    ring_free(&r);
}

static void test_credit(void **state)
{
    (void)state;
    struct ag_ring r = {0};
    enum { HALF = AG_RING_CREDIT / 2 };
    assert_true(put(&r, 0, HALF, 16));
    assert_true(put(&r, 1, HALF, 16));
    assert_false(put(&r, 2, 1, 16)); /* no credit, though there is room */
    take(&r, 0, HALF, 16);
    assert_true(put(&r, 2, 1, 16));
    assert_false(put(&r, 3, HALF, 16));
    take(&r, 1, HALF, 16);
    take(&r, 2, 1, 16);
    assert_true(put(&r, 4, 4 * AG_RING_CREDIT, 16)); /* one chunk alone may be as long as it is */
    assert_false(put(&r, 5, 1, 16));
    take(&r, 4, 4 * AG_RING_CREDIT, 16);
    assert_true(put(&r, 5, 1, 16));
    take(&r, 5, 1, 16);
    ring_free(&r);
}

/* All the arguments in a ring are in one piece of memory, of a size that does not grow. */
static void test_bytes(void **state)
{
    (void)state;
    static struct ag_ring r;
    static uint8_t many[AG_RING_BYTES + 1];
    enum { FIRST = 10 };
    uint64_t refused = 0, put = 0, took = 0;
    assert_true(ag_ring_put(&r, graphs, 1, many, AG_RING_BYTES));
    assert_false(ag_ring_put(&r, graphs, 1, many, 1));
    assert_true(ag_ring_put(&r, graphs, 1, many, 0));
    take(&r, 0, 1, 0);
    take(&r, 0, 1, 0);
    assert_false(ag_ring_put(&r, graphs, 1, many, AG_RING_BYTES + 1));
    assert_true(ag_ring_is_empty(&r));
    for (uint32_t i = 0; i < 100000;
         i++) { /* sizes of all kinds, and between none and all of them there */
        uint32_t bytes = (uint32_t)((i * 2654435761u >> 7) % (i % 3 ? 3000 : AG_RING_BYTES / 2));
        memset(many, (uint8_t)put, bytes);
        if (ag_ring_put(&r, (void *)(uintptr_t)(FIRST + bytes), 1, many, bytes))
            put++;
        else
            refused++;
        const struct ag_ring_slot *slot = ag_ring_next(&r);
        if (!slot || (i / 50) % 2) /* fifty of only putting, fifty of both */
            continue;
        uint32_t n = (uint32_t)(uintptr_t)slot->graphs - FIRST;
        assert_true(slot->bytes >= r.bytes && slot->bytes + n <= r.bytes + AG_RING_BYTES);
        for (uint32_t k = 0; k < n; k++)
            if (slot->bytes[k] != (uint8_t)took)
                fail_msg("byte %u of chunk %u", k, (unsigned int)took);
        ag_ring_took(&r, slot);
        took++;
    }
    assert_true(refused > 1000 && put > 10000 && took + AG_RING_SLOTS >= put);
    ring_free(&r);
}

/* ---- the moment at which it is there ----------------------------------------------------------
 */

/* The page that `put` is the first word of cannot be written, so whoever writes it is interrupted
 * there: what the other thread would find from then on is in the ring already. */
static struct {
    struct ag_ring *ring;
    char *page;
    size_t size;
    uint32_t number; /* of what is put in: a chunk, or a single op if 3 divides it */
    uint32_t seen, wrong;
} watched;

static void look_at_watched(int signal, siginfo_t *info, void *unused)
{
    (void)unused;
    struct ag_ring *r = watched.ring;
    char *at = info->si_addr;
    if (at < watched.page || at >= watched.page + watched.size ||
        mprotect(watched.page, watched.size, PROT_READ | PROT_WRITE)) {
        psignal(signal, "elsewhere");
        abort();
    }
    /* no atomic access here: to ThreadSanitizer, the one of `put` is still under way */
    uint32_t number = watched.number;
    const struct ag_ring_slot *slot = &r->slots[number % AG_RING_SLOTS];
    uint64_t argument = 0;
    memcpy(&argument, slot->bytes, sizeof(argument));
    watched.seen++;
    watched.wrong += at != (char *)&r->put || argument != number ||
                     slot->ops != (number % 3 ? 3 : 1) ||
                     slot->graphs != (number % 3 ? &graphs[number % 7] : NULL) ||
                     slot->key != (number % 3 ? 0 : 1000 + number) || slot->put_ns != number;
}

static void test_filled_before_it_is_there(void **state)
{
    enum { TIMES = 3 * AG_RING_SLOTS }; /* each slot holds something older */
    (void)state;
    struct sigaction looks = {.sa_sigaction = look_at_watched, .sa_flags = SA_SIGINFO}, before;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), ahead = offsetof(struct ag_ring, put);
    size_t begin = (ahead + page - 1) / page * page, size = begin + page;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    struct ag_ring *r = (struct ag_ring *)(void *)(memory + begin - ahead);
    watched.ring = r;
    watched.page = memory + begin;
    watched.size = page;
    assert_int_equal(sigaction(SIGSEGV, &looks, &before), 0);
    for (uint32_t number = 0; number < TIMES; number++) {
        uint64_t argument = watched.number = number;
        bool done = true;
        assert_int_equal(mprotect(watched.page, page, PROT_READ), 0);
        ag_ring_note_time(r, number);
        if (number % 3) {
            done = ag_ring_put(r, &graphs[number % 7], 3, (const uint8_t *)&argument, 8);
        } else {
            uint8_t *room = ag_ring_op_room(r, 8);
            memcpy(room, &argument, sizeof(argument));
            ag_ring_put_op(r, 1000 + number);
        }
        assert_true(done);
        ag_ring_took(r, ag_ring_next(r));
    }
    sigaction(SIGSEGV, &before, NULL);
    assert_int_equal(watched.seen, TIMES);
    assert_int_equal(watched.wrong, 0);
    ring_free(r);
    munmap(memory, size);
}

/* ---- two threads ------------------------------------------------------------------------------
 */

enum { CHUNKS = 20000, WORDS = 4 };

static struct ag_ring shared;
static _Atomic bool over;
/* whoever has the role */
static uint64_t taken, wrong, by_owner, by_taker;

/* A chunk's number tells what must be in it. */
static void work(uint64_t *by)
{
    const struct ag_ring_slot *slot;
    while ((slot = ag_ring_next(&shared))) {
        uint64_t words[WORDS] = {0};
        memcpy(words, slot->bytes, (1 + taken % WORDS) * sizeof(*words));
        wrong += slot->ops != 1 + taken % 50 || slot->graphs != &graphs[taken % 8];
        wrong += slot->put_ns != taken;
        for (uint64_t i = 0; i <= taken % WORDS; i++)
            wrong += words[i] != taken;
        taken++;
        ++*by;
        ag_ring_took(&shared, slot);
    }
}

static void *taker(void *unused)
{
    (void)unused;
    while (!atomic_load(&over)) {
        if (ag_ring_is_empty(&shared) || !ag_ring_take_role(&shared)) {
            sched_yield();
            continue;
        }
        work(&by_taker);
        ag_ring_give_role(&shared);
    }
    return NULL;
}

/* The owner does the rest itself, or waits for whoever does. */
static void settle(void)
{
    while (!ag_ring_is_at_rest(&shared)) {
        if (!ag_ring_take_role(&shared)) {
            sched_yield();
            continue;
        }
        work(&by_owner);
        ag_ring_give_role(&shared);
    }
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, taker, NULL), 0);
    uint64_t settled = 0, early = 0;
    for (uint64_t number = 0; number < CHUNKS; number++) {
        uint64_t words[WORDS] = {number, number, number, number};
        uint32_t bytes = (uint32_t)((1 + number % WORDS) * sizeof(*words));
        ag_ring_note_time(&shared, number);
        while (!ag_ring_put(&shared, &graphs[number % 8], (uint32_t)(1 + number % 50),
                            (const uint8_t *)words, bytes))
            sched_yield();
        if (number % 1000 == 999) {
            settle();
            early += taken != number + 1; /* plain: at rest, the owner sees all that was done */
            settled++;
        }
    }
    settle();
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    assert_int_equal(wrong, 0);
    assert_int_equal(early, 0);
    assert_int_equal(settled, CHUNKS / 1000);
    assert_int_equal(taken, CHUNKS);
    assert_int_equal(by_owner + by_taker, CHUNKS);
    assert_true(by_taker > 0);
    ring_free(&shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),         cmocka_unit_test(test_single_ops),
        cmocka_unit_test(test_work),          cmocka_unit_test(test_role),
        cmocka_unit_test(test_room),          cmocka_unit_test(test_times),
        cmocka_unit_test(test_what_is_timed), cmocka_unit_test(test_credit),
        cmocka_unit_test(test_bytes),         cmocka_unit_test(test_filled_before_it_is_there),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
