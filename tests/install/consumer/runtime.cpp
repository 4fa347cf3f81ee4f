// With the runtime alone: a kernel that is stored nowhere is a clear error, not a crash.
#include <headnorm/headnorm.h>

#include <cstdio>

int main() {
  auto device = headnorm::make_host_device(1);
  if (!device) return std::fprintf(stderr, "%s\n", device.error().message.c_str()), 1;

  const auto spec = headnorm::parse_spec("width=64,head_size=32,x=f32,y=f32,weight=none,eps=1e-06");
  if (!spec) return std::fprintf(stderr, "%s\n", spec.error().message.c_str()), 1;

  headnorm::Runtime runtime(**device, nullptr, nullptr, headnorm::JitMode::forbidden);
  const auto report = runtime.prepare(*spec, 8);
  if (report) return std::fprintf(stderr, "a kernel came from nowhere\n"), 1;
  std::printf("%s\n%s\n", report.error().message.c_str(), report.error().remedy.c_str());
  return report.error().message.empty() || report.error().remedy.empty();
}
