/* told.h - reading what preload/ told fake_capture.c. */
#pragma once

/* Opens the channel; before the driver is first looked up. */
void told_open(void);
/* Everything since the last call, as lines. Valid until the next call. */
const char *told(void);
