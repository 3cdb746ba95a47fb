/*
 * test_threads.c - the first look-ups come from several threads at once; with "many" there are more
 * entry points that no table knows than there are stubs for them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_libcuda.h"
#include "driver/table.h"
#include "told.h"

/* fake_libcuda has cuExtraCall0 to cuExtraCall99, the one with many 200 more. */
enum { THREADS = 8, EXTRA = 300, EXTRA_AT_ONCE = 60 };

static void *libcuda;
static void *(*address_of)(const char *);
static void *answers[THREADS][AG_SYM_COUNT + EXTRA];
static pthread_barrier_t together;

static const char *extra_name(int number)
{
    static __thread char name[32];
    snprintf(name, sizeof(name), "cuExtraCall%d", number);
    return name;
}

static void *look_everything_up(void *argument)
{
    void **mine = argument;
    pthread_barrier_wait(&together);
    for (int sym = 0; sym < AG_SYM_COUNT; sym++)
        mine[sym] = dlsym(libcuda, ag_entries[sym].name);
    for (int i = 0; i < EXTRA_AT_ONCE; i++)
        mine[AG_SYM_COUNT + i] = dlsym(libcuda, extra_name(i));
    return NULL;
}

/* Work for a hook, from all threads at once. */
static void *make_calls(void *synchronize)
{
    int (*function)(void);
    *(void **)&function = synchronize;
    pthread_barrier_wait(&together);
    for (int i = 0; i < 20; i++)
        function();
    return NULL;
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

static void all_threads_get_the_same_answers(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_everything_up, answers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        assert_memory_equal(answers[i], answers[0], sizeof(answers[0]));
    for (int sym = 0; sym < AG_SYM_COUNT; sym++) {
        const void *own = address_of(ag_entries[sym].name);
        assert_non_null(answers[0][sym]);
        if (ag_entries[sym].cls != AG_CLASS_PASS && ag_entries[sym].cls != AG_CLASS_CAPTURE)
            assert_ptr_not_equal(answers[0][sym], own);
    }
    assert_null(strstr(told(), "start replay"));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, make_calls, dlsym(libcuda, "cuCtxSynchronize")), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    const char *all = told();
    assert_ptr_equal(strstr(all, "start replay"), all);
    assert_int_equal(count(all, "start replay"), 1);
    assert_int_equal(count(all, "barrier cuCtxSynchronize"), THREADS * 20);
}

/* What has no stub is handed out as it is, and nothing is replayed. */
static void stubs_run_out(void **state)
{
    (void)state;
    static void *stubs[EXTRA];
    size_t substituted = 0;
    for (int i = 0; i < EXTRA; i++) {
        stubs[i] = dlsym(libcuda, extra_name(i));
        substituted += stubs[i] != address_of(extra_name(i));
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(stubs[i], stubs[k]);
    }
    assert_in_range(substituted, AG_POOL_SIZE - 13, AG_POOL_SIZE); /* thirteen others */
    assert_non_null(strstr(told(), "observe the driver has more unknown entry points"));
    for (int i = 0; i < EXTRA; i++) { /* each goes to its own function */
        int (*call)(uint64_t);
        *(void **)&call = stubs[i];
        assert_int_equal(call((uint64_t)i), 0);
        assert_string_equal(((struct fake_call * (*)(void)) dlsym(libcuda, "fake_last"))()->name,
                            extra_name(i));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_threads_get_the_same_answers)};
    const struct CMUnitTest many[] = {cmocka_unit_test(stubs_run_out)};
    bool run_out = argc > 1 && strcmp(argv[1], "many") == 0;
    told_open();
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda)
        return 1;
    *(void **)&address_of = dlsym(libcuda, "fake_address");
    return run_out ? cmocka_run_group_tests(many, NULL, NULL)
                   : cmocka_run_group_tests(tests, NULL, NULL);
}
