#include "core/schedule.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "core/text.h"

namespace headnorm {

const char* to_text(HostForm value) {
  constexpr const char* kNames[] = {"reg", "rot", "pipe", "split"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(Prefetch value) {
  constexpr const char* kNames[] = {"none", "t0", "t1", "nta"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(PrefetchAt value) {
  constexpr const char* kNames[] = {"read", "write"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(StoreKind value) {
  constexpr const char* kNames[] = {"nt", "plain"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(RsqrtForm value) {
  constexpr const char* kNames[] = {"exact", "newton"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(Unpack value) {
  constexpr const char* kNames[] = {"even_odd", "widen"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(Residency value) {
  constexpr const char* kNames[] = {"registers", "shared", "reload"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(GridForm value) {
  constexpr const char* kNames[] = {"once", "persistent"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(WeightLoad value) {
  constexpr const char* kNames[] = {"after", "before"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(Staging value) {
  constexpr const char* kNames[] = {"none", "async", "bulk"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(CacheUse value) {
  constexpr const char* kNames[] = {"plain", "stream"};
  return kNames[static_cast<int>(value)];
}
const char* to_text(LaunchForm value) {
  constexpr const char* kNames[] = {"plain", "dependent", "weights_ahead"};
  return kNames[static_cast<int>(value)];
}

namespace {

std::string host_text(const HostSchedule& s) {
  const HostSchedule defaults;
  std::string text = fmt::format("form={}", to_text(s.form));
  if (s.heads != defaults.heads) text += fmt::format(",heads={}", s.heads);
  if (s.form == HostForm::split || s.form == HostForm::pipe) text += fmt::format(",block={}", s.block_bytes);
  if (s.form == HostForm::pipe) text += fmt::format(",chunk={}", s.chunk_lines);
  text += fmt::format(",prefetch={}", to_text(s.prefetch));
  if (s.prefetch != Prefetch::none)
    text += fmt::format(",prefetch_at={},prefetch_bytes={}", to_text(s.prefetch_at), s.prefetch_bytes);
  return text + fmt::format(",store={},accumulators={},rsqrt={},unpack={}", to_text(s.store), s.accumulators, to_text(s.rsqrt),
                            to_text(s.unpack));
}

std::string gpu_text(const GpuSchedule& s) {
  const GpuSchedule defaults;
  std::string text =
      fmt::format("lanes={},vector={},block={},groups={},rows={},residency={},unroll={},grid={},weights={},access={}", s.lanes,
                  s.vector_elements, s.block_threads, s.groups, s.rows, to_text(s.residency), s.unroll, to_text(s.grid),
                  to_text(s.weights), s.access_bytes);
  if (s.cluster != defaults.cluster) text += fmt::format(",cluster={}", s.cluster);
  if (s.staging != defaults.staging) text += fmt::format(",staging={}", to_text(s.staging));
  if (s.stages != defaults.stages) text += fmt::format(",stages={}", s.stages);
  if (s.cache != defaults.cache) text += fmt::format(",cache={}", to_text(s.cache));
  if (s.launch != defaults.launch) text += fmt::format(",launch={}", to_text(s.launch));
  return text;
}

Result<void> set_int(int& field, std::string_view value, std::string_view what) {
  HEADNORM_TRY(const std::int64_t wide, text::parse_integer(value, what));
  if (wide < 0 || wide > 1 << 20)
    return user_error(fmt::format("{} {} is outside 0 to {}", what, wide, 1 << 20),
                      wide < 0 ? "give a positive value" : "give a smaller value");
  field = static_cast<int>(wide);
  return {};
}

Result<void> set_bytes(std::int64_t& field, std::string_view value, std::string_view what) {
  HEADNORM_TRY(field, text::parse_integer(value, what));
  return {};
}

template <class Enum, std::size_t N>
Result<void> set_enum(Enum& field, std::string_view value, std::string_view what, const std::array<Enum, N>& values) {
  HEADNORM_TRY(field, text::parse_enum(value, what, values));
  return {};
}

Result<Schedule> parse_host(std::string_view text) {
  HostSchedule s;
  HEADNORM_CHECK(text::for_each_field(text, "schedule", [&](std::string_view key, std::string_view value) -> Result<void> {
    if (key == "form")
      return set_enum(s.form, value, key, std::array{HostForm::reg, HostForm::rot, HostForm::pipe, HostForm::split});
    if (key == "heads") return set_int(s.heads, value, key);
    if (key == "block") return set_bytes(s.block_bytes, value, key);
    if (key == "chunk") return set_int(s.chunk_lines, value, key);
    if (key == "prefetch")
      return set_enum(s.prefetch, value, key, std::array{Prefetch::none, Prefetch::t0, Prefetch::t1, Prefetch::nta});
    if (key == "prefetch_at") return set_enum(s.prefetch_at, value, key, std::array{PrefetchAt::read, PrefetchAt::write});
    if (key == "prefetch_bytes") return set_bytes(s.prefetch_bytes, value, key);
    if (key == "store") return set_enum(s.store, value, key, std::array{StoreKind::nt, StoreKind::plain});
    if (key == "accumulators") return set_int(s.accumulators, value, key);
    if (key == "rsqrt") return set_enum(s.rsqrt, value, key, std::array{RsqrtForm::exact, RsqrtForm::newton});
    if (key == "unpack") return set_enum(s.unpack, value, key, std::array{Unpack::even_odd, Unpack::widen});
    return user_error(
        fmt::format("'{}' is not a field of a host schedule", key),
        "fields: form, heads, block, chunk, prefetch, prefetch_at, prefetch_bytes, store, accumulators, rsqrt, unpack");
  }));
  return Schedule(s);
}

Result<Schedule> parse_gpu(std::string_view text) {
  GpuSchedule s;
  HEADNORM_CHECK(text::for_each_field(text, "schedule", [&](std::string_view key, std::string_view value) -> Result<void> {
    if (key == "lanes") return set_int(s.lanes, value, key);
    if (key == "vector") return set_int(s.vector_elements, value, key);
    if (key == "block") return set_int(s.block_threads, value, key);
    if (key == "groups") return set_int(s.groups, value, key);
    if (key == "rows") return set_int(s.rows, value, key);
    if (key == "residency")
      return set_enum(s.residency, value, key, std::array{Residency::registers, Residency::shared, Residency::reload});
    if (key == "unroll") return set_int(s.unroll, value, key);
    if (key == "grid") return set_enum(s.grid, value, key, std::array{GridForm::once, GridForm::persistent});
    if (key == "weights") return set_enum(s.weights, value, key, std::array{WeightLoad::after, WeightLoad::before});
    if (key == "access") return set_int(s.access_bytes, value, key);
    if (key == "cluster") return set_int(s.cluster, value, key);
    if (key == "staging") return set_enum(s.staging, value, key, std::array{Staging::none, Staging::async, Staging::bulk});
    if (key == "stages") return set_int(s.stages, value, key);
    if (key == "cache") return set_enum(s.cache, value, key, std::array{CacheUse::plain, CacheUse::stream});
    if (key == "launch")
      return set_enum(s.launch, value, key, std::array{LaunchForm::plain, LaunchForm::dependent, LaunchForm::weights_ahead});
    return user_error(fmt::format("'{}' is not a field of a GPU schedule", key),
                      "fields: lanes, vector, block, groups, rows, residency, unroll, grid, weights, access, cluster, staging, "
                      "stages, cache, launch");
  }));
  return Schedule(s);
}

// The kind whose leading field the text has.
std::optional<TargetKind> kind_of(std::string_view text) {
  for (std::string_view field : text::split(text, ',')) {
    const std::string_view key = field.substr(0, field.find('='));
    if (key == "form") return TargetKind::host;
    if (key == "lanes") return TargetKind::gpu;
  }
  return std::nullopt;
}

Result<Schedule> parse_as(std::optional<TargetKind> kind, std::string_view text) {
  if (kind) return *kind == TargetKind::host ? parse_host(text) : parse_gpu(text);
  return user_error(fmt::format("'{}' is not a schedule", text),
                    "a host schedule begins with form=reg|rot|pipe|split, a GPU schedule with lanes=N");
}

// A text with faults, of another kind than the target takes.
Error not_of_this_kind(std::string_view text, TargetKind kind) {
  if (kind == TargetKind::gpu)
    return user_error(fmt::format("'{}' begins as a host schedule, and the target takes a GPU schedule", text),
                      "a GPU schedule begins with lanes=N, e.g. lanes=32,vector=8");
  return user_error(fmt::format("'{}' begins as a GPU schedule, and the target takes a host schedule", text),
                    "a host schedule begins with form=reg|rot|pipe|split");
}

}  // namespace

std::string to_text(const Schedule& schedule) {
  if (const auto* host = std::get_if<HostSchedule>(&schedule)) return host_text(*host);
  return gpu_text(std::get<GpuSchedule>(schedule));
}

Result<Schedule> parse_schedule(std::string_view text) { return parse_as(kind_of(text), text); }

Result<Schedule> parse_schedule(std::string_view text, TargetKind kind) {
  const bool has_fields = text.find('=') != std::string_view::npos;
  const std::optional<TargetKind> named = kind_of(text);
  const Result<Schedule> schedule = parse_as(!named && has_fields ? kind : named, text);
  if (!schedule.ok() && named && *named != kind) return not_of_this_kind(text, kind);
  return schedule;
}

}  // namespace headnorm
