// The generator's front: sweep program of a spec, the LLVM backend that compiles plans to PTX or host objects, and CUDA C of plans.
#pragma once

#include <memory>
#include <string>

#include "core/codegen_backend.h"
#include "generator/program/program.h"

namespace headnorm {

// The verified sweep program of a spec that make_spec returned.
Result<program::Program> build_program(const KernelSpec& spec);

// Thread-safe. One instance serves all targets; it keeps target machines and contexts between compilations.
std::unique_ptr<CodegenBackend> make_llvm_backend();

// Other texts of the same compilation, for people: LLVM IR after optimisation, and assembly (for a GPU target: PTX).
enum class Listing : std::uint8_t { llvm_ir, assembly };
Result<std::string> render_listing(const Plan& plan, Listing listing);

// A CUDA C file of a plan for a GPU: the kernel, a host function that launches it, and a self-test (docs/cuda-c.md).
Result<std::string> render_cuda(const Plan& plan);

// Compiles CUDA C to PTX by NVRTC, which is opened at run time. `library`: its path, or "" for what the loader finds and then
// CUDA's usual places. Thread-safe. Error (environment): it is not there. compile: a target that is no GPU (user).
Result<std::unique_ptr<CodegenBackend>> make_nvrtc_backend(const std::string& library = "");

}  // namespace headnorm
