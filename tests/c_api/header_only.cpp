// The C header alone, in C++17.
#include "headnorm_c.h"

int size_of_all_structs() { return static_cast<int>(headnorm_arguments_init().struct_size + headnorm_choice_init().struct_size); }
