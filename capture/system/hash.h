/* hash.h - uthash. By default it ends the program if memory runs out. With this, `hh.tbl` stays
 * NULL after adding. */
#pragma once

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
