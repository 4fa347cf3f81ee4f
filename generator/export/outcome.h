// Outcome: what became of a trial, in the words of Kernel Tuner and of the T4 schema.
#pragma once

#include <string>

#include "runtime/database/trial_log.h"

namespace headnorm::exports {

// "correct", or one of the schema's kinds of invalidity: "compile", "correctness", "constraints", "runtime".
std::string t4_invalidity(const Trial& trial);

// The word that stands for the time of a failed configuration; empty if it was measured.
std::string kernel_tuner_error(const Trial& trial);

}  // namespace headnorm::exports
