// The cost model: its figures and their sources, occupancy by hand, what makes a prediction longer, and what calibration gives
// back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tuner/cost_model/calibration.h"
#include "tuner/cost_model/gpu_model.h"
#include "tuner/cost_model/prediction.h"
#include "tuner/cost_model/rank_correlation.h"
#include "tuner/predicted_search.h"
#include "tuner/random.h"
#include "tuner/search_space.h"

namespace headnorm {
namespace {

const GpuModel& h200() { return *find_gpu_model("h200"); }

KernelSpec sample_spec(std::int64_t width = 4096, std::int64_t head_size = 256) {
  KernelSpec spec;
  spec.width = width;
  spec.head_size = head_size;
  return *make_spec(spec);
}

Plan plan_of(const KernelSpec& spec, const char* schedule, const char* target = "sm_90") {
  const Result<Plan> plan = make_plan(spec, *parse_schedule(schedule), *parse_target(target));
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return *plan;
}

Prediction predict_plan(const Plan& plan, std::int64_t rows, const GpuModel& model = h200()) {
  return predict(plan, count_tile(plan), rows, model);
}

TEST(GpuModel, AllAreThereWithASourceForEveryFigure) {
  std::vector<std::string> slugs;
  for (const GpuModel& model : gpu_models()) {
    slugs.push_back(model.slug);
    for (const FigureValue& figure : model.figures) {
      EXPECT_GT(figure.value, 0) << model.slug;
      EXPECT_GT(figure.source.size(), 8u) << model.slug;
      EXPECT_NE(figure.confidence, Confidence::calibrated) << "nothing of what is compiled in was measured by headnorm";
    }
    EXPECT_EQ(device_info(model).id, "model:" + model.slug);
    EXPECT_EQ(device_info(model).kind, "cuda") << "records have the key of the device itself";
    EXPECT_EQ(to_json(*gpu_model_from_json(to_json(model))), to_json(model));
  }
  EXPECT_EQ(slugs, (std::vector<std::string>{"a100", "h100", "h200", "b200", "l40s", "rtx4090", "rtx5090"}));
}

TEST(GpuModel, RefusesWhatIsNone) {
  const std::string text = to_json(h200());
  const auto without = [&](const std::string& what, const std::string& instead) {
    std::string changed = text;
    changed.replace(changed.find(what), what.size(), instead);
    return gpu_model_from_json(changed);
  };
  EXPECT_TRUE(without("H200 SXM", "H200").ok());
  for (const auto& [what, instead] :
       {std::pair("\"clock_ghz\"", "\"clock\""), std::pair("1.98", "-1"), std::pair("1.98", "null"),
        std::pair("\"sm_90+ptx80\"", "\"x86-64\""), std::pair("from memory", "certain"), std::pair("{", "[")})
    EXPECT_FALSE(without(what, instead).ok()) << what;
  EXPECT_FALSE(gpu_model_from_json("").ok());
}

// 4 warps of a block at 32 registers: 64 KiB of registers hold 16 blocks of 128 threads, as 2048 threads do.
TEST(Occupancy, IsTheLeastOfItsLimits) {
  const Plan plan = plan_of(sample_spec(), "lanes=32,vector=8,block=128");
  const Occupancy by_threads = occupancy_of(plan, h200(), 32);
  EXPECT_EQ(by_threads.blocks, 16);
  EXPECT_EQ(by_threads.limit, OccupancyLimit::threads);
  EXPECT_EQ(by_threads.source, RegisterSource::assembler);
  EXPECT_DOUBLE_EQ(by_threads.share, 1);
  const Occupancy by_registers = occupancy_of(plan, h200(), 65);  // rounded to 72: 2304 a warp, 28 warps, 7 blocks
  EXPECT_EQ(by_registers.blocks, 7);
  EXPECT_EQ(by_registers.limit, OccupancyLimit::registers);
  EXPECT_EQ(occupancy_of(plan_of(sample_spec(), "lanes=32,vector=8,block=32"), h200(), 32).limit, OccupancyLimit::blocks);
  EXPECT_EQ(occupancy_of(plan, h200()).source, RegisterSource::estimate);
  EXPECT_EQ(occupancy_of(plan, *find_gpu_model("rtx5090"), 32).blocks, 12) << "1536 threads";

  // A block keeps 4 rows of 8192 bytes: 32 KiB and the reserved one, 6 of which fit into 228 KiB.
  const Plan shared = plan_of(sample_spec(4096, 4096), "lanes=128,vector=8,rows=4,block=512,residency=shared");
  EXPECT_EQ(shared.gpu().dynamic_shared_bytes, 32768);
  EXPECT_EQ(occupancy_of(shared, h200(), 24).blocks, 4) << "2048 threads";
  const Occupancy by_shared = occupancy_of(plan_of(sample_spec(32768, 32768), "lanes=512,vector=8,residency=shared"), h200(), 24);
  EXPECT_EQ(by_shared.blocks, 3);
  EXPECT_EQ(by_shared.limit, OccupancyLimit::shared_memory);
}

TEST(Prediction, OfManyRowsIsBoundByMemoryAndNearItsRate) {
  const Plan plan = plan_of(sample_spec(), "lanes=32,vector=8,block=256");
  const Prediction p = predict_plan(plan, 65536);
  EXPECT_EQ(p.bound, Bound::memory);
  EXPECT_DOUBLE_EQ(p.memory_bytes, static_cast<double>(minimum_traffic(plan.spec).total_bytes(65536)));
  EXPECT_GT(p.time_us, p.memory_us);
  EXPECT_LT(p.time_us, 1.5 * p.memory_us);
  EXPECT_GT(p.waves, 1);
  EXPECT_GT(p.in_flight_bytes, 0);
}

TEST(Prediction, OfOneRowIsBoundByTheLaunch) {
  const Prediction p = predict_plan(plan_of(sample_spec(), "lanes=32,vector=8,block=128"), 1);
  EXPECT_EQ(p.bound, Bound::launch);
  EXPECT_LT(p.time_us, 2 * p.launch_us);
}

TEST(Prediction, GrowsWithRowsAndFallsWithBandwidth) {
  const Plan plan = plan_of(sample_spec(), "lanes=16,vector=8,block=128");
  double before = 0;
  for (std::int64_t rows : {1, 64, 1024, 4096, 65536}) {
    const double time_us = predict_plan(plan, rows).time_us;
    EXPECT_GE(time_us, before) << rows;
    before = time_us;
  }
  EXPECT_LT(predict_plan(plan, 65536, *find_gpu_model("b200")).time_us, before);
  EXPECT_GT(predict_plan(plan, 65536, *find_gpu_model("a100")).time_us, before);
}

TEST(Prediction, ReadingAgainAndOverfetchCost) {
  const KernelSpec wide = sample_spec(4096, 4096);
  const double once = predict_plan(plan_of(wide, "lanes=256,vector=8,block=256"), 65536).time_us;
  EXPECT_GT(predict_plan(plan_of(wide, "lanes=256,vector=8,block=256,residency=reload,unroll=1"), 65536).time_us, once);
  // A lane with a part of its own reads sectors for 16 of their 32 bytes.
  const KernelSpec narrow = sample_spec(4096, 64);
  const Prediction scattered = predict_plan(plan_of(narrow, "lanes=1,vector=8"), 65536);
  const Prediction gathered = predict_plan(plan_of(narrow, "lanes=8,vector=8"), 65536);
  EXPECT_DOUBLE_EQ(scattered.cache_bytes, 2 * gathered.cache_bytes);
  EXPECT_GT(scattered.time_us, gathered.time_us);
}

TEST(PredictedSearch, FindsAScheduleNoSlowerThanTheDefaultAndSaysThatItIsPredicted) {
  for (const char* slug : {"a100", "h200", "b200", "rtx5090"}) {
    const GpuModel& model = *find_gpu_model(slug);
    PredictedSearch search(sample_spec(), model, {});
    for (std::int64_t rows : {1, 4096}) {
      const Result<Record> record = search.run(rows);
      ASSERT_TRUE(record.ok()) << record.error().message;
      EXPECT_EQ(record->evidence, Evidence::predicted);
      EXPECT_EQ(record->candidates.measured, 0);
      EXPECT_EQ(record->candidates.verified, 0);
      EXPECT_EQ(record->time.samples, 0);
      EXPECT_GT(record->candidates.legal, 100);
      EXPECT_NE(record->provenance.find("no candidate was run, verified or measured"), std::string::npos);
      EXPECT_NE(record->provenance.find("estimated"), std::string::npos);
      EXPECT_EQ(record->id, record_id(record->spec, rows, device_info(model), CachePolicy::cold));
      const Plan fallback = *make_plan(sample_spec(), default_schedule(sample_spec(), model.target), model.target);
      EXPECT_LE(record->time.median_us, predict_plan(fallback, rows, model).time_us * 1.001);  // itself among the simplest
      EXPECT_EQ(to_json(*PredictedSearch(sample_spec(), model, {}).run(rows)), to_json(*record)) << "the same every time";
    }
  }
}

TEST(PredictedSearch, AsksTheAssemblerForTheBestAlone) {
  int asked = 0;
  PredictedSearchOptions options;
  options.assembler = "ptxas 1.0";
  options.count_registers = [&](const Plan&) -> Result<int> {
    ++asked;
    return 40;
  };
  const Record record = *PredictedSearch(sample_spec(), h200(), options).run(4096);
  EXPECT_EQ(asked, 8);
  EXPECT_NE(record.provenance.find("ptxas 1.0"), std::string::npos);
  options.count_registers = [](const Plan&) -> Result<int> { return environment_error("no", "yes"); };
  EXPECT_FALSE(PredictedSearch(sample_spec(), h200(), options).run(4096).ok());
}

TEST(RankCorrelation, OfListsByHand) {
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {10, 20, 30, 40}), 1);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(spearman({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.8);
  EXPECT_DOUBLE_EQ(kendall({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.6);
  EXPECT_NEAR(kendall({1, 1, 2}, {1, 2, 3}), 2 / std::sqrt(2.0 * 3.0), 1e-15) << "tau-b: of three pairs two differ in the first";
  EXPECT_DOUBLE_EQ(spearman({1, 1, 1}, {1, 2, 3}), 0);
  EXPECT_DOUBLE_EQ(kendall({}, {}), 0);
}

// Times as a device with these figures would give them, with noise of a few percent.
std::vector<MeasuredTime> synthetic_times(const GpuModel& truth, double noise, std::uint64_t seed) {
  std::vector<MeasuredTime> times;
  Random random(seed);
  for (const auto& [width, head] : {std::pair(768, 256), std::pair(4096, 256), std::pair(4096, 64), std::pair(8192, 8192)}) {
    const SearchSpace space = *build_search_space(sample_spec(width, head), truth.target);
    for (std::int64_t rows : {1, 64, 1024, 16384}) {
      for (int i = 0; i < 12; ++i) {
        const Plan& plan = space.plans[random.below(space.plans.size())];
        const double time_us = predict_plan(plan, rows, truth).time_us * std::exp(noise * random.normal());
        times.push_back({plan, rows, time_us});
      }
    }
  }
  return times;
}

TEST(Calibration, FindsTheFiguresThatMadeATable) {
  GpuModel truth = h200();
  truth.at(Figure::memory_efficiency).value = 0.78;
  truth.at(Figure::memory_latency_ns).value = 620;
  truth.at(Figure::l2_gb_per_s).value = 4300;
  truth.at(Figure::issue_per_cycle).value = 1.6;
  truth.at(Figure::launch_us).value = 3.4;
  const std::vector<MeasuredTime> times = synthetic_times(truth, 0.02, 5);
  const Result<Calibration> calibration = calibrate(h200(), times, "a synthetic table");
  ASSERT_TRUE(calibration.ok()) << calibration.error().message;
  for (Figure figure :
       {Figure::memory_efficiency, Figure::memory_latency_ns, Figure::l2_gb_per_s, Figure::issue_per_cycle, Figure::launch_us}) {
    EXPECT_NEAR(calibration->model[figure] / truth[figure], 1, 0.1) << to_text(figure);
    EXPECT_EQ(calibration->model.at(figure).confidence, Confidence::calibrated);
    EXPECT_EQ(calibration->model.at(figure).source, "a synthetic table");
  }
  EXPECT_LT(calibration->after.error, 0.03) << "the noise";
  EXPECT_GT(calibration->before.error, 0.1);
  EXPECT_GT(calibration->after.spearman, 0.99);
  EXPECT_GT(calibration->after.kendall, 0.95);
  EXPECT_GT(calibration->after.groups, 10);
  EXPECT_GE(calibration->after.spearman_within, calibration->before.spearman_within - 0.02);
}

// A data sheet's figure does not become a measured one because something else was measured.
TEST(Calibration, AFigureOfWhichTheTimesSayNothingKeepsItsValueAndSource) {
  GpuModel truth = h200();
  truth.at(Figure::memory_efficiency).value = 0.78;
  const Plan plan = plan_of(sample_spec(), "lanes=32,vector=8,block=256");
  std::vector<MeasuredTime> times;
  for (std::int64_t rows = 65536; times.size() < 16; rows += 16384)
    times.push_back({plan, rows, predict_plan(plan, rows, truth).time_us});
  const Result<Calibration> calibration = calibrate(h200(), times, "large launches");
  ASSERT_TRUE(calibration.ok()) << calibration.error().message;
  EXPECT_NEAR(calibration->model[Figure::memory_efficiency], 0.78, 0.01);
  EXPECT_EQ(calibration->model.at(Figure::memory_efficiency).confidence, Confidence::calibrated);
  for (Figure figure : {Figure::launch_us, Figure::l2_gb_per_s, Figure::l2_latency_ns}) {
    EXPECT_EQ(calibration->model[figure], h200()[figure]) << to_text(figure);
    EXPECT_EQ(calibration->model.at(figure).confidence, h200().at(figure).confidence) << to_text(figure);
    EXPECT_EQ(calibration->model.at(figure).source, h200().at(figure).source) << to_text(figure);
  }
  for (const FigureFit& fit : calibration->figures)
    EXPECT_EQ(fit.is_determined(), calibration->model.at(fit.figure).source == "large launches") << to_text(fit.figure);
}

// One row, one schedule: launch and latency are a sum, of which no time tells the parts. Their sum is fitted all the same.
TEST(Calibration, OfFiguresThatCannotBeToldApartNotAllAreFitted) {
  GpuModel truth = h200();
  truth.at(Figure::launch_us).value *= 1.5;
  const Plan plan = plan_of(sample_spec(), "lanes=32,vector=8,block=128");
  const std::vector<MeasuredTime> times(16, MeasuredTime{plan, 1, predict_plan(plan, 1, truth).time_us});
  const Result<Calibration> calibration = calibrate(h200(), times, "one row");
  ASSERT_TRUE(calibration.ok()) << calibration.error().message;
  EXPECT_EQ(std::ranges::count_if(calibration->figures, &FigureFit::is_determined), 1);
  EXPECT_LT(calibration->after.error, 0.02);
  EXPECT_GT(calibration->before.error, 0.1);
}

// A memory that reaches its peak is at the limit of its figure, which is no sign that the times say nothing of it.
TEST(Calibration, AnEfficiencyOfOneIsDetermined) {
  GpuModel truth = h200();
  truth.at(Figure::memory_efficiency).value = 1;
  truth.at(Figure::gb_per_s).value *= 1.1;  // more than the data sheet has
  const Result<Calibration> calibration = calibrate(h200(), synthetic_times(truth, 0.02, 7), "a fast memory");
  ASSERT_TRUE(calibration.ok()) << calibration.error().message;
  EXPECT_DOUBLE_EQ(calibration->model[Figure::memory_efficiency], 1);
  EXPECT_EQ(calibration->model.at(Figure::memory_efficiency).confidence, Confidence::calibrated);
}

TEST(Calibration, RefusesTooFewTimesAndThoseOfOtherDevices) {
  std::vector<MeasuredTime> times = synthetic_times(h200(), 0, 5);
  times.resize(kFewestTimes - 1);
  EXPECT_NE(calibrate(h200(), times, "few").error().message.find("11"), std::string::npos);
  std::vector<MeasuredTime> others = synthetic_times(*find_gpu_model("a100"), 0, 5);
  EXPECT_NE(calibrate(h200(), others, "others").error().message.find("sm_80"), std::string::npos);
}

}  // namespace
}  // namespace headnorm
