/* option_table.c - prints the table of variables as README shows it. */
#include "capture/settings/options.h"
#include <stdio.h>

int main(void)
{
    struct ag_option_row row;
    puts("| variable | default | range | meaning |\n| --- | --- | --- | --- |");
    for (size_t i = 0; ag_options_row(i, &row) == 0; i++) {
        printf("| `%s` | %s | ", row.variable, *row.preset ? row.preset : "-");
        for (const char *c = row.range; *c; c++) /* a bar would end the cell */
            fputs(*c == '|' ? ", " : (char[]){*c, 0}, stdout);
        printf(" | %s |\n", row.help);
    }
    return 0;
}
