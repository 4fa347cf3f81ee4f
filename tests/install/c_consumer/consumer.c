/* With a compiler: a launch. Without one: a kernel that is stored nowhere is a clear error. */
#include <headnorm/headnorm_c.h>
#include <stdio.h>

static int say(const char* what) { return fprintf(stderr, "%s: %s\n%s\n", what, headnorm_last_error(), headnorm_last_remedy()), 1; }

int main(void) {
  headnorm_device* device = NULL;
  headnorm_runtime* runtime = NULL;
  headnorm_spec* spec = NULL;
  headnorm_status status;
  float x[64], y[64];
  int i;
  headnorm_arguments arguments = headnorm_arguments_init();
  if (headnorm_device_open("host", NULL, &device) != HEADNORM_OK) return say("device");
  if (headnorm_runtime_create(device, NULL, NULL, &runtime) != HEADNORM_OK) return say("runtime");
  if (headnorm_spec_parse("width=64,head_size=32,x=f32,y=f32,weight=none,eps=0", &spec) != HEADNORM_OK) return say("spec");
  for (i = 0; i < 64; ++i) x[i] = i % 3 == 0 ? -2.0f : 2.0f;
  arguments.rows = 1;
  arguments.x = x;
  arguments.y = y;
  status = headnorm_runtime_launch(runtime, spec, &arguments, NULL);
  headnorm_runtime_release(runtime);
  headnorm_device_release(device);
  headnorm_spec_release(spec);
  printf("headnorm %s\n", headnorm_version());
  if (!headnorm_has_compiler()) {
    printf("%s\n%s\n", headnorm_last_error(), headnorm_last_remedy());
    return status != HEADNORM_ERROR_ENVIRONMENT;
  }
  if (status != HEADNORM_OK) return say("launch");
  for (i = 0; i < 64; ++i) {
    if (y[i] != (i % 3 == 0 ? -1.0f : 1.0f)) return fprintf(stderr, "y[%d] is %g\n", i, (double)y[i]), 1;
  }
  return 0;
}
