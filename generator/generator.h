// The generator's front: sweep program of a spec, and the LLVM backend that compiles plans to PTX or host objects.
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

}  // namespace headnorm
