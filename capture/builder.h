/* builder.h - waking the thread of builder.c; what is asked of it is in graph.h. */
#ifndef AG_BUILDER_H
#define AG_BUILDER_H

/* Something that kept the builder waiting (a capture of the program's) has ended, or there is
 * something to destroy. */
void ag_builder_wake(void);

#endif
