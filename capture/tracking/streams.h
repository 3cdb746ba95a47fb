/* streams.h - the table of streams, for stream.c and streams.c alone. */
#ifndef AG_STREAMS_H
#define AG_STREAMS_H

#include "capture/tracking/stream.h"

extern struct ag_stream_table {
    struct ag_lock lock;      /* for all of it, and `next`, `prev`, `chained` of streams */
    struct ag_stream *newest; /* the first of all, linked by `next` */
    size_t count, parked;     /* of all; of those that are parked */
    uint64_t last_serial;
} ag_stream_table;

#endif
