/* waiting_plugin.c - see loading.c. */
void loading_constructor(void);
int cuCtxSynchronize(void);

static void __attribute__((constructor)) loaded(void)
{
    loading_constructor();
    cuCtxSynchronize();
}
