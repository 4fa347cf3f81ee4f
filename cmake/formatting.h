// {fmt} with its formatting compiled once for a library, in formatting.cpp, and not again in every file that formats: that takes a
// compiler two seconds each. Goes before the precompiled headers; files include <fmt/format.h> as ever.
#pragma once

#include <fmt/format.h>

#if FMT_VERSION < 100000  // later versions have another signature; they are used as they come
#define HEADNORM_FORMATS_ONCE
extern template void fmt::detail::vformat_to<char>(fmt::detail::buffer<char>&, fmt::string_view, fmt::format_args,
                                                   fmt::detail::locale_ref);
#endif
