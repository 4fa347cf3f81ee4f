#include "generator/backend/llvm/session.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "core/artifact.h"
#include "generator/backend/host/lower.h"
#include "generator/backend/llvm/llvm_headers.h"
#include "generator/backend/nvptx/header.h"
#include "generator/backend/nvptx/lower.h"
#include "generator/backend/nvptx/target_check.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"

namespace headnorm::llvm_backend {
namespace {

void initialize_targets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

struct Machine {
  const char* triple;
  std::string cpu, features;
};

Machine machine_of(const Target& target) {
  if (target.kind == TargetKind::gpu) return {"nvptx64-nvidia-cuda", processor_name(target), fmt::format("+ptx{}", target.ptx)};
  switch (target.isa) {
    case HostIsa::x86_64:
      return {"x86_64-unknown-linux-gnu", "x86-64", ""};
    case HostIsa::x86_64_v3:
      return {"x86_64-unknown-linux-gnu", "x86-64-v3", ""};
    case HostIsa::x86_64_v4:
      return {"x86_64-unknown-linux-gnu", "x86-64-v4", ""};
    case HostIsa::x86_64_v4_bf16:
      return {"x86_64-unknown-linux-gnu", "x86-64-v4", "+avx512bf16"};
    case HostIsa::aarch64:
      return {"aarch64-unknown-linux-gnu", "generic", ""};
  }
  return {"", "", ""};
}

Result<std::unique_ptr<llvm::TargetMachine>> make_target_machine(const Target& target) {
  const Machine machine = machine_of(target);
  const llvm::Triple triple(machine.triple);
  std::string reason;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(triple, reason);
  if (llvm_target == nullptr) return internal_error(fmt::format("LLVM has no target {}: {}", machine.triple, reason));
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // every fma is explicit; PTX gets add.rn and mul.rn, which ptxas keeps apart
  options.MCOptions.AsmVerbose = true;
  return std::unique_ptr<llvm::TargetMachine>(llvm_target->createTargetMachine(triple, machine.cpu, machine.features, options,
                                                                               llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                               llvm::CodeGenOptLevel::Aggressive));
}

// LLVM's packages are built without assertions: malformed IR would go unnoticed into wrong code.
Result<void> verify_module(const llvm::Module& module) {
  std::string reason;
  llvm::raw_string_ostream stream(reason);
  if (llvm::verifyModule(module, &stream)) return internal_error("the generated LLVM IR is malformed: " + reason);
  return {};
}

// The lowering writes the code it wants; what is left is folding address arithmetic and constants. The default pipelines change
// neither registers nor length of the result and take longer.
void optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graph, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::EarlyCSEPass());
  llvm::ModulePassManager all;
  all.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  all.run(module, modules);
}

Result<std::string> emit(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) return internal_error("LLVM cannot emit this kind of file");
  passes.run(module);
  return std::string(bytes.str());
}

}  // namespace

std::string llvm_version() { return fmt::format("llvm-{}", LLVM_VERSION_STRING); }

struct Session::State {
  std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;  // by target text
};

Session::Session() : state_(std::make_unique<State>()) { initialize_targets(); }
Session::~Session() = default;

Result<std::string> Session::compile(const Plan& plan, const program::Program& program, Output output) {
  const bool gpu = plan.target.kind == TargetKind::gpu;
  if (gpu) HEADNORM_CHECK(nvptx::check_target(plan.target));
  auto& machine = state_->machines[to_text(plan.target)];
  if (!machine) {
    HEADNORM_TRY(machine, make_target_machine(plan.target));
  }
  llvm::LLVMContext context;
  llvm::Module module(entry_name(plan), context);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  HEADNORM_CHECK(gpu ? nvptx::lower(plan, program, module) : host::lower(plan, program, module));
  HEADNORM_CHECK(verify_module(module));
  optimise(module, *machine);
  if (output == Output::ir) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module.print(stream, nullptr);
    return text;
  }
  const bool object = output == Output::object;
  if (object && gpu) return internal_error("LLVM emits PTX text, no object, for a GPU target");
  HEADNORM_TRY(std::string bytes,
               emit(module, *machine, object ? llvm::CodeGenFileType::ObjectFile : llvm::CodeGenFileType::AssemblyFile));
  return gpu ? nvptx::render_header(plan) + bytes : bytes;
}

}  // namespace headnorm::llvm_backend
