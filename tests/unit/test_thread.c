/* test_thread.c - the library's own threads wait as long as they mean to, whatever becomes of the
 * time of day; and they are ordinary ones also where the process has lost its processors. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"
#include "capture/system/clock.h"
#include "capture/system/thread.h"
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { HOUR = 3600, LONG_S = 20 };

/* Whoever asks for the time of day gets it as it was before somebody set it back by an hour. */
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    int r = __real_clock_gettime(clock, t);
    if (clock == CLOCK_REALTIME)
        t->tv_sec += HOUR;
    return r;
}

static _Atomic bool done, may_end;

/* Whether it is done before long. */
static bool comes(void)
{
    uint64_t until = ag_clock_monotonic_ns() + LONG_S * 1000000000ull;
    while (!atomic_load(&done) && ag_clock_monotonic_ns() < until)
        usleep(1000);
    return atomic_load(&done);
}

/* In a thread of its own, as it might take an hour. */
static void begin(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&thread, NULL, run, argument), 0);
    pthread_detach(thread);
}

static void *wait_a_millisecond(void *unused)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t nobody = PTHREAD_COND_INITIALIZER;
    (void)unused;
    pthread_mutex_lock(&mutex);
    ag_thread_wait(&nobody, &mutex, 1000000);
    pthread_mutex_unlock(&mutex);
    atomic_store(&done, true);
    return NULL;
}

static void test_a_wait_ends(void **state)
{
    (void)state;
    begin(wait_a_millisecond, NULL);
    assert_true(comes());
}

static void *stay(void *unused)
{
    (void)unused;
    while (!atomic_load(&may_end))
        usleep(1000);
    return NULL;
}

static void *join(void *thread)
{
    ag_thread_join(*(pthread_t *)thread);
    atomic_store(&done, true);
    return NULL;
}

static void test_nobody_waits_for_a_thread_that_stays(void **state)
{
    static pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, stay, NULL), 0);
    begin(join, &thread);
    bool came = comes();
    atomic_store(&may_end, true);
    assert_true(came);
}

static void test_a_thread_that_ends_is_joined(void **state)
{
    pthread_t thread;
    (void)state;
    atomic_store(&may_end, true);
    assert_int_equal(pthread_create(&thread, NULL, stay, NULL), 0);
    uint64_t began = ag_clock_monotonic_ns();
    ag_thread_join(thread);
    assert_true(ag_clock_monotonic_ns() - began < LONG_S * 1000000000ull);
}

/* While it refuses, no thread starts on certain processors. */
static bool refuses;
static int inherits = -1; /* of the attributes that the last thread was made with; -1: of none */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *a, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *a, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *a, void *(*run)(void *),
                          void *argument)
{
    cpu_set_t all, chosen;
    memset(&all, 0xff, sizeof(all));
    if (refuses && a && !pthread_attr_getaffinity_np(a, sizeof(chosen), &chosen) &&
        !CPU_EQUAL(&all, &chosen)) /* glibc's answer where none were chosen is all */
        return EINVAL;
    inherits = -1;
    if (a)
        pthread_attr_getinheritsched(a, &inherits);
    return __real_pthread_create(thread, a, run, argument);
}

static void test_a_thread_on_any_processor_is_ordinary(void **state)
{
    pthread_t thread;
    (void)state;
    ag_thread_look();
    atomic_store(&may_end, true);
    refuses = true;
    bool started = ag_thread_start(&thread, "any", stay);
    refuses = false;
    assert_true(started);
    assert_int_equal(inherits, PTHREAD_EXPLICIT_SCHED);
    ag_thread_join(thread);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_ends),
        cmocka_unit_test(test_nobody_waits_for_a_thread_that_stays),
        cmocka_unit_test(test_a_thread_that_ends_is_joined),
        cmocka_unit_test(test_a_thread_on_any_processor_is_ordinary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
