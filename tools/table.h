/*
 * table.h - tables for people and for programs: text with headers in the style of `nsys stats`,
 * CSV, one JSON document, or JSON lines.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum table_format { TABLE_TEXT, TABLE_CSV, TABLE_JSON, TABLE_JSONL };

/* Returns -1 if `name` is none of text, csv, json, jsonl. */
int table_format(const char *name);

struct table_wish {
    enum table_format format;
    const char *table; /* only this one; NULL: all; in CSV, which has one table, `main` */
    const char *main;
    bool headless; /* CSV: the column heads were printed before */
};

/* Whether it goes to a terminal that knows codes for colours and for its cursor. */
bool table_knows_codes(FILE *out);

/* What a program prints: tables, and in text format also words between them. Text fits the
 * terminal, or 80 columns if there is none. */
struct table_output;
struct table_output *table_open(FILE *out, const struct table_wish *wish);
/* Prints what is still buffered. Returns false if there was no table of the wanted name; a line
 * has then said so. */
bool table_close(struct table_output *o);

/* Begins a table. `id` is its key for programs. `columns` are separated by |. A column that begins
 * with < holds text, aligned left; one that begins with ~ is left out of text output if there is
 * no room. Programs see columns under identifiers: "Share (%)" is share_percent. Cells then
 * follow, row by row. */
void table_begin(struct table_output *o, const char *id, const char *title, const char *columns);
void table_text(struct table_output *o, const char *text);
void table_none(struct table_output *o); /* a cell without a value */
/* Writes the first cell of a row, in a terminal colour ("31" is red) if the terminal has colours.
 */
void table_state(struct table_output *o, const char *text, const char *colour);
void table_number(struct table_output *o, uint64_t number);
void table_real(struct table_output *o, double number, int decimals);
void table_end(struct table_output *o);

/* Words around tables, which only people see. */
void table_say(struct table_output *o, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
