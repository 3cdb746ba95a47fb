/* example.c - see example.h. */
#define _GNU_SOURCE
#include "example.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double waited_us; /* of the repetition that is running */
static double wait_started;
static bool waits;
static int per_step = 1;

double ex_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

void ex_wait_begin(void)
{
    waits = true;
    wait_started = ex_now_us();
}

void ex_wait_end(void)
{
    waited_us += ex_now_us() - wait_started;
}

void ex_launches_per_step(int launches)
{
    per_step = launches;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Waits until the harness wants the next repetition. A closed stdin means that nobody will ask any
 * more: the program then runs on by itself, so that it always ends. */
static void wait_for_turn(void)
{
    char line[64];
    printf("READY\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) {
        clearerr(stdin);
    }
}

double ex_measure(const struct ex_pace *pace, double (*repetition)(void *), void *arg)
{
    double *times = calloc((size_t)pace->repetitions, sizeof *times);
    if (!times) {
        perror("calloc");
        exit(1);
    }
    repetition(arg);
    for (int i = 0; i < pace->repetitions; i++) {
        if (pace->paced) {
            wait_for_turn();
        }
        waited_us = 0.0;
        double start = ex_now_us();
        double launches = repetition(arg);
        double took = ex_now_us() - start;
        times[i] = took / launches;
        if (pace->paced) {
            printf("TIME %.4f", times[i]);
            if (waits) {
                printf(" HOST %.4f", (took - waited_us) / launches);
            }
            printf("\n");
            fflush(stdout);
        }
    }
    double result = median(times, pace->repetitions);
    free(times);
    return result;
}

uint64_t ex_checksum(const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    }
    return hash;
}

uint32_t ex_hash(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

int ex_result(const char *name, const char *binding, const char *variant, double us_per_launch,
              uint64_t checksum, bool correct)
{
    printf("RESULT name=%s binding=%s variant=%s us_per_launch=%.4f checksum=0x%016llx check=%s "
           "per_step=%d\n",
           name, binding, variant, us_per_launch, (unsigned long long)checksum,
           correct ? "ok" : "WRONG", per_step);
    fflush(stdout);
    return correct ? 0 : 1;
}

long ex_number(const char *option, const char *text, long least)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < least || value > INT_MAX) {
        fprintf(stderr, "%s: a whole number of at least %ld is needed, not '%s'\n", option, least,
                text);
        exit(2);
    }
    return value;
}

void ex_refuse(const char *why, const char *usage)
{
    fprintf(stderr, "%s\n%s", why, usage);
    exit(2);
}

void ex_options(int argc, char **argv, const char *usage, struct ex_pace *pace,
                const struct ex_option *options)
{
    enum { MOST = 16, HELP = MOST, REPS, PACED };
    struct option names[MOST + 4] = {{"help", no_argument, NULL, HELP},
                                     {"reps", required_argument, NULL, REPS},
                                     {"paced", no_argument, NULL, PACED}};
    int which;
    for (int i = 0; options[i].name; i++) {
        names[3 + i] = (struct option){options[i].name,
                                       options[i].flag ? no_argument : required_argument, NULL, i};
    }
    while ((which = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (which == HELP) {
            fputs(usage, stdout);
            exit(0);
        } else if (which == REPS) {
            pace->repetitions = (int)ex_number("--reps", optarg, 1);
        } else if (which == PACED) {
            pace->paced = true;
        } else if (which == '?') {
            fputs(usage, stderr); /* getopt_long has said why */
            exit(2);
        } else if (options[which].flag) {
            *options[which].flag = true;
        } else if (options[which].text) {
            *options[which].text = optarg;
        } else {
            char name[64];
            snprintf(name, sizeof name, "--%s", options[which].name);
            *options[which].number = (int)ex_number(name, optarg, options[which].least);
        }
    }
    if (optind != argc) {
        ex_refuse("no arguments are taken", usage);
    }
}

char *ex_beside_program(const char *file)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0) {
        perror("/proc/self/exe");
        exit(1);
    }
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    char *path = NULL;
    if (asprintf(&path, "%.*s/%s", (int)(slash - program), program, file) < 0) {
        perror("asprintf");
        exit(1);
    }
    return path;
}
