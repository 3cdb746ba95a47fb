/* test_lock.c - one at a time, and nobody sleeps for ever. */
#include "tests/unit/unit.h"
#include "capture/system/lock.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

enum { THREADS = 4, ROUNDS = 50000, MEETINGS = 50 };

static struct ag_lock lock;
static volatile uint64_t count; /* plain on purpose: only the lock keeps it right */

static void *work(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        ag_lock(&lock, AG_RANK_STREAM);
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
    ag_lock(&own, AG_RANK_STREAM);
    assert_int_equal(atomic_load(&own.state), 1);
    ag_unlock(&own);
    assert_int_equal(atomic_load(&own.state), 0);
}

static void *wait_for_it(void *unused)
{
    (void)unused;
    ag_lock(&lock, AG_RANK_STREAM);
    ag_unlock(&lock);
    return NULL;
}

static void test_a_sleeper_wakes(void **state)
{
    pthread_t thread;
    (void)state;
    ag_lock(&lock, AG_RANK_STREAM);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, NULL), 0);
    while (atomic_load(&lock.state) != 2)
        sched_yield();
    usleep(2000); /* it is in the futex by now */
    ag_unlock(&lock);
    pthread_join(thread, NULL);
}

/* In each meeting one that may give up comes first, and one that sleeps whatever comes behind it:
 * whoever is woken, the other is too. */
static _Atomic bool gives_up;
static _Atomic int meeting, come;

static void spin(int n)
{
    for (volatile int i = 0; i < n; i++)
        ;
}

static void *meet(void *stubborn)
{
    for (int i = 1; i <= MEETINGS; i++) {
        while (atomic_load(&meeting) < i)
            sched_yield();
        if (stubborn) {
            spin(i % 16 * 300);
            ag_lock(&lock, AG_RANK_STREAM);
            ag_unlock(&lock);
        } else if (ag_lock_unless(&lock, AG_RANK_STREAM, &gives_up)) {
            ag_unlock(&lock);
        }
        atomic_fetch_add(&come, 1);
    }
    return NULL;
}

static void test_who_gives_up_wakes_the_next(void **state)
{
    pthread_t threads[2];
    (void)state;
    for (uintptr_t k = 0; k < 2; k++)
        assert_int_equal(pthread_create(&threads[k], NULL, meet, (void *)k), 0);
    for (int i = 1; i <= MEETINGS; i++) {
        ag_lock(&lock, AG_RANK_STREAM);
        atomic_store(&gives_up, false);
        atomic_store(&come, 0);
        atomic_store(&meeting, i);
        while (atomic_load(&lock.state) != 2)
            sched_yield();
        spin(i % 50 * 400);
        atomic_store(&gives_up, i & 1);
        ag_unlock(&lock);
        while (atomic_load(&come) != 2)
            sched_yield();
    }
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_int_equal(atomic_load(&lock.state), 0);
    assert_int_equal(ag_thread.locks_held, 0);
}

/* ---- by hand: what the others do while this thread sleeps -------------------------------- */

static __thread void (*instead_of_sleep)(void);
static __thread int woken;
static struct ag_lock scene;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, void *a, long b, long c, void *d, void *e, long f);
long __wrap_syscall(long number, void *a, long b, long c, void *d, void *e, long f)
{
    if (instead_of_sleep && number == SYS_futex && a == &scene) {
        if (b == FUTEX_WAIT_PRIVATE)
            instead_of_sleep();
        else
            woken++;
        return 0;
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

/* The holder has woken this thread, though another sleeps as well, and a third one has the lock,
 * which knows of nobody who sleeps. */
static void third_has_it(void)
{
    assert_int_equal(atomic_load(&scene.state), 2);
    atomic_store(&gives_up, true);
    atomic_store(&scene.state, 1);
}

static void test_who_gives_up_tells_the_holder(void **state)
{
    (void)state;
    atomic_store(&gives_up, false);
    atomic_store(&scene.state, 1);
    instead_of_sleep = third_has_it;
    assert_false(ag_lock_unless(&scene, AG_RANK_STREAM, &gives_up));
    instead_of_sleep = NULL;
    assert_int_equal(atomic_load(&scene.state), 2);
    assert_int_equal(woken, 0);
    assert_int_equal(ag_thread.locks_held, 0);
}

/* The word that tells to give up, in a page of its own. */
static _Atomic bool *page;

/* The word is being read: the third one unlocks, at the last moment. */
static void unlocks(int signal)
{
    (void)signal;
    mprotect((void *)page, (size_t)getpagesize(), PROT_READ | PROT_WRITE);
    atomic_store(&scene.state, 0);
}

static void third_has_it_until_read(void)
{
    atomic_store(page, true);
    atomic_store(&scene.state, 1);
    mprotect((void *)page, (size_t)getpagesize(), PROT_NONE);
}

static void test_who_gives_up_wakes_if_nobody_holds_it(void **state)
{
    struct sigaction act = {.sa_handler = unlocks}, before;
    (void)state;
    page = mmap(NULL, (size_t)getpagesize(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    assert_ptr_not_equal((void *)page, MAP_FAILED);
    assert_int_equal(sigaction(SIGSEGV, &act, &before), 0);
    atomic_store(&scene.state, 1);
    instead_of_sleep = third_has_it_until_read;
    assert_false(ag_lock_unless(&scene, AG_RANK_STREAM, page));
    instead_of_sleep = NULL;
    sigaction(SIGSEGV, &before, NULL);
    assert_int_equal(atomic_load(&scene.state), 0);
    assert_int_equal(woken, 1);
    munmap((void *)page, (size_t)getpagesize());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_a_sleeper_wakes),
        cmocka_unit_test(test_who_gives_up_wakes_the_next),
        cmocka_unit_test(test_who_gives_up_tells_the_holder),
        cmocka_unit_test(test_who_gives_up_wakes_if_nobody_holds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
