// Safetensors: what is written is read, a tensor of a huge file costs its own bytes alone, and damage or malice is an error that
// says what is wrong.
#include "cli/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cli/tensor_file.h"
#include "tests/support/temporary_directory.h"

namespace headnorm::cli {
namespace {

std::string length_of(std::uint64_t bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(bytes >> 8 * i & 0xff);
  return text;
}

std::string file_of(const std::string& header, const std::string& data) { return length_of(header.size()) + header + data; }

// "weight" F32 (2, 2) of '\1' and "bias" BF16 (3,) of '\2'.
std::string two_tensors() {
  return file_of(R"({"__metadata__":{"format":"pt"},"weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                 R"("bias":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})",
                 std::string(16, '\1') + std::string(6, '\2'));
}

class Safetensors : public ::testing::Test {
 protected:
  std::string path(const std::string& name = "m.safetensors") const { return directory_.path() / name; }
  std::string write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path();
  }
  std::string message_of(const std::string& bytes, const std::string& name = "") const {
    const Result<FileTensor> tensor = read_tensor(write(bytes) + name);
    return tensor.ok() ? "accepted" : tensor.error().message + " / " + tensor.error().remedy;
  }

  test::TemporaryDirectory directory_;
};

TEST_F(Safetensors, WhatIsWrittenIsRead) {
  for (const Dtype dtype : kDtypes) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {0}, {7}, {3, 5}, {2, 3, 4}, {0, std::int64_t{1} << 40}}) {
      std::size_t bytes = static_cast<std::size_t>(size_bytes(dtype));
      for (const std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
      const std::string header = safetensors_header("a \"b\" \u00e9", dtype, shape), data(bytes, '\3');
      EXPECT_EQ(header.size() % 8, 0u);
      write(header + data);
      for (const char* name : {"", ":a \"b\" \u00e9"}) {
        const Result<FileTensor> tensor = read_tensor(path() + name);
        ASSERT_TRUE(tensor.ok()) << tensor.error().message;
        EXPECT_EQ(tensor->dtype, dtype);
        EXPECT_EQ(tensor->shape, shape);
        EXPECT_EQ(tensor->bytes, data);
      }
    }
  }
}

TEST_F(Safetensors, ATensorIsFoundByName) {
  write(two_tensors());
  const Result<FileTensor> weight = read_tensor(path() + ":weight"), bias = read_tensor(path() + ":bias");
  ASSERT_TRUE(weight.ok() && bias.ok());
  EXPECT_EQ(weight->shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(weight->bytes, std::string(16, '\1'));
  EXPECT_EQ(bias->dtype, Dtype::bf16);
  EXPECT_EQ(bias->bytes, std::string(6, '\2'));
}

TEST_F(Safetensors, NamesThatAreMissingOrUnknownAreListedNearestFirst) {
  EXPECT_EQ(message_of(two_tensors()),
            "'" + path() + "' holds 2 tensors, and none is named / give " + path() + ":NAME; it holds 'weight', 'bias'");
  EXPECT_EQ(message_of(two_tensors(), ":bais"), "'" + path() + "' holds no tensor 'bais' / it holds 'bias', 'weight'");
  EXPECT_EQ(message_of(two_tensors(), ":"), "'" + path() + "' holds no tensor '' / it holds 'weight', 'bias'");
  EXPECT_NE(message_of(file_of("{}", "")).find("holds no tensor"), std::string::npos);
}

TEST_F(Safetensors, OtherDtypesAreNamedWithThoseThatWork) {
  const std::string file =
      file_of(R"({"i":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"new":{"dtype":"F99","shape":[7],"data_offsets":[8,9]}})",
              std::string(9, '\0'));
  EXPECT_NE(message_of(file, ":i").find("tensor 'i' is of dtype I64 / convert it: kernels take F32, F16 and BF16"),
            std::string::npos);
  EXPECT_NE(message_of(file, ":new").find("dtype F99"), std::string::npos);
}

TEST_F(Safetensors, OneTensorOfAHugeFileCostsItsOwnBytes) {
  constexpr std::uint64_t kHuge = std::uint64_t{40} << 30;
  write(file_of(R"({"big":{"dtype":"F32","shape":[10,1073741824],"data_offsets":[0,42949672960]},)"
                R"("last":{"dtype":"F16","shape":[2],"data_offsets":[42949672960,42949672964]}})",
                ""));
  const std::uint64_t header = std::filesystem::file_size(path());
  std::filesystem::resize_file(path(), header + kHuge + 4);  // sparse: zeros take no room
  const Result<FileTensor> tensor = read_tensor(path() + ":last");
  ASSERT_TRUE(tensor.ok()) << tensor.error().message;
  EXPECT_EQ(tensor->bytes, std::string(4, '\0'));
}

TEST_F(Safetensors, HostileHeadersSayWhatIsWrong) {
  const auto tensor = [](const std::string& fields) { return R"({"t":{)" + fields + "}}"; };
  const std::string huge = "99999999999999999999";
  const std::pair<std::string, std::string> cases[] = {
      {"", "a file of 0 bytes is too short"},
      {"1234567", "a file of 7 bytes is too short"},
      {length_of(3) + "{}", "longer than the file"},
      {length_of(~std::uint64_t{0}) + "{}", "longer than the file"},
      {file_of("", ""), "not a JSON object alone"},
      {file_of(" {}", ""), "not a JSON object alone"},
      {file_of(std::string("{}\0", 3), ""), "not a JSON object alone"},
      {file_of("{} {}", ""), "not JSON at byte"},
      {file_of("{", ""), "not JSON at byte"},
      {file_of("{\"\xff\":1}", ""), "not JSON at byte"},
      {file_of(std::string(100000, '['), ""), "not a JSON object alone"},
      {file_of("{\"a\":" + std::string(100000, '['), ""), "an array where none belongs"},
      {file_of(R"({"a":{"dtype":{"a":{}}}})", ""), "an object where none belongs"},
      {file_of(R"({"a":1})", ""), "a number where none belongs"},
      {file_of(R"({"a":null})", ""), "null"},
      {file_of(R"({"a":true})", ""), "true or false"},
      {file_of(R"({"a":"b"})", ""), "a text where none belongs"},
      {file_of(R"({"__metadata__":{"a":1}})", ""), "a number where none belongs"},
      {file_of(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"colour":1)"), "1234"), "a key 'colour'"},
      {file_of(tensor(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])"), "1234"), "two keys 'dtype'"},
      {file_of(tensor(R"("dtype":"F32","shape":[1])"), "1234"), "lacks"},
      {file_of(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4])"), "1234"), "lacks"},
      {file_of(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), "1234"), "more than two data_offsets"},
      {file_of(tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), "1234"), "-1 is no size"},
      {file_of(tensor(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), "1234"), "1.0 is no size"},
      {file_of(tensor(R"("dtype":"F32","shape":[)" + huge + R"(],"data_offsets":[0,4])"), "1234"), huge + " is no size"},
      {file_of(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615])"), "1234"), "past any file"},
      {file_of(tensor(R"("dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,4])"), "1234"), "is not what its shape"},
      {file_of(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), "1234"), "is not what its shape of F32 takes"},
      {file_of(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), "1234"), "before its beginning"},
      {file_of(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), "1234"), "begins at 4"},
      {file_of(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "12345"), "the file has 5"},
      {file_of(tensor(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "123"), "the file has 3"},
      {file_of(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
               "1234"),
       "name 't' is given twice"},
      {file_of(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"u":{"dtype":"F16","shape":[1],"data_offsets":[2,4]}})",
               "1234"),
       "begins at 2"},
      {file_of("{\"\\u001b\":{\"a\":1}}", ""), "'\\x1b'"},
  };
  for (const auto& [file, part] : cases)
    EXPECT_NE(message_of(file).find(part), std::string::npos) << part << ": " << message_of(file);
  std::string dimensions = "1";
  for (int i = 0; i < 40; ++i) dimensions += ",1";
  EXPECT_NE(message_of(file_of(tensor(R"("dtype":"F32","shape":[)" + dimensions + R"(],"data_offsets":[0,4])"), "1234"))
                .find("more than 32 dimensions"),
            std::string::npos);
}

TEST_F(Safetensors, AHeaderPastTheLimitIsNotRead) {
  write(length_of(kMaxSafetensorsHeader + 1));
  std::filesystem::resize_file(path(), std::uint64_t{1} << 30);
  EXPECT_NE(read_tensor(path()).error().message.find("longer than 100000000"), std::string::npos);
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = two_tensors();
  ASSERT_EQ(message_of(whole, ":bias"), "accepted");
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(message_of(whole.substr(0, size), ":bias"), "accepted") << size;
}

// Whatever one byte of the header becomes, a tensor that is still read is the right one.
TEST_F(Safetensors, EveryChangedByteOfTheHeaderIsAnErrorOrHarmless) {
  const std::string whole = two_tensors();
  const std::size_t header_end = whole.size() - 22;
  int refused = 0;
  for (std::size_t i = 0; i < header_end; ++i) {
    for (const int change : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      const Result<FileTensor> tensor = read_tensor(write(damaged) + ":weight");
      if (!tensor.ok()) {
        ++refused;
        EXPECT_NE(tensor.error().remedy, "");
        continue;
      }
      EXPECT_EQ(tensor->dtype, Dtype::f32) << "byte " << i << " changed by " << change;
      EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{2, 2})) << "byte " << i << " changed by " << change;
      EXPECT_EQ(tensor->bytes, std::string(16, '\1')) << "byte " << i << " changed by " << change;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(TensorPath, IsSplitAtTheFirstExtension) {
  const auto parts = [](const std::string& text) {
    const TensorPath place = parse_tensor_path(text);
    return place.path + "|" + place.name.value_or("-") + (place.safetensors ? "|s" : "|n");
  };
  EXPECT_EQ(parts("x.npy"), "x.npy|-|n");
  EXPECT_EQ(parts("a:b.npy"), "a:b.npy|-|n");
  EXPECT_EQ(parts("x.npy:y"), "x.npy:y|-|n");
  EXPECT_EQ(parts("m.safetensors"), "m.safetensors|-|s");
  EXPECT_EQ(parts("a:b/m.safetensors:layers.0:w"), "a:b/m.safetensors|layers.0:w|s");
  EXPECT_EQ(parts("m.safetensors:x.safetensors:y"), "m.safetensors|x.safetensors:y|s");
  EXPECT_EQ(parts("m.safetensors:"), "m.safetensors||s");
}

TEST(TensorPath, NamesOfOutputsAreChecked) {
  EXPECT_TRUE(check_tensor_output("--output", "y.safetensors:\u00e9").ok());
  EXPECT_TRUE(check_tensor_output("--output", "y.safetensors").ok());
  for (const char* name : {"", "__metadata__", "\xff"}) {
    const Result<void> checked = check_tensor_output("--output", std::string("y.safetensors:") + name);
    ASSERT_FALSE(checked.ok()) << name;
    EXPECT_NE(checked.error().message.find("cannot be named"), std::string::npos) << checked.error().message;
  }
}

}  // namespace
}  // namespace headnorm::cli
