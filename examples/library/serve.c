#include <headnorm/headnorm_c.h>
#include <stdio.h>

static int fail(void) {
  fprintf(stderr, "%s\n%s\n", headnorm_last_error(), headnorm_last_remedy());
  return 1;
}

/* usage: serve_in_c DATABASE */
int main(int argc, char** argv) {
  static float x[4 * 256];
  headnorm_device* device = NULL;
  headnorm_database* database = NULL;
  headnorm_runtime* runtime = NULL;
  headnorm_spec* spec = NULL;
  headnorm_buffer* y = NULL;
  headnorm_runtime_options options = headnorm_runtime_options_init();
  headnorm_warm_report warmed = headnorm_warm_report_init();
  headnorm_arguments arguments = headnorm_arguments_init();
  headnorm_choice choice = headnorm_choice_init();
  if (argc != 2) return 2;

  if (headnorm_device_open("host", NULL, &device) != HEADNORM_OK) return fail();
  if (headnorm_database_open(argv[1], NULL, &database) != HEADNORM_OK) return fail();
  options.jit = HEADNORM_JIT_FORBIDDEN;
  if (headnorm_runtime_create(device, database, &options, &runtime) != HEADNORM_OK) return fail();
  if (headnorm_runtime_warm(runtime, database, NULL, &warmed) != HEADNORM_OK) return fail();
  if (headnorm_spec_parse("width=256,head_size=64,x=f32,y=f32,weight=none,eps=1e-06", &spec) != HEADNORM_OK) return fail();
  if (headnorm_buffer_create(device, sizeof x, &y) != HEADNORM_OK) return fail();

  for (int i = 0; i < 4 * 256; ++i) x[i] = 3.0f;
  arguments.rows = 4; /* strides that are left 0 are the width */
  arguments.x = x;
  arguments.y = headnorm_buffer_address(y);
  if (headnorm_runtime_launch(runtime, spec, &arguments, &choice) != HEADNORM_OK) return fail();
  printf("%d kernels; %s, schedule %s\n", (int)warmed.kernels, choice.served, choice.schedule);

  headnorm_buffer_release(y); /* in any order */
  headnorm_spec_release(spec);
  headnorm_runtime_release(runtime);
  headnorm_database_release(database);
  headnorm_device_release(device);
  return 0;
}
