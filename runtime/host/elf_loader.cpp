#include "runtime/host/elf_loader.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/host/memory.h"
#include "runtime/host/relocation.h"

namespace headnorm::host {
namespace {

constexpr std::uint64_t kMaxImageBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxAlignment = 4096;
constexpr std::uint64_t kGotSlotBytes = 8;

Error unusable(std::string reason) {
  return environment_error("the kernel's object file cannot be loaded: " + std::move(reason),
                           "compile the kernel again; if it was stored, remove that file from the database first");
}

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// The image is three runs of pages, one for each protection.
enum Region : int { kCode, kReadOnly, kWritable, kRegionCount };

struct Section {
  Elf64_Shdr header;
  std::string_view name;
  bool placed = false;
  Region region = kReadOnly;
  std::uint64_t offset = 0;  // in its region
};

std::uint32_t type_of(const Elf64_Rela& relocation) { return static_cast<std::uint32_t>(ELF64_R_TYPE(relocation.r_info)); }

std::string machine_name(std::uint16_t machine) {
  for (const RelocationRules* known : {&kX86Relocations, &kAarch64Relocations}) {
    if (known->machine == machine) return known->name;
  }
  return fmt::format("machine {} (e_machine)", machine);
}

class Linker {
 public:
  Linker(std::string_view object, const RelocationRules& machine) : object_(object), machine_(machine) {}

  Result<ElfImage> link(std::string_view entry) {
    HEADNORM_CHECK(read_sections());
    HEADNORM_CHECK(find_symbols());
    HEADNORM_CHECK(place_sections());
    HEADNORM_CHECK(map_regions());
    HEADNORM_CHECK(for_each_relocation([this](const Section& section, const Elf64_Rela& r) { return relocate(section, r); }));
    HEADNORM_TRY(void* const address, find_function(entry));
    HEADNORM_CHECK(protect_regions());
    return ElfImage{std::move(memory_), address};
  }

 private:
  bool in_file(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= object_.size() && bytes <= object_.size() - offset;
  }

  // A copy: nothing in a file need be aligned. The caller has checked in_file.
  template <class T>
  T read(std::uint64_t offset) const {
    T value;
    std::memcpy(&value, object_.data() + offset, sizeof value);
    return value;
  }

  // Empty if there is no such string.
  std::string_view string_at(const Elf64_Shdr& table, std::uint64_t offset) const {
    if (table.sh_type != SHT_STRTAB || offset >= table.sh_size) return {};
    const std::string_view rest = object_.substr(table.sh_offset + offset, table.sh_size - offset);
    const std::size_t end = rest.find('\0');
    return end == std::string_view::npos ? std::string_view{} : rest.substr(0, end);
  }

  Result<void> read_sections() {
    if (!in_file(0, sizeof(Elf64_Ehdr)) || object_.substr(0, SELFMAG) != ELFMAG) return unusable("it is not an ELF file");
    const auto header = read<Elf64_Ehdr>(0);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB || header.e_type != ET_REL)
      return unusable("it is not a relocatable object of 64 bits, little endian");
    if (header.e_machine != machine_.machine)
      return unusable(fmt::format("it is for {}, and this processor is {}", machine_name(header.e_machine), machine_.name));
    if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0 || header.e_shstrndx >= header.e_shnum ||
        !in_file(header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr)))
      return unusable("its section table lies outside the file");
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      Section section{.header = read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)), .name = {}};
      const bool has_bytes = section.header.sh_type != SHT_NULL && section.header.sh_type != SHT_NOBITS;
      if (has_bytes && !in_file(section.header.sh_offset, section.header.sh_size))
        return unusable(fmt::format("section {} lies outside the file", i));
      sections_.push_back(section);
    }
    for (Section& section : sections_) section.name = string_at(sections_[header.e_shstrndx].header, section.header.sh_name);
    return {};
  }

  Result<void> find_symbols() {
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      if (sections_[i].header.sh_type != SHT_SYMTAB) continue;
      if (symbols_ != 0) return unusable("it has two symbol tables");
      symbols_ = i;
    }
    if (symbols_ == 0) return unusable("it has no symbol table");
    const Elf64_Shdr& table = sections_[symbols_].header;
    if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_size % sizeof(Elf64_Sym) != 0 || table.sh_link >= sections_.size())
      return unusable("its symbol table is malformed");
    return {};
  }

  std::uint64_t symbol_count() const { return sections_[symbols_].header.sh_size / sizeof(Elf64_Sym); }
  Elf64_Sym symbol(std::uint64_t index) const {
    return read<Elf64_Sym>(sections_[symbols_].header.sh_offset + index * sizeof(Elf64_Sym));
  }
  std::string_view symbol_name(const Elf64_Sym& symbol) const {
    return string_at(sections_[sections_[symbols_].header.sh_link].header, symbol.st_name);
  }

  // What takes memory at run time. Unwind tables and notes do not: no exception passes through a kernel.
  static bool is_loaded(const Section& section) {
    const auto type = section.header.sh_type;
    return (section.header.sh_flags & SHF_ALLOC) != 0 && type != SHT_NOTE && type != SHT_X86_64_UNWIND &&
           section.name != ".eh_frame";
  }

  Result<void> place_sections() {
    for (Section& section : sections_) {
      if (!is_loaded(section)) continue;
      HEADNORM_CHECK(place(section));
    }
    got_offset_ = align_up(region_bytes_[kReadOnly], kGotSlotBytes);
    std::uint64_t slots = 0;
    HEADNORM_CHECK(for_each_relocation([&](const Section&, const Elf64_Rela& relocation) -> Result<void> {
      slots += machine_.wants_got_slot(type_of(relocation)) ? 1 : 0;
      return {};
    }));
    region_bytes_[kReadOnly] = got_offset_ + slots * kGotSlotBytes;
    return {};
  }

  Result<void> place(Section& section) {
    const Elf64_Shdr& header = section.header;
    const bool writable = (header.sh_flags & SHF_WRITE) != 0, executable = (header.sh_flags & SHF_EXECINSTR) != 0;
    if (header.sh_type != SHT_PROGBITS && header.sh_type != SHT_NOBITS)
      return unusable(fmt::format("section '{}' is of type {}, which a kernel has no use for", section.name, header.sh_type));
    if ((header.sh_flags & (SHF_TLS | SHF_COMPRESSED)) != 0 || (writable && executable))
      return unusable(fmt::format("section '{}' has flags {:#x}, which a kernel has no use for", section.name, header.sh_flags));
    const std::uint64_t alignment = header.sh_addralign == 0 ? 1 : header.sh_addralign;
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
      return unusable(fmt::format("section '{}' has alignment {}", section.name, alignment));
    // Written by relocations only.
    const bool relocated_only = section.name.substr(0, 12) == ".data.rel.ro";
    section.region = executable ? kCode : writable && !relocated_only ? kWritable : kReadOnly;
    section.offset = align_up(region_bytes_[section.region], alignment);
    if (header.sh_size > kMaxImageBytes || section.offset + header.sh_size > kMaxImageBytes)
      return unusable(fmt::format("section '{}' takes {} bytes, more than {}", section.name, header.sh_size, kMaxImageBytes));
    region_bytes_[section.region] = section.offset + header.sh_size;
    section.placed = true;
    return {};
  }

  Result<void> map_regions() {
    std::uint64_t bytes = 0;
    for (int region = 0; region < kRegionCount; ++region) {
      region_start_[region] = bytes;
      bytes += align_up(region_bytes_[region], page_bytes());
    }
    HEADNORM_TRY(memory_, map_pages(bytes));
    for (const Section& section : sections_) {
      if (section.placed && section.header.sh_type == SHT_PROGBITS && section.header.sh_size > 0)
        std::memcpy(place_of(section), object_.data() + section.header.sh_offset, section.header.sh_size);
    }
    return {};
  }

  std::byte* place_of(Region region, std::uint64_t offset) const {
    return static_cast<std::byte*>(memory_.address()) + region_start_[region] + offset;
  }
  std::byte* place_of(const Section& section) const { return place_of(section.region, section.offset); }

  // Calls `visit(section, relocation)` for every relocation of every loaded section.
  template <class Visit>
  Result<void> for_each_relocation(Visit visit) const {
    for (const Section& table : sections_) {
      const Elf64_Shdr& header = table.header;
      if (header.sh_type != SHT_RELA && header.sh_type != SHT_REL) continue;
      if (header.sh_info >= sections_.size()) return unusable(fmt::format("'{}' relocates no section", table.name));
      if (!sections_[header.sh_info].placed) continue;
      if (header.sh_type == SHT_REL || header.sh_entsize != sizeof(Elf64_Rela) || header.sh_size % sizeof(Elf64_Rela) != 0 ||
          header.sh_link != symbols_)
        return unusable(fmt::format("relocation table '{}' is malformed", table.name));
      for (std::uint64_t at = 0; at < header.sh_size; at += sizeof(Elf64_Rela))
        HEADNORM_CHECK(visit(sections_[header.sh_info], read<Elf64_Rela>(header.sh_offset + at)));
    }
    return {};
  }

  Result<std::uint64_t> symbol_address(std::uint64_t index) const {
    if (index == 0 || index >= symbol_count())
      return unusable(fmt::format("a relocation names symbol {}, which is not there", index));
    const Elf64_Sym wanted = symbol(index);
    if (wanted.st_shndx == SHN_UNDEF)
      return unusable(fmt::format("symbol '{}' is undefined: a kernel calls no other code", symbol_name(wanted)));
    const int type = ELF64_ST_TYPE(wanted.st_info);
    const bool plain = type == STT_NOTYPE || type == STT_OBJECT || type == STT_FUNC || type == STT_SECTION;
    if (!plain || wanted.st_shndx >= sections_.size() || !sections_[wanted.st_shndx].placed ||
        wanted.st_value > sections_[wanted.st_shndx].header.sh_size)
      return unusable(fmt::format("symbol '{}' ({}) has no place in the loaded sections", symbol_name(wanted), index));
    return reinterpret_cast<std::uint64_t>(place_of(sections_[wanted.st_shndx])) + wanted.st_value;
  }

  Result<void> relocate(const Section& section, const Elf64_Rela& entry) {
    const std::uint32_t type = type_of(entry);
    const std::optional<int> width = machine_.width(type);
    if (!width)
      return unusable(
          fmt::format("relocation type {} in section '{}' is not one that position independent kernels have", type, section.name));
    if (*width == 0) return {};
    const auto bytes = static_cast<std::uint64_t>(*width);
    if (section.header.sh_size < bytes || entry.r_offset > section.header.sh_size - bytes)
      return unusable(fmt::format("a relocation at {} lies outside section '{}'", entry.r_offset, section.name));
    HEADNORM_TRY(std::uint64_t symbol, symbol_address(ELF64_R_SYM(entry.r_info)));
    if (machine_.wants_got_slot(type)) {
      std::byte* const slot = place_of(kReadOnly, got_offset_ + got_slots_++ * kGotSlotBytes);
      std::memcpy(slot, &symbol, sizeof symbol);
      symbol = reinterpret_cast<std::uint64_t>(slot);
    }
    std::byte* const place = place_of(section) + entry.r_offset;
    std::uint64_t old = 0;
    std::memcpy(&old, place, bytes);
    const Relocation relocation{type, reinterpret_cast<std::uint64_t>(place), symbol, entry.r_addend};
    const std::optional<std::uint64_t> value = machine_.encode(relocation, old);
    if (!value)
      return unusable(
          fmt::format("the value of a relocation of type {} at {} does not fit section '{}'", type, entry.r_offset, section.name));
    std::memcpy(place, &*value, bytes);  // little endian: the low bytes
    return {};
  }

  Result<void*> find_function(std::string_view name) const {
    for (std::uint64_t i = 1; i < symbol_count(); ++i) {
      const Elf64_Sym found = symbol(i);
      if (ELF64_ST_BIND(found.st_info) != STB_GLOBAL || ELF64_ST_TYPE(found.st_info) != STT_FUNC || symbol_name(found) != name)
        continue;
      if (found.st_shndx >= sections_.size()) break;
      const Section& section = sections_[found.st_shndx];
      if (!section.placed || section.region != kCode || found.st_value >= section.header.sh_size) break;
      return static_cast<void*>(place_of(section) + found.st_value);
    }
    return unusable(fmt::format("it defines no global function '{}'", name));
  }

  Result<void> protect_regions() const {
    char* const code = reinterpret_cast<char*>(place_of(kCode, 0));
    __builtin___clear_cache(code, code + region_bytes_[kCode]);
    for (Region region : {kCode, kReadOnly}) {
      const std::uint64_t bytes = align_up(region_bytes_[region], page_bytes());
      const int protection = region == kCode ? PROT_READ | PROT_EXEC : PROT_READ;
      if (bytes > 0 && ::mprotect(place_of(region, 0), bytes, protection) != 0)
        return environment_error(
            fmt::format("the system refuses {} memory: {}", region == kCode ? "executable" : "read-only", std::strerror(errno)),
            "allow this process to change the protection of its pages (SELinux: execmem; seccomp: mprotect)");
    }
    return {};
  }

  std::string_view object_;
  const RelocationRules& machine_;
  std::vector<Section> sections_;
  std::size_t symbols_ = 0;  // index of the symbol table's section; 0 is never one
  std::array<std::uint64_t, kRegionCount> region_bytes_{}, region_start_{};
  std::uint64_t got_offset_ = 0, got_slots_ = 0;
  Buffer memory_;
};

}  // namespace

Result<ElfImage> load_elf_object(std::string_view object, std::string_view entry) {
  return Linker(object, native_relocations()).link(entry);
}

}  // namespace headnorm::host
