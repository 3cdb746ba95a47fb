/*
 * tools.h - the verbs of the command. Each gets its own argument list, with its name in argv[0],
 * and returns the exit status: 0, 1 if something failed, or 2 for a wrong call.
 */
#pragma once

#include "tools/dump_merge.h"
#include "tools/model.h"
#include "tools/table.h"
#include <argp.h>

int verb_run(int argc, char **argv);
int verb_report(int argc, char **argv);
int verb_timeline(int argc, char **argv);
int verb_graphs(int argc, char **argv);
int verb_html(int argc, char **argv);
int verb_diff(int argc, char **argv);
int verb_top(int argc, char **argv);
int verb_env(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_replay(int argc, char **argv);

/* The verb with the most similar spelling, or NULL. */
const char *nearest_verb(const char *name);

/* What verbs have in common: --format, --output, and names of dumps or of one program. */
struct common {
    struct table_wish wish;
    bool format_given;
    const char *output; /* NULL: standard output */
    int min_dumps, max_dumps;
    const char *dumps[DUMP_MOST_PROCESSES];
    int num_dumps;
    bool is_page;       /* what is written is not for the eye */
    bool takes_program; /* instead of dumps */
    const char *program;
};
/* The parser of these options, whose input is a struct common; a verb without a parser of its own
 * hands its input on. The second is without --format. */
extern const struct argp_child common_children[], page_children[];

/* Without --format the file's name says which. */
void common_format_by_name(struct common *c);

/* Opens the file that --output names, or standard output. Returns NULL if it cannot; a line has
 * then said why. */
FILE *common_open(const struct common *c);
/* Discards what was written there, because it is of no use: an incomplete file is not left behind.
 */
void common_discard(const struct common *c);
/* The same as common_open() for a file that gzip compresses; NULL with errno set. */
FILE *open_compressed(const char *path);
/* At exit a standard output that could not be written makes the exit status 1. */
void common_watch_output(void);
/* Closes the file. Returns whether everything that was written has arrived. */
bool common_close(const struct common *c, FILE *f);

/* Uses this program's settings. NULL: those of a program that the settings file does not name. */
void settings_of(const char *program);
/* The number in an option's text. If it is not a number, prints a line and ends the command. */
unsigned int option_number(struct argp_state *state, const char *text);
/* The same for the format of tables. */
enum table_format option_format(struct argp_state *state, const char *text);
/* The library that belongs to this command: an absolute path in static memory, or NULL. */
const char *find_library(const char *wanted);

/* Runs a dump's ops through the policy, and prints what the policy made of them. */
int replay_dump(const struct dump *d, struct table_output *o);
/* "abc, def x3, ..." for a sequence */
void sequence_names(const struct model *m, const struct model_sequence *s, char *text, size_t size);
