/* told.c - reading what preload/ told fake_capture.c. */
#define _GNU_SOURCE
#include "told.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int ends[2] = {-1, -1};

void told_open(void)
{
    char number[16];
    if (pipe2(ends, O_NONBLOCK) != 0)
        abort();
    snprintf(number, sizeof(number), "%d", ends[1]);
    setenv("AG_TEST_FD", number, 1);
}

const char *told(void)
{
    static char text[65536];
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    return text;
}
