// Runs the launches of a file (launch_file.h) through the host device of the machine it is built for.
//
// usage: run_launches CASES RESULTS. Each result is in the file before the next launch: a crash names its case by their number.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "tests/aarch64/launch_file.h"

namespace headnorm::test {
namespace {

Result<LaunchResult> run(Device& device, const LaunchCase& launch) {
  HEADNORM_TRY(const KernelSpec spec, parse_spec(launch.spec));
  HEADNORM_TRY(const Target target, parse_target(launch.target));
  HEADNORM_TRY(const Schedule schedule, parse_schedule(launch.schedule));
  HEADNORM_TRY(const Plan plan, make_plan(spec, schedule, target));
  const Artifact artifact{
      .kind = ArtifactKind::object, .entry = launch.entry, .bytes = launch.object, .key = "", .backend = "cross"};
  HEADNORM_TRY(const std::shared_ptr<const LoadedKernel> kernel, device.load(artifact, plan));
  LaunchTensors tensors(spec, launch.rows, launch.layout);
  if (!set_images(tensors, launch.images)) return internal_error("the images of the tensors are of another size");
  tensors.seal();
  HEADNORM_CHECK(device.launch(*kernel, tensors.arguments()));
  return LaunchResult{tensors.damage(), images_of(tensors)};
}

int run_file(const char* cases_path, const char* results_path) {
  std::ifstream cases(cases_path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(cases), {}};
  std::ofstream results(results_path, std::ios::binary);
  const auto device = make_host_device(2);
  if (!device.ok()) return std::fprintf(stderr, "%s\n", device.error().message.c_str()), 1;
  for (const LaunchCase& launch : cases_in(bytes)) {
    const Result<LaunchResult> result = run(**device, launch);
    results << to_bytes(result.ok() ? *result : LaunchResult{result.error().message, {}}) << std::flush;
  }
  return results ? 0 : 1;
}

}  // namespace
}  // namespace headnorm::test

int main(int count, char** arguments) {
  if (count == 3) return headnorm::test::run_file(arguments[1], arguments[2]);
  std::fputs("usage: run_launches CASES RESULTS\n", stderr);
  return 2;
}
