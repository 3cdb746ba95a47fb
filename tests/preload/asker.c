/* asker.c - asks for an export table, as the library that it is built as would. */
#include <stddef.h>

typedef int (*getter)(const void **, const unsigned char *);

__attribute__((visibility("default"))) const void *ask(getter get, const unsigned char *id);

const void *ask(getter get, const unsigned char *id)
{
    const void *table = NULL;
    return get(&table, id) == 0 ? table : NULL;
}
