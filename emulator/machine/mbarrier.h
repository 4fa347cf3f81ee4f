// mbarrier objects: finding one, and letting what is on its way to it arrive.
#pragma once

#include "emulator/machine/access.h"

namespace headnorm::emulator {

struct MbarrierPlace {
  SharedPlace place;
  Mbarrier* mbarrier = nullptr;  // null after a fault
};

// At a shared address; a fault where no mbarrier has been initialised there.
MbarrierPlace find_mbarrier(const Context& context, const Operation& operation, std::uint32_t lane, std::uint64_t address);

// Ends the phase if nothing more is expected.
void settle(Launch& launch, Mbarrier& mbarrier);
// Lets all copies that belong to it arrive.
void let_arrive(const Context& context, Mbarrier& mbarrier);

}  // namespace headnorm::emulator
