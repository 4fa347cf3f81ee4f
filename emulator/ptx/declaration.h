// Declarations of variables and kernel parameters. Failures are kept in the token stream.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "emulator/ptx/module.h"
#include "emulator/ptx/token_stream.h"

namespace headnorm::emulator::ptx {

std::optional<Space> parse_space(std::string_view directive);  // ".shared"

// From ".shared .align 16 .b8 a[64], b[4];" with the semicolon.
std::vector<Variable> parse_variables(TokenStream& tokens);

// From ".param .u64 .ptr .global .align 4 name"; no comma.
Variable parse_parameter(TokenStream& tokens);

// The type in ".f32"; records a failure where there is none.
Type expect_type(TokenStream& tokens);

}  // namespace headnorm::emulator::ptx
