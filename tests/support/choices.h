// Choices: how often random cases had each value of an option. Tests hold them to every value, so that none is left out unseen.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/plan.h"
#include "tests/support/launch_tensors.h"

namespace headnorm::test {

// "field value", and how many cases had it.
using Choices = std::map<std::string, int>;

// Every choice of specs, layouts and schedules, none of them counted yet.
Choices host_choices(const std::vector<HostIsa>& isas);
Choices gpu_choices();

// Counts what one launch has. An option counts only where it makes a difference.
void count_choices(Choices& choices, const Plan& plan, const Layout& layout);

// "" or the choices that fewer than `least` launches had.
std::string rarer_than(const Choices& choices, int least);

}  // namespace headnorm::test
