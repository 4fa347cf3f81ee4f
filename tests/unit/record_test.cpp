// Records as JSON: exact round trips, strict reading, and hostile texts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/database/sealed_json.h"
#include "tests/support/database_samples.h"

namespace headnorm {
namespace {

using sealed_json::Json;
using test::sample_record;

// The record's text after `change`, sealed again: what a careless program, not a flipped bit, would write.
std::string changed(const std::function<void(Json&)>& change) {
  Json json = Json::parse(to_json(sample_record()));
  json.erase("sha256");
  change(json);
  return sealed_json::write(json);
}

std::string refusal(const std::string& text) {
  const Result<Record> record = record_from_json(text);
  return record.ok() ? "" : record.error().message;
}

TEST(Record, RoundTripsExactly) {
  Record record = sample_record();
  record.time.median_us = 0.1 + 0.2;
  record.copy_ratio = 1e-300;
  const std::string text = to_json(record);
  const Result<Record> read = record_from_json(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), text);
  EXPECT_EQ(read->id, record.id);
  EXPECT_EQ(read->spec, record.spec);
  EXPECT_EQ(read->rows, record.rows);
  EXPECT_EQ(read->device.name, record.device.name);
  EXPECT_EQ(read->device.target, record.device.target);
  EXPECT_EQ(read->device.units, record.device.units);
  EXPECT_EQ(read->schedule, record.schedule);
  EXPECT_EQ(read->time.median_us, record.time.median_us);
  EXPECT_EQ(read->copy_ratio, record.copy_ratio);
  EXPECT_EQ(read->candidates.rejected, record.candidates.rejected);
  EXPECT_EQ(read->seed, record.seed);
  EXPECT_EQ(read->kernel.sha256, record.kernel.sha256);
  EXPECT_EQ(read->kernel.key, record.kernel.key);
}

TEST(Record, RoundTripsWithoutKernelAndForGpu) {
  DeviceInfo device = test::sample_device();
  device.kind = "cuda";
  device.target = make_gpu_target(90);
  Record record = sample_record(test::sample_spec(), 7, device, Evidence::predicted, CachePolicy::warm);
  record.kernel = {};
  const Result<Record> read = record_from_json(to_json(record));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(record));
  EXPECT_TRUE(read->kernel.sha256.empty());
  EXPECT_EQ(read->evidence, Evidence::predicted);
  EXPECT_EQ(read->policy, CachePolicy::warm);
}

TEST(Record, IdIsOfSpecRowsDeviceAndPolicy) {
  const DeviceInfo device = test::sample_device();
  const KernelSpec spec = test::sample_spec();
  const std::string id = record_id(spec, 8, device, CachePolicy::cold);
  EXPECT_TRUE(sealed_json::is_hex(id, 32)) << id;

  DeviceInfo same = device;
  same.id = "host:1";
  same.driver = "2";
  same.memory_bytes = 1;
  EXPECT_EQ(record_id(spec, 8, same, CachePolicy::cold), id);

  DeviceInfo kind = device, name = device, target = device, units = device;
  kind.kind = "emulator";
  name.name += "2";
  target.target = make_host_target(HostIsa::x86_64_v3);
  units.units = 4;
  for (const DeviceInfo& other : {kind, name, target, units}) EXPECT_NE(record_id(spec, 8, other, CachePolicy::cold), id);
  EXPECT_NE(record_id(spec, 9, device, CachePolicy::cold), id);
  EXPECT_NE(record_id(spec, 8, device, CachePolicy::warm), id);
  EXPECT_NE(record_id(test::sample_spec(4096, 128), 8, device, CachePolicy::cold), id);

  KernelSpec other_spelling = spec;
  other_spelling.seed_scale = 3;  // no gate: without meaning
  EXPECT_EQ(record_id(other_spelling, 8, device, CachePolicy::cold), id);
}

TEST(Record, EveryFieldIsNeededAndOfOneType) {
  const Json whole = Json::parse(to_json(sample_record()));
  ASSERT_EQ(whole.size(), 18u);
  for (const auto& item : whole.items()) {
    if (item.key() == "sha256") continue;
    const std::string name = item.key();
    EXPECT_NE(refusal(changed([&](Json& json) { json.erase(name); })), "") << name;
    for (const Json& value : {Json(nullptr), Json(true), Json("text"), Json(-1), Json(0.5), Json::array(), Json::object()}) {
      if (name == "kernel" && value.is_null()) continue;
      if (value.is_string() && (name == "search" || name == "created" || name == "tool")) continue;
      if (name == "copy_ratio" && value == 0.5) continue;
      EXPECT_NE(refusal(changed([&](Json& json) { json[name] = value; })), "") << name << " = " << value;
    }
  }
  EXPECT_NE(refusal(changed([](Json& json) { json["extra"] = 1; })).find("extra"), std::string::npos);
}

TEST(Record, RefusesWhatDoesNotFitTogether) {
  EXPECT_EQ(refusal(changed([](Json&) {})), "");
  EXPECT_NE(refusal(changed([](Json& json) { json["format"] = 2; })).find("format 2"), std::string::npos);
  EXPECT_NE(refusal(changed([](Json& json) { json["rows"] = 2048; })).find("id "), std::string::npos);
  EXPECT_NE(refusal(changed([](Json& json) { json["rows"] = 18446744073709551615u; })).find("rows"), std::string::npos);
  EXPECT_NE(refusal(changed([](Json& json) { json["device"]["units"] = 4; })).find("id "), std::string::npos);
  EXPECT_NE(refusal(changed([](Json& json) { json["device"]["target"] = "host"; })), "");
  EXPECT_NE(refusal(changed([](Json& json) { json["spec"] = "width=4096,head_size=255"; })).find("255"), std::string::npos);
  EXPECT_NE(refusal(changed([](Json& json) { json["schedule"] = "lanes=32"; })).find("not for target"), std::string::npos);
  EXPECT_NE(refusal(changed([](Json& json) { json["schedule"] = "form=split,accumulators=3"; })).find("accumulators"),
            std::string::npos);
  EXPECT_NE(refusal(changed([](Json& json) { json["kernel"]["sha256"] = "../../etc/passwd"; })).find("hexadecimal"),
            std::string::npos);
  // A record that names the kernel of another plan could make this plan run the other's code.
  EXPECT_NE(refusal(changed([](Json& json) { json["schedule"] = "form=split,block=4096"; })).find("key of the kernel"),
            std::string::npos);
}

TEST(Record, RefusesHostileJson) {
  EXPECT_NE(refusal(""), "");
  EXPECT_NE(refusal("null"), "");
  EXPECT_NE(refusal("[]"), "");
  EXPECT_NE(refusal("{}").find("sha256"), std::string::npos);
  EXPECT_NE(refusal(std::string(1 << 19, '[')).find("nested"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_NE(refusal(objects).find("nested"), std::string::npos);
  EXPECT_NE(refusal("{\"a\":1,\"a\":1}").find("twice"), std::string::npos);
  EXPECT_NE(refusal("{\"a\":{\"b\":1,\"b\":2}}").find("twice"), std::string::npos);
  EXPECT_NE(refusal("{\"a\":1e999}"), "");
  EXPECT_NE(refusal("{\"a\":" + std::string(100000, '9') + "}"), "");
  EXPECT_NE(refusal("{\"a\":NaN}"), "");
  EXPECT_NE(refusal("{\"a\":\"\\u0000\"}").find("NUL"), std::string::npos);
  EXPECT_NE(refusal("{\"a\":\"\xff\"}"), "");
  EXPECT_NE(refusal("{\"a\":\"" + std::string(sealed_json::kMaxBytes, 'x') + "\"}").find("more than"), std::string::npos);

  const std::string good = to_json(sample_record());
  EXPECT_NE(refusal(good + std::string(1, '\0')).find("NUL"), std::string::npos);
  EXPECT_NE(refusal(good + "{}"), "");
  EXPECT_EQ(refusal(good + " \n"), "");  // white space alone changes nothing
}

TEST(Record, EveryFlippedBitOfTheTextIsFoundOrHarmless) {
  const std::string good = to_json(sample_record());
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string text = good;
      text[i] = static_cast<char>(text[i] ^ (1 << bit));
      const Result<Record> read = record_from_json(text);
      if (read.ok()) {
        EXPECT_EQ(to_json(*read), good) << "byte " << i << " bit " << bit;
      }
    }
  }
}

}  // namespace
}  // namespace headnorm
