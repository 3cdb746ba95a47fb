/* names.c - see names.h. */
#include "tools/names.h"
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

/* The C++ ABI's demangler, in libstdc++. */
char *__cxa_demangle(const char *name, char *buffer, size_t *size, int *status);

struct known {
    char *text, *brief, *kernel;
    UT_hash_handle hh;
    char name[];
};

/* Cuts arguments off, and template arguments that are long. */
static char *shorten(const char *text)
{
    char *brief = malloc(strlen(text) + 4), *to = brief;
    if (!brief)
        return NULL;
    int angle = 0;
    const char *from = text;
    if (!strncmp(from, "void ", 5))
        from += 5;
    for (; *from; from++) {
        if (!strncmp(from, "(anonymous namespace)", 21)) {
            from += 20;
            continue;
        }
        if (*from == '<' && ++angle == 1) {
            const char *end = from;
            int depth = 0;
            for (; *end; end++) {
                depth += (*end == '<') - (*end == '>' && end[-1] != '-');
                if (!depth)
                    break;
            }
            bool brief_enough = end - from <= 24;
            if (!brief_enough) {
                memcpy(to, "<>", 2);
                to += 2;
            } else {
                memcpy(to, from, (size_t)(end - from));
                to += end - from;
                if (*end)
                    *to++ = '>';
            }
            angle = 0;
            from = *end ? end : end - 1;
            continue;
        }
        if (*from == '(' && to > brief)
            break;
        *to++ = *from;
    }
    while (to > brief + 2 && !strncmp(brief, "::", 2)) {
        memmove(brief, brief + 2, (size_t)(to - brief - 2));
        to -= 2;
    }
    *to = 0;
    return brief;
}

/* ---- kernels ---------------------------------------------------------------------------- */

static const char anonymous[] = "(anonymous namespace)";

/* Behind the bracket that closes the one at `from`, or the end. */
static const char *past_brackets(const char *from)
{
    int depth = 0;
    for (; *from; from++) {
        depth += strchr("<([{", *from) != NULL;
        if (strchr(">)]}", *from) && from[-1] != '-' && --depth == 0)
            return from + 1;
    }
    return from;
}

/* The last name of a path: "add" of "at::native::(anonymous namespace)::add<float>". Ends at the
 * first bracket that is not a part of the path; `*end` is there. */
static const char *last_name(const char *path, const char **end)
{
    const char *name = path;
    while (*path && *path != ',' && *path != '>' && *path != '{') {
        if (!strncmp(path, "::", 2)) {
            path += 2;
            name = path;
        } else if (!strncmp(path, anonymous, sizeof(anonymous) - 1)) {
            path += sizeof(anonymous) - 1;
        } else if (*path == '<' && !strncmp(past_brackets(path), "::", 2)) {
            path = past_brackets(path);
        } else if (*path == '<' || *path == '(') {
            break;
        } else {
            path++;
        }
    }
    *end = path;
    return name;
}

/* The first of template arguments that is a type of its own, as a functor or a tile is. It
 * distinguishes kernels. NULL: there is none. `args` begins with <. */
static const char *type_among(const char *args, const char **end)
{
    const char *at = args + 1, *stop = past_brackets(args) - 1;
    while (at < stop) {
        const char *name = last_name(at, end);
        if (name > at && *end > name)
            return name;
        while (at < stop && *at != ',')
            at = strchr("<([{", *at) ? past_brackets(at) : at + 1;
        at += at < stop;
        at += *at == ' ';
    }
    return NULL;
}

/* "reduce_kernel<ReduceOp<MeanOps>>": without name spaces and arguments, and with one template
 * argument where there are many. */
static char *kernel_name(const char *text)
{
    enum { BRIEF = 24 };
    const char *end, *arg_end, *inner_end = NULL;
    char *kernel;
    if (!strncmp(text, "void ", 5))
        text += 5;
    const char *name = last_name(text, &end);
    if (end == name)
        return strdup(text);
    int n = (int)(end - name);
    if (*end != '<')
        return asprintf(&kernel, "%.*s", n, name) < 0 ? NULL : kernel;
    const char *past = past_brackets(end);
    if (past - end <= BRIEF + 2)
        return asprintf(&kernel, "%.*s", (int)(past - name), name) < 0 ? NULL : kernel;
    const char *arg = type_among(end, &arg_end);
    if (!arg) {
        arg = end + 1;
        arg_end = arg + strcspn(arg, ",<>(");
    }
    const char *inner = *arg_end == '<' ? type_among(arg_end, &inner_end) : NULL;
    return asprintf(&kernel, "%.*s<%.*s%s%.*s%s>", n, name, (int)(arg_end - arg), arg,
                    inner ? "<" : "", inner ? (int)(inner_end - inner) : 0, inner ? inner : "",
                    inner ? ">" : "") < 0
               ? NULL
               : kernel;
}

static const struct known *look_up(const char *name)
{
    static struct known *all;
    struct known *k;
    size_t n = strlen(name);
    HASH_FIND(hh, all, name, n, k);
    if (k || !(k = malloc(sizeof(*k) + n + 1)))
        return k;
    memcpy(k->name, name, n + 1);
    int status = -1;
    k->text =
        !strncmp(name, "_Z", 2) && n < 8192 ? __cxa_demangle(name, NULL, NULL, &status) : NULL;
    if (!k->text)
        k->text = strdup(name);
    k->brief = k->text ? shorten(k->text) : NULL;
    k->kernel = k->text ? kernel_name(k->text) : NULL;
    HASH_ADD_KEYPTR(hh, all, k->name, n, k);
    return k;
}

/* A mangled C++ name as it was written; other names unchanged. */
static const char *demangle(const char *name)
{
    const struct known *k = look_up(name);
    return k && k->text ? k->text : name;
}

/* The same without the argument list, and without template arguments if they are long. */
static const char *brief(const char *name)
{
    const struct known *k = look_up(name);
    return k && k->brief && *k->brief ? k->brief : name;
}

const char *names_kernel(const char *name)
{
    const struct known *k = look_up(name);
    return k && k->kernel && *k->kernel ? k->kernel : name;
}

void names_of_signature(const struct dump *d, const struct ag_dump_signature *s, char *text,
                        size_t size)
{
    if (s->kind == AG_DUMP_MEMSET)
        snprintf(text, size, "memset %llu B",
                 (unsigned long long)s->width * s->elem_size * (s->height ? s->height : 1));
    else if (s->kind == AG_DUMP_COPY)
        snprintf(text, size, "copy %llu B", (unsigned long long)s->width);
    else if (s->kind == AG_DUMP_RECORD || s->kind == AG_DUMP_WAIT)
        snprintf(text, size, "%s", dump_string(d, s->name));
    else if (!s->dims[0] && !s->dims[1] && !s->dims[2])
        snprintf(text, size, "%s <<<any; %u,%u,%u>>>", names_kernel(dump_string(d, s->name)),
                 s->dims[3], s->dims[4], s->dims[5]);
    else
        snprintf(text, size, "%s <<<%u,%u,%u; %u,%u,%u>>>", names_kernel(dump_string(d, s->name)),
                 s->dims[0], s->dims[1], s->dims[2], s->dims[3], s->dims[4], s->dims[5]);
}

/* ---- functions of a file ---------------------------------------------------------------- */

struct function {
    uint64_t start, end;
    const char *name;
};

struct object {
    const unsigned char *bytes;
    size_t size;
    struct function *functions;
    size_t count;
    UT_hash_handle hh;
    char path[];
};

static int by_start(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static bool within(const struct object *o, uint64_t offset, uint64_t n)
{
    return offset <= o->size && n <= o->size - offset;
}

static void read_symbols(struct object *o, const Elf64_Shdr *table, const Elf64_Shdr *texts)
{
    if (!within(o, table->sh_offset, table->sh_size) ||
        !within(o, texts->sh_offset, texts->sh_size) || !texts->sh_size ||
        o->bytes[texts->sh_offset + texts->sh_size - 1])
        return;
    size_t n = table->sh_size / sizeof(Elf64_Sym);
    struct function *list = malloc((n + 1) * sizeof(*list));
    if (!list)
        return;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        Elf64_Sym s;
        memcpy(&s, o->bytes + table->sh_offset + i * sizeof(s), sizeof(s));
        if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_value && s.st_name < texts->sh_size)
            list[count++] =
                (struct function){s.st_value, s.st_value + s.st_size,
                                  (const char *)o->bytes + texts->sh_offset + s.st_name};
    }
    qsort(list, count, sizeof(*list), by_start);
    free(o->functions);
    o->functions = list;
    o->count = count;
}

static void read_object(struct object *o)
{
    Elf64_Ehdr e;
    if (o->size < sizeof(e))
        return;
    memcpy(&e, o->bytes, sizeof(e));
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
        e.e_shentsize != sizeof(Elf64_Shdr) ||
        !within(o, e.e_shoff, (uint64_t)e.e_shnum * sizeof(Elf64_Shdr)))
        return;
    for (int pass = 0; pass < 2 && !o->count; pass++) /* the full table first, if it is there */
        for (unsigned int i = 0; i < e.e_shnum; i++) {
            Elf64_Shdr table, texts;
            memcpy(&table, o->bytes + e.e_shoff + i * sizeof(table), sizeof(table));
            if (table.sh_type != (pass ? SHT_DYNSYM : SHT_SYMTAB) || table.sh_link >= e.e_shnum)
                continue;
            memcpy(&texts, o->bytes + e.e_shoff + table.sh_link * sizeof(texts), sizeof(texts));
            read_symbols(o, &table, &texts);
        }
}

static const struct object *open_object(const char *path)
{
    static struct object *all;
    struct object *o;
    size_t n = strlen(path);
    HASH_FIND(hh, all, path, n, o);
    if (o || !(o = calloc(1, sizeof(*o) + n + 1)))
        return o;
    memcpy(o->path, path, n + 1);
    int fd = *path == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct stat st;
    if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map != MAP_FAILED) {
            o->bytes = map;
            o->size = (size_t)st.st_size;
            read_object(o);
        }
    }
    if (fd >= 0)
        close(fd);
    HASH_ADD_KEYPTR(hh, all, o->path, n, o);
    return o;
}

const char *names_function(const char *path, uint64_t offset)
{
    const struct object *o = open_object(path);
    size_t low = 0, high = o ? o->count : 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (o->functions[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i-- && low - i <= 8;)
        if (offset < o->functions[i].end)
            return demangle(o->functions[i].name);
    return NULL;
}

/* ---- call sites ------------------------------------------------------------------------- */

static const char *file_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* CUDA's own libraries and the runtime linked into the program are not who asked. */
static bool is_cuda(const char *object, const char *function)
{
    static const char *const files[] = {"libcuda.so", "libcudart", "libcublas", "libcudnn"};
    const char *file = file_of(object);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (!strncmp(file, files[i], strlen(files[i])))
            return true;
    return function && (!strncmp(function, "cuda", 4) || !strncmp(function, "__cuda", 6) ||
                        !strncmp(function, "libcudart", 9));
}

void names_of_site(const struct dump *d, uint32_t id, char *text, size_t size)
{
    *text = 0;
    if (!id || id >= d->num_sites || !d->sites[id].count)
        return;
    const struct dump_site *s = &d->sites[id];
    const char *through = NULL, *last = NULL;
    const struct ag_dump_frame *frame = NULL;
    for (uint32_t i = 0; i < s->count; i++) {
        const char *object = dump_string(d, s->frames[i].object);
        last = names_function(object, s->frames[i].offset - 1);
        frame = &s->frames[i];
        if (!is_cuda(object, last))
            break;
        if (last && !strncmp(last, "cuda", 4))
            through = last;
    }
    const char *file = file_of(dump_string(d, frame->object));
    char place[32];
    snprintf(place, sizeof(place), "+0x%llx", (unsigned long long)frame->offset);
    snprintf(text, size, "%s%s%s in %s", through ? brief(through) : "", through ? " from " : "",
             last ? brief(last) : place, file);
}

uint32_t names_place(const struct dump *d, uint32_t name)
{
    static uint32_t *places, count;
    if (!places && (places = calloc((size_t)d->num_strings + 1, sizeof(*places))))
        for (uint32_t i = 1; i < d->num_signatures; i++) {
            uint32_t id = d->signatures[i].name;
            if (id < d->num_strings && !places[id])
                places[id] = ++count;
        }
    return places && name < d->num_strings && places[name] ? places[name] - 1 : 0;
}
