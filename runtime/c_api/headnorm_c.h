/* headnorm for C: find, load and launch tuned kernels for multi-head RMSNorm and its family.
 *
 * The library is libheadnorm, which serves kernels that were compiled before, or libheadnorm_full, which has the compiler too; both
 * have exactly these functions. A program may link either, or open one with dlopen.
 *
 * Handles. Every function that makes one gives it to the caller, who releases it once with the function named ..._release; null may
 * be released. What a handle needs of another it keeps alive: handles can be released in any order.
 *
 * Errors. Functions that can fail return a headnorm_status. headnorm_last_error() then says what is wrong and
 * headnorm_last_remedy() what to do; both are of the calling thread and stay until its next failing call. An output parameter is
 * written only on success; headnorm_runtime_warm says when it fills its report all the same.
 *
 * Threads. Functions may be called from several threads at once, also with the same handles; releasing is the last use.
 *
 * Structs begin with their size, so that later versions can append members: fill them with the function named ..._init, then set
 * what differs. A program runs with any later library of the same soname.
 */
#ifndef HEADNORM_C_H
#define HEADNORM_C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HEADNORM_API __attribute__((visibility("default")))
#else
#define HEADNORM_API
#endif

typedef enum headnorm_status {
  HEADNORM_OK = 0,
  HEADNORM_ERROR_USER = 1,        /* the caller's input breaks a rule */
  HEADNORM_ERROR_ENVIRONMENT = 2, /* something outside the program is missing, full, locked or forbidden */
  HEADNORM_ERROR_INTERNAL = 3     /* a defect of headnorm */
} headnorm_status;

/* Never null; empty if nothing failed in this thread so far. */
HEADNORM_API const char* headnorm_last_error(void);
HEADNORM_API const char* headnorm_last_remedy(void);

HEADNORM_API const char* headnorm_version(void); /* "0.1.0" */
HEADNORM_API int headnorm_has_compiler(void);    /* 1: libheadnorm_full */

/* ---- what a kernel computes ------------------------------------------------------------------------------------------------- */

typedef struct headnorm_spec headnorm_spec;

/* From its canonical text, which `headnorm explain` prints, e.g. "width=4096,head_size=256,x=bf16,y=bf16,weight=channel:bf16". */
HEADNORM_API headnorm_status headnorm_spec_parse(const char* text, headnorm_spec** spec);
HEADNORM_API const char* headnorm_spec_text(const headnorm_spec* spec); /* canonical; lives as long as the spec */
HEADNORM_API void headnorm_spec_release(headnorm_spec* spec);

/* ---- where it runs ---------------------------------------------------------------------------------------------------------- */

typedef struct headnorm_device headnorm_device;

typedef struct headnorm_device_options {
  size_t struct_size;
  int32_t threads;    /* host: how many share a launch; 0: one per processor that this process may use */
  const char* driver; /* cuda: the driver's library; null: libcuda.so.1 */
} headnorm_device_options;

static inline headnorm_device_options headnorm_device_options_init(void) {
  headnorm_device_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

/* "host" or "cuda:N". `options` may be null. A GPU's primary context is used, as the CUDA runtime and PyTorch use it. */
HEADNORM_API headnorm_status headnorm_device_open(const char* name, const headnorm_device_options* options,
                                                  headnorm_device** device);

/* The host with the caller's threads. */
typedef void (*headnorm_task)(void* task, int index);
typedef struct headnorm_executor {
  size_t struct_size;
  int32_t threads; /* how many tasks may run at a time: a launch is cut into at most so many */
  void* context;   /* handed to the two below */
  /* Calls function(task, i) once for each i in [0, count), in any order, on any threads, and returns when all have returned. */
  void (*run)(void* context, int count, headnorm_task function, void* task);
  void (*release)(void* context); /* called once the device is done with it, not if none is made; may be null */
} headnorm_executor;

static inline headnorm_executor headnorm_executor_init(void) {
  headnorm_executor executor;
  memset(&executor, 0, sizeof executor);
  executor.struct_size = sizeof executor;
  return executor;
}

HEADNORM_API headnorm_status headnorm_device_open_executor(const headnorm_executor* executor, headnorm_device** device);

typedef struct headnorm_device_info {
  size_t struct_size;
  const char* kind;   /* "host", "cuda" */
  const char* id;     /* "host", "cuda:0" */
  const char* name;   /* of the processor */
  const char* target; /* the best target it runs: "sm_90", "x86-64-v4" */
  int32_t units;      /* threads, or multiprocessors */
  int64_t memory_bytes;
} headnorm_device_info;

static inline headnorm_device_info headnorm_device_info_init(void) {
  headnorm_device_info info;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  return info;
}

/* The texts live as long as the device. */
HEADNORM_API headnorm_status headnorm_device_get_info(const headnorm_device* device, headnorm_device_info* info);

/* Waits for launches without a stream, and reports their faults. */
HEADNORM_API headnorm_status headnorm_device_synchronize(headnorm_device* device);
/* Both wait for launches without a stream first. */
HEADNORM_API headnorm_status headnorm_device_copy_in(headnorm_device* device, void* device_address, const void* source,
                                                     size_t bytes);
HEADNORM_API headnorm_status headnorm_device_copy_out(headnorm_device* device, void* destination, const void* device_address,
                                                      size_t bytes);
HEADNORM_API void headnorm_device_release(headnorm_device* device);

/* Memory of a device, aligned to 256 bytes at least, for programs that have none of their own. */
typedef struct headnorm_buffer headnorm_buffer;
HEADNORM_API headnorm_status headnorm_buffer_create(headnorm_device* device, size_t bytes, headnorm_buffer** buffer);
HEADNORM_API void* headnorm_buffer_address(const headnorm_buffer* buffer);
HEADNORM_API void headnorm_buffer_release(headnorm_buffer* buffer);

/* ---- what is known: tables of records, and compiled kernels ------------------------------------------------------------------ */

typedef struct headnorm_database headnorm_database;

typedef struct headnorm_database_options {
  size_t struct_size;
  int32_t read_only;                                /* 1: nothing is created or written */
  void (*warn)(void* context, const char* message); /* once for each kind of trouble, from any thread; may be null */
  void* warn_context;
  int32_t shipped; /* 1: the tables that come with headnorm answer, too, where they know better */
} headnorm_database_options;

static inline headnorm_database_options headnorm_database_options_init(void) {
  headnorm_database_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

/* A database directory as `headnorm tune --db` fills it, or a table that was copied from one. Null: the tables that come with
 * headnorm alone, which hold schedules and no code: something must compile. `options` may be null. */
HEADNORM_API headnorm_status headnorm_database_open(const char* directory, const headnorm_database_options* options,
                                                    headnorm_database** database);

/* 64 digits and a 0: equal for copies of one table of records. */
#define HEADNORM_DIGEST_BYTES 65
HEADNORM_API headnorm_status headnorm_database_digest(headnorm_database* database, char digest[HEADNORM_DIGEST_BYTES]);
HEADNORM_API void headnorm_database_release(headnorm_database* database);

/* ---- run -------------------------------------------------------------------------------------------------------------------- */

typedef struct headnorm_runtime headnorm_runtime;

#define HEADNORM_JIT_ALLOWED 0   /* a kernel that is not stored is compiled, where there is a compiler */
#define HEADNORM_JIT_FORBIDDEN 1 /* it is an error */

typedef struct headnorm_runtime_options {
  size_t struct_size;
  int32_t jit;
} headnorm_runtime_options;

static inline headnorm_runtime_options headnorm_runtime_options_init(void) {
  headnorm_runtime_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

/* `database` may be null: then kernels come from the compiler alone. `options` may be null. */
HEADNORM_API headnorm_status headnorm_runtime_create(headnorm_device* device, headnorm_database* database,
                                                     const headnorm_runtime_options* options, headnorm_runtime** runtime);
HEADNORM_API void headnorm_runtime_release(headnorm_runtime* runtime);

/* Which kernel serves, and how it was found. */
typedef struct headnorm_choice {
  size_t struct_size;
  char served[24];    /* "exact", "nearest_rows", "predicted", "other_shape", "other_device" or "default" */
  char record[40];    /* the record's id, or empty */
  char schedule[512]; /* canonical text; cut if it were longer */
} headnorm_choice;

static inline headnorm_choice headnorm_choice_init(void) {
  headnorm_choice choice;
  memset(&choice, 0, sizeof choice);
  choice.struct_size = sizeof choice;
  return choice;
}

/* What a launch works on: addresses of the device and strides between rows in elements (0: the width). Members that the spec has no
 * operand for are ignored. With residual=inplace, y and residual_out may be left null: they are x and residual. */
typedef struct headnorm_arguments {
  size_t struct_size;
  int64_t rows;
  void* stream; /* GPU: the CUstream or cudaStream_t to queue on; null: one of the device's own. Host: null */
  const void* x;
  int64_t x_stride;
  const void* residual;
  int64_t residual_stride;
  const void* gamma;
  const void* alpha;
  const void* beta;
  void* y;
  int64_t y_stride;
  void* residual_out;
  int64_t residual_out_stride;
} headnorm_arguments;

static inline headnorm_arguments headnorm_arguments_init(void) {
  headnorm_arguments arguments;
  memset(&arguments, 0, sizeof arguments);
  arguments.struct_size = sizeof arguments;
  return arguments;
}

/* In these, `choice` may be null. */

/* What would serve; loads and compiles nothing. */
HEADNORM_API headnorm_status headnorm_runtime_look_up(headnorm_runtime* runtime, const headnorm_spec* spec, int64_t rows,
                                                      headnorm_choice* choice);
/* Loads what serves this row count (and tensors of this alignment): later launches only launch, and can be captured into a graph.
 */
HEADNORM_API headnorm_status headnorm_runtime_prepare(headnorm_runtime* runtime, const headnorm_spec* spec, int64_t rows,
                                                      headnorm_choice* choice);
HEADNORM_API headnorm_status headnorm_runtime_prepare_for(headnorm_runtime* runtime, const headnorm_spec* spec,
                                                          const headnorm_arguments* arguments, headnorm_choice* choice);
/* Queues the kernel (host: runs it). Of a shape that was prepared or launched before, it allocates nothing and takes no lock,
 * unless `choice` is asked for or a host device of several threads hands out work. */
HEADNORM_API headnorm_status headnorm_runtime_launch(headnorm_runtime* runtime, const headnorm_spec* spec,
                                                     const headnorm_arguments* arguments, headnorm_choice* choice);

typedef struct headnorm_warm_report {
  size_t struct_size;
  int32_t records; /* of the table that serve this device */
  int32_t kernels; /* loaded */
  int32_t missing; /* records whose kernel is neither stored nor could be compiled */
  char digest[HEADNORM_DIGEST_BYTES];
  int32_t shadowed; /* records that do not serve although their kernels are loaded: their shape was launched before, and keeps what
                     * it had */
} headnorm_warm_report;

static inline headnorm_warm_report headnorm_warm_report_init(void) {
  headnorm_warm_report report;
  memset(&report, 0, sizeof report);
  report.struct_size = sizeof report;
  return report;
}

/* Loads every kernel of the table for this device. Afterwards look-ups are answered by the warmed tables as they are now, and with
 * HEADNORM_JIT_FORBIDDEN nothing is compiled or read any more; launches meanwhile are served as before. `expected_digest` and
 * `report` may be null. If a kernel is missing, all others are loaded and serve, the report is filled, and the result is
 * HEADNORM_ERROR_ENVIRONMENT. That a record is shadowed is no error: warm before the first launch where all processes must choose
 * alike. If the digest is not the expected one nothing is loaded. */
HEADNORM_API headnorm_status headnorm_runtime_warm(headnorm_runtime* runtime, headnorm_database* table, const char* expected_digest,
                                                   headnorm_warm_report* report);

#ifdef __cplusplus
}
#endif

#endif
