/* log.h - log lines: one line with a prefix per event, on stderr or in AUTOGRAPH_LOG_FILE. Never
 * on the hot path. */
#pragma once

#include "capture/settings/options.h"

enum { AG_LOG_OFF, AG_LOG_WARN, AG_LOG_INFO, AG_LOG_DEBUG };

/* Looks whether there is a standard error. Call it before the program can open a file. */
void ag_log_look(void);

/* Prints at every log level: for bad settings and the summary that the user asked for. */
void ag_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ag_log_line(const char *domain, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* `domain` is one word: start, build, flush, context, invalidate. */
#define ag_warn(domain, ...)  ag_log_at(AG_LOG_WARN, domain, __VA_ARGS__)
#define ag_info(domain, ...)  ag_log_at(AG_LOG_INFO, domain, __VA_ARGS__)
#define ag_debug(domain, ...) ag_log_at(AG_LOG_DEBUG, domain, __VA_ARGS__)
#define ag_log_at(level, domain, ...)                                                              \
    do {                                                                                           \
        if (__builtin_expect(ag_options.log_level >= (level), 0))                                  \
            ag_log_line(domain, __VA_ARGS__);                                                      \
    } while (0)

/* The rank that a launcher of many processes gave this one, as text; NULL if it has none. */
const char *ag_rank(void);
/* "program[pid]", with the rank if a launcher gave one. For lines that several processes print. */
const char *ag_process_name(char *text, size_t size);

/* Expands %p (pid), %r (rank, or 0), %h (host), %e (program's name) and %% in a path. Truncates
 * the result to `size`. */
void ag_expand_path(const char *pattern, char *path, size_t size);
/* Moves a file that stays open away from the low numbers that programs count on: without standard
 * output the next file that is opened is that. Returns its number; -1 stays -1. */
int ag_keep_file(int fd);
/* Whether that is the file that was opened then. The program may have closed it, and the number is
 * another file's. */
struct stat;
bool ag_file_is_still(int fd, const struct stat *opened);
