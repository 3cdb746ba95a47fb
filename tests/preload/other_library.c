/* other_library.c - a library that is no driver and yet has names like one. */
__attribute__((visibility("default"))) int cuMemAlloc_v2(void);
__attribute__((visibility("default"))) int cudnnCreate(void);

int cuMemAlloc_v2(void)
{
    return 4711;
}

int cudnnCreate(void)
{
    return 0;
}
