/*
 * test_lookup.c - dlsym itself: what is not the driver's is not touched, and nobody can tell.
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
#include "told.h"

static void *libcuda;
static void *(*address_of)(const char *);

/* Programs import either version of dlsym, by the glibc they were built on. */
#if defined(__x86_64__)
void *oldest_dlsym(void *handle, const char *name);
__asm__(".symver oldest_dlsym, dlsym@GLIBC_2.2.5");
#elif defined(__aarch64__)
void *oldest_dlsym(void *handle, const char *name);
__asm__(".symver oldest_dlsym, dlsym@GLIBC_2.17");
#endif
void *newer_dlsym(void *handle, const char *name);
__asm__(".symver newer_dlsym, dlsym@GLIBC_2.34");

/* First: nothing was looked up in a libcuda yet. */
static void nothing_starts_before_the_driver_is_used(void **state)
{
    (void)state;
    void *other = dlopen(OTHER_LIBRARY, RTLD_NOW);
    assert_non_null(other);
    int (*alloc)(void);
    *(void **)&alloc = dlsym(other, "cuMemAlloc_v2"); /* not a driver: it only uses its names */
    assert_int_equal(alloc(), 4711);
    assert_non_null(dlsym(other, "cudnnCreate"));
    assert_null(dlsym(other, "cuInit"));
    assert_non_null(dlerror());
    assert_string_equal(told(), "");
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(libcuda);
    *(void **)&address_of = dlsym(libcuda, "fake_address");
    assert_string_equal(told(), "");
    int (*synchronize)(void);
    *(void **)&synchronize = dlsym(libcuda, "cuCtxSynchronize");
    setenv("FAKE_UNINITIALISED", "1", 1);
    assert_int_equal(synchronize(), 0);
    assert_string_equal(told(), "");
    unsetenv("FAKE_UNINITIALISED");
    assert_int_equal(synchronize(), 0);
    assert_string_equal(told(), "start replay\nbarrier cuCtxSynchronize\n");
}

static void other_libraries_keep_their_symbols(void **state)
{
    (void)state;
    int (*alloc)(void);
    *(void **)&alloc = dlsym(dlopen(OTHER_LIBRARY, RTLD_NOW), "cuMemAlloc_v2");
    assert_int_equal(alloc(), 4711);
}

static void both_versions_of_dlsym_are_served(void **state)
{
    (void)state;
    void *hook = dlsym(libcuda, "cuLaunchKernel");
    assert_ptr_not_equal(hook, address_of("cuLaunchKernel"));
    assert_ptr_equal(oldest_dlsym(libcuda, "cuLaunchKernel"), hook);
    assert_ptr_equal(newer_dlsym(libcuda, "cuLaunchKernel"), hook);
}

static void dlerror_tells_what_it_would_tell(void **state)
{
    (void)state;
    dlerror();
    assert_non_null(dlsym(libcuda, "cuMemAlloc_v2"));
    assert_null(dlerror());
    assert_null(dlsym(libcuda, "cuNoSuchCall"));
    const char *message = dlerror();
    assert_non_null(message);
    assert_non_null(strstr(message, "cuNoSuchCall"));
    assert_null(dlerror());
    assert_null(dlsym(libcuda, "cuNoSuchCall"));
    assert_non_null(dlsym(libcuda, "cuMemAlloc_v2")); /* a success clears it, as it always did */
    assert_null(dlerror());
}

/* glibc finds out from the return address whose "next" is meant. */
static void next_is_the_callers_next(void **state)
{
    (void)state;
    void *first = dlopen(NEXT_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    assert_non_null(first);
    int (*chain)(void);
    *(void **)&chain = dlsym(first, "ag_test_chain");
    assert_int_equal(chain(), 1);
    *(void **)&chain = dlsym(first, "cuTestChain"); /* also for names like the driver's */
    assert_int_equal(chain(), 1);
}

static void default_is_the_callers_scope(void **state)
{
    (void)state;
    assert_ptr_equal(dlsym(RTLD_DEFAULT, "strlen"), dlsym(RTLD_NEXT, "strlen"));
    assert_null(dlsym(RTLD_DEFAULT, "cuInit")); /* libcuda is loaded locally */
}

static void the_driver_finds_its_own_functions(void **state)
{
    (void)state;
    void *(*inside)(void *, const char *);
    *(void **)&inside = dlsym(libcuda, "fake_dlsym");
    assert_ptr_equal(inside(libcuda, "cuLaunchKernel"), address_of("cuLaunchKernel"));
    assert_ptr_equal(inside(libcuda, "cuNewerCall"), address_of("cuNewerCall"));
}

static void *ask_from(const char *library, const char *name)
{
    void *(*ask)(void *, const char *);
    void *asking = dlopen(library, RTLD_NOW);
    assert_non_null(asking);
    *(void **)&ask = dlsym(asking, "ag_test_ask");
    return ask(libcuda, name);
}

/* NVENC works on the program's streams; what the driver loads for a debugger is a part of it. */
static void the_drivers_parts_are_few(void **state)
{
    (void)state;
    void *hook = dlsym(libcuda, "cuStreamSynchronize");
    assert_ptr_not_equal(hook, address_of("cuStreamSynchronize"));
    assert_ptr_equal(ask_from(ENCODE_LIBRARY, "cuStreamSynchronize"), hook);
    assert_ptr_equal(ask_from(DEBUGGER_LIBRARY, "cuStreamSynchronize"),
                     address_of("cuStreamSynchronize"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_starts_before_the_driver_is_used),
        cmocka_unit_test(other_libraries_keep_their_symbols),
        cmocka_unit_test(both_versions_of_dlsym_are_served),
        cmocka_unit_test(dlerror_tells_what_it_would_tell),
        cmocka_unit_test(next_is_the_callers_next),
        cmocka_unit_test(default_is_the_callers_scope),
        cmocka_unit_test(the_driver_finds_its_own_functions),
        cmocka_unit_test(the_drivers_parts_are_few),
    };
    told_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
