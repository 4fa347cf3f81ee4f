// Contest: times candidates against one another in rounds, each with a plain copy.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tuner/measure.h"
#include "tuner/random.h"

namespace headnorm {

// Times of one candidate, a round each. A ratio is the time over that of the copy in the same round, or the time itself where there
// is no copy: it is what candidates are compared by.
struct Samples {
  std::vector<double> times_us, ratios;
};

struct Contestant {
  Plan plan;
  Artifact artifact;
  std::shared_ptr<const LoadedKernel> kernel;
  Samples screening, finals;
  Samples closing;  // of a winner that the budget left with too few; decides nothing
  std::optional<Rejection> rejection;
  double compile_s = 0, verify_s = 0, measure_s = 0;  // on the clock; of rounds its even part

  // Of the finals if it took part. Without any sample or after a rejection there is no score.
  const Samples& samples() const { return finals.times_us.empty() ? screening : finals; }
  Samples samples_with_closing() const;
  std::optional<double> score() const;
};

class Contest {
 public:
  // `copy` may be null. `may_continue` is asked before each trial; a round that it ends leaves the others without a sample.
  Contest(Trials& trials, CopyReference* copy, std::int64_t bytes, std::uint64_t seed, std::function<bool()> may_continue)
      : trials_(&trials), copy_(copy), bytes_(bytes), random_(seed), may_continue_(std::move(may_continue)) {}

  // One trial of each contestant that was not rejected, in random order. False if it was ended early.
  Result<bool> round(const std::vector<Contestant*>& contestants, Samples Contestant::*samples);

 private:
  Trials* trials_;
  CopyReference* copy_;
  std::int64_t bytes_;
  Random random_;
  std::function<bool()> may_continue_;
};

// Best score first; contestants without a score are left out.
std::vector<Contestant*> ranked(const std::vector<Contestant*>& contestants);

}  // namespace headnorm
