/*
 * test_getter.c - cuGetProcAddress in both ABIs, asked as cudart and others ask it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_libcuda.h"
#include "driver/entries.h"
#include "told.h"

static void *libcuda;
static void *(*address_of)(const char *);
static struct fake_call *(*last_call)(void);
static AG_PFN_cuGetProcAddress_v2 getter;
static AG_PFN_cuGetProcAddress old_getter;

static void *ask(const char *name, int version, cuuint64_t flags)
{
    void *answer = (void *)1;
    assert_int_equal(getter(name, &answer, version, flags, NULL), CUDA_SUCCESS);
    void *old = (void *)1;
    assert_int_equal(old_getter(name, &old, version, flags), CUDA_SUCCESS);
    assert_ptr_equal(answer, old);
    return answer;
}

static void answers_are_the_hooks_that_dlsym_hands_out(void **state)
{
    (void)state;
    assert_ptr_equal(ask("cuLaunchKernel", 4000, 0), dlsym(libcuda, "cuLaunchKernel"));
    assert_ptr_equal(ask("cuLaunchKernel", 7000, 2), dlsym(libcuda, "cuLaunchKernel_ptsz"));
    assert_ptr_equal(ask("cuMemAlloc", 3020, 0), dlsym(libcuda, "cuMemAlloc_v2"));
    assert_ptr_not_equal(ask("cuMemAlloc", 3020, 0), address_of("cuMemAlloc_v2"));
    assert_ptr_equal(ask("cuDeviceGet", 2000, 0), address_of("cuDeviceGet"));
}

/* cudart goes on with whatever the getter says the getter is. */
static void the_getter_answers_itself(void **state)
{
    (void)state;
    assert_ptr_equal(ask("cuGetProcAddress", 11030, 0), (void *)old_getter);
    assert_ptr_equal(ask("cuGetProcAddress", 12000, 0), (void *)getter);
    assert_ptr_not_equal((void *)getter, address_of("cuGetProcAddress_v2"));
}

static void arguments_arrive_as_given(void **state)
{
    (void)state;
    void *answer = NULL;
    CUdriverProcAddressQueryResult found = 99;
    assert_int_equal(getter("cuInit", &answer, 12050, 1, &found), CUDA_SUCCESS);
    const struct fake_call *last = last_call();
    assert_int_not_equal(last->args[1], 0); /* a place of the hook's own: see below */
    assert_int_equal(last->args[2], 12050);
    assert_int_equal(last->args[3], 1);
    assert_int_equal(last->args[4], (uintptr_t)&found);
    assert_int_equal(found, 0);
}

/* Another thread may look at the program's place while the driver writes its answer. */
static void the_driver_does_not_write_to_the_place_of_the_program(void **state)
{
    (void)state;
    void *answer = NULL;
    assert_int_equal(getter("cuLaunchKernel", &answer, 12000, 0, NULL), CUDA_SUCCESS);
    assert_int_not_equal(last_call()->args[1], (uintptr_t)&answer);
    assert_int_equal(old_getter("cuLaunchKernel", &answer, 11030, 0), CUDA_SUCCESS);
    assert_int_not_equal(last_call()->args[1], (uintptr_t)&answer);
}

static void the_probe_and_failures_are_verbatim(void **state)
{
    (void)state;
    void *answer = NULL;
    CUdriverProcAddressQueryResult found = 99;
    assert_int_equal(getter("", &answer, 0, 0, NULL), CUDA_SUCCESS);
    assert_non_null(answer); /* not a function: nothing may stand in for it */
    assert_string_equal(told(), "");
    assert_int_equal(getter("cuNoSuchCall", &answer, 12000, 0, &found), CUDA_ERROR_NOT_FOUND);
    assert_null(answer);
    assert_int_equal(found, 1);
    assert_int_equal(getter("cuInit", NULL, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(getter(NULL, &answer, 12000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void newer_entry_points_get_a_stub(void **state)
{
    (void)state;
    void *stub = ask("cuNewerCall", 14000, 0);
    assert_ptr_not_equal(stub, address_of("cuNewerCall"));
    assert_ptr_equal(stub, dlsym(libcuda, "cuNewerCall"));
}

static void an_answer_outside_the_driver_ends_replay(void **state)
{
    (void)state;
    told();
    setenv("FAKE_OUTSIDE", "cuMemAlloc", 1);
    assert_ptr_equal(ask("cuMemAlloc", 3020, 0), (void *)getenv);
    unsetenv("FAKE_OUTSIDE");
    assert_non_null(strstr(told(), "observe the driver's getter answered"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_hooks_that_dlsym_hands_out),
        cmocka_unit_test(the_getter_answers_itself),
        cmocka_unit_test(arguments_arrive_as_given),
        cmocka_unit_test(the_driver_does_not_write_to_the_place_of_the_program),
        cmocka_unit_test(the_probe_and_failures_are_verbatim),
        cmocka_unit_test(newer_entry_points_get_a_stub),
        cmocka_unit_test(an_answer_outside_the_driver_ends_replay),
    };
    told_open();
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda)
        return 1;
    *(void **)&address_of = dlsym(libcuda, "fake_address");
    *(void **)&last_call = dlsym(libcuda, "fake_last");
    *(void **)&getter = dlsym(libcuda, "cuGetProcAddress_v2");
    *(void **)&old_getter = dlsym(libcuda, "cuGetProcAddress");
    told();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
