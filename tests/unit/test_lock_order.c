/* test_lock_order.c - locks taken against their order end the process, where that is asserted. */
#include "tests/unit/unit.h"
#include <signal.h>
#include <sys/wait.h>
#include "capture/system/current.c"
#include "capture/system/lock.c"

static struct ag_lock outer, inner, other;

static void in_order(void)
{
    for (int i = 0; i < 3; i++) {
        ag_lock(&outer, AG_RANK_STREAM);
        ag_lock(&inner, AG_RANK_BUDGET);
        ag_unlock(&outer); /* in whatever order they are given back */
        ag_unlock(&inner);
    }
}

static void against_it(void)
{
    ag_lock(&inner, AG_RANK_BUDGET);
    ag_lock(&outer, AG_RANK_STREAM);
}

static void two_of_a_kind(void)
{
    ag_lock(&outer, AG_RANK_STREAM);
    ag_lock_unless(&other, AG_RANK_STREAM, &(const _Atomic bool){true});
}

/* How a process ends that does this. */
static int end_of(void (*what)(void))
{
    int status;
    pid_t child = fork();
    if (!child) {
        close(STDERR_FILENO);
        what();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

static void locks_have_an_order(void **state)
{
    (void)state;
    assert_int_equal(end_of(in_order), 0);
    assert_int_equal(end_of(against_it), SIGABRT);
    assert_int_equal(end_of(two_of_a_kind), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(locks_have_an_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
