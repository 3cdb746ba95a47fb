/* plugin.c - a library bound with -lcuda. It uses the driver as soon as it is loaded. */
int cuCtxSynchronize(void);
__attribute__((visibility("default"))) int ag_test_first(void);
__attribute__((visibility("default"))) int ag_test_again(void);

static int first = -1;

static void __attribute__((constructor)) loaded(void)
{
    first = cuCtxSynchronize();
}

int ag_test_first(void)
{
    return first;
}

int ag_test_again(void)
{
    return cuCtxSynchronize();
}
