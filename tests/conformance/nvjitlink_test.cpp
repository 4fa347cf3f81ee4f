// The real nvJitLink, where it is installed, makes a cubin of what the generator emits; no GPU is needed for that.
#include "runtime/cuda/nvjitlink.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>

#include "generator/generator.h"
#include "runtime/cuda/cuda_device.h"

namespace headnorm {
namespace {

constexpr int kCudaMachine = 190;  // EM_CUDA

class NvJitLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto library = cuda::NvJitLink::open(CudaDriverOptions().linkers);
    if (!library.ok()) GTEST_SKIP() << library.error().message;
    library_ = *library;
  }
  std::shared_ptr<const cuda::NvJitLink> library_;
};

Artifact generated(const char* target) {
  KernelSpec spec;
  spec.width = 4096;
  spec.head_size = 256;
  const Target gpu = *parse_target(target);
  return *make_llvm_backend()->compile(*make_plan(spec, default_schedule(spec, gpu), gpu));
}

TEST_F(NvJitLinkTest, MakesACubinOfThisArchitectureWithTheEntry) {
  EXPECT_GE(library_->version(), 12030);
  std::string others;
  for (const char* target : {"sm_80", "sm_90", "sm_120"}) {
    const Artifact artifact = generated(target);
    const auto linked = library_->link(artifact.bytes, target);
    ASSERT_TRUE(linked.ok()) << linked.error().message;
    ASSERT_GT(linked->bytes.size(), sizeof(Elf64_Ehdr));
    Elf64_Ehdr header;
    std::memcpy(&header, linked->bytes.data(), sizeof header);
    EXPECT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
    EXPECT_EQ(header.e_machine, kCudaMachine);
    EXPECT_NE(linked->bytes.find(".text." + artifact.entry), std::string::npos) << "no code of the entry";
    EXPECT_NE(linked->log.find("registers"), std::string::npos) << linked->log;
    EXPECT_NE(linked->bytes, others);
    others = linked->bytes;
  }
}

TEST_F(NvJitLinkTest, APortableKernelBecomesCodeForANewerArchitecture) {
  const Artifact artifact = generated("sm_80");
  const auto older = library_->link(artifact.bytes, "sm_80"), newer = library_->link(artifact.bytes, "sm_89");
  ASSERT_TRUE(older.ok() && newer.ok());
  EXPECT_NE(older->bytes, newer->bytes);
}

TEST_F(NvJitLinkTest, TheSameKernelGivesTheSameBytes) {
  const Artifact artifact = generated("sm_90");
  EXPECT_EQ(library_->link(artifact.bytes, "sm_90")->bytes, library_->link(artifact.bytes, "sm_90")->bytes);
}

TEST_F(NvJitLinkTest, SaysWhatIsWrong) {
  const auto broken = library_->link(".version 7.8\n.target sm_90\n.address_size 64\n.entry f() { no_such_opcode; }\n", "sm_90");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.error().kind, ErrorKind::environment);
  EXPECT_NE(broken.error().message.find("no_such_opcode"), std::string::npos) << broken.error().message;
}

}  // namespace
}  // namespace headnorm
