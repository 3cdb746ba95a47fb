/* attached.h - tools that watch or change how this process uses the GPU. */
#ifndef AG_ATTACHED_H
#define AG_ATTACHED_H

/* What is attached to this process at its first sight of the driver, as a sentence; NULL if
 * nothing. */
const char *ag_attached_tool(void);

#endif
