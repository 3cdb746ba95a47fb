/* test_ends.c - where chunks of streams that fork and join should end (capture/graphs/build.h). */
#include "capture/graphs/build.h"
#include "tests/unit/unit.h"

/* A letter for each op: k, K are kernels of the origin and of its branch; r, R their records; w, W
 * the waits of one for the last record of the other; c a small copy to the host. */
static struct ag_signature signature_of(char op)
{
    struct ag_signature s = {.kind = AG_OP_LAUNCH, .branch = strchr("KRW", op) != NULL};
    if (strchr("rR", op))
        s.kind = AG_OP_RECORD;
    else if (strchr("wW", op))
        s.kind = AG_OP_WAIT; /* width 0: of the latest record */
    else if (op == 'c')
        s.reads = true;
    return s;
}

/* A letter for each op: whether a chunk should end behind it: (b)est, (g)ood or - not. */
static void expect(const char *ops, enum ag_ends how, const char *wanted)
{
    enum { MOST = 32 };
    struct ag_signature signatures[MOST];
    ag_key keys[MOST];
    uint8_t ends[MOST];
    char found[MOST + 1] = "";
    uint32_t n = (uint32_t)strlen(ops);
    assert_in_range(n, 1, MOST);
    for (uint32_t i = 0; i < n; i++) {
        signatures[i] = signature_of(ops[i]);
        keys[i] = (ag_key)(uintptr_t)&signatures[i];
    }
    assert_int_equal(ag_graphs_ends(NULL, keys, n, ends), how);
    for (uint32_t i = 0; i < n; i++)
        found[i] = ends[i] == AG_BEST_END ? 'b' : ends[i] == AG_GOOD_END ? 'g' : '-';
    assert_string_equal(found, wanted);
}

static void one_stream_ends_anywhere(void **state)
{
    (void)state;
    expect("kkkk", AG_ANY_ENDS, "gggg");
    expect("kkrkk", AG_ANY_ENDS, "ggggg");
}

static void no_graph_begins_with_a_copy_to_the_host(void **state)
{
    (void)state;
    expect("kkckc", AG_SOME_ENDS, "g-b-b");
    expect("kkrrck", AG_SOME_ENDS, "g---bg");
    expect("rc", AG_SOME_ENDS, "-b");
}

/* Not between the fork and the join, whichever stream has the first op behind the fork. */
static void forks_end_where_they_join(void **state)
{
    (void)state;
    expect("krWKkRwk", AG_OWN_ENDS, "gg----bg");
    expect("krWkKRwk", AG_OWN_ENDS, "gg----bg");
    expect("krWkkKKRwkk", AG_OWN_ENDS, "gg------bgg");
}

/* Each stream waits for the other before either goes on. */
static void streams_that_meet_may_end_there(void **state)
{
    (void)state;
    expect("rWRwkK", AG_OWN_ENDS, "g--b--");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stream_ends_anywhere),
        cmocka_unit_test(no_graph_begins_with_a_copy_to_the_host),
        cmocka_unit_test(forks_end_where_they_join),
        cmocka_unit_test(streams_that_meet_may_end_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
