/*
 * trace_file.c - the dump's file: opened with care, limited in size, each chunk with its checksum.
 *
 * The user chooses the path, but the folder may be open to everybody (/tmp). So the library
 * follows no symbolic link in a folder that others can write to. It replaces an existing file only
 * if that file is a dump, belongs to this user, and nobody is writing to it.
 */
#include "capture/trace/trace_file.h"
#include "capture/system/clock.h"
#include "capture/trace/live.h"
#include "capture/system/lock.h"
#include "capture/settings/bounded.h"
#include "capture/settings/log.h"
#include "capture/trace/trace_format.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { LAST_ROOM = 64 << 10 }; /* reserved for the counters and the end */

static int fd = -1;
static struct stat opened;
static uint64_t size;
static uint64_t marked; /* see ag_dump_mark() */
static uint64_t limit;
static const char *limited_by;
static bool full, broken, keeps_others;
static char path[4096];
static uint32_t crc_tables[8][256];

/* ---- checksum --------------------------------------------------------------------------- */

static void crc_start(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
        crc_tables[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            crc_tables[k][i] =
                crc_tables[0][crc_tables[k - 1][i] & 255] ^ (crc_tables[k - 1][i] >> 8);
}

/* Takes eight bytes at a time, because the writer must keep up with several threads. */
static uint32_t crc_add(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *at = data;
    for (; n >= 8; n -= 8, at += 8) {
        uint32_t low, high;
        memcpy(&low, at, 4);
        memcpy(&high, at + 4, 4);
        low ^= crc;
        crc = crc_tables[7][low & 255] ^ crc_tables[6][low >> 8 & 255] ^
              crc_tables[5][low >> 16 & 255] ^ crc_tables[4][low >> 24] ^
              crc_tables[3][high & 255] ^ crc_tables[2][high >> 8 & 255] ^
              crc_tables[1][high >> 16 & 255] ^ crc_tables[0][high >> 24];
    }
    for (; n; n--, at++)
        crc = crc_tables[0][(crc ^ *at) & 255] ^ (crc >> 8);
    return crc;
}

/* ---- opening ---------------------------------------------------------------------------- */

/* Whether others may have put things in this folder. */
static bool is_shared(const struct stat *st)
{
    return st->st_mode & (S_IWOTH | S_IWGRP) && (st->st_mode & S_IWOTH || st->st_gid != getegid());
}

/* Opens the folder of `name`, one link at a time; `name` becomes the part after the last slash.
 * Returns -1 with errno on failure: ELOOP for a link that anybody could have put there. */
static int open_folder(char **name)
{
    char *at = *name;
    int dir = open(*at == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (char *slash; dir >= 0 && (slash = strchr(at, '/')); at = slash + 1) {
        *slash = 0;
        if (!*at)
            continue;
        struct stat folder, entry;
        int next = -1;
        if (fstat(dir, &folder) || fstatat(dir, at, &entry, AT_SYMLINK_NOFOLLOW)) {
            /* errno has the reason */
        } else if (S_ISLNK(entry.st_mode) && is_shared(&folder)) {
            errno = ELOOP;
        } else {
            next = openat(dir, at, O_PATH | O_DIRECTORY | O_CLOEXEC);
        }
        int why = errno;
        close(dir);
        dir = next;
        errno = why;
    }
    *name = at;
    return dir;
}

static const char busy[] = "another process is writing it";

/* Why this file must not be replaced, or NULL if it may be. */
static const char *objection(int file)
{
    struct stat st;
    char magic[AG_DUMP_MAGIC_SIZE];
    if (fstat(file, &st))
        return strerror(errno);
    if (!S_ISREG(st.st_mode))
        return "not a regular file";
    if (st.st_uid != geteuid())
        return "it is there already, and another user's";
    if (st.st_nlink > 1)
        return "it is there already, under a second name too";
    if (flock(file, LOCK_EX | LOCK_NB))
        return busy;
    if (st.st_size && (pread(file, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
                       memcmp(magic, AG_DUMP_MAGIC, sizeof(magic))))
        return "it is there already, and not a dump";
    if (st.st_size && keeps_others)
        return "it is there already, and this process has launched nothing";
    return ftruncate(file, 0) ? strerror(errno) : NULL;
}

void ag_dump_keep_others(void)
{
    keeps_others = true;
}

/* Inserts ".WORD" into the name before its ending. Without room, the name stays as it is. */
static void add_to_name(const char *word)
{
    char ending[256] = "";
    char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    size_t n = strlen(path);
    if (n + strlen(word) + 2 > sizeof(path))
        return;
    if (dot && dot != name && strlen(dot) < sizeof(ending)) {
        memcpy(ending, dot, strlen(dot) + 1);
        n = (size_t)(dot - path);
    }
    snprintf(path + n, sizeof(path) - n, ".%s%s", word, ending);
}

static void add_pid_to_name(void)
{
    char word[32];
    snprintf(word, sizeof(word), "%d", (int)getpid());
    add_to_name(word);
    ag_live_claim_dump(path);
}

/* Gives each rank its own name; and each process its own name if another one has or had this name.
 */
static void choose_name(const char *pattern)
{
    char word[32];
    ag_expand_path(pattern, path, sizeof(path));
    if (ag_rank() && !strstr(pattern, "%r") && !strstr(pattern, "%p")) {
        snprintf(word, sizeof(word), "rank%s", ag_rank());
        add_to_name(word);
    }
    if (!ag_live_claim_dump(path))
        add_pid_to_name();
}

static int open_file(const char **why)
{
    char copy[sizeof(path)], *name = copy;
    memcpy(copy, path, sizeof(copy));
    int dir = open_folder(&name);
    if (dir < 0) {
        *why = errno == ELOOP ? "a symbolic link in a folder that others can write to"
                              : strerror(errno);
        return -1;
    }
    int file = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file >= 0) {
        if (flock(file, LOCK_EX | LOCK_NB)) {
            /* the file system has no locks: the user must keep two processes from using one name */
        }
    } else if (errno == EEXIST) {
        file = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        *why =
            file < 0 ? errno == ELOOP ? "it is a symbolic link" : strerror(errno) : objection(file);
        if (file >= 0 && *why) {
            close(file);
            file = -1;
        }
    } else {
        *why = strerror(errno);
    }
    close(dir);
    return ag_keep_file(file);
}

/* ---- writing ---------------------------------------------------------------------------- */

void ag_dump_mark(void)
{
    marked = size;
}

static void cut_back(void)
{
    size = marked;
    if (ftruncate(fd, (off_t)marked)) {
        /* a reader stops at a torn chunk too */
    }
}

static bool put(struct iovec *parts, int count)
{
    uint64_t wanted = 0, done = 0;
    struct ag_bounded bounded;
    for (int i = 0; i < count; i++)
        wanted += parts[i].iov_len;
    while (done < wanted) {
        ag_bounded_begin(&bounded);
        ssize_t n = pwritev(fd, parts, count, (off_t)(size + done));
        ag_bounded_end(&bounded, n < 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int why = n ? errno : ENOSPC;
            broken = true;
            ag_say("AUTOGRAPH_TRACE: cannot write %s: %s; it ends here", path, strerror(why));
            cut_back();
            return false;
        }
        done += (uint64_t)n;
        for (size_t left = (size_t)n; left && count;) {
            size_t step = left < parts->iov_len ? left : parts->iov_len;
            parts->iov_base = (char *)parts->iov_base + step;
            parts->iov_len -= step;
            left -= step;
            if (!parts->iov_len) {
                parts++;
                count--;
            }
        }
    }
    size += wanted;
    return true;
}

/* Whether the program has closed the file. Its number is then nobody's, or a file of the program's
 * own. */
static bool is_lost(void)
{
    if (ag_file_is_still(fd, &opened))
        return false;
    fd = -1;
    ag_say("AUTOGRAPH_TRACE: the program has closed %s; it ends here", path);
    return true;
}

bool ag_dump_write(uint32_t type, const void *head, size_t head_size, const void *body,
                   size_t body_size, bool last)
{
    static const char zeros[8];
    size_t length = head_size + body_size, padding = -length & 7;
    struct ag_dump_chunk chunk = {AG_DUMP_MARK, type, (uint32_t)length, 0};
    if (fd < 0 || broken || (full && !last) || is_lost())
        return false;
    if (last ? size + sizeof(chunk) + length + padding > limit
             : size + sizeof(chunk) + length + padding + LAST_ROOM > limit) {
        full = true;
        if (!last) {
            ag_say("AUTOGRAPH_TRACE: %s has reached %s (%.6g MiB); it ends here", path, limited_by,
                   (double)limit / 1048576.0);
            cut_back();
        }
        return false;
    }
    uint32_t crc = crc_add(~0u, &chunk.type, 8);
    crc = crc_add(crc, head, head_size);
    chunk.crc = ~crc_add(crc, body, body_size);
    struct iovec parts[4] = {{&chunk, sizeof(chunk)},
                             {(void *)(uintptr_t)head, head_size},
                             {(void *)(uintptr_t)body, body_size},
                             {(void *)(uintptr_t)zeros, padding}};
    return put(parts, 4);
}

bool ag_dump_open(const char *pattern, uint64_t most)
{
    const char *why = "no file name";
    choose_name(pattern);
    fd = open_file(&why);
    if (fd < 0 && why == busy) {
        add_pid_to_name();
        fd = open_file(&why);
    }
    if (fd < 0) {
        ag_say("AUTOGRAPH_TRACE: cannot write %s: %s; going on without", path, why);
        return false;
    }
    fstat(fd, &opened);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    struct ag_dump_header header = {.magic = AG_DUMP_MAGIC,
                                    .version = AG_DUMP_VERSION,
                                    .header_size = sizeof(header),
                                    .wall_ns =
                                        (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec,
                                    .clock_ns = ag_clock_ns(),
                                    .pid = (uint32_t)getpid()};
    struct iovec part = {&header, sizeof(header)};
    limit = most;
    limited_by = "AUTOGRAPH_TRACE_MB";
    struct rlimit size_limit;
    if (!getrlimit(RLIMIT_FSIZE, &size_limit) && size_limit.rlim_cur < limit) {
        limit = size_limit.rlim_cur;
        limited_by = "the system's limit on the size of files, ulimit -f";
    }
    crc_start();
    bool good = put(&part, 1);
    ag_dump_mark();
    return good;
}

void ag_lines_add(struct ag_lines *l, const char *name, const char *format, ...)
{
    char line[1200];
    va_list args;
    int n = snprintf(line, sizeof(line), "%s=", name);
    va_start(args, format);
    n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, args);
    va_end(args);
    size_t bytes = (n < (int)sizeof(line) ? (size_t)n : sizeof(line) - 1) + 1;
    if (l->used + bytes > sizeof(l->text))
        return;
    memcpy(l->text + l->used, line, bytes);
    l->used += bytes;
}

/* The path as a shell takes it for one word, and the command for no option. */
static const char *as_word(char *text, size_t room)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+=:,@%";
    if (*path != '-' && !path[strspn(path, plain)])
        return path;
    size_t n = (size_t)snprintf(text, room, "'%s", *path == '-' ? "./" : "");
    for (const char *p = path; *p && n + 6 < room; p++)
        n += (size_t)snprintf(text + n, room - n, *p == '\'' ? "'\\''" : "%c", *p);
    snprintf(text + n, room - n, "'");
    return text;
}

void ag_dump_close(const struct ag_lines *counters)
{
    char process[128], word[1024];
    ag_dump_write(AG_DUMP_COUNTERS, counters->text, counters->used, NULL, 0, true);
    const char *why = full ? "full" : "exit";
    ag_dump_write(AG_DUMP_END, why, strlen(why), NULL, 0, true);
    if (ag_options.stats)
        ag_say("%s: dump: %s (%.1f MiB); look at it with: autograph report %s",
               ag_process_name(process, sizeof(process)), path, (double)size / 1048576.0,
               as_word(word, sizeof(word)));
    if (fd >= 0 && !is_lost())
        close(fd);
    fd = -1;
}
