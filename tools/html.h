/* html.h - what the parts of the page share. */
#ifndef AG_TOOLS_HTML_H
#define AG_TOOLS_HTML_H

#include "tools/model.h"

void html_text(FILE *out, const char *text); /* with what is special to HTML escaped */
/* A number with commas between thousands; good until the fourth call after this. */
const char *html_grouped(uint64_t n);
/* A heading, and how the sequences that saved most are cut into graphs. */
void html_pictures(const struct model *m, FILE *out);

#endif
