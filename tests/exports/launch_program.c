/* Runs an exported kernel with nothing of ours but three files: the exported header, the PTX and its .launch.json.
   usage: launch_program LIBCUDA PTX LAUNCH_JSON SPEC ROWS. Compares with a loop in double precision; exit status 0 if right. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "headnorm_tuned.h"

#define MOST_PARAMETERS 16

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size;
    char *text;
    if (!file || fseek(file, 0, SEEK_END) != 0) fail(path);
    size = ftell(file);
    rewind(file);
    text = (char *)calloc((size_t)size + 1, 1);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size) fail(path);
    fclose(file);
    return text;
}

/* The text after the first "name": behind `json`, without its quotes. */
static const char *after(const char *json, const char *name)
{
    char key[64];
    const char *at;
    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(json, key);
    if (!at) fail(name);
    at += strlen(key);
    while (*at == ' ' || *at == '\n' || *at == '[' || *at == '"') ++at;
    return at;
}

static long number(const char *json, const char *name) { return strtol(after(json, name), NULL, 10); }

static void copy_text(char *to, size_t size, const char *from)
{
    size_t i;
    for (i = 0; i + 1 < size && from[i] && from[i] != '"'; ++i) to[i] = from[i];
    to[i] = '\0';
}

static void *library;

typedef void (*Function)(void);
static Function function(const char *name)
{
    union {
        void *data;
        Function call;
    } symbol;
    symbol.data = dlsym(library, name);
    if (!symbol.data) fail(name);
    return symbol.call;
}

static void check(int status, const char *call)
{
    if (status != 0) {
        fprintf(stderr, "%s: error %d\n", call, status);
        exit(1);
    }
}

#define CALL(name, types, ...) check(((int (*) types)function(name))(__VA_ARGS__), name)

typedef unsigned long long Pointer;

static Pointer device_copy(const float *values, size_t count)
{
    Pointer address = 0;
    CALL("cuMemAlloc_v2", (Pointer *, size_t), &address, count * sizeof(float));
    if (values) CALL("cuMemcpyHtoD_v2", (Pointer, const void *, size_t), address, values, count * sizeof(float));
    return address;
}

static float some_value(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)((double)(*state >> 8) / 8388608.0 - 1.0);
}

/* What the kernel should write, from its definition. */
static double expected(const float *x, const float *gamma, long width, long head_size, double eps, long row, long channel)
{
    const float *head = x + row * width + channel / head_size * head_size;
    double sum = 0;
    long i;
    for (i = 0; i < head_size; ++i) sum += (double)head[i] * head[i];
    return (double)x[row * width + channel] / sqrt(sum / (double)head_size + eps) * (double)gamma[channel];
}

int main(int argc, char **argv)
{
    const char *json, *schedule_at, *at;
    char name[256], entry[256], schedule[512];
    const headnorm_row *tuned;
    void *context = NULL, *module = NULL, *kernel = NULL;
    void *arguments[MOST_PARAMETERS];
    Pointer pointers[MOST_PARAMETERS];
    long long scalars[MOST_PARAMETERS];
    int device = 0, units = 0, exact = 0, count = 0;
    long rows, width, head_size, tiles, i;
    unsigned state = 1;
    float *x, *gamma, *y;
    double eps, worst = 0;
    Pointer device_x, device_gamma, device_y;

    if (argc != 6) fail("usage: launch_program LIBCUDA PTX LAUNCH_JSON SPEC ROWS");
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) fail(dlerror());
    rows = strtol(argv[5], NULL, 10);
    CALL("cuInit", (unsigned), 0);
    CALL("cuDeviceGet", (int *, int), &device, 0);
    CALL("cuDeviceGetName", (char *, int, int), name, (int)sizeof name, device);
    CALL("cuDeviceGetAttribute", (int *, int, int), &units, 16, device); /* multiprocessors */

    tuned = headnorm_find(name, units, argv[4], rows, &exact);
    if (!tuned || !exact) fail("the table has no row of this device, kernel and row count");
    json = read_file(argv[3]);
    copy_text(entry, sizeof entry, after(json, "entry"));
    schedule_at = after(json, "schedule");
    copy_text(schedule, sizeof schedule, schedule_at);
    if (strcmp(schedule, tuned->schedule) != 0) fail("the kernel is not of the schedule that the table has");

    head_size = (long)tuned->head_size;
    width = (long)(tuned->heads * tuned->head_size);
    eps = strtod(strstr(tuned->spec, "eps=") + 4, NULL);
    x = (float *)calloc((size_t)(rows * width), sizeof(float));
    y = (float *)calloc((size_t)(rows * width), sizeof(float));
    gamma = (float *)calloc((size_t)width, sizeof(float));
    if (!x || !y || !gamma) fail("no memory");
    for (i = 0; i < rows * width; ++i) x[i] = some_value(&state);
    for (i = 0; i < width; ++i) gamma[i] = some_value(&state);

    CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, device);
    CALL("cuCtxSetCurrent", (void *), context);
    CALL("cuModuleLoadData", (void **, const void *), &module, read_file(argv[2]));
    CALL("cuModuleGetFunction", (void **, void *, const char *), &kernel, module, entry);
    device_x = device_copy(x, (size_t)(rows * width));
    device_gamma = device_copy(gamma, (size_t)width);
    device_y = device_copy(NULL, (size_t)(rows * width));

    /* The parameters, in the order that the file has them. */
    for (at = strstr(json, "\"parameters\""); (at = strstr(at, "\"name\"")) != NULL && count < MOST_PARAMETERS; ++count) {
        char parameter[32];
        copy_text(parameter, sizeof parameter, after(at, "name"));
        at += strlen("\"name\"");
        pointers[count] = strcmp(parameter, "x") == 0       ? device_x
                          : strcmp(parameter, "gamma") == 0 ? device_gamma
                                                            : device_y;
        scalars[count] = strcmp(parameter, "rows") == 0 ? rows : width;
        arguments[count] = strstr(parameter, "_stride") || strcmp(parameter, "rows") == 0 ? (void *)&scalars[count]
                                                                                         : (void *)&pointers[count];
    }
    tiles = (rows + number(json, "rows_per_tile") - 1) / number(json, "rows_per_tile") * number(json, "tiles_per_row");
    CALL("cuLaunchKernel", (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
         kernel, (unsigned)tiles, 1u, 1u, (unsigned)number(json, "block"), 1u, 1u, (unsigned)number(json, "dynamic_shared_bytes"), NULL,
         arguments, NULL);
    CALL("cuCtxSynchronize", (void), );
    CALL("cuMemcpyDtoH_v2", (void *, Pointer, size_t), y, device_y, (size_t)(rows * width) * sizeof(float));

    for (i = 0; i < rows * width; ++i) {
        const double right = expected(x, gamma, width, head_size, eps, i / width, i % width);
        const double error = fabs((double)y[i] - right) / (fabs(right) > 1e-3 ? fabs(right) : 1e-3);
        if (error > worst) worst = error;
    }
    printf("%s, %ld rows: largest relative error %.3g\n", name, rows, worst);
    return worst <= 4e-6 ? 0 : 1; /* docs/numerics.md, of f32 */
}
