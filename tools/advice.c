/* advice.c - what a person who knows would say to the figures of a dump. */
#include "tools/model.h"
#include "tools/names.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct advice {
    char **list;
    int count;
};

static void say(struct advice *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct advice *a, const char *format, ...)
{
    va_list args;
    char *text = NULL;
    if (a->count == MODEL_MOST_ADVICE)
        return;
    va_start(args, format);
    if (vasprintf(&text, format, args) >= 0)
        a->list[a->count++] = text;
    va_end(args);
}

static bool waits(const char *entry)
{
    return strstr(entry, "Synchronize") != NULL;
}

static bool only_asks(const char *entry)
{
    return strstr(entry, "Query") != NULL;
}

static void about_cuts(const struct model *m, struct advice *a)
{
    for (uint32_t i = 0; i < m->cuts.count && i < 3; i++) {
        const struct model_reason *r = &m->cuts.list[i];
        const char *entry = dump_string(m->d, r->text);
        double between = r->times ? (double)r->ops_before / (double)r->times : 0;
        char place[256] = "";
        if (r->sites.count)
            names_of_site(m->d, r->sites.list[0].id, place, sizeof(place));
        if (r->times < 20 || between > 4.0 || r->times * 10 < m->ops)
            continue;
        const char *cure = waits(entry) ? "wait once for several of them, or let an event say when"
                           : only_asks(entry) ? "ask less often: asking submits what is held back"
                           : strstr(entry, "DtoH")
                               ? "copy the value back every few iterations, or decide on the GPU"
                               : "fewer of them would make longer graphs";
        say(a,
            "%s comes after every %.1f launches%s%s (%llu times), so that graphs stay that short; "
            "%s.",
            entry, between, *place ? ", mostly by " : "", place, (unsigned long long)r->times,
            cure);
    }
}

static void about_flushes(const struct model *m, struct advice *a)
{
    for (uint32_t i = 0; i < m->flushes.count; i++) {
        const struct model_reason *r = &m->flushes.list[i];
        const char *why = dump_string(m->d, r->text);
        if (!m->ops || r->ops * 50 < m->ops)
            continue; /* under 2 % */
        double share = 100.0 * (double)r->ops / (double)m->ops;
        if (!strcmp(why, "watchdog"))
            say(a,
                "The watchdog submitted %.0f %% of the launches: the program pauses in the middle "
                "of its "
                "sequences for longer than AUTOGRAPH_MAX_DEFER_US. A larger value lets graphs wait "
                "longer; a smaller one is better if it polls memory there.",
                share);
        else if (!strcmp(why, "mismatch"))
            say(a,
                "%.0f %% of the launches were held back and then did not go on as before: the "
                "program's sequences vary (other kernels, grids or sizes)%s%s.",
                share, r->names.count ? ", most often at " : "",
                r->names.count ? names_kernel(dump_string(m->d, r->names.list[0].id)) : "");
        else if (!strncmp(why, "order", 5))
            say(a,
                "%.0f %% of the launches were submitted early because the legacy default stream "
                "orders "
                "everything; streams that are made with cudaStreamNonBlocking would end that.",
                share);
        else
            say(a,
                "%s came in the middle of sequences and submitted %.0f %% of the launches early.",
                why, share);
    }
}

static void about_the_rest(const struct model *m, struct advice *a)
{
    uint64_t passed = m->done[AG_DONE_PASSED], immediate = m->done[AG_DONE_IMMEDIATE];
    if (m->ops && passed * 4 > m->ops)
        say(a,
            "%.0f %% of the launches were let through without a look, because nothing repeated "
            "for long: this program has little for graphs to do.",
            100.0 * (double)passed / (double)m->ops);
    if (m->ops && immediate * 20 > m->ops)
        say(a, "%.0f %% of the launches cannot be recorded: %s.",
            100.0 * (double)immediate / (double)m->ops,
            m->immediate.count ? dump_string(m->d, m->immediate.list[0].text) : "?");
    if (m->launches && m->updates > 8 * m->launches)
        say(a,
            "Each graph launch had %.1f arguments to change, at about 0.4 us each; pointers that "
            "stay "
            "the same from step to step would make it cheaper.",
            (double)m->updates / (double)m->launches);
    if (m->builds_failed)
        say(a, "%llu graphs could not be built; AUTOGRAPH_LOG=info says why.",
            (unsigned long long)m->builds_failed);
    if (dump_counter(m->d, "BUILD_TOO_DEAR"))
        say(a,
            "%llu times a graph was not built because building had cost more than replaying "
            "gained: "
            "the program's sequences are many, or new ones come all the time.",
            (unsigned long long)dump_counter(m->d, "BUILD_TOO_DEAR"));
    for (uint32_t i = 0; i < m->eager.count; i++)
        if (m->eager.list[i].ops * 20 > m->ops &&
            strstr(dump_string(m->d, m->eager.list[i].text), "faster without"))
            say(a,
                "%.0f %% of the launches belong to sequences that were measured to be faster "
                "without graphs: the library leaves them eager, and tries again now and then.",
                100.0 * (double)m->eager.list[i].ops / (double)m->ops);
    if (m->builds_put_off)
        say(a,
            "%llu graphs were put off because the memory budget was used up: raise "
            "AUTOGRAPH_MEMORY_MB.",
            (unsigned long long)m->builds_put_off);
    if (m->launches && m->saved_ns < 0)
        say(a,
            "The graph launches took %.1f ms more on the host than eager launches would have: here "
            "graphs gain at most on the GPU.",
            -m->saved_ns / 1e6);
    else if ((double)m->build_ns > m->saved_ns && m->builds)
        say(a,
            "Building took %.1f ms, more than the %.1f ms that were saved: the run is short, or "
            "its "
            "sequences change too often.",
            (double)m->build_ns / 1e6, m->saved_ns / 1e6);
    if (!strcmp(dump_process(m->d, "AUTOGRAPH"), "observe"))
        say(a, "This run only observed. `autograph replay %s` says what replaying would have done.",
            m->d->path);
    if (m->ops < 100)
        say(a, "Only %llu launches were seen: too few to say much.", (unsigned long long)m->ops);
}

int model_advice(const struct model *m, char **list)
{
    struct advice a = {list, 0};
    if (model_coverage(m) < 50 && m->ops >= 100 && *m->why && *m->advice &&
        strcmp(dump_process(m->d, "AUTOGRAPH"), "observe"))
        say(&a, "Little was replayed: %s. What to do: %s.", m->why, m->advice);
    about_cuts(m, &a);
    about_flushes(m, &a);
    about_the_rest(m, &a);
    if (!a.count && model_coverage(m) > 95)
        say(&a, "Nothing to do: %.1f %% of the launches went as graphs.", model_coverage(m));
    return a.count;
}
