/* own_pointers_main.c - see own_pointers.c. */
#include <stdio.h>

#include "own_pointers.h"

int main(void)
{
    printf("own %d\n", own_pointers());
    return 0;
}
