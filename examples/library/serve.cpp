#include <headnorm/headnorm.h>

#include <cstdio>
#include <vector>

int fail(const headnorm::Error& error) {
  std::fprintf(stderr, "%s\n%s\n", error.message.c_str(), error.remedy.c_str());
  return 1;
}

// usage: serve DATABASE [DIGEST]
int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto database = headnorm::Database::open(argv[1], {.read_only = true});
  if (!database) return fail(database.error());
  const auto device = headnorm::make_host_device(0);
  if (!device) return fail(device.error());
  headnorm::Runtime runtime(**device, database->get(), nullptr, headnorm::JitMode::forbidden);

  // Everything is loaded here; no launch compiles or reads anything. With a digest, all ranks of a job load the same table.
  const auto warmed = runtime.warm(**database, argc > 2 ? argv[2] : "");
  if (!warmed) return fail(warmed.error());
  if (!warmed->missing.empty()) return fail(warmed->missing[0].error);
  std::printf("table %.8s: %d records, %d kernels\n", warmed->digest.c_str(), warmed->records, warmed->kernels);

  const auto spec = headnorm::parse_spec("width=256,head_size=64,x=f32,y=f32,weight=none,eps=1e-06");
  if (!spec) return fail(spec.error());
  const auto memory = (*device)->allocate(4 * 256 * sizeof(float));  // aligned as any kernel asks
  if (!memory) return fail(memory.error());
  std::vector<float> x(4 * 256, 3.0f);
  headnorm::LaunchArguments arguments;
  arguments.rows = 4;
  arguments.address(headnorm::Operand::x) = x.data();
  arguments.address(headnorm::Operand::y) = memory->address();
  arguments.stride(headnorm::Operand::x) = arguments.stride(headnorm::Operand::y) = 256;
  const auto report = runtime.run(*spec, arguments);
  if (!report) return fail(report.error());
  std::printf("%s, record %s\n", to_text(report->served), std::string(report->record.text()).c_str());
}
