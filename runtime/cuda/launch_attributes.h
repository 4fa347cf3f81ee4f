// LaunchAttributes: what a launch of a plan says beside grid, block and stream: blocks that form a cluster, and whether the kernel
// may start while the one before it ends.
#pragma once

#include <array>

#include "core/plan.h"
#include "runtime/cuda/driver_api.h"

namespace headnorm::cuda {

class LaunchAttributes {
 public:
  explicit LaunchAttributes(const Plan& plan) {
    if (plan.gpu().cluster > 1)
      add(LaunchAttributeId::cluster_dimension).cluster = {static_cast<unsigned>(plan.gpu().cluster), 1, 1};
    if (plan.gpu_schedule().launch != LaunchForm::plain)
      add(LaunchAttributeId::programmatic_stream_serialization).programmatic_stream_serialization = 1;
  }
  LaunchAttributes(const LaunchAttributes&) = delete;
  LaunchAttributes& operator=(const LaunchAttributes&) = delete;

  // `config` refers to these from then on.
  void attach_to(LaunchConfig& config) {
    config.attributes = count_ > 0 ? list_.data() : nullptr;
    config.attribute_count = count_;
  }

 private:
  LaunchAttributeValue& add(LaunchAttributeId id) {
    LaunchAttribute& attribute = list_[count_++];
    attribute.id = id;
    return attribute.value;
  }

  std::array<LaunchAttribute, 2> list_{};
  unsigned count_ = 0;
};

}  // namespace headnorm::cuda
