/*
 * example.h - what every example needs besides CUDA: repetitions, medians, checksums, one result
 * line.
 *
 * The result line is for machines and stays stable, on one line:
 *   RESULT name=loop binding=driver variant=sync-step us_per_launch=4.310
 *     checksum=0x0123456789abcdef check=ok per_step=20
 * With --paced a program stops before each repetition, prints "READY" and waits for a line on
 * stdin, and prints "TIME <us per launch> HOST <us per launch>" after it: the second is the time
 * without that in ex_wait_begin .. ex_wait_end, HOST being left out where the program has no such
 * places. A harness can so run several programs turn by turn.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ex_pace {
    int repetitions; /* measured; one more runs before them and is not measured */
    bool paced;
};

/* Wall-clock time in microseconds from an arbitrary start. */
double ex_now_us(void);

/* Runs `repetition(arg)` once to warm up and then pace->repetitions times. It returns how many
 * launches it made, with the GPU idle again. Returns the median of the microseconds a launch. */
double ex_measure(const struct ex_pace *pace, double (*repetition)(void *), void *arg);

/* Around each call in which the program waits for the GPU: what is left of a repetition is the time
 * that its host needs to submit the work. */
void ex_wait_begin(void);
void ex_wait_end(void);

/* How many launches make one step of the program; 1 where this is not said. */
void ex_launches_per_step(int launches);

/* FNV-1a over bytes. */
uint64_t ex_checksum(const void *data, size_t bytes);

/* A reproducible well-mixed value of `x`. */
uint32_t ex_hash(uint32_t x);

/* Prints the result line; returns the exit status of the program: 0 where `correct`, else 1. */
int ex_result(const char *name, const char *binding, const char *variant, double us_per_launch,
              uint64_t checksum, bool correct);

/* An option of the command line. One of the three is not NULL and takes the value. */
struct ex_option {
    const char *name; /* without dashes; NULL behind the last option */
    int *number;      /* --name=N, N being `least` or more */
    int least;
    bool *flag;        /* --name */
    const char **text; /* --name=TEXT */
};

/* Reads the command line: these options (16 at most) and what all examples take, --reps=N, --paced
 * and --help. Anything else is an error: it is said with the usage, and the exit status is 2. */
void ex_options(int argc, char **argv, const char *usage, struct ex_pace *pace,
                const struct ex_option *options);

/* Says why with the usage, and exits with status 2. */
__attribute__((noreturn)) void ex_refuse(const char *why, const char *usage);

/* A number from the command line, at least `least`; otherwise says so and exits with status 2. */
long ex_number(const char *option, const char *text, long least);

/* The path of a file that lies beside the running program. The caller frees it. */
char *ex_beside_program(const char *file);

#ifdef __cplusplus
}
#endif
