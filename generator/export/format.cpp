#include "generator/export/format.h"

namespace headnorm::exports {
namespace {

constexpr Format kFormats[] = {
    {"wisdom", "Kernel Launcher's wisdom files", Naming::fixed, true, false, render_wisdom},
    {"t4", "T4 results, as Kernel Tuner writes them", Naming::many, false, true, render_t4},
    {"t4-ktt", "T4 results, as KTT reads them", Naming::many, true, true, render_t4_ktt},
    {"kernel-tuner-cache", "Kernel Tuner's cache files, for its simulation mode", Naming::many, false, false,
     render_kernel_tuner_cache},
    {"kernel-tuner-results", "Kernel Tuner's result files, for its device targets", Naming::many, false, false,
     render_kernel_tuner_results},
    {"vllm", "JSON files of one configuration a row count, in the style of vLLM", Naming::fixed, false, false, render_vllm},
    {"triton", "a Python file of triton.Config lists", Naming::free, true, false, render_triton},
    {"header", "a C and C++ header with a table and a look-up", Naming::free, false, false, render_c_header},
    {"csv", "every field of every record", Naming::free, false, false, render_csv},
    {"markdown", "a table for people", Naming::free, false, false, render_markdown},
};

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format* find_format(const std::string& name) {
  for (const Format& format : kFormats) {
    if (name == format.name) return &format;
  }
  return nullptr;
}

}  // namespace headnorm::exports
