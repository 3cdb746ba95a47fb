/* test_lock.c - one at a time, and nobody sleeps for ever. */
#include "tests/unit/unit.h"
#include "capture/lock.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, ROUNDS = 50000 };

static struct ag_lock lock;
static volatile uint64_t count; /* plain on purpose: only the lock keeps it right */

static void *work(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        ag_lock(&lock);
        uint64_t seen = count;
        if (i % 1024 == 0)
            sched_yield(); /* with the lock held, so that others sleep */
        count = seen + 1;
        ag_unlock(&lock);
    }
    return NULL;
}

static void test_one_at_a_time(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(count, (uint64_t)THREADS * ROUNDS);
    assert_int_equal(atomic_load(&lock.state), 0);
}

static void test_states(void **state)
{
    struct ag_lock own = {0};
    (void)state;
    assert_int_equal(sizeof own, 4);
    ag_lock(&own);
    assert_int_equal(atomic_load(&own.state), 1);
    ag_unlock(&own);
    assert_int_equal(atomic_load(&own.state), 0);
}

static void *wait_for_it(void *unused)
{
    (void)unused;
    ag_lock(&lock);
    ag_unlock(&lock);
    return NULL;
}

static void test_a_sleeper_wakes(void **state)
{
    pthread_t thread;
    (void)state;
    ag_lock(&lock);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, NULL), 0);
    while (atomic_load(&lock.state) != 2)
        sched_yield();
    usleep(2000); /* it is in the futex by now */
    ag_unlock(&lock);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_a_sleeper_wakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
