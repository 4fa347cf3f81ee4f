#include "cli/reference.h"

#include <memory>

#include "generator/generator.h"
#include "generator/program/evaluate.h"

namespace headnorm::cli {

Result<Reference> make_reference(const KernelSpec& spec) {
  HEADNORM_TRY(program::Program program, build_program(spec));
  auto shared = std::make_shared<const program::Program>(std::move(program));
  return Reference([shared](const KernelSpec&, const RowValues& inputs) {
    program::RowOutputs outputs = program::evaluate(*shared, inputs);
    return ReferenceRow{.y = std::move(outputs.y), .residual_out = std::move(outputs.residual_out)};
  });
}

}  // namespace headnorm::cli
