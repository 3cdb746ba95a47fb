/*
 * module.c - modules and libraries: images, function and kernel handles, globals.
 *
 * A module (or library) holds the names that its image declares; a handle is made when a name is
 * first asked for. simcuda.h describes the images.
 */
#include "sim.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct global {
    struct global *next;
    char name[96];
    size_t bytes;
    uintptr_t address;
};
struct sim_module { /* a CUmodule, or a CUlibrary */
    struct sim_object object;
    struct sim_module *next; /* of all modules */
    struct sim_context *ctx; /* NULL for a library */
    char (*names)[96];       /* of the kernels; none: whatever is registered */
    unsigned int name_count;
    struct sim_function *handles;
    struct global *globals;
    struct sim_module *twin; /* the module of a library */
    atomic_bool asked;       /* for a variable */
};

static struct sim_module *modules;

static bool add_name(struct sim_module *m, const char *name, size_t length)
{
    char(*grown)[96] = realloc(m->names, (m->name_count + 1) * sizeof *grown);
    if (!grown || length >= sizeof *grown)
        return false;
    m->names = grown;
    memcpy(m->names[m->name_count], name, length);
    m->names[m->name_count++][length] = '\0';
    return true;
}

static bool parse_text(struct sim_module *m, struct sim_context *ctx, const char *text)
{
    char word[96];
    size_t bytes;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (sscanf(line, "kernel %95s", word) == 1) {
            if (!sim_code_find(word) || !add_name(m, word, strlen(word)))
                return false;
        } else if (ctx && sscanf(line, "global %95s %zu", word, &bytes) == 2) {
            struct global *g = calloc(1, sizeof *g);
            if (!g)
                return false;
            snprintf(g->name, sizeof g->name, "%s", word);
            g->bytes = bytes;
            g->next = m->globals;
            m->globals = g;
            if (sim_mem_new(ctx, SIM_MEM_DEVICE, bytes, 0, &g->address) != CUDA_SUCCESS)
                return false;
            memset((void *)g->address, 0, bytes);
        } else if (*line != '\n' && *line != '#') {
            return false;
        }
    }
    return true;
}

/* The entries of a PTX text, each bound to the kernel registered by that name. */
static bool parse_ptx(struct sim_module *m, const char *text)
{
    for (const char *p = text; (p = strstr(p, ".entry")) != NULL;) {
        p += 6;
        while (isspace((unsigned char)*p))
            p++;
        size_t n = 0;
        while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '$')
            n++;
        if (!n || !add_name(m, p, n))
            return false;
    }
    return m->name_count > 0;
}

static void module_free(struct sim_module *m, enum sim_kind kind)
{
    for (struct sim_function *f = m->handles, *next; f; f = next) {
        next = f->next;
        if (f->twin)
            sim_object_destroy(f->twin, SIM_FUNCTION);
        sim_object_destroy(f, kind == SIM_MODULE ? SIM_FUNCTION : SIM_KERNEL);
    }
    for (struct global *g = m->globals, *next; g; g = next) {
        next = g->next;
        if (g->address)
            sim_mem_release(g->address, SIM_MEM_DEVICE);
        free(g);
    }
    free(m->names);
    m->names = NULL;
    m->handles = NULL;
    m->globals = NULL;
    if (m->twin)
        sim_object_destroy(m->twin, SIM_MODULE);
    m->twin = NULL;
    sim_object_destroy(m, kind);
}

static CUresult load(enum sim_kind kind, struct sim_context *ctx, const char *image, void **out)
{
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    bool text = !strncmp(image, SIMCUDA_IMAGE_MAGIC, strlen(SIMCUDA_IMAGE_MAGIC));
    bool ptx = !text && (*image == '/' || *image == '.' || isspace((unsigned char)*image));
    bool machine = sim_settings.fatbins && !memcmp(image, "\x50\xed\x55\xba", 4);
    if (!text && !ptx && !machine)
        return CUDA_ERROR_INVALID_IMAGE;
    struct sim_module *m = sim_object_new(kind, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->ctx = ctx ? ctx->root : NULL;
    if (text  ? !parse_text(m, ctx, image + strlen(SIMCUDA_IMAGE_MAGIC))
        : ptx ? !parse_ptx(m, image)
              : false) {
        module_free(m, kind);
        return text ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_INVALID_PTX;
    }
    if (kind == SIM_MODULE) {
        pthread_mutex_lock(&sim_lock);
        m->next = modules;
        modules = m;
        pthread_mutex_unlock(&sim_lock);
    }
    *out = m;
    return CUDA_SUCCESS;
}

static void unlist(struct sim_module *m)
{
    pthread_mutex_lock(&sim_lock);
    for (struct sim_module **p = &modules; *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            break;
        }
    pthread_mutex_unlock(&sim_lock);
}

void sim_module_release_context(struct sim_context *ctx)
{
    for (;;) {
        pthread_mutex_lock(&sim_lock);
        struct sim_module *m = modules;
        while (m && m->ctx != ctx)
            m = m->next;
        pthread_mutex_unlock(&sim_lock);
        if (!m)
            return;
        unlist(m);
        module_free(m, SIM_MODULE);
    }
}

static CUresult load_file(enum sim_kind kind, struct sim_context *ctx, const char *path, void **out)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f)
        return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
    char *text = NULL;
    size_t size = 0, got;
    do {
        char *grown = realloc(text, size + 65537);
        if (!grown)
            break;
        text = grown;
        got = fread(text + size, 1, 65536, f);
        size += got;
    } while (got);
    fclose(f);
    if (text)
        text[size] = '\0';
    CUresult r = load(kind, ctx, text, out);
    free(text);
    return r;
}

static CUresult enter_context(struct sim_context **ctx)
{
    CUresult r = sim_current(ctx);
    if (r == CUDA_SUCCESS && atomic_load(&sim_captures))
        r = sim_capture_unsafe();
    return r;
}

/* For a call that loads. */
static CUresult enter_to_load(struct sim_context **ctx)
{
    CUresult r = enter_context(ctx);
    if (r == CUDA_SUCCESS)
        sim_wait_alone(*ctx);
    return r;
}

SIM_API(cuModuleLoadData, (CUmodule * out, const void *image), (out, image))
{
    struct sim_context *ctx;
    CUresult r = enter_to_load(&ctx);
    return r == CUDA_SUCCESS ? load(SIM_MODULE, ctx, image, (void **)out) : r;
}

SIM_API(cuModuleLoadDataEx,
        (CUmodule * out, const void *image, unsigned int n, CUjit_option *options, void **values),
        (out, image, n, options, values))
{
    struct sim_context *ctx;
    CUresult r = enter_to_load(&ctx);
    if (r == CUDA_SUCCESS && n && (!options || !values))
        r = CUDA_ERROR_INVALID_VALUE;
    return r == CUDA_SUCCESS ? load(SIM_MODULE, ctx, image, (void **)out) : r;
}

SIM_API(cuModuleLoadFatBinary, (CUmodule * out, const void *image), (out, image))
{
    struct sim_context *ctx;
    CUresult r = enter_to_load(&ctx);
    return r == CUDA_SUCCESS ? load(SIM_MODULE, ctx, image, (void **)out) : r;
}

SIM_API(cuModuleLoad, (CUmodule * out, const char *path), (out, path))
{
    struct sim_context *ctx;
    CUresult r = enter_to_load(&ctx);
    return r == CUDA_SUCCESS ? load_file(SIM_MODULE, ctx, path, (void **)out) : r;
}

SIM_API(cuModuleUnload, (CUmodule handle), (handle))
{
    struct sim_context *ctx;
    CUresult r = enter_context(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    if (!sim_object_is(handle, SIM_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_context_wait(ctx);
    unlist((struct sim_module *)handle);
    module_free((struct sim_module *)handle, SIM_MODULE);
    return CUDA_SUCCESS;
}

SIM_API(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), (mode))
{
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}

SIM_API(cuLibraryLoadData,
        (CUlibrary * out, const void *image, CUjit_option *jit, void **jit_values,
         unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
        (out, image, jit, jit_values, jit_count, options, values, count))
{
    if ((jit_count && (!jit || !jit_values)) || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    return load(SIM_LIBRARY, NULL, image, (void **)out);
}

SIM_API(cuLibraryLoadFromFile,
        (CUlibrary * out, const char *path, CUjit_option *jit, void **jit_values,
         unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
        (out, path, jit, jit_values, jit_count, options, values, count))
{
    if ((jit_count && (!jit || !jit_values)) || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    return load_file(SIM_LIBRARY, NULL, path, (void **)out);
}

SIM_API(cuLibraryUnload, (CUlibrary handle), (handle))
{
    if (!sim_object_is(handle, SIM_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_context *ctx = sim_current_quiet();
    if (ctx)
        sim_context_wait(ctx);
    module_free((struct sim_module *)handle, SIM_LIBRARY);
    return CUDA_SUCCESS;
}

/* ---- functions and kernels
 * ------------------------------------------------------------------------ */

static bool has_name(const struct sim_module *m, const char *name)
{
    for (unsigned int i = 0; i < m->name_count; i++)
        if (!strcmp(m->names[i], name))
            return true;
    return m->name_count == 0;
}

static struct sim_function *function_new(enum sim_kind kind, struct sim_module *m,
                                         const struct sim_code *code)
{
    struct sim_function *f = sim_object_new(kind, sizeof *f);
    if (!f)
        return NULL;
    f->code = code;
    f->module = m;
    f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
    f->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 16;
    f->attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90;
    f->attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90;
    f->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
    return f;
}

static CUresult get(struct sim_module *m, enum sim_kind kind, const char *name, void **out)
{
    CUresult r = CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&sim_lock);
    struct sim_function *f = m->handles;
    while (f && strcmp(f->code->name, name))
        f = f->next;
    const struct sim_code *code = f ? f->code : sim_code_find(name);
    if (!f && code && has_name(m, name)) {
        f = function_new(kind, m, code);
        if (f) {
            f->next = m->handles;
            m->handles = f;
        }
    }
    if (f) {
        *out = f;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sim_lock);
    return r;
}

SIM_API(cuModuleGetFunction, (CUfunction * out, CUmodule handle, const char *name),
        (out, handle, name))
{
    if (!out || !name || !*name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(handle, SIM_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    return get((struct sim_module *)handle, SIM_FUNCTION, name, (void **)out);
}

SIM_API(cuLibraryGetKernel, (CUkernel * out, CUlibrary handle, const char *name),
        (out, handle, name))
{
    if (!out || !name || !*name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(handle, SIM_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    return get((struct sim_module *)handle, SIM_KERNEL, name, (void **)out);
}

SIM_API(cuKernelGetFunction, (CUfunction * out, CUkernel handle), (out, handle))
{
    struct sim_function *k = (struct sim_function *)handle;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(k, SIM_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&sim_lock);
    if (!k->twin)
        k->twin = function_new(SIM_FUNCTION, k->module, k->code);
    *out = (CUfunction)k->twin;
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

SIM_API(cuKernelGetLibrary, (CUlibrary * out, CUkernel handle), (out, handle))
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(handle, SIM_KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUlibrary)((struct sim_function *)handle)->module;
    return CUDA_SUCCESS;
}

SIM_API(cuFuncGetModule, (CUmodule * out, CUfunction handle), (out, handle))
{
    struct sim_function *f = (struct sim_function *)handle;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(f, SIM_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUmodule)f->module;
    return CUDA_SUCCESS;
}

/* A library is loaded into a context when something of it is first needed there. */
static void load_late(struct sim_module *library, struct sim_context *ctx)
{
    pthread_mutex_lock(&sim_lock);
    bool loaded = library->handles || library->twin;
    pthread_mutex_unlock(&sim_lock);
    if (!loaded)
        sim_wait_alone(ctx);
}

SIM_API(cuLibraryGetModule, (CUmodule * out, CUlibrary handle), (out, handle))
{
    struct sim_module *library = (struct sim_module *)handle;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(library, SIM_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    load_late(library, ctx);
    pthread_mutex_lock(&sim_lock);
    if (!library->twin) {
        library->twin = sim_object_new(SIM_MODULE, sizeof *library->twin);
        library->twin->ctx = ctx->root;
    }
    *out = (CUmodule)library->twin;
    pthread_mutex_unlock(&sim_lock);
    return CUDA_SUCCESS;
}

SIM_API(cuModuleGetFunctionCount, (unsigned int *count, CUmodule handle), (count, handle))
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(handle, SIM_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    *count = ((struct sim_module *)handle)->name_count;
    return CUDA_SUCCESS;
}

SIM_API(cuLibraryGetKernelCount, (unsigned int *count, CUlibrary handle), (count, handle))
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(handle, SIM_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    *count = ((struct sim_module *)handle)->name_count;
    return CUDA_SUCCESS;
}

SIM_API(cuModuleGetGlobal_v2,
        (CUdeviceptr * address, size_t *bytes, CUmodule handle, const char *name),
        (address, bytes, handle, name))
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(handle, SIM_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_module *m = (struct sim_module *)handle;
    for (struct global *g = m->globals; g; g = g->next)
        if (!strcmp(g->name, name)) {
            if (!atomic_exchange(&m->asked, true)) /* its data are loaded now */
                sim_wait_alone(m->ctx);
            if (address)
                *address = g->address;
            if (bytes)
                *bytes = g->bytes;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

SIM_API(cuLibraryGetGlobal,
        (CUdeviceptr * address, size_t *bytes, CUlibrary handle, const char *name),
        (address, bytes, handle, name))
{
    (void)address;
    (void)bytes;
    /* Globals are the modules' here: an image with `global` lines does not load as a library. */
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(handle, SIM_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    struct sim_context *ctx;
    CUresult r = sim_current(&ctx);
    if (r != CUDA_SUCCESS)
        return r;
    load_late((struct sim_module *)handle, ctx);
    return CUDA_ERROR_NOT_FOUND;
}

/* Handles of the names that the image lists. */
static CUresult enumerate(struct sim_module *m, enum sim_kind kind, void **out, unsigned int room)
{
    for (unsigned int i = 0; i < room && i < m->name_count; i++) {
        CUresult r = get(m, kind, m->names[i], &out[i]);
        if (r != CUDA_SUCCESS)
            return r;
    }
    return CUDA_SUCCESS;
}

SIM_API(cuModuleEnumerateFunctions, (CUfunction * out, unsigned int room, CUmodule handle),
        (out, room, handle))
{
    if (room && !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(handle, SIM_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    return enumerate((struct sim_module *)handle, SIM_FUNCTION, (void **)out, room);
}

SIM_API(cuLibraryEnumerateKernels, (CUkernel * out, unsigned int room, CUlibrary handle),
        (out, room, handle))
{
    if (room && !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_object_is(handle, SIM_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    return enumerate((struct sim_module *)handle, SIM_KERNEL, (void **)out, room);
}
