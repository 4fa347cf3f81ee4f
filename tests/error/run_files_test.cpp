// run: arrays in and out, values worked out by hand, and files that are refused.
#include <cmath>

#include "cli/npy.h"
#include "cli/tensor_file.h"
#include "core/dtype.h"
#include "tests/support/command.h"

namespace headnorm::test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

std::string npy(Dtype dtype, const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
  std::string file = cli::npy_header(dtype, shape);
  const std::size_t begin = file.size(), size = static_cast<std::size_t>(size_bytes(dtype));
  file.resize(begin + values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) store_element(file.data() + begin + i * size, dtype, values[i]);
  return file;
}

std::vector<float> values_of(const std::filesystem::path& path, std::vector<std::int64_t>* shape = nullptr) {
  const std::string file = read_whole(path);
  const Result<cli::NpyHeader> header = cli::parse_npy(file);
  EXPECT_TRUE(header.ok()) << path << ": " << header.error().message;
  if (!header.ok()) return {};
  if (shape != nullptr) *shape = header->shape;
  const std::size_t size = static_cast<std::size_t>(size_bytes(header->dtype));
  std::vector<float> values(header->data_bytes / size);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = load_element(file.data() + header->data_offset + i * size, header->dtype);
  return values;
}

class RunTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return command_.home() / name; }
  void write(const std::string& name, const std::string& bytes) const { write_whole(path(name), bytes); }

  CommandResult run(Words options) const {
    options.insert(options.begin(), {"run", "--threads", "1", "--json"});
    return command_.run(options);
  }
  json run_well(const Words& options) const {
    const CommandResult result = run(options);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return result.json();
  }
  // The message of a run that is refused.
  std::string refusal(int exit_code, const Words& options) const {
    const CommandResult result = run(options);
    EXPECT_EQ(result.exit_code, exit_code) << result.out;
    const json document = result.json();
    if (!document.contains("error")) return "no error";
    EXPECT_NE(document["error"]["remedy"], "");
    EXPECT_FALSE(std::filesystem::exists(path("y.npy")));
    return document["error"]["message"];
  }
  Words files(const Words& more = {}) const {
    Words words = {"--input", path("x.npy"), "--output", path("y.npy")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Command command_;
};

TEST_F(RunTest, StatisticIsPerHead) {
  write("x.npy", npy(Dtype::f32, {1, 4}, {1, 1, 100, 100}));
  const json document = run_well(files({"--head-size", "2", "--eps", "0"}));
  for (const char* key : {"served", "record", "schedule", "spec", "rows", "time_us"}) EXPECT_TRUE(document.contains(key)) << key;
  EXPECT_EQ(document["served"], "default");
  EXPECT_EQ(document["rows"], 1);
  EXPECT_TRUE(document["spec"].get<std::string>().starts_with("width=4,head_size=2,x=f32"))
      << "dtype and width are those of the file";
  EXPECT_EQ(values_of(path("y.npy")), (std::vector<float>{1, 1, 1, 1}));
}

TEST_F(RunTest, EveryDtypeAndTheShapeOfTheInput) {
  for (Dtype dtype : kDtypes) {
    write("x.npy", npy(dtype, {2, 3, 8}, std::vector<float>(48, -3.0f)));
    run_well(files({"--eps", "0"}));
    std::vector<std::int64_t> shape;
    EXPECT_EQ(values_of(path("y.npy"), &shape), std::vector<float>(48, -1.0f)) << to_text(dtype);
    EXPECT_EQ(shape, (std::vector<std::int64_t>{2, 3, 8}));
  }
}

TEST_F(RunTest, Bf16AsRawTwoByteElements) {
  std::string file = npy(Dtype::bf16, {1, 8}, std::vector<float>(8, 2.0f));
  file.replace(file.find("<u2"), 3, "|V2");
  write("x.npy", file);
  run_well(files({"--eps", "0"}));
  EXPECT_EQ(values_of(path("y.npy")), std::vector<float>(8, 1.0f));
}

TEST_F(RunTest, WeightsResidualAndGate) {
  // u = 1 + 1 = 2, normalised 1; gain = 1 + gamma + tanh(2 * (2 * 0.5)) * alpha
  write("x.npy", npy(Dtype::f32, {3, 2}, std::vector<float>(6, 1.0f)));
  write("r.npy", npy(Dtype::f32, {3, 2}, std::vector<float>(6, 1.0f)));
  write("g.npy", npy(Dtype::f32, {2}, {0.5f, -1.0f}));
  write("a.npy", npy(Dtype::f32, {2}, {1.0f, 2.0f}));
  write("b.npy", npy(Dtype::f32, {2}, {0.5f, 0.5f}));
  run_well(files({"--head-size",       "2",           "--eps",   "0",           "--weight-offset",  "1",
                  "--residual",        "add",         "--gate",  "seednorm",    "--residual-input", path("r.npy"),
                  "--gamma",           path("g.npy"), "--alpha", path("a.npy"), "--beta",           path("b.npy"),
                  "--residual-output", path("u.npy")}));
  EXPECT_EQ(values_of(path("u.npy")), std::vector<float>(6, 2.0f));
  const std::vector<float> y = values_of(path("y.npy"));
  ASSERT_EQ(y.size(), 6u);
  for (std::size_t i = 0; i < 6; i += 2) {
    EXPECT_NEAR(y[i], 1.5 + std::tanh(2.0), 1e-6);
    EXPECT_NEAR(y[i + 1], 2 * std::tanh(2.0), 1e-6);
  }
}

TEST_F(RunTest, MissingWeightsAreOnesAndZeros) {
  write("x.npy", npy(Dtype::f32, {1, 2}, {3, 3}));
  run_well(files({"--head-size", "2", "--eps", "0", "--gate", "seednorm"}));
  EXPECT_EQ(values_of(path("y.npy")), (std::vector<float>{1, 1}));  // beta 0: tanh(0) * alpha adds nothing
}

TEST_F(RunTest, InplaceGivesBothOutputs) {
  write("x.npy", npy(Dtype::f32, {1, 2}, {1, 1}));
  write("r.npy", npy(Dtype::f32, {1, 2}, {2, 2}));
  run_well(files({"--head-size", "2", "--eps", "0", "--residual", "inplace", "--residual-input", path("r.npy"), "--residual-output",
                  path("u.npy")}));
  EXPECT_EQ(values_of(path("u.npy")), (std::vector<float>{3, 3}));
  EXPECT_EQ(values_of(path("y.npy")), (std::vector<float>{1, 1}));
}

// The shape is looked at before the input, and may be legal for the dtype of the input alone.
TEST_F(RunTest, AShapeIsLegalThatIsSoForTheDtypeOfTheInput) {
  const Words shape = {"--width",     "2",   "--head-size",      "2",          "--residual", "inplace",
                       "--out-dtype", "f32", "--residual-input", path("r.npy")};
  write("x.npy", npy(Dtype::f32, {1, 2}, {1, 1}));
  write("r.npy", npy(Dtype::f32, {1, 2}, {2, 2}));
  run_well(files(shape));
  std::filesystem::remove(path("y.npy"));
  write("x.npy", npy(Dtype::bf16, {1, 2}, {1, 1}));
  EXPECT_NE(refusal(2, files(shape)).find("the dtypes differ"), std::string::npos);
}

TEST_F(RunTest, NoRowsAreNoFailure) {
  write("x.npy", npy(Dtype::f32, {0, 8}, {}));
  const nlohmann::json document = run_well(files());
  EXPECT_EQ(document["rows"], 0);
  EXPECT_EQ(document["time_us"], 0);
  EXPECT_EQ(document["gb_per_s"], 0);
  EXPECT_TRUE(values_of(path("y.npy")).empty());
}

TEST_F(RunTest, OutputReplacesInput) {
  write("x.npy", npy(Dtype::f32, {1, 8}, std::vector<float>(8, 5.0f)));
  run_well({"--input", path("x.npy"), "--output", path("x.npy"), "--eps", "0"});
  EXPECT_EQ(values_of(path("x.npy")), std::vector<float>(8, 1.0f));
}

// Two tensors of one file, "x" and "g"; y = x / |x| * g.
TEST_F(RunTest, TensorsOfASafetensorsFile) {
  const std::string header =
      R"({"x":{"dtype":"F32","shape":[2,3,4],"data_offsets":[0,96]},"g":{"dtype":"F32","shape":[4],"data_offsets":[96,112]}})";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  file += header;
  const std::string x = npy(Dtype::f32, {24}, std::vector<float>(24, -3.0f)), g = npy(Dtype::f32, {4}, {1, 2, 3, 4});
  write("m.safetensors", file + x.substr(x.size() - 96) + g.substr(g.size() - 16));
  const std::string model = path("m.safetensors"), y = path("y.safetensors");
  run_well({"--input", model + ":x", "--gamma", model + ":g", "--output", y + ":norm.out", "--eps", "0", "--head-size", "4"});
  const Result<cli::FileTensor> named = cli::read_tensor(y + ":norm.out");
  ASSERT_TRUE(named.ok()) << named.error().message;
  EXPECT_EQ(named->shape, (std::vector<std::int64_t>{2, 3, 4}));
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_EQ(load_element(static_cast<const char*>(named->data()) + 4 * i, Dtype::f32), -1.0f - static_cast<float>(i % 4));
  run_well({"--input", y, "--output", y, "--residual", "add", "--residual-input", y, "--residual-output", path("u.safetensors"),
            "--head-size", "4"});
  EXPECT_TRUE(cli::read_tensor(y + ":y").ok());
  EXPECT_TRUE(cli::read_tensor(path("u.safetensors") + ":residual_out").ok());
  EXPECT_NE(run({"--input", model, "--output", y}).json()["error"]["remedy"].get<std::string>().find("it holds 'x', 'g'"),
            std::string::npos);
  EXPECT_NE(run({"--input", y, "--output", y + ":a", "--residual", "add", "--residual-input", y, "--residual-output", y + ":b"})
                .json()["error"]["message"]
                .get<std::string>()
                .find("the same file"),
            std::string::npos);
}

TEST_F(RunTest, ADatabaseThatCannotBeMadeIsOneWarning) {
  write("x.npy", npy(Dtype::f32, {1, 8}, std::vector<float>(8, 5.0f)));
  const CommandResult result = run(files({"--db", "/dev/null/db"}));
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_TRUE(result.err.starts_with("warning: ")) << result.err;
  EXPECT_EQ(result.err.find("warning: ", 1), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("works from memory"), std::string::npos) << result.err;
}

TEST_F(RunTest, WithoutACompilerOnlyStoredKernelsRun) {
  write("x.npy", npy(Dtype::f32, {1, 8}, std::vector<float>(8, 5.0f)));
  const Words options = files({"--eps", "0", "--db", path("db")});
  Words no_jit = options;
  no_jit.push_back("--no-jit");
  EXPECT_NE(run(no_jit).exit_code, 0);
  run_well(options);
  run_well(no_jit);
}

TEST_F(RunTest, OneFileForTwoOutputsIsRefusedUnderAnySpelling) {
  write("x.npy", npy(Dtype::f32, {1, 2}, {1, 1}));
  write("r.npy", npy(Dtype::f32, {1, 2}, {1, 1}));
  std::filesystem::create_symlink("y.npy", path("link.npy"));
  std::filesystem::create_directory_symlink(".", path("here"));
  for (const char* name : {"./y.npy", "here/y.npy", "here/./y.npy", "link.npy", "here/link.npy"}) {
    const Words options = {"--residual", "add", "--residual-input", path("r.npy"), "--residual-output", path(name)};
    EXPECT_NE(refusal(2, files(options)).find("are the same file"), std::string::npos) << name;
  }
}

TEST_F(RunTest, OutputsStayOutOfStandardOutput) {
  write("x.npy", npy(Dtype::f32, {1, 2}, {1, 1}));
  write("r.npy", npy(Dtype::f32, {1, 2}, {1, 1}));
  EXPECT_NE(refusal(2, {"--input", path("x.npy"), "--output", "/dev/stdout"}).find("is standard output"), std::string::npos);
  EXPECT_NE(refusal(2, {"--input", path("x.npy"), "--output", path(".out")}).find("is standard output"), std::string::npos);
  EXPECT_NE(refusal(2, files({"--residual", "add", "--residual-input", path("r.npy"), "--residual-output", "/dev/stdout"}))
                .find("--residual-output '/dev/stdout' is standard output"),
            std::string::npos);
  run_well({"--input", path("x.npy"), "--output", "/dev/null", "--head-size", "2"});
}

TEST_F(RunTest, InputsWithoutAnEndAreRefused) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  for (const std::string& input : {std::string("/dev/zero"), path("pipe")})
    EXPECT_NE(refusal(3, {"--input", input, "--output", path("y.npy")}).find("not a regular file"), std::string::npos) << input;
}

TEST_F(RunTest, RefusesWhatDoesNotFit) {
  write("x.npy", npy(Dtype::f32, {2, 8}, std::vector<float>(16, 1.0f)));
  write("g4.npy", npy(Dtype::f32, {4}, std::vector<float>(4, 1.0f)));
  write("g16.npy", npy(Dtype::bf16, {8}, std::vector<float>(8, 1.0f)));
  write("r1.npy", npy(Dtype::f32, {1, 8}, std::vector<float>(8, 1.0f)));
  EXPECT_NE(refusal(2, files({"--dtype", "bf16"})).find("holds f32, and the kernel takes bf16"), std::string::npos);
  EXPECT_NE(refusal(2, files({"--preset", "vit-b-16"})).find("holds f32, and the kernel takes bf16"), std::string::npos);
  EXPECT_NE(refusal(2, files({"--width", "16"})).find("rows of 8, and the width is 16"), std::string::npos);
  EXPECT_NE(refusal(2, files({"--gamma", path("g4.npy")})).find("shape (4,), and the kernel takes (8,)"), std::string::npos);
  EXPECT_NE(refusal(2, files({"--gamma", path("g16.npy")})).find("holds bf16, and the kernel takes f32"), std::string::npos);
  EXPECT_NE(refusal(2, files({"--alpha", path("g4.npy")})).find("the kernel has no alpha"), std::string::npos);
  for (const auto& [option, owner] : {std::pair("--residual-input", "add --residual add"),
                                      std::pair("--beta", "add --gate seednorm"), std::pair("--gamma", "add --weight channel")}) {
    const json error = run(files({"--weight", "none", option, path("g4.npy")})).json()["error"];
    EXPECT_EQ(error["remedy"], std::string("leave it out, or ") + owner);
  }
  EXPECT_NE(refusal(2, files({"--residual", "add"})).find("--residual-input is missing"), std::string::npos);
  EXPECT_NE(refusal(2, files({"--residual", "add", "--residual-input", path("r1.npy")})).find("takes (2, 8)"), std::string::npos);
  EXPECT_NE(refusal(2, files({"--residual-output", path("u.npy")})).find("the kernel has no residual"), std::string::npos);
  EXPECT_NE(refusal(2, files({"--residual", "add", "--residual-output", path("y.npy")})).find("the same file"), std::string::npos);
  EXPECT_NE(refusal(3, {"--input", path("x.npy"), "--output", path("none/y.npy")}).find("none/y.npy"), std::string::npos);
  write("x.npy", npy(Dtype::f32, {8}, std::vector<float>(8, 1.0f)));
  EXPECT_NE(refusal(2, files()).find("shape (8,)"), std::string::npos);
  write("x.npy", npy(Dtype::f32, {}, {1.0f}));
  EXPECT_NE(refusal(2, files()).find("shape ()"), std::string::npos);
  std::string coloured = npy(Dtype::f32, {1, 2}, {1, 1});
  coloured.replace(coloured.find("<f4"), 3, "\033\x9b\n");
  write("x.npy", coloured);
  EXPECT_NE(refusal(2, files()).find("dtype '\\x1b\\x9b\\x0a' is not one of"), std::string::npos);
  write("x.npy", "");
  EXPECT_NE(refusal(2, files()).find("magic"), std::string::npos);
}

}  // namespace
}  // namespace headnorm::test
