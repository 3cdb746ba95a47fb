/* test_clock.c - the clock agrees with the system's, before and after its rate is known. */
#include "tests/unit/unit.h"
#include "capture/system/clock.h"

static void wait_until_scaled(void)
{
    uint64_t end = ag_clock_monotonic_ns() + 30000000000u;
#if defined(__x86_64__)
    while (!atomic_load(&ag_clock.scale) && ag_clock_monotonic_ns() < end)
        ag_clock_ns();
    assert_true(atomic_load(&ag_clock.scale));
#else
    (void)end;
#endif
}

/* How far it is from CLOCK_MONOTONIC, at best of some readings. */
static int64_t difference(void)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t before = ag_clock_monotonic_ns(), ns = ag_clock_ns();
        uint64_t after = ag_clock_monotonic_ns();
        int64_t off = (int64_t)(ns - (before + (after - before) / 2));
        off = off < 0 ? -off : off;
        best = off < best ? off : best;
    }
    return best;
}

static void test_before_and_after_start(void **state)
{
    (void)state;
    assert_true(difference() < 100000);
    ag_clock_start();
    assert_true(difference() < 100000);
    wait_until_scaled();
    assert_true(difference() < 100000);
}

static void test_never_back(void **state)
{
    uint64_t last = ag_clock_ns();
    (void)state;
    for (int i = 0; i < 1000000; i++) {
        uint64_t now = ag_clock_ns();
        assert_true(now >= last);
        last = now;
    }
}

static void test_intervals(void **state)
{
    (void)state;
    wait_until_scaled();
    /* Whoever else runs here may come between two readings; a wrong rate is wrong every time. */
    double rate = 0;
    for (int i = 0; i < 20 && !(rate > 0.99 && rate < 1.01); i++) {
        uint64_t began = ag_clock_ns(), wall = ag_clock_monotonic_ns();
        usleep(50000);
        uint64_t here = ag_clock_ns() - began, there = ag_clock_monotonic_ns() - wall;
        rate = (double)here / (double)there;
    }
    assert_true(rate > 0.99 && rate < 1.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_and_after_start),
        cmocka_unit_test(test_never_back),
        cmocka_unit_test(test_intervals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
