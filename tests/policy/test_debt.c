/* test_debt.c - what streams owe lapses; of those that have ended it adds up, and has an end above
 * and below. */
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

/* A stream that lives: what lapses does not come back when it spends more, and what is gained is
 * saved up. */
static void test_debts_of_a_stream_lapse(void **state)
{
    (void)state;
    int64_t lapsed = 0;
    _Atomic uint64_t last = 0;
    uint64_t now = 5000000000u;
    assert_int_equal(ag_debt_now(&lapsed, 20 * MS, &last, now), 20 * MS);
    now += (uint64_t)500 * MS; /* 1 % of it is 5 ms */
    assert_int_equal(ag_debt_now(&lapsed, 20 * MS, &last, now), 15 * MS);
    assert_int_equal(ag_debt_now(&lapsed, 30 * MS, &last, now), 25 * MS);
    assert_int_equal(ag_debt_now(&lapsed, -7 * MS, &last, now), -12 * MS);
    now += (uint64_t)1500 * MS;
    assert_int_equal(ag_debt_now(&lapsed, 10 * MS, &last, now), 0);
    assert_int_equal(ag_debt_now(&lapsed, 60 * MS, &last, now), 50 * MS);
}

/* While nobody is in debt no more is saved up than a stream may spend at once. */
static void test_little_lapses_in_advance(void **state)
{
    (void)state;
    int64_t lapsed = 0;
    _Atomic uint64_t last = 0;
    uint64_t now = 5000000000u;
    assert_int_equal(ag_debt_now(&lapsed, 1 * MS, &last, now), 1 * MS);
    now += (uint64_t)1000000 * MS;
    assert_int_equal(ag_debt_now(&lapsed, 90 * MS, &last, now), 90 * MS - AG_BUILD_ALLOWANCE_NS);
}

/* However many streams are in debt, no more of the time is spent. */
static void test_streams_share_the_time(void **state)
{
    (void)state;
    int64_t lapsed[3] = {0};
    _Atomic uint64_t last = 0;
    uint64_t now = 5000000000u;
    for (int i = 0; i < 3; i++)
        assert_int_equal(ag_debt_now(&lapsed[i], 20 * MS, &last, now), 20 * MS);
    now += (uint64_t)500 * MS;
    assert_int_equal(ag_debt_now(&lapsed[0], 20 * MS, &last, now), 15 * MS);
    assert_int_equal(ag_debt_now(&lapsed[1], 20 * MS, &last, now), 20 * MS);
    assert_int_equal(ag_debt_now(&lapsed[2], 20 * MS, &last, now - 1), 20 * MS); /* it was late */
}

/* In debt a sequence must have come ever more often; for a graph of few ops sooner. */
static void test_the_price_of_a_build(void **state)
{
    (void)state;
    const int64_t most = AG_BUILD_ALLOWANCE_NS, visit = AG_BUILD_NS_A_VISIT;
    for (uint32_t ops = 1; ops <= 2 * AG_BUILD_FEW_OPS; ops++) {
        int64_t spent = ops < AG_BUILD_FEW_OPS ? most * ops / AG_BUILD_FEW_OPS : most;
        assert_int_equal(ag_debt_price(-most, ops), 0);
        assert_int_equal(ag_debt_price(spent, ops), 0);
        assert_int_equal(ag_debt_price(spent + 1, ops), AG_BUILD_FIRST_PRICE);
        assert_int_equal(ag_debt_price(spent + 5 * visit, ops), AG_BUILD_FIRST_PRICE + 5);
        assert_int_equal(ag_debt_price(spent + 500 * visit, ops), AG_BUILD_HIGHEST_PRICE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_debts_add_up),
        cmocka_unit_test(test_nothing_less_than_nothing_is_owed),
        cmocka_unit_test(test_debts_lapse),
        cmocka_unit_test(test_debts_of_a_stream_lapse),
        cmocka_unit_test(test_little_lapses_in_advance),
        cmocka_unit_test(test_streams_share_the_time),
        cmocka_unit_test(test_the_price_of_a_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
