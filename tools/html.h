/* html.h - what the sources of the HTML page share. */
#pragma once

#include "tools/model.h"

void html_text(FILE *out, const char *text); /* escapes what is special to HTML */
/* A number with commas between thousands. The text is valid until the fourth call after this one.
 */
const char *html_grouped(uint64_t n);
/* Writes a heading, and pictures of how the sequences that saved most are cut into graphs. */
void html_pictures(const struct model *m, FILE *out);
