/* gprof.c - what a program that is built for gprof has of its own. */
__attribute__((visibility("default"))) void __gmon_start__(void);

void __gmon_start__(void)
{
}
