/* test_hostmemory.c - every word of an argument that is an address of the host is found, and no
 * other, whatever was asked before. */
#include "tests/unit/unit.h"
#include "capture/capture.h"
#include "capture/tracking/hostmemory.h"
#include <stdlib.h>

enum { PLACES = 4096, PLACE = 4096, ROUNDS = 900, ASKED = 64, WORDS = 16 };

static bool is_host[PLACES];
static const uint64_t base = 0x7e0000000000;

static uint64_t address_in(uint32_t place)
{
    return base + (uint64_t)place * PLACE + PLACE / 2;
}

static bool are_named(const uint64_t *words)
{
    struct ag_param params[] = {{.offset = 0, .size = 4, .recorded = 0},
                                {.offset = 4, .size = 8 * WORDS + 4, .recorded = 4}};
    struct ag_signature signature = {.kind = AG_OP_LAUNCH,
                                     .layout = {.num_params = 2, .params = params}};
    uint8_t recorded[8 + 8 * WORDS] = {0};
    memcpy(recorded + 8, words, (size_t)8 * WORDS); /* the second parameter has a gap in front */
    return ag_outside_is_named(&signature, recorded, 0);
}

/* Never fewer addresses than there are, and no more while the ranges are few. */
static void ask(bool exact)
{
    uint64_t words[WORDS] = {0};
    bool any = false;
    for (int i = 0; i < WORDS; i++) {
        uint32_t place = (uint32_t)rand() % PLACES;
        bool small = rand() % 4 == 0, wanted = rand() % WORDS == 0;
        if (!small && is_host[place] && !wanted)
            small = true;
        words[i] = small ? (uint64_t)rand() % 1000 : address_in(place);
        any |= !small && is_host[place];
    }
    if (any || exact)
        assert_int_equal(are_named(words), any);
}

static void test_ranges(void **state)
{
    (void)state;
    uint64_t none[WORDS] = {0};
    assert_false(are_named(none));
    srand(1);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t first = (uint32_t)rand() % PLACES, n = 1 + (uint32_t)rand() % 3, ranges = 0;
        if (first + n > PLACES)
            n = PLACES - first;
        uint32_t before = atomic_load(&ag_host_memory_epoch);
        bool more = false;
        for (uint32_t i = first; i < first + n; i++) {
            more |= !is_host[i];
            is_host[i] = true;
        }
        uint64_t words[WORDS] = {address_in(first)};
        are_named(words); /* what this has found must not hold afterwards */
        ag_core_host_memory(base + (uint64_t)first * PLACE, (uint64_t)n * PLACE);
        assert_true(are_named(words));
        for (uint32_t i = 1; i < PLACES; i++)
            ranges += is_host[i] && !is_host[i - 1];
        if (ranges < 500)
            assert_int_equal(atomic_load(&ag_host_memory_epoch) != before, more);
        for (int i = 0; i < ASKED; i++)
            ask(ranges < 500);
    }
}

static void test_anywhere(void **state)
{
    (void)state;
    uint64_t words[WORDS] = {0};
    ag_core_host_memory(0, UINT64_MAX);
    assert_true(are_named(words));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges),
                                       cmocka_unit_test(test_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
