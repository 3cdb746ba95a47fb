/* shortfall.c - see shortfall.h. */
#include "capture/report/shortfall.h"
#include "capture/tracking/count.h"
#include "capture/trace/live.h"
#include "capture/settings/log.h"
#include "capture/settings/options.h"
#include "capture/tracking/state.h"
#include <inttypes.h>
#include <stdio.h>

enum { MOST_KINDS = 8 }; /* of ops that cannot be recorded */

/* ---- observing by the library's own decision --------------------------------------------- */

static char observes[200]; /* the reason */
static uint64_t before;    /* ops of the program when observing began */
static _Atomic bool observing, told;

static uint64_t unseen(void)
{
    return ag_counted(AG_COUNT_UNKNOWN_STREAM) + ag_counted(AG_COUNT_BEHIND_WAITS) +
           ag_counted(AG_COUNT_NOT_UNDERSTOOD) + ag_counted(AG_COUNT_NOT_RECORDABLE) +
           ag_counted(AG_COUNT_COLLECTIVE);
}

void ag_shortfall_observes(const char *why)
{
    struct ag_totals t;
    ag_stats_collect(&t);
    before = t.ops + unseen();
    snprintf(observes, sizeof(observes), "%s", why);
    atomic_store(&observing, true);
}

/* What to do about it. A word in the reason selects the advice. */
static const char *advice_on_observing(void)
{
    static const struct {
        const char *word, *advice;
    } list[] = {
        {"older than", "install a driver of CUDA 12.4 (550) or newer"},
        {"export table", "AUTOGRAPH_FORCE=1 replays all the same; please report the table's id"},
        {"CUDA_INJECTION64_PATH",
         "run it without the tool; AUTOGRAPH_FORCE=1 replays all the same"},
        {"profiler", "run it without the tool; AUTOGRAPH_FORCE=1 replays all the same"},
        {"CUDA_LAUNCH_BLOCKING", "unset it, if launches need not wait for their kernels"},
        {"cuda-gdb", "run it without the debugger; AUTOGRAPH_FORCE=1 replays all the same"},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (strstr(observes, list[i].word))
            return list[i].advice;
    return "please report it with the version of the driver";
}

uint32_t ag_shortfall_rest(void)
{
    return atomic_load_explicit(&told, memory_order_relaxed) ? AG_LONGEST_DORMANT
                                                             : AG_SHORTFALL_FEWEST_OPS;
}

/* ---- ops that cannot be recorded -------------------------------------------------------- */

static struct {
    _Atomic(const char *) why;
    _Atomic uint64_t ops;
} kinds[MOST_KINDS];

void ag_shortfall_not_recordable(const char *why)
{
    for (int i = 0; i < MOST_KINDS; i++) {
        const char *known = atomic_load_explicit(&kinds[i].why, memory_order_relaxed);
        if (!known && atomic_compare_exchange_strong(&kinds[i].why, &known, why))
            known = why;
        if (known == why) {
            atomic_fetch_add_explicit(&kinds[i].ops, 1, memory_order_relaxed);
            return;
        }
    }
}

static const char *main_kind(void)
{
    int most = 0;
    for (int i = 1; i < MOST_KINDS; i++)
        if (atomic_load(&kinds[i].ops) > atomic_load(&kinds[most].ops))
            most = i;
    const char *why = atomic_load(&kinds[most].why);
    return why ? why : "";
}

/* ---- the largest reason ----------------------------------------------------------------- */

static void consider(struct ag_shortfall *f, uint64_t ops, const char *why, const char *advice)
{
    if (ops <= f->kept)
        return;
    f->kept = ops;
    f->why = why;
    f->advice = advice;
}

/* Whether what was learnt ended again and again, so that little had time to come often. If it did,
 * gives the reason. */
static bool ended_often(const struct ag_totals *t, const char **why, const char **advice)
{
    static const struct {
        enum ag_count which;
        const char *why, *advice;
    } list[] = {
        {AG_COUNT_FUNCTION_CHANGED,
         "it changes attributes of its kernels again and again, which drops their graphs",
         "set them once, in front of the loop"},
        {AG_COUNT_ALL_INVALIDATED,
         "limits of a context, or something else that graphs depend on, change again and again",
         "see among the sync points which call does that, and make it once, in front of the loop"},
        {AG_COUNT_MODULE_INVALIDATED, "it unloads its code again and again",
         "keep modules that are used again"},
        {AG_COUNT_GRAPHS_GIVEN_BACK,
         "it is short of device memory again and again, and graphs are given back",
         "see device memory in docs/limits.md"},
    };
    size_t most = 0;
    for (size_t i = 1; i < sizeof(list) / sizeof(list[0]); i++)
        if (ag_counted(list[i].which) > ag_counted(list[most].which))
            most = i;
    if (ag_counted(list[most].which) < AG_SHORTFALL_OFTEN ||
        ag_counted(list[most].which) < t->eager / AG_SHORTFALL_RARE_OPS)
        return false;
    *why = list[most].why;
    *advice = list[most].advice;
    return true;
}

/* Considers the policy's reasons. They were sampled, and are scaled up to all eager ops. */
static void consider_policy(const struct ag_totals *t, struct ag_shortfall *f)
{
    static const char *const wait = "a longer run replays more";
    static const struct {
        const char *why, *advice;
    } texts[AG_NUM_WHYS] = {
        [AG_WHY_UNKNOWN] = {"its launches are not known to repeat in the same order",
                            "look with `autograph report` at what changes from step to step"},
        [AG_WHY_SELDOM] = {"its sequences came too seldom for graphs to be built", wait},
        [AG_WHY_BUILDING] = {"its graphs were still being built", wait},
        [AG_WHY_BUILD_FAILED] = {"its graphs could not be built",
                                 "AUTOGRAPH_LOG=info says why; please report it"},
        [AG_WHY_SLOWER] = {"its sequences were measured to be as fast without graphs, or faster",
                           "that is as fast as it goes; AUTOGRAPH=0 saves the watching"},
        [AG_WHY_TRIAL] = {"it was still being measured whether graphs pay", wait},
        [AG_WHY_RESTS] = {"its sequences were left half way too often",
                          "look with `autograph report` at what comes in between"},
        [AG_WHY_MEASURED] = {"it measures its launches with events",
                             "what it goes on measuring for 200 ms is replayed"},
        [AG_WHY_REST_OF_CHUNK] = {"its sequences were left half way",
                                  "look with `autograph report` at what comes in between"},
        [AG_WHY_ODD] = {"some of its launches are others in each step, as with a grid that grows",
                        "the launches between them are replayed"},
    };
    uint64_t samples = 0;
    bool none_built = !ag_counted(AG_COUNT_BUILT);
    for (int i = 0; i < AG_NUM_WHYS; i++)
        samples += t->whys[i];
    for (int i = 0; samples && i < AG_NUM_WHYS; i++) {
        uint64_t ops = (uint64_t)((double)t->eager * (double)t->whys[i] / (double)samples);
        const char *why = texts[i].why, *advice = texts[i].advice;
        if (none_built && ag_counted(AG_COUNT_ENDLESS)) {
            why = "it waits on the GPU for something whose end is unknown, and nothing is "
                  "built behind that";
            advice = "see cuStreamWaitValue and host functions in docs/limits.md";
        } else if (none_built &&
                   ag_counted(AG_COUNT_NO_BUILDER) + ag_counted(AG_COUNT_NO_WATCHDOG)) {
            why = "no thread of the library can be started or gets a processor";
            advice =
                "raise the limit on processes (ulimit -u, or the container's); a real-time thread "
                "needs a second processor";
        } else if (i == AG_WHY_BUILDING &&
                   ag_counted(AG_COUNT_BUILD_HELD_UP_NS) > ag_counted(AG_COUNT_BUILD_NS)) {
            why = "something on the GPU waited for the host or for peers while its graphs were "
                  "due, and nothing is built meanwhile";
            advice = "see host functions and cuStreamWaitValue in docs/limits.md";
        } else if (i == AG_WHY_BUILDING &&
                   ag_counted(AG_COUNT_BUILD_STANDS_NS) > ag_counted(AG_COUNT_BUILD_NS)) {
            why = "a stream had work and got nothing new while its graphs were due, and hardly "
                  "anything is built meanwhile";
            advice = "see kernels that wait for a word in docs/limits.md";
        } else if ((i == AG_WHY_SELDOM || i == AG_WHY_UNKNOWN) && ended_often(t, &why, &advice)) {
            /* that is why, also where building is dear or the budget small for it */
        } else if (i == AG_WHY_SELDOM && ag_counted(AG_COUNT_BUILD_OVER_BUDGET)) {
            why = "the memory budget for graphs is used up";
            advice = "raise AUTOGRAPH_MEMORY_MB";
        } else if (i == AG_WHY_SELDOM && ag_counted(AG_COUNT_BUILD_TOO_DEAR)) {
            why = "building its graphs has cost more than replaying them gained";
            advice = "fewer different sequences, or a longer run";
        } else if (i == AG_WHY_BUILD_FAILED &&
                   2 * ag_counted(AG_COUNT_FENCE_FAILED) > ag_counted(AG_COUNT_BUILD_FAILED)) {
            why = "its kernels have addresses of pinned memory or of another device, and the "
                  "library's kernel that goes between them was not built, or not for this GPU";
            advice = "build the library with nvcc; see fences in docs/limits.md";
        } else if (i == AG_WHY_BUILD_FAILED &&
                   ag_counted(AG_COUNT_NAMES_OUTSIDE) > ag_counted(AG_COUNT_BUILD_FAILED) +
                                                            ag_counted(AG_COUNT_UPDATE_FAILED) +
                                                            ag_counted(AG_COUNT_LAUNCH_FAILED)) {
            why = "graphs were dropped and built anew, as arguments had become memory of the host "
                  "or of another device";
            advice = wait;
        } else if (i == AG_WHY_SLOWER && t->singles) {
            advice = "that is as fast as it goes";
        }
        consider(f, ops, why, advice);
    }
}

/* Considers ops that were held back and then submitted one by one. */
static void consider_flushes(const struct ag_totals *t, struct ag_shortfall *f)
{
    const struct {
        uint64_t times;
        const char *why, *advice;
    } causes[] = {
        {t->mismatches, "its sequences begin like known ones and go on otherwise",
         "look with `autograph report` at what comes instead"},
        {ag_counted(AG_COUNT_WATCHDOG), "it pauses in the middle of its sequences",
         "a larger AUTOGRAPH_MAX_DEFER_US lets graphs wait longer; a smaller one is better if it "
         "polls memory there"},
        {ag_counted(AG_COUNT_ORDER), "the legacy default stream orders everything",
         "streams that are made with cudaStreamNonBlocking end that"},
        {ag_counted(AG_COUNT_OTHER_THREAD), "calls of other threads come in between",
         "look with `autograph report` at who makes them"},
    };
    size_t most = 0;
    for (size_t i = 1; i < sizeof(causes) / sizeof(causes[0]); i++)
        if (causes[i].times > causes[most].times)
            most = i;
    consider(f, t->flushed, causes[most].why, causes[most].advice);
}

/* What was granted may not all have come yet. */
uint64_t ag_shortfall_weighed(const struct ag_totals *t)
{
    uint64_t granted = ag_counted(AG_COUNT_WEIGHED);
    return granted < t->dormant ? granted : t->dormant;
}

void ag_shortfall_find(const struct ag_totals *t, struct ag_shortfall *f)
{
    bool own = atomic_load(&observing);
    uint64_t weighed = ag_shortfall_weighed(t);
    uint64_t captured = ag_state_captures() ? ag_counted(AG_COUNT_IN_CAPTURE) : 0;
    *f = (struct ag_shortfall){.launched = t->ops + unseen() + captured,
                               .replayed = t->replayed + t->covered};
    if (f->replayed * 100 >= f->launched * AG_SHORTFALL_ENOUGH ||
        ag_options.mode == AG_MODE_OBSERVE)
        return;
    if (own)
        consider(f, f->launched > before ? f->launched - before : 0, observes,
                 advice_on_observing());
    else if (ag_options.compare_ms)
        consider(f, t->dormant, "one of two intervals is eager, for the comparison",
                 "a run that compares nothing replays those too");
    else
        consider(f, t->dormant - weighed, "nothing in its launches repeated for long",
                 "there is little for graphs to do here; AUTOGRAPH=0 saves the watching");
    consider(f, weighed, "its streams were measured to be faster without graphs",
             "that is as fast as it goes");
    consider(f, captured,
             "it has begun a stream capture that has not ended, and nothing is replayed meanwhile",
             "end stream captures that fail, too");
    consider(f, ag_counted(AG_COUNT_UNKNOWN_STREAM), "nothing can be kept of its streams",
             "the program may lack memory");
    consider(
        f, ag_counted(AG_COUNT_BEHIND_WAITS),
        "it launches to per-thread default streams while others wait for it or for host functions",
        "launch to streams that the program creates");
    consider(f, ag_counted(AG_COUNT_NOT_UNDERSTOOD), "its streams have properties that graphs lack",
             "set them for launches instead of streams, if they are needed");
    snprintf(f->text, sizeof(f->text), "its ops cannot be recorded (%s)", main_kind());
    consider(f, ag_counted(AG_COUNT_NOT_RECORDABLE), f->text, "see docs/limits.md for such ops");
    consider(f, ag_counted(AG_COUNT_COLLECTIVE),
             "its kernels are collectives, which no graph may hold", "see docs/limits.md");
    consider_policy(t, f);
    consider_flushes(t, f);
}

/* ---- the line --------------------------------------------------------------------------- */

static bool is_due(const struct ag_shortfall *f)
{
    if (!f->why || f->launched < AG_SHORTFALL_FEWEST_OPS)
        return false;
    return f->replayed * 100 < f->launched * AG_SHORTFALL_LITTLE ||
           (f->why == observes && f->kept >= AG_SHORTFALL_FEWEST_OPS);
}

void ag_shortfall_tell(void)
{
    struct ag_totals t;
    struct ag_shortfall f;
    char process[128], singles[80] = "";
    if (atomic_load(&told))
        return;
    ag_stats_collect(&t);
    ag_shortfall_find(&t, &f);
    if (!is_due(&f) || atomic_exchange(&told, true))
        return;
    ag_live_update();
    if (ag_options.stats || ag_options.log_level < AG_LOG_WARN)
        return; /* the summary says it as well */
    if (t.singles)
        snprintf(singles, sizeof(singles), " and handed %" PRIu64 " others to a thread of its own",
                 t.singles);
    ag_say("%s: replayed %" PRIu64 " of %" PRIu64 " launches%s%s: %s. What to do: %s. "
           "(AUTOGRAPH_LOG=off silences this line)",
           ag_process_name(process, sizeof(process)), f.replayed, f.launched, singles,
           f.why == observes && f.replayed ? ", none since this was found" : "", f.why, f.advice);
}
