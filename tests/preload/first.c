/* first.c - a library that the loader starts first. Its start-up code is what matters. */
extern int preload_first;
int preload_first;
