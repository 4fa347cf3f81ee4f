/* A program in plain C99 that knows headnorm by its C header alone: everything it does not find is an error that says so, and what
 * it finds it runs.
 *
 * usage: plain_c DATABASE SPEC     (a database of a kernel for 4 rows of SPEC, 96 f32 values in heads of 32, on this host) */
#include <stdio.h>

#include "headnorm_c.h"

#define ROWS 4
#define WIDTH 96

static int failed(const char* what, headnorm_status status) {
  fprintf(stderr, "%s: status %d: %s\n%s\n", what, (int)status, headnorm_last_error(), headnorm_last_remedy());
  return 1;
}

static int launch(headnorm_runtime* runtime, const headnorm_spec* spec) {
  static float x[ROWS * WIDTH], y[ROWS * WIDTH];
  headnorm_arguments arguments = headnorm_arguments_init();
  headnorm_choice choice = headnorm_choice_init();
  headnorm_status status;
  int i;
  for (i = 0; i < ROWS * WIDTH; ++i) x[i] = i % 3 == 0 ? -4.0f : 4.0f;
  arguments.rows = ROWS;
  arguments.x = x;
  arguments.y = y;
  status = headnorm_runtime_launch(runtime, spec, &arguments, &choice);
  if (status != HEADNORM_OK) return failed("launch", status);
  for (i = 0; i < ROWS * WIDTH; ++i) {
    if (y[i] != (i % 3 == 0 ? -1.0f : 1.0f)) return fprintf(stderr, "y[%d] is %g\n", i, (double)y[i]), 1;
  }
  printf("served: %s, record %s, schedule %s\n", choice.served, choice.record, choice.schedule);
  return strcmp(choice.served, "exact") != 0;
}

int main(int argc, char** argv) {
  headnorm_device* device = NULL;
  headnorm_database* database = NULL;
  headnorm_runtime* runtime = NULL;
  headnorm_spec* spec = NULL;
  headnorm_runtime_options options = headnorm_runtime_options_init();
  headnorm_device_options threads = headnorm_device_options_init();
  headnorm_status status;
  int result;
  if (argc != 3) return fprintf(stderr, "usage: plain_c DATABASE SPEC\n"), 2;
  threads.threads = 1;
  options.jit = HEADNORM_JIT_FORBIDDEN;
  if ((status = headnorm_device_open("host", &threads, &device)) != HEADNORM_OK) return failed("device", status);
  if ((status = headnorm_database_open(argv[1], NULL, &database)) != HEADNORM_OK) return failed("database", status);
  if ((status = headnorm_runtime_create(device, database, &options, &runtime)) != HEADNORM_OK) return failed("runtime", status);
  if ((status = headnorm_spec_parse(argv[2], &spec)) != HEADNORM_OK) return failed("spec", status);
  headnorm_device_release(device); /* the runtime keeps what it needs */
  headnorm_database_release(database);
  result = launch(runtime, spec);
  headnorm_runtime_release(runtime);
  headnorm_spec_release(spec);
  return result;
}
