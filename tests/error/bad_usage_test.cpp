// Invocations that are refused: the exit code, the kind, and that the message names the value and the remedy says what to do.
#include <dlfcn.h>

#include "tests/support/command.h"

namespace headnorm::test {
namespace {

struct BadUsage {
  std::vector<std::string> arguments;
  int exit_code;
  std::string kind, message, remedy;  // message and remedy: a part of them
};

void PrintTo(const BadUsage& usage, std::ostream* out) {
  for (const std::string& argument : usage.arguments) *out << argument << ' ';
}

const std::string kHuge(10000, '9');

const std::vector<BadUsage> kBadUsages = {
    // The command itself
    {{}, 2, "user", "no verb", "--help"},
    {{"expain"}, 2, "user", "'expain' is not a verb", "did you mean 'explain'?"},
    {{"bench"}, 2, "user", "bench is not in this version", "--help"},
    {{"export"}, 2, "user", "--format is missing", "wisdom, t4"},
    {{"PRESETS"}, 2, "user", "'PRESETS' is not a verb", "--help"},
    {{""}, 2, "user", "", "--help"},
    {{"--db", "tuned", "db", "list"}, 2, "user", "headnorm does not know option '--db'", "--help"},
    {{"--frobnicate"}, 2, "user", "--frobnicate", "--help"},
    {{"explain", "--widht", "4096"}, 2, "user", "option '--widht'", "did you mean '--width'?"},
    {{"explain", "stray", "--width", "8"}, 2, "user", "argument 'stray'", "--help"},
    {{"explain", "--width"}, 2, "user", "--width is given without a value", "--help"},
    {{"explain", "--width", "8", "--width", "8"}, 2, "user", "--width is given more than once", "--help"},
    // Shapes
    {{"explain"}, 2, "user", "no shape is given", "--preset wide-vit-4096"},
    {{"explain", "--preset", "vit-b16"}, 2, "user", "'vit-b16' is not a preset", "did you mean 'vit-b-16'?"},
    {{"explain", "--preset", ""}, 2, "user", "preset", "headnorm presets"},
    {{"explain", "--preset", kHuge}, 2, "user", "is not a preset", "headnorm presets"},
    {{"explain", "--preset", "vit-b-16", "--spec", "width=8,head_size=8"},
     2,
     "user",
     "--preset vit-b-16 and --spec",
     "one of the two"},
    {{"explain", "--preset", "ablation-layernorm"},
     2,
     "user",
     "needs stat layernorm",
     "ablation-rmsnorm, ablation-mh-rmsnorm-shared, ablation-d512, ablation-d256, ablation-d64"},
    {{"explain", "--preset", "ablation-mh-layernorm"},
     2,
     "user",
     "needs stat layernorm",
     "ablation-rmsnorm, ablation-mh-rmsnorm-shared, ablation-d512, ablation-d256, ablation-d64"},
    {{"explain", "--spec", "width=8,depth=3"}, 2, "user", "--spec: 'depth'", "fields:"},
    {{"explain", "--spec", "width"}, 2, "user", "'width' in the spec text", "key=value"},
    {{"explain", "--width", "4k"}, 2, "user", "--width: value '4k' is not an integer", "4096"},
    {{"explain", "--width", ""}, 2, "user", "--width", "integer"},
    {{"explain", "--width", "0"}, 2, "user", "width 0 is outside", "--width D"},
    {{"explain", "--width", "-4096"}, 2, "user", "width -4096 is outside", "--width D"},
    {{"explain", "--width", "1048577"}, 2, "user", "width 1048577 is outside", "--width D"},
    {{"explain", "--width", "9223372036854775808"}, 2, "user", "does not fit in 64 bits", "smaller"},
    {{"explain", "--width", kHuge}, 2, "user", "does not fit in 64 bits", "smaller"},
    {{"explain", "--width", "nan"}, 2, "user", "'nan' is not an integer", "4096"},
    {{"explain", "--width", "1001"}, 2, "user", "width 1001 has no divisor", "--head-size"},
    {{"explain", "--width", "4096", "--head-size", "100"}, 2, "user", "head size 100 does not divide width 4096", "64, 128"},
    {{"explain", "--width", "4096", "--head-size", "0"}, 2, "user", "head size 0", "nearest"},
    {{"explain", "--width", "4096", "--head-size", "-1"}, 2, "user", "head size -1", "nearest"},
    {{"explain", "--width", "4096", "--heads", "7"}, 2, "user", "--heads 7 does not divide width 4096", "8"},
    {{"explain", "--width", "4096", "--heads", "0"}, 2, "user", "--heads 0", "nearest"},
    {{"explain", "--width", "4096", "--heads", "8", "--head-size", "256"},
     2,
     "user",
     "--heads 8 and --head-size 256 disagree",
     "one of"},
    {{"explain", "--width", "4096", "--heads", "15x256+128"}, 2, "user", "not in this version", "one number"},
    // Options of the shape
    {{"explain", "--width", "8", "--pass", "backward"}, 2, "user", "--pass backward is not in this version", "forward"},
    {{"explain", "--width", "8", "--pass", "sideways"}, 2, "user", "--pass does not know 'sideways'", "forward"},
    {{"explain", "--width", "8", "--stat", "layernorm"}, 2, "user", "--stat layernorm is not in this version", "rms"},
    {{"explain", "--width", "8", "--stat", "none"}, 2, "user", "--stat none is not in this version", "rms"},
    {{"explain", "--width", "8", "--mode", "batched"}, 2, "user", "--mode: 'batched' is not a mode", "batch-invariant"},
    {{"explain", "--width", "8", "--residual-gate", "1"}, 2, "user", "--residual-gate is not in this version", "leave it out"},
    {{"explain", "--width", "8", "--layer-scale", "1"}, 2, "user", "--layer-scale is not in this version", "leave it out"},
    {{"explain", "--width", "8", "--residual-scale", "2"},
     2,
     "user",
     "--residual-scale 2 has no effect without a residual",
     "--residual add"},
    {{"explain", "--width", "8", "--head-size", "8", "--residual", "add", "--residual-scale", "1e39"},
     2,
     "user",
     "residual scale 1e+39 is not a finite f32 number",
     "--residual-scale 1"},
    {{"explain", "--width", "8", "--modulation", "x"}, 2, "user", "--modulation is not in this version", "leave it out"},
    {{"explain", "--width", "8", "--silu-gate", "x"}, 2, "user", "--silu-gate is not in this version", "leave it out"},
    {{"explain", "--width", "8", "--quant", "fp8"}, 2, "user", "--quant is not in this version", "leave it out"},
    {{"explain", "--width", "8", "--scale-layout", "x"}, 2, "user", "--scale-layout is not in this version", "leave it out"},
    {{"explain", "--width", "8", "--head-order", "x"}, 2, "user", "--head-order is not in this version", "leave it out"},
    {{"explain", "--width", "8", "--dtype", "f64"}, 2, "user", "--dtype: 'f64'", "bf16"},
    {{"explain", "--width", "8", "--residual-dtype", "x"}, 2, "user", "--residual-dtype: 'x'", "bf16"},
    {{"explain", "--width", "8", "--weight-dtype", "BF16"}, 2, "user", "--weight-dtype: 'BF16'", "bf16"},
    {{"explain", "--width", "8", "--out-dtype", ""}, 2, "user", "--out-dtype", "bf16"},
    {{"explain", "--width", "8", "--weight", "row"}, 2, "user", "--weight: 'row'", "channel"},
    {{"explain", "--width", "8", "--weight-offset", "inf"}, 2, "user", "--weight-offset", "number"},
    {{"explain", "--width", "8", "--weight-offset", "1", "--weight", "none"},
     2,
     "user",
     "--weight-offset 1 has no effect without a weight",
     "--weight channel"},
    {{"explain", "--preset", "gemma3-1b", "--weight", "none"}, 2, "user", "weight offset 1", "--weight-offset"},
    {{"explain", "--width", "8", "--eps", "-1e-6"}, 2, "user", "eps -1e-06", "--eps 1e-6"},
    {{"explain", "--width", "8", "--eps", "nan"}, 2, "user", "--eps: value 'nan'", "1e-6"},
    {{"explain", "--width", "8", "--eps", "1e999"}, 2, "user", "--eps: value '1e999'", "1e-6"},
    {{"explain", "--width", "8", "--eps", "inf"}, 2, "user", "--eps: value 'inf' is not finite", "1e-6"},
    {{"explain", "--width", "8", "--eps", "+1"}, 2, "user", "--eps: value '+1' is not a number", "no '+' before it"},
    {{"explain", "--width", "8", "--eps", "0x10"}, 2, "user", "--eps: value '0x10' is not a number", "decimal number"},
    {{"explain", "--width", "8", "--eps", "1,5"}, 2, "user", "--eps: value '1,5' is not a number", "a point before its fraction"},
    {{"explain", "--width", "8", "--eps", ""}, 2, "user", "--eps: value '' is not a number", "decimal number"},
    {{"explain", "--width", "-9223372036854775809"}, 2, "user", "does not fit in 64 bits", "larger"},
    {{"explain", "--width", "64", "--heads", "x"}, 2, "user", "--heads: value 'x' is not an integer", "e.g. 16"},
    {{"explain", "--width", "64", "--head-size", "x"}, 2, "user", "--head-size: value 'x' is not an integer", "e.g. 256"},
    {{"explain", "--width", "64", "--rows", "x"}, 2, "user", "--rows: value 'x' is not an integer", "e.g. --rows 1,64,4096"},
    {{"explain", "--spec", "head_size=32"}, 2, "user", "the spec text 'head_size=32' has no width", "width=D"},
    {{"explain", "--width", "8", "--residual", "sub"}, 2, "user", "--residual: 'sub'", "inplace"},
    {{"explain", "--width", "8", "--residual", "inplace", "--out-dtype", "f32"}, 2, "user", "inplace", "--out-dtype"},
    {{"explain", "--width", "8", "--gate", "silu"}, 2, "user", "--gate: 'silu'", "seednorm"},
    {{"explain", "--width", "8", "--seed-heads", "2"}, 2, "user", "--seed-heads 2 has no effect", "--gate seednorm"},
    {{"explain", "--width", "8", "--seed-scale", "2"}, 2, "user", "--seed-scale 2 has no effect", "--gate seednorm"},
    {{"explain", "--width", "8", "--sigma", "tanh"}, 2, "user", "--sigma tanh has no effect", "--gate seednorm"},
    {{"explain", "--width", "8", "--sigma", "relu"}, 2, "user", "--sigma: 'relu'", "hardtanh"},
    {{"explain", "--width", "8", "--seed-heads", "x"}, 2, "user", "--seed-heads: value 'x' is not an integer", "e.g. 16"},
    {{"explain", "--width", "8", "--residual-scale", "x"}, 2, "user", "--residual-scale: value 'x' is not a number", "number"},
    {{"explain", "--width", "8", "--norm-input", "unrounded"},
     2,
     "user",
     "--norm-input unrounded has no effect without a residual",
     "--residual add"},
    {{"explain", "--width", "8", "--weight", "none", "--rounding", "llama"},
     2,
     "user",
     "--rounding llama has no effect without a weight or a gate",
     "--weight channel"},
    {{"explain", "--width", "24", "--head-size", "4", "--gate", "seednorm", "--seed-heads", "4"},
     2,
     "user",
     "do not nest",
     "--seed-heads"},
    {{"explain", "--width", "24", "--head-size", "4", "--gate", "seednorm", "--seed-heads", "5"},
     2,
     "user",
     "5 seed heads",
     "--seed-heads that fit: 2, 3, 6, 12"},
    {{"explain", "--width", "2048", "--gate", "seednorm", "--seed-heads", "0"}, 2, "user", "0 seed heads", "fit: 1, 2, 4, 8"},
    {{"explain", "--width", "24", "--head-size", "3", "--gate", "seednorm", "--seed-heads", "3"},
     2,
     "user",
     "3 seed heads and 8 heads do not nest",
     "--seed-heads that fit: 1, 2, 4, 8"},
    {{"explain", "--width", "8", "--gate", "seednorm", "--sigma", "relu"}, 2, "user", "--sigma: 'relu'", "hardtanh"},
    {{"explain", "--width", "8", "--gate", "seednorm", "--seed-scale", "x"}, 2, "user", "--seed-scale: value 'x'", "number"},
    {{"explain", "--width", "8", "--rounding", "up"}, 2, "user", "--rounding: 'up'", "llama"},
    {{"explain", "--width", "8", "--norm-input", "both"}, 2, "user", "--norm-input: 'both'", "unrounded"},
    // Targets, schedules, rows
    {{"explain", "--width", "8", "--target", "aarch65"}, 2, "user", "'aarch65' is not a target", "aarch64"},
    {{"explain", "--width", "8", "--target", "sm_90a+ptx78"}, 2, "user", "'ptx78'", "+ptx80"},
    {{"explain", "--width", "8", "--target", "sm_100+ptx89"}, 2, "user", "'ptx89'", "+ptx90"},
    {{"generate", "--width", "4096", "--target", "sm_100", "--schedule", "lanes=16,vector=16,access=32", "--emit", "ptx"},
     2,
     "user",
     "access=32",
     "+ptx88"},
    {{"explain", "--width", "8", "--target", "sm_90+ptx10"}, 2, "user", "ptx10", "+ptx"},
    {{"explain", "--width", "8", "--target", "sm_90+ptx"}, 2, "user", "'ptx' in target 'sm_90+ptx'", "+ptx78 to +ptx90"},
    {{"explain", "--width", "8", "--target", "sm_90", "--schedule", "form=zzz"},
     2,
     "user",
     "the target takes a GPU schedule",
     "lanes=N"},
    {{"explain", "--width", "8", "--target", "x86-64", "--schedule", "lanes=x"},
     2,
     "user",
     "the target takes a host schedule",
     "form=reg"},
    {{"explain", "--width", "8", "--target", "sm_90", "--schedule", "lanes=-1"}, 2, "user", "lanes -1 is outside", "positive"},
    {{"explain", "--width", "8", "--target", "sm_90", "--schedule", "lanes=1048577"},
     2,
     "user",
     "lanes 1048577 is outside",
     "smaller"},
    {{"explain", "--width", "8", "--threads", "0"}, 2, "user", "--threads 0 is outside", "leave it out"},
    {{"explain", "--width", "8", "--threads", "-1"}, 2, "user", "--threads -1 is outside", "leave it out"},
    {{"explain", "--width", "8", "--target", "sm_1"}, 2, "user", "'sm_1' is not a target", "sm_80"},
    {{"explain", "--width", "8", "--schedule", "fast"}, 2, "user", "'fast' is not a schedule", "form="},
    {{"explain", "--width", "8", "--target", "sm_90", "--schedule", "fast"}, 2, "user", "'fast' is not a schedule", "lanes="},
    {{"generate", "--width", "8", "--target", "sm_90", "--schedule", "vector=3"},
     2,
     "user",
     "schedule vector=3",
     "docs/schedules.md"},
    {{"generate", "--width", "8", "--target", "x86-64", "--schedule", "accumulators=3"}, 2, "user", "accumulators=3", "schedule"},
    {{"explain", "--width", "8", "--schedule", "form=reg,colour=red"}, 2, "user", "'colour'", "fields:"},
    {{"explain", "--width", "8", "--rows", "0"}, 2, "user", "--rows 0", "--rows"},
    {{"explain", "--width", "8", "--rows", "-5"}, 2, "user", "--rows -5", "--rows"},
    {{"explain", "--width", "8", "--rows", "1,2"}, 2, "user", "2 row counts", "one"},
    {{"explain", "--width", "8", "--rows", "99999999999999"}, 2, "user", "--rows 99999999999999", "--rows"},
    {{"explain", "--width", "8", "--device", "model:gtx"}, 2, "user", "'model:gtx'", "model:h200"},
    // generate
    {{"generate", "--width", "8", "--target", "x86-64", "--emit", "cuda"}, 2, "user", "--emit cuda is for GPUs", "sm_80"},
    {{"generate", "--width", "8", "--target", "sm_80", "--backend", "nvcc"}, 2, "user", "'nvcc'", "use llvm or nvrtc"},
    {{"generate", "--width", "8", "--target", "sm_80", "--emit", "llvm", "--backend", "nvrtc"},
     2,
     "user",
     "--emit llvm asks for something else",
     "--emit ptx"},
    {{"verify", "--width", "8", "--device", "host", "--backend", "nvrtc"}, 2, "user", "for GPUs alone", "--backend llvm"},
    {{"generate", "--width", "8", "--target", "sm_80", "--emit", "ptxx"}, 2, "user", "'ptxx'", "did you mean 'ptx'?"},
    {{"generate", "--width", "8", "--target", "sm_80", "--emit", "object"}, 2, "user", "--emit object is for host", "ptx"},
    {{"generate", "--width", "8", "--target", "x86-64", "--emit", "ptx"}, 2, "user", "--emit ptx is for GPUs", "sm_80"},
    {{"generate", "--width", "8", "--target", "x86-64", "--emit", "program", "-o", ""}, 2, "user", "empty", "-o FILE"},
    {{"generate", "--width", "8", "--emit", "program", "-o", "/nonexistent/k.txt"},
     3,
     "environment",
     "/nonexistent/k.txt",
     "directory"},
    {{"generate", "--width", "8", "--emit", "program", "-o", "/dev/stdout"}, 2, "user", "is standard output", "a file of its own"},
    {{"generate", "--width", "8", "--emit", "program", "-o", "/"}, 3, "environment", "'/'", "name a file"},
    // presets, devices, db
    {{"presets", "no-such-model"}, 2, "user", "'no-such-model'", "headnorm presets"},
    {{"devices", "--threads", "0"}, 2, "user", "--threads 0", "leave it out"},
    {{"devices", "--threads", "many"}, 2, "user", "--threads 'many'", "integer"},
    {{"db"}, 2, "user", "nothing to do", "db list"},
    {{"db", "lst"}, 2, "user", "'lst'", "did you mean 'list'?"},
    {{"db", "repair"}, 2, "user", "db repair is not in this version", "db check"},
    {{"db", "gc", "--limit", "much", "--db", "."}, 2, "user", "--limit 'much' is not a size", "--limit 512MiB"},
    {{"db", "gc", "--limit", "-1", "--db", "."}, 2, "user", "--limit '-1' is not a size", "--limit 512MiB"},
    {{"db", "gc", "--grace", "1y", "--db", "."}, 2, "user", "--grace '1y'", "--grace 1h"},
    // Mistakes are named before what is missing here.
    {{"db", "show", "--db", "/nonexistent/db"}, 2, "user", "given no record", "headnorm db list"},
    {{"db", "gc", "--limit", "-5", "--db", "/nonexistent/db"}, 2, "user", "--limit '-5' is not a size", "--limit 512MiB"},
    {{"db", "gc", "--grace", "soon", "--db", "/nonexistent/db"}, 2, "user", "--grace 'soon'", "--grace 1h"},
    {{"export", "--format", "cvs", "--db", "/nonexistent/db"}, 2, "user", "'cvs'", "did you mean 'csv'?"},
    {{"export", "--format", "csv", "--db", "/nonexistent/db"}, 2, "user", "-o is missing", "-o FILE"},
    {{"export", "--format", "csv", "-o", "t.csv", "--evidence", "guessed", "--db", "/nonexistent/db"},
     2,
     "user",
     "'guessed'",
     "measured"},
    {{"export", "--format", "csv", "-o", "t.csv", "--width", "0", "--db", "/nonexistent/db"},
     2,
     "user",
     "width 0 is outside",
     "--width D"},
    {{"export", "--format", "csv", "-o", "t.csv", "--db", "/nonexistent/db"}, 3, "environment", "/nonexistent/db", "--db"},
    {{"db", "list", "--db", "/nonexistent/db"}, 3, "environment", "/nonexistent/db", "--db"},
    {{"db", "show", "--db", ""}, 2, "user", "--db is empty", "--db"},
    // run, tune, verify
    {{"run"}, 2, "user", "--input is missing", "--input"},
    {{"run", "--input", "x.npy"}, 2, "user", "--output is missing", "--output"},
    {{"run", "--input", "", "--output", "y.npy"}, 2, "user", "after --input is empty", "--input FILE"},
    {{"run", "--input", "x.npy", "--output", ""}, 2, "user", "after --output is empty", "--output FILE"},
    {{"run", "--input", "x.npy", "--output", "y.npy", "--gamma", ""}, 2, "user", "after --gamma is empty", "--gamma FILE"},
    {{"run", "--input", "x.npy", "--output", "y.npy", "--db", ""}, 2, "user", "--db is empty", "--db"},
    {{"run", "--width", "0"}, 2, "user", "width 0 is outside", "--width D"},
    {{"run", "--input", "/nonexistent.npy", "--output", "y.npy", "--width", "0"}, 2, "user", "width 0 is outside", "--width D"},
    {{"run", "--input", "/nonexistent.npy", "--output", "y.npy", "--device", "hots"}, 2, "user", "'hots' is not a device", "host"},
    {{"run", "--input", "/nonexistent.npy", "--output", "y.npy", "--backend", "nvcc"}, 2, "user", "'nvcc'", "use llvm or nvrtc"},
    {{"tune", "--preset", "vit-b-16", "--backend", "nvcc", "--db", "/dev/null"}, 2, "user", "'nvcc'", "use llvm or nvrtc"},
    {{"explain", "--width", "256", "--device", "hots", "--db", "/nonexistent/db"},
     2,
     "user",
     "'hots' is not a device",
     "did you mean 'host'?"},
    {{"run", "--input", "/nonexistent.npy", "--output", "y.npy"}, 3, "environment", "/nonexistent.npy", "check the name"},
    {{"tune", "--width", "768"}, 2, "user", "--rows is missing", "--rows"},
    {{"tune", "--preset", "vit-b-16", "--rows", "1,x"}, 2, "user", "--rows: value 'x'", "integer"},
    {{"tune", "--preset", "vit-b-16", "--budget", "1 year"}, 2, "user", "--budget '1 year' is not a number and a unit", "60s"},
    {{"tune", "--preset", "vit-b-16", "--budget", "-1s"}, 2, "user", "--budget -1s", "60s"},
    {{"tune", "--preset", "vit-b-16", "--budget", "s"}, 2, "user", "--budget 's'", "60s"},
    {{"tune", "--preset", "vit-b-16", "--budget", ""}, 2, "user", "--budget ''", "60s"},
    {{"tune", "--preset", "vit-b-16", "--budget", "1e"}, 2, "user", "--budget '1e'", "60s"},
    {{"tune", "--preset", "vit-b-16", "--budget", "nan"}, 2, "user", "--budget 'nan'", "60s"},
    {{"tune", "--preset", "vit-b-16", "--search", "grid"}, 2, "user", "'grid'", "exhaustive"},
    {{"tune", "--preset", "vit-b-16", "--seed", "-1"}, 2, "user", "--seed -1", "0 or more"},
    {{"tune", "--preset", "vit-b-16", "--policy", "hot"}, 2, "user", "'hot'", "cold"},
    {{"tune", "--preset", "vit-b-16", "--device", "cuda:x"}, 2, "user", "--device cuda:x", "integer"},
    {{"tune", "--preset", "vit-b-16", "--device", "cuda:-1"}, 2, "user", "--device cuda:-1", "headnorm devices"},
    {{"tune", "--preset", "vit-b-16", "--device", "emulator:h100"}, 2, "user", "'h100' is no model", "emulator:h200"},
    {{"tune", "--preset", "vit-b-16", "--device", "model:h2000"}, 2, "user", "'model:h2000'", "did you mean 'model:h200'?"},
    {{"tune", "--preset", "vit-b-16", "--device", "model:h200", "--policy", "warm"}, 2, "user", "cold caches", "--policy"},
    {{"tune", "--preset", "vit-b-16", "--device", "model:/nonexistent.json"},
     3,
     "environment",
     "/nonexistent.json",
     "check the name"},
    {{"verify", "--width", "8", "--device", "model:h200"}, 2, "user", "model:h200 is a cost model", "--device host"},
    {{"explain", "--width", "256", "--device", "hots"}, 2, "user", "'hots' is not a device", "did you mean 'host'?"},
    {{"explain", "--width", "256", "--device", "modal.h200"}, 2, "user", "is not a device", "did you mean 'model:h200'?"},
    {{"calibrate"}, 2, "user", "--device is missing", "model:h200"},
    {{"calibrate", "--device", "host"}, 2, "user", "'host'", "model:h200"},
    {{"calibrate", "--device", "modal.h200"}, 2, "user", "no model of device 'modal.h200'", "did you mean 'model:h200'?"},
    {{"calibrate", "--device", "model:h200", "--csv", "/nonexistent.csv"}, 3, "environment", "/nonexistent.csv", "check the name"},
    {{"calibrate", "--device", "model:h200", "--db", "/nonexistent/db"}, 3, "environment", "/nonexistent/db", "--db"},
    {{"tune", "--preset", "vit-b-16", "--device", "hots"}, 2, "user", "'hots' is not a device", "did you mean 'host'?"},
    {{"tune", "--preset", "vit-b-16", "--rows", "1", "--device", "modl:h200"},
     2,
     "user",
     "'modl:h200'",
     "did you mean 'model:h200'?"},
    {{"tune", "--preset", "vit-b-16", "--db", "/dev/null"}, 3, "environment", "/dev/null", ""},
    {{"verify", "--schedule", "form=reg"}, 2, "user", "--schedule form=reg", "--width"},
    {{"completion"}, 2, "user", "given no shell", "bash, zsh or fish"},
    {{"completion", "fisch"}, 2, "user", "no script for 'fisch'", "did you mean 'fish'?"},
    {{"run", "--input", "m.safetensors", "--output", "y.safetensors:"}, 2, "user", "cannot be named ''", "':NAME'"},
    {{"run", "--input", "none.safetensors:x", "--output", "y.npy"}, 3, "environment", "'none.safetensors' cannot be read", "name"},
    {{"verify", "--grid", "some"}, 2, "user", "'some'", "standard"},
    {{"verify", "--width", "8", "--rows", "1000000"}, 2, "user", "--rows 1000000", "fewer"},
};

class BadUsageTest : public ::testing::TestWithParam<BadUsage> {};

TEST_P(BadUsageTest, TextGoesToStandardErrorAlone) {
  const BadUsage& usage = GetParam();
  const CommandResult result = Command().run(usage.arguments);
  EXPECT_EQ(result.exit_code, usage.exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("error: ")) << result.err;
  EXPECT_NE(result.err.find(usage.message), std::string::npos) << result.err;
  const std::size_t remedy = result.err.find("\nremedy: ");
  ASSERT_NE(remedy, std::string::npos) << result.err;
  EXPECT_NE(result.err.find(usage.remedy, remedy), std::string::npos) << result.err;
}

TEST_P(BadUsageTest, JsonGoesToStandardOutputAlone) {
  const BadUsage& usage = GetParam();
  std::vector<std::string> arguments = usage.arguments;
  arguments.insert(arguments.begin(), "--json");
  const CommandResult result = Command().run(arguments);
  EXPECT_EQ(result.exit_code, usage.exit_code) << result.err;
  EXPECT_EQ(result.err, "");
  const nlohmann::json document = result.json();
  EXPECT_TRUE(document.contains("headnorm"));
  EXPECT_EQ(document.value("ok", true), false);
  EXPECT_TRUE(document.contains("verb"));
  const nlohmann::json error = document.value("error", nlohmann::json::object());
  EXPECT_EQ(error.value("kind", ""), usage.kind);
  EXPECT_NE(error.value("message", "").find(usage.message), std::string::npos) << result.out;
  EXPECT_NE(error.value("remedy", "").find(usage.remedy), std::string::npos) << result.out;
}

TEST(NoCudaDriver, IsSaidWithWhatToDo) {
  if (void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY)) {
    ::dlclose(driver);
    GTEST_SKIP() << "there is an NVIDIA driver here";
  }
  const CommandResult result = Command().run({"verify", "--width", "8", "--device", "cuda:0"});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_NE(result.err.find("the CUDA driver cannot be opened: libcuda.so.1"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("--device host"), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(Command, BadUsageTest, ::testing::ValuesIn(kBadUsages));

}  // namespace
}  // namespace headnorm::test
