/* builder.h - what builder.c needs before, and waking its thread; what is asked of it is in
 * graph.h. */
#ifndef AG_BUILDER_H
#define AG_BUILDER_H

/* Something that kept the builder waiting (a capture of the program's) has ended, or there is
 * something to destroy. */
void ag_builder_wake(void);

struct ag_stream;
/* What building needs and had better not be made behind the program's back, nor where the GPU may
 * be waiting for the program: in a call of the program's that may load kernels itself, and again
 * where that could not be. */
void ag_builder_prepare(const struct ag_stream *s);

#endif
