/*
 * trace_file.h - the inside of the dump writer: the file, the definitions that wait to be written,
 * and the rings of the threads. trace.c says what the events mean.
 */
#ifndef AG_TRACE_FILE_H
#define AG_TRACE_FILE_H

#include "capture/trace_format.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- trace_file.c: one thread at a time ------------------------------------------------- */

/* Creates the dump, or takes over an old one. False: one line has said why not. */
bool ag_dump_open(const char *path, uint64_t limit);
/* Appends one chunk made of two parts. False where the dump is full or broken (said once): nothing
 * more can be written, but for `last` chunks, for which room is kept. */
bool ag_dump_write(uint32_t type, const void *head, size_t head_size, const void *body,
                   size_t body_size, bool last);
void ag_dump_close(void);
uint64_t ag_dump_size(void);
const char *ag_dump_path(void);
bool ag_dump_is_full(void);

/* ---- trace_ring.c ----------------------------------------------------------------------- */

/* What must be known before the events that name it; any thread. */
void ag_trace_define(uint32_t type, const void *head, size_t head_size, const void *body,
                     size_t body_size);
void ag_trace_push(const struct ag_dump_event *event);
/* Ends the writer's thread and writes what is left. */
void ag_trace_drain(void);
/* No event is taken from now on: the dump is full or broken. Called by the writer. */
void ag_trace_give_up(void);

/* ---- trace_site.c ----------------------------------------------------------------------- */

void ag_trace_sites_start(void);
/* Id of the place in the program that called into the library; 0 where it was not looked at. */
uint32_t ag_trace_site(void);
/* Defines the sites that were met since the last time. The writer's. */
void ag_trace_sites_define(void);

/* trace.c: the id of a text, defined if it is new. */
uint32_t ag_trace_string(const char *text);

#endif
