/* builder.h - the part of graph.h's builder that the process's life needs. */
#ifndef AG_BUILDER_H
#define AG_BUILDER_H

/* Something that kept the builder waiting (a capture of the program's) has ended. */
void ag_builder_wake(void);

#endif
