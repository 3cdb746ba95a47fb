/* test_debt.c - what ended streams owe: it adds up, has an end above and below, and lapses. */
#include "rig.h"
#include "policy/debt.h"

enum { MS = 1000000, MOST = 36 * MS };

static void test_debts_add_up(void **state)
{
    (void)state;
    uint64_t now = 5000000000u, until = 0;
    assert_int_equal(ag_debt_at(until, now), 0);
    until = ag_debt_with(until, now, 20 * MS, MOST);
    assert_int_equal(ag_debt_at(until, now), 20 * MS);
    until = ag_debt_with(until, now, 10 * MS, MOST);
    assert_int_equal(ag_debt_at(until, now), 30 * MS);
    until = ag_debt_with(until, now, 10 * MS, MOST);
    assert_int_equal(ag_debt_at(until, now), MOST);
    until = ag_debt_with(until, now, -6 * MS, MOST);
    assert_int_equal(ag_debt_at(until, now), MOST - 6 * MS);
}

/* What graphs gain in one stream is no credit of the next. */
static void test_nothing_less_than_nothing_is_owed(void **state)
{
    (void)state;
    uint64_t now = 5000000000u, until = ag_debt_with(0, now, 20 * MS, MOST);
    until = ag_debt_with(until, now, -(int64_t)500 * MS, MOST);
    assert_int_equal(ag_debt_at(until, now), 0);
    until = ag_debt_with(until, now, 20 * MS, MOST);
    assert_int_equal(ag_debt_at(until, now), 20 * MS);
}

static void test_debts_lapse(void **state)
{
    (void)state;
    uint64_t now = 5000000000u, until = ag_debt_with(0, now, 20 * MS, MOST);
    now += (uint64_t)500 * MS; /* 1 % of it is 5 ms */
    assert_int_equal(ag_debt_at(until, now), 15 * MS);
    until = ag_debt_with(until, now, 10 * MS, MOST);
    assert_int_equal(ag_debt_at(until, now), 25 * MS);
    now += (uint64_t)2500 * MS;
    assert_int_equal(ag_debt_at(until, now), 0);
    now += (uint64_t)100000 * MS; /* nothing is saved up meanwhile */
    until = ag_debt_with(until, now, 10 * MS, MOST);
    assert_int_equal(ag_debt_at(until, now), 10 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_debts_add_up),
        cmocka_unit_test(test_nothing_less_than_nothing_is_owed),
        cmocka_unit_test(test_debts_lapse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
