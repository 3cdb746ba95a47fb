/* substitute.h - the driver's addresses and what is handed out in their place. */
#ifndef AG_SUBSTITUTE_H
#define AG_SUBSTITUTE_H

#include <stdbool.h>
#include <stdint.h>

/* Builds the address table from ag_real[], of a driver that lies there. Once, under the loader's
 * lock. */
struct ag_object;
void ag_substitute_learn(const struct ag_object *driver);

/* The number of the symbol at one of the driver's addresses, or -1. */
int ag_symbol_at(const void *address);

/* Whether an address lies in the driver's image. */
bool ag_in_driver(const void *address);

/* Whether it is one of the driver's code. */
bool ag_in_driver_code(const void *address);

/* Whether it lies in this library: the loader answers hooks for the driver's names. */
bool ag_is_ours(const void *address);

/* What stands for a function of the driver's, `name`: a hook, the function itself where it needs
 * none, or a stub of the pool. Anything else stands for itself. */
void *ag_hook_of(void *address, const char *name);

/* The same for the answer of a look-up, which may be a hook already; says what nobody knows. The
 * mode must be FOUND or ON. */
void *ag_substitute(void *address, const char *name);

/* The driver's function that a hook stands for. */
void *ag_driver_function(void *hook);

/* What the name of an unknown entry point tells, by the number of its stub in the pool. */
enum ag_unknown {
    AG_UNKNOWN_CALL,
    AG_UNKNOWN_BEGINS_CAPTURE,
    AG_UNKNOWN_ENDS_CAPTURE,
    AG_UNKNOWN_CAPTURE_CALL /* it is about captures, in what way is not known */
};
enum ag_unknown ag_unknown_kind(uint32_t slot);

/* In the child of a fork: no lock is held by a thread that is gone. */
void ag_substitute_after_fork(void);

#endif
