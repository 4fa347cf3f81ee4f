#include "generator/backend/host/lower.h"

#include "core/artifact.h"
#include "generator/backend/host/forms.h"

namespace headnorm::host {

Result<void> lower(const Plan& plan, const program::Program& original, llvm::Module& module) {
  const HostForm form = plan.host_schedule().form;
  const bool keeps = form == HostForm::reg || form == HostForm::rot;
  const program::Program program = keeps ? original : program::rematerialise(original);
  if ((form == HostForm::rot || form == HostForm::pipe) && program.steps.size() != 3)
    return internal_error("the forms rot and pipe take programs of two sweeps");

  FunctionBuilder builder(module, entry_name(plan), plan);
  SweepCode code(builder, program);
  switch (form) {
    case HostForm::reg:
      emit_reg(builder, code);
      break;
    case HostForm::rot:
      emit_rot(builder, code);
      break;
    case HostForm::pipe:
      emit_pipe(builder, code);
      break;
    case HostForm::split:
      emit_split(builder, code);
      break;
  }
  if (plan.host_schedule().store == StoreKind::nt && plan.target.streaming_needs_fence())
    builder.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, llvm::ArrayRef<llvm::Type*>{}, {});
  builder.CreateRetVoid();
  return {};
}

}  // namespace headnorm::host
