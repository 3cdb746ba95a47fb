/*
 * test_tables.c - what cuGetExportTable answers, and calls through it. Run under the library with
 * fake_capture.c, against fake_libcuda.c.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake_tables.h"
#include "told.h"

enum { THREADS = 8, IDS = 40 };

typedef int (*getter)(const void **, const unsigned char *);
static getter get, own_get;
static void *(*address_of)(const char *);
static void *libcuda;
static bool off; /* AUTOGRAPH=0 */

static const unsigned char known[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                        0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
/* What CUPTI asks for first. */
static const unsigned char of_tools[16] = {0x2c, 0x8e, 0x0a, 0xd8, 0x07, 0x10, 0xab, 0x4e,
                                           0x90, 0xdd, 0x54, 0x71, 0x9f, 0xe5, 0xf7, 0x4b};

static const void *table_of(unsigned char kind, unsigned char number)
{
    const void *table = NULL;
    assert_int_equal(get(&table, (unsigned char[16]){kind, number}), 0);
    return table;
}

/* The driver's own. */
static const void *own_table(unsigned char kind)
{
    const void *table = NULL;
    own_get(&table, (unsigned char[16]){kind});
    return table;
}

static void assert_untouched(const void *table, unsigned char kind)
{
    assert_ptr_equal(table, own_table(kind));
    assert_non_null(strstr(told(), "observe an export table that nobody knows has a layout"));
}

static const void *answers[THREADS][IDS];
static pthread_barrier_t together;

static void *ask_for_all(void *mine)
{
    const void **answer = mine;
    for (unsigned char i = 0; i < IDS; i++) {
        pthread_barrier_wait(&together);
        answer[i] = table_of(FAKE_TABLE, i);
    }
    return NULL;
}

static void all_get_the_same_copy(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_for_all, answers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned char i = 0; i < IDS; i++) {
        for (int k = 0; k < THREADS; k++)
            assert_ptr_equal(answers[k][i], table_of(FAKE_TABLE, i));
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(answers[0][k], answers[0][i]);
        assert_ptr_not_equal(answers[0][i], own_table(FAKE_TABLE));
    }
    assert_null(strstr(told(), "observe"));
}

static void entries_are_stubs(void **state)
{
    (void)state;
    const struct fake_table *table = table_of(FAKE_TABLE, 0);
    const struct fake_table *own = own_table(FAKE_TABLE);
    assert_int_equal(table->bytes, own->bytes);
    assert_null(table->none);
    assert_true(table->integers != own->integers && table->many != own->many);
    /* what the driver exports too is what a look-up of its name gives */
    assert_ptr_equal(table->public_barrier, dlsym(libcuda, "cuMemAlloc_v2"));
    assert_ptr_not_equal(table->public_barrier, address_of("cuMemAlloc_v2"));
    assert_ptr_equal(table->public_query, address_of("cuCtxGetLimit"));
}

/* The first call of a function is told of as such. */
static void calls_are_told(void **state)
{
    (void)state;
    const struct fake_table *table = table_of(FAKE_TABLE, 0);
    told();
    table->pair(1, 2);
    const char *text = told();
    assert_non_null(strstr(text, "log start the program calls entry 4 of the export table "
                                 "01000000-0000-0000-0000-000000000000\n"));
    assert_non_null(strstr(text, "table call first=1\n"));
    table->pair(1, 2);
    assert_string_equal(told(), "table call first=0\n");
    table->many(1, 2);
    assert_non_null(strstr(told(), "table call first=1\n"));
}

static void arguments_and_results_pass(void **state)
{
    (void)state;
    const struct fake_table *table = table_of(FAKE_TABLE, 0);
    const struct fake_table *own = own_table(FAKE_TABLE);
    for (uint64_t n = 1; n < 4; n++) {
        double x = (double)n / 4;
        assert_int_equal(
            table->integers(n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9),
            own->integers(n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9));
        assert_true(table->mixed(n, x, 2, x + 1, 3, x + 2, 4, x + 3, 5, x + 4, 6, x + 5, 7, x + 6,
                                 8, x + 7, 9, x + 8) == own->mixed(n, x, 2, x + 1, 3, x + 2, 4,
                                                                   x + 3, 5, x + 4, 6, x + 5, 7,
                                                                   x + 6, 8, x + 7, 9, x + 8));
        struct fake_pair pair = table->pair(n, n + 7);
        assert_true(pair.a == n + 7 && pair.b == n);
        struct fake_many many = table->many(n, n + 20), expected = own->many(n, n + 20);
        assert_memory_equal(&many, &expected, sizeof(many));
    }
    told();
}

/* Another thread may look at the program's place while the driver writes its answer. */
static void the_driver_does_not_write_to_the_place_of_the_program(void **state)
{
    (void)state;
    const void *table = NULL;
    const void **(*place)(void);
    *(void **)&place = dlsym(libcuda, "fake_table_place");
    assert_int_equal(get(&table, (unsigned char[16]){1}), 0);
    assert_ptr_not_equal(place(), &table);
}

static void known_tables_are_untouched(void **state)
{
    const void *table = NULL, *own = NULL;
    (void)state;
    assert_int_equal(get(&table, known), 0);
    own_get(&own, known);
    assert_ptr_equal(table, own);
    assert_int_equal(get(&table, (unsigned char[16]){0}), 500);
    assert_null(table);
    assert_string_equal(told(), "");
}

static void other_layouts_end_replay(void **state)
{
    (void)state;
    for (unsigned char kind = FAKE_TABLE_NO_SIZE; kind <= FAKE_TABLE_ON_HEAP; kind++)
        assert_untouched(table_of(kind, 0), kind);
    assert_untouched(table_of(FAKE_TABLE_NONE, 0), FAKE_TABLE_NONE);
}

static void stubs_run_out(void **state)
{
    (void)state;
    assert_ptr_equal(table_of(FAKE_TABLE_LONG, 0), own_table(FAKE_TABLE_LONG));
    assert_string_equal(told(), "observe an export table that nobody knows has more functions than "
                                "there are stubs: 09000000-0000-0000-0000-000000000000\n");
    assert_ptr_not_equal(table_of(FAKE_TABLE, IDS),
                         own_table(FAKE_TABLE)); /* there are some left */
    told();
}

/* One by its name; one that has CUPTI linked into it, by what it asks for. */
static void tools_end_replay(void **state)
{
    static const char said[] = "observe a profiler or checker has asked for an export table\n";
    const unsigned char id[16] = {FAKE_TABLE};
    typedef const void *(*asker)(getter, const unsigned char *);
    asker ask[2] = {NULL, NULL}; /* cppcheck-suppress uninitvar */
    (void)state;
    for (int i = 0; i < 2; i++) {
        void *library = dlopen(i ? LINKED_INTO : TOOL, RTLD_NOW);
        assert_non_null(library);
        *(void **)&ask[i] = dlsym(library, "ask");
        assert_non_null(ask[i]);
    }
    assert_ptr_equal(ask[0](get, id), own_table(FAKE_TABLE));
    assert_string_equal(told(), said);
    assert_ptr_equal(ask[0](get, known), own_table(known[0])); /* that says nothing */
    assert_string_equal(told(), "");
    assert_ptr_equal(ask[1](get, id), table_of(FAKE_TABLE, 0));
    assert_string_equal(told(), "");
    assert_ptr_equal(ask[1](get, of_tools), own_table(of_tools[0]));
    assert_string_equal(told(), said);
    assert_ptr_equal(ask[1](get, id), own_table(FAKE_TABLE));
    assert_string_equal(told(), said);
    assert_ptr_not_equal(table_of(FAKE_TABLE, 0), own_table(FAKE_TABLE)); /* asked from here */
    assert_string_equal(told(), "");
}

static void nothing_is_substituted(void **state)
{
    (void)state;
    assert_ptr_equal((void *)get, (void *)own_get);
    assert_ptr_equal(table_of(FAKE_TABLE, 0), own_table(FAKE_TABLE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_get_the_same_copy),
        cmocka_unit_test(entries_are_stubs),
        cmocka_unit_test(calls_are_told),
        cmocka_unit_test(arguments_and_results_pass),
        cmocka_unit_test(the_driver_does_not_write_to_the_place_of_the_program),
        cmocka_unit_test(known_tables_are_untouched),
        cmocka_unit_test(other_layouts_end_replay),
        cmocka_unit_test(stubs_run_out),
        cmocka_unit_test(tools_end_replay),
    };
    const struct CMUnitTest without[] = {cmocka_unit_test(nothing_is_substituted)};
    const char *mode = getenv("AUTOGRAPH");
    off = mode && strcmp(mode, "0") == 0;
    told_open();
    libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!libcuda)
        return 1;
    *(void **)&address_of = dlsym(libcuda, "fake_address");
    *(void **)&get = dlsym(libcuda, "cuGetExportTable");
    *(void **)&own_get = address_of("cuGetExportTable");
    told();
    return off ? cmocka_run_group_tests(without, NULL, NULL)
               : cmocka_run_group_tests(tests, NULL, NULL);
}
