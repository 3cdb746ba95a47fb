/* dlsym.h - the dlsym that programs see. dlsym_<architecture>.S holds the entry itself. */
#pragma once

/* dlsym of a name cu[A-Z]* with an explicit handle. `caller` is the return address of the call. */
void *ag_dlsym_cuda(void *handle, const char *name, const void *caller);
