/* loop_common.c - see loop.h. */
#define _GNU_SOURCE
#include "loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 512

static const char usage[] =
    "usage: loop [options]\n"
    "  --sync=kernel|step|poll|none  when the program waits for the GPU (step)\n"
    "  --graph                  the step captured by hand, one graph launch a step\n"
    "  --changing               other arguments in every step\n"
    "  --resized                another grid in every step\n"
    "  --never-repeat           other grids and arguments in every step, without any period\n"
    "  --stream=own|legacy|per-thread  the stream of all launches (own)\n"
    "  --memsets                a memset before each kernel, which reads what it filled\n"
    "  --fork                   after the first kernel, two streams with a half of the data each\n"
    "  --timing                 events around each step, and the time between them\n"
    "  --gpu-us=N               kernels that keep the GPU busy for N microseconds\n"
    "  --size=N                 elements of 4 bytes (512: one block)\n"
    "  --kernels=N --steps=N    launches a step, steps a repetition (20, 1000)\n"
    "  --reps=N                 measured repetitions (7)\n"
    "  --paced                  wait for a line on stdin before each repetition\n";

static __attribute__((noreturn)) void fail(const char *why)
{
    ex_refuse(why, usage);
}

struct loop_options loop_parse(int argc, char **argv)
{
    struct loop_options o = {
        .pace = {.repetitions = 7}, .size = BLOCK, .steps = 1000, .kernels = 20};
    const char *sync = "step", *stream = "own";
    ex_options(argc, argv, usage, &o.pace,
               (struct ex_option[]){{.name = "sync", .text = &sync},
                                    {.name = "graph", .flag = &o.graph},
                                    {.name = "changing", .flag = &o.changing},
                                    {.name = "resized", .flag = &o.resized},
                                    {.name = "never-repeat", .flag = &o.never_repeat},
                                    {.name = "stream", .text = &stream},
                                    {.name = "memsets", .flag = &o.memsets},
                                    {.name = "fork", .flag = &o.fork},
                                    {.name = "timing", .flag = &o.timing},
                                    {.name = "gpu-us", .number = &o.gpu_us, .least = 1},
                                    {.name = "size", .number = &o.size, .least = 1},
                                    {.name = "kernels", .number = &o.kernels, .least = 1},
                                    {.name = "steps", .number = &o.steps, .least = 1},
                                    {.name = NULL}});
    if (!strcmp(sync, "kernel")) {
        o.sync = LOOP_SYNC_KERNEL;
    } else if (!strcmp(sync, "step")) {
        o.sync = LOOP_SYNC_STEP;
    } else if (!strcmp(sync, "poll")) {
        o.sync = LOOP_SYNC_POLL;
    } else if (!strcmp(sync, "none")) {
        o.sync = LOOP_SYNC_NONE;
    } else {
        fail("--sync is kernel, step, poll or none");
    }
    if (!strcmp(stream, "own")) {
        o.stream = LOOP_STREAM_OWN;
    } else if (!strcmp(stream, "legacy")) {
        o.stream = LOOP_STREAM_LEGACY;
    } else if (!strcmp(stream, "per-thread")) {
        o.stream = LOOP_STREAM_PER_THREAD;
    } else {
        fail("--stream is own, legacy or per-thread");
    }
    if (o.graph && (o.changing || o.resized || o.never_repeat || o.stream != LOOP_STREAM_OWN ||
                    o.sync == LOOP_SYNC_KERNEL)) {
        fail("--graph goes with --sync=step, poll and none only, on a stream of its own");
    }
    if (o.sync == LOOP_SYNC_POLL && (o.memsets || o.changing || o.resized || o.never_repeat)) {
        fail("--sync=poll goes with plain kernels only");
    }
    if (o.fork && (o.stream != LOOP_STREAM_OWN || o.memsets ||
                   (o.sync != LOOP_SYNC_STEP && o.sync != LOOP_SYNC_NONE))) {
        fail("--fork goes with --sync=step and --sync=none only, on streams of its own");
    }
    if (o.fork && o.size % 2) {
        fail("--fork needs an even --size");
    }
    if (o.timing && o.sync != LOOP_SYNC_STEP) {
        fail("--timing goes with --sync=step only");
    }
    if (o.memsets && o.gpu_us) {
        fail("--memsets and --gpu-us do not go together");
    }
    ex_launches_per_step(loop_ops(&o));
    return o;
}

struct loop_launch loop_launch_at(const struct loop_options *options, uint32_t step,
                                  uint32_t kernel)
{
    struct loop_launch launch = {.grid = ((unsigned int)options->size + BLOCK - 1) / BLOCK,
                                 .block = BLOCK,
                                 .mul = 1664525u + 8 * kernel,
                                 .add = 1013904223u + 97 * kernel};
    if (options->sync == LOOP_SYNC_POLL && kernel == (uint32_t)options->kernels) {
        launch.block = 32; /* it maps a word */
    }
    if (options->changing) {
        launch.add += 31 * step;
    }
    if (options->resized) {
        launch.grid = 1 + ex_hash(step + 1) % 997;
    }
    if (options->never_repeat) {
        uint32_t random = ex_hash(step * 4099u + kernel + 1);
        launch.grid = 1 + random % 61;
        launch.block = 32 * (1 + (random >> 8) % 16);
        launch.add = random;
    }
    if (options->memsets) {
        /* All bytes alike: the runtime's memset knows no other pattern. */
        launch.add = 0x01010101u * (launch.add & 0xff);
    }
    return launch;
}

int loop_ops(const struct loop_options *options)
{
    if (options->memsets) {
        return 2 * options->kernels;
    }
    if (options->sync == LOOP_SYNC_POLL) {
        return options->kernels + 1;
    }
    return options->fork ? 2 * options->kernels - 1 : options->kernels;
}

uint32_t loop_poll(const struct loop_launch *last, const uint32_t *word, uint32_t was)
{
    uint32_t becomes = last->mul * was + last->add;
    ex_wait_begin();
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != becomes) {
    }
    ex_wait_end();
    return becomes;
}

uint32_t *loop_initial(const struct loop_options *options)
{
    uint32_t *data = malloc((size_t)options->size * sizeof *data);
    if (!data) {
        perror("malloc");
        exit(1);
    }
    for (int i = 0; i < options->size; i++) {
        data[i] = (uint32_t)i;
    }
    return data;
}

/* Whether `data` is what `steps` steps make of the initial memory, bit for bit. */
static bool loop_correct(const struct loop_options *options, uint32_t steps, const uint32_t *data)
{
    uint32_t mul = 1, add = 0;
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t kernel = 0; kernel < (uint32_t)options->kernels; kernel++) {
            struct loop_launch launch = loop_launch_at(options, step, kernel);
            mul = launch.mul * mul;
            add = launch.mul * add + launch.add;
        }
    }
    for (int i = 0; i < options->size; i++) {
        uint32_t expected = mul * (uint32_t)i + add;
        if (data[i] != expected) {
            fprintf(stderr, "loop: element %d is %u and not %u\n", i, data[i], expected);
            return false;
        }
    }
    return true;
}

int loop_result(const struct loop_options *options, const char *binding, double us_per_launch,
                uint32_t steps, const uint32_t *data)
{
    static const char *const sync_names[] = {"sync-kernel", "sync-step", "poll", "no-sync"};
    static const char *const stream_names[] = {"", "-legacy-stream", "-per-thread-stream"};
    char variant[160];
    snprintf(variant, sizeof variant, "%s%s%s%s%s%s%s%s%s%s", sync_names[options->sync],
             options->graph ? "-graph" : "", options->changing ? "-changing" : "",
             options->resized ? "-resized" : "", options->never_repeat ? "-never-repeat" : "",
             stream_names[options->stream], options->memsets ? "-memsets" : "",
             options->fork ? "-fork" : "", options->timing ? "-timing" : "",
             options->gpu_us ? "-busy" : "");
    return ex_result("loop", binding, variant, us_per_launch,
                     ex_checksum(data, (size_t)options->size * sizeof *data),
                     loop_correct(options, steps, data));
}
