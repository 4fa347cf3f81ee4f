#include "cmake/formatting.h"

#ifdef HEADNORM_FORMATS_ONCE
template void fmt::detail::vformat_to<char>(fmt::detail::buffer<char>&, fmt::string_view, fmt::format_args,
                                            fmt::detail::locale_ref);
#endif
