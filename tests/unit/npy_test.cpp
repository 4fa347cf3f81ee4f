// NumPy headers: what is read, what is written, and that everything else is refused with a reason.
#include "cli/npy.h"

#include <gtest/gtest.h>

#include "cli/presets.h"
#include "cli/suggest.h"

namespace headnorm::cli {
namespace {

// A file of format 1.0 with this header text and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes, char major = 1) {
  std::string file = "\x93NUMPY";
  file += {major, '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  if (major > 1) file += std::string(2, '\0');
  return file + header + std::string(data_bytes, '\0');
}

std::string message_of(const std::string& file) {
  const Result<NpyHeader> header = parse_npy(file);
  return header.ok() ? "accepted" : header.error().message;
}

TEST(Npy, WhatIsWrittenIsRead) {
  for (Dtype dtype : kDtypes) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {0}, {7}, {3, 5}, {2, 3, 4}, {0, 1 << 20}, std::vector<std::int64_t>(32, 1)}) {
      std::string file = npy_header(dtype, shape);
      EXPECT_EQ(file.size() % 64, 0u);
      std::size_t bytes = static_cast<std::size_t>(size_bytes(dtype));
      for (std::int64_t size : shape) bytes *= static_cast<std::size_t>(size);
      file.append(bytes, '\0');
      const Result<NpyHeader> header = parse_npy(file);
      ASSERT_TRUE(header.ok()) << header.error().message;
      EXPECT_EQ(header->dtype, dtype);
      EXPECT_EQ(header->shape, shape);
      EXPECT_EQ(header->data_offset + header->data_bytes, file.size());
    }
  }
}

TEST(Npy, SpellingsThatPythonWrites) {
  for (char major : {'\1', '\2', '\3'})
    EXPECT_EQ(message_of(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, major)), "accepted");
  EXPECT_EQ(message_of(file_of("{\"shape\":(3,),\"fortran_order\":True,\"descr\":\"|V2\"}", 6)), "accepted");
  EXPECT_EQ(message_of(file_of("{'descr': '<V2', 'fortran_order': False, 'shape': (), }", 2)), "accepted");
}

TEST(Npy, EveryTruncationIsRefused) {
  const std::string whole = npy_header(Dtype::f32, {2, 3}) + std::string(24, '\1');
  ASSERT_EQ(message_of(whole), "accepted");
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(message_of(whole.substr(0, size)), "accepted") << size;
  EXPECT_NE(message_of(whole + '\0'), "accepted");
}

TEST(Npy, MalformedHeadersSayWhatIsWrong) {
  const std::pair<std::string, std::string> cases[] = {
      {file_of("", 0), "'{'"},
      {file_of("{", 0), "quoted"},
      {file_of("{'descr' '<f4'}", 0), "':'"},
      {file_of("{'descr': '<f4}", 0), "no end"},
      {file_of("{'descr': '<f4' 'shape': ()}", 0), "','"},
      {file_of("{'descr': '<f4', 'descr': '<f4'}", 0), "twice"},
      {file_of("{'colour': 'red'}", 0), "'colour'"},
      {file_of("{'fortran_order': False, 'shape': (1,)}", 4), "no 'descr'"},
      {file_of("{'descr': '<f4', 'shape': (1,)}", 4), "no 'fortran_order'"},
      {file_of("{'descr': '<f4', 'fortran_order': False}", 4), "no 'shape'"},
      {file_of("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}", 4), "neither True nor False"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': 1}", 4), "tuple"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 4), "no size"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 4), "no size"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4)}", 4), "larger than any memory"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", 4), "')'"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,", 4), "no size"},
      {file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", 4), "Fortran"},
      {file_of("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", 4), "big endian"},
      {file_of("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", 8), "'<f8'"},
      {file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4), "structured"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", 4), "after the header's '}'"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 4), "takes 8"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4, 9), "version 9.0"},
      {std::string("{'descr': '<f4'\0}", 17), "magic"},
  };
  for (const auto& [file, part] : cases)
    EXPECT_NE(message_of(file).find(part), std::string::npos) << part << ": " << message_of(file);
}

TEST(Presets, AreLegalAndFound) {
  for (const Preset& preset : presets()) {
    EXPECT_EQ(preset.rows % preset.tokens, 0) << preset.name;
    EXPECT_EQ(*find_preset(preset.name), &preset);
    for (const std::string& alias : preset.aliases) EXPECT_EQ(*find_preset(alias), &preset) << alias;
    const Result<KernelSpec> spec = preset_spec(preset);
    EXPECT_EQ(spec.ok(), preset.stat == "rms") << preset.name;
    if (spec.ok()) {
      EXPECT_TRUE(make_spec(*spec).ok()) << preset.name;
    }
  }
}

TEST(Suggest, NamesTheNearest) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("widht", "width"), 1);  // neighbours swapped
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  const std::vector<std::string> names = {"tune", "run", "explain"};
  EXPECT_EQ(suggestion("explan", names), "did you mean 'explain'? ");
  EXPECT_EQ(suggestion("presets", names), "");
  EXPECT_EQ(suggestion("", names), "");
}

}  // namespace
}  // namespace headnorm::cli
