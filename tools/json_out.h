/*
 * json_out.h - writes JSON directly, for millions of small objects. Texts must be valid UTF-8
 * without control characters, as dump.h's are.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

void json_raw(FILE *out, const char *text);
void json_escaped(FILE *out, const char *text); /* within double quotes */
void json_number(FILE *out, uint64_t n);
/* ,"name":value */
void json_add_number(FILE *out, const char *name, uint64_t n);
void json_add_us(FILE *out, const char *name, uint64_t ns); /* nanoseconds as microseconds */
void json_add_text(FILE *out, const char *name, const char *text);
