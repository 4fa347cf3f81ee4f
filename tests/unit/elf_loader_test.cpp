// The ELF loader: real objects run, damaged ones are errors, and memory is never writable and executable at once.
#include "runtime/host/elf_loader.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <sstream>
#include <vector>

#include "runtime/host/relocation.h"
#include "tests/fixtures/fixtures.h"

namespace headnorm::host {
namespace {

using Mix = std::int64_t (*)(std::int64_t);

std::string relocations() { return fixtures::read_file(HEADNORM_FIXTURE_RELOCATIONS); }

// The permissions, such as "r-xp", of the mapping that holds an address; none if nothing is there.
std::optional<std::string> permissions_at(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string permissions;
    fields >> std::hex >> begin >> dash >> end >> permissions;
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    if (wanted >= begin && wanted < end) return permissions;
  }
  return std::nullopt;
}

// Changes the flags of the section that is executable.
std::string with_text_flags(std::string object, std::uint64_t flags) {
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    char* const place = object.data() + header.e_shoff + i * sizeof(Elf64_Shdr);
    Elf64_Shdr section;
    std::memcpy(&section, place, sizeof section);
    if ((section.sh_flags & SHF_EXECINSTR) == 0 || section.sh_size == 0) continue;
    section.sh_flags = flags;
    std::memcpy(place, &section, sizeof section);
  }
  return object;
}

TEST(ElfLoader, RunsAnObjectWithEveryKindOfReference) {
  auto image = load_elf_object(relocations(), "fixture_mix");
  ASSERT_TRUE(image.ok()) << image.error().message;
  const auto mix = reinterpret_cast<Mix>(image->entry);
  EXPECT_EQ(mix(0), (1000 + 0 + 0 + 11) + 5);
  EXPECT_EQ(mix(1), (1000 + 2 + 3 + 22) * 7);
  EXPECT_EQ(mix(2), (1000 + 4 + 4 + 33) - 3);
  EXPECT_EQ(mix(3), (1000 + 6 + 9 + 44) ^ 0x55);
  EXPECT_EQ(mix(4), -(1000 + 8 + 8 + 11));
  EXPECT_EQ(mix(9), 6);  // six calls so far
}

TEST(ElfLoader, ImagesOfOneObjectShareNothing) {
  const auto first = load_elf_object(relocations(), "fixture_mix"), second = load_elf_object(relocations(), "fixture_mix");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(reinterpret_cast<Mix>(first->entry)(9), 1);
  EXPECT_EQ(reinterpret_cast<Mix>(second->entry)(9), 1);
}

TEST(ElfLoader, CodeIsNeverWritable) {
  void* entry = nullptr;
  {
    const auto image = load_elf_object(relocations(), "fixture_mix");
    ASSERT_TRUE(image.ok()) << image.error().message;
    entry = image->entry;
    EXPECT_EQ(permissions_at(entry), "r-xp");
    for (std::size_t at = 0; at < image->memory.bytes(); ++at) {
      const auto permissions = permissions_at(static_cast<char*>(image->memory.address()) + at);
      ASSERT_TRUE(permissions.has_value());
      EXPECT_FALSE((*permissions)[1] == 'w' && (*permissions)[2] == 'x') << *permissions;
      at += 4095;
    }
  }
  EXPECT_NE(permissions_at(entry).value_or("none"), "r-xp") << "the image outlives its owner";
}

TEST(ElfLoader, UndefinedSymbolIsNamed) {
  const auto image = load_elf_object(fixtures::read_file(HEADNORM_FIXTURE_UNDEFINED), "fixture_undefined");
  ASSERT_FALSE(image.ok());
  EXPECT_NE(image.error().message.find("'missing_function' is undefined"), std::string::npos) << image.error().message;
  EXPECT_FALSE(image.error().remedy.empty());
}

TEST(ElfLoader, MissingEntryIsNamed) {
  for (const char* entry : {"fixture_absent", "fixture_global", "triple", ""}) {  // absent, a variable, not global, no name
    const auto image = load_elf_object(relocations(), entry);
    ASSERT_FALSE(image.ok()) << entry;
    EXPECT_NE(image.error().message.find("'" + std::string(entry) + "'"), std::string::npos) << image.error().message;
  }
}

TEST(ElfLoader, RefusesWhatIsNoRelocatableObject) {
  for (const std::string& bytes : {std::string(), std::string("\177ELF"), std::string(4096, '\0'), std::string("int main() {}"),
                                   fixtures::read_file("/proc/self/exe")})
    EXPECT_FALSE(load_elf_object(bytes, "main").ok());
}

TEST(ElfLoader, RefusesAnObjectOfAnotherMachine) {
  std::string object = relocations();
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  const bool arm = native_relocations().machine == EM_AARCH64;
  header.e_machine = arm ? EM_X86_64 : EM_AARCH64;
  std::memcpy(object.data(), &header, sizeof header);
  const auto image = load_elf_object(object, "fixture_mix");
  ASSERT_FALSE(image.ok());
  const char* expected =
      arm ? "it is for x86-64, and this processor is aarch64" : "it is for aarch64, and this processor is x86-64";
  EXPECT_NE(image.error().message.find(expected), std::string::npos) << image.error().message;
}

TEST(ElfLoader, RefusesWritableCode) {
  ASSERT_TRUE(load_elf_object(with_text_flags(relocations(), SHF_ALLOC | SHF_EXECINSTR), "fixture_mix").ok());
  EXPECT_FALSE(load_elf_object(with_text_flags(relocations(), SHF_ALLOC | SHF_EXECINSTR | SHF_WRITE), "fixture_mix").ok());
  EXPECT_FALSE(load_elf_object(with_text_flags(relocations(), SHF_ALLOC), "fixture_mix").ok()) << "the entry is no code";
}

TEST(ElfLoader, EveryTruncationIsAnError) {
  const std::string object = relocations();
  for (std::size_t size = 0; size < object.size(); ++size) {
    const std::vector<char> exact(object.begin(), object.begin() + static_cast<std::ptrdiff_t>(size));  // no byte behind its end
    EXPECT_FALSE(load_elf_object({exact.data(), exact.size()}, "fixture_mix").ok()) << size;
  }
}

// Some damage cannot be seen in the loader (a byte of code or of a constant); stored kernels are checked by their hash. None may
// crash.
TEST(ElfLoader, SurvivesEveryDamagedByte) {
  const std::string whole = relocations();
  std::vector<char> object(whole.begin(), whole.end());
  int errors = 0, loads = 0;
  for (std::size_t at = 0; at < object.size(); ++at) {
    for (int pattern : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
      const char right = object[at];
      object[at] = static_cast<char>(right ^ pattern);
      const auto image = load_elf_object({object.data(), object.size()}, "fixture_mix");
      ++(image.ok() ? loads : errors);
      if (!image.ok()) {
        EXPECT_FALSE(image.error().message.empty());
      }
      object[at] = right;
    }
  }
  EXPECT_GT(errors, 0);
  EXPECT_GT(loads, 0);
  EXPECT_TRUE(load_elf_object({object.data(), object.size()}, "fixture_mix").ok());
}

}  // namespace
}  // namespace headnorm::host
