// Damaged, hostile and untrusted files in a database: a miss with a reason or a refusal, never a wrong answer.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/database/directory.h"
#include "tests/support/database_samples.h"
#include "tests/support/temporary_directory.h"

namespace headnorm {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::sample_record;
using test::write_file;

class DatabaseDamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::unique_ptr<Database> database = open().value();
    record = sample_record();
    artifact = test::sample_artifact(test::sample_plan(record.spec, record.device));
    ASSERT_TRUE(database->store_kernel(artifact).ok());
    ASSERT_TRUE(database->publish(record).ok());
  }

  Result<std::unique_ptr<Database>> open(bool read_only = false) {
    DatabaseOptions options;
    options.read_only = read_only;
    options.warn = [this](const std::string& message) { warnings.push_back(message); };
    return Database::open(root, options);
  }
  fs::path record_file() const { return root / "records" / (record.id + ".json"); }
  fs::path pointer_file() const { return root / "kernels" / (artifact.key + ".json"); }
  fs::path blob_file() const { return root / "kernels" / (record.kernel.sha256 + ".o"); }

  // Whatever is damaged, an answer of a new database is a miss or right; and check() knows of every miss.
  void expect_miss_or_right(const std::string& what) {
    const std::unique_ptr<Database> opened = open(true).value();  // read only: check() rebuilds nothing
    Database& database = *opened;
    const Result<std::optional<Record>> found = database.find(record.id);
    ASSERT_TRUE(found.ok()) << what;
    if (found->has_value()) {
      EXPECT_EQ(to_json(**found), to_json(record)) << what;
    }
    const Result<Lookup> looked_up = database.look_up(record.spec, record.rows, record.device);
    ASSERT_TRUE(looked_up.ok()) << what;
    EXPECT_EQ(looked_up->served, found->has_value() ? Served::exact : Served::fallback) << what;
    EXPECT_TRUE(make_plan(record.spec, looked_up->schedule, record.device.target).ok()) << what;
    bool all_kernels = true;
    for (const auto& kernel : {database.find_kernel(artifact.key), database.load_kernel(record.kernel)}) {
      ASSERT_TRUE(kernel.ok()) << what;
      all_kernels = all_kernels && kernel->has_value();
      if (!kernel->has_value()) continue;
      EXPECT_EQ((*kernel)->bytes, artifact.bytes) << what;
      EXPECT_EQ((*kernel)->entry, artifact.entry) << what;
    }
    const Result<std::vector<Damage>> damage = database.check();
    ASSERT_TRUE(damage.ok()) << what;
    EXPECT_EQ(damage->empty(), found->has_value() && all_kernels) << what;
  }

  test::TemporaryDirectory directory;
  fs::path root = directory.path() / "db";
  std::vector<std::string> warnings;
  Record record;
  Artifact artifact;
};

TEST_F(DatabaseDamageTest, EveryTruncationAndEveryFlippedByteIsAMissOrRight) {
  for (const fs::path& path : {record_file(), pointer_file(), blob_file(), root / "index.json"}) {
    const std::string whole = read_file(path);
    ASSERT_FALSE(whole.empty());
    const Descriptor file(
        ::open(path.c_str(), O_WRONLY | O_CLOEXEC));  // changed in place: thousands of rewritten files take minutes
    const auto put = [&](std::size_t at, int byte) {
      const char value = static_cast<char>(byte);
      ASSERT_EQ(::pwrite(file.get(), &value, 1, static_cast<off_t>(at)), 1);
    };
    for (std::size_t i = 0; i < whole.size() && !HasFailure(); ++i) {
      for (int mask : {0x01, 0x20, 0xff}) {
        put(i, whole[i] ^ mask);
        expect_miss_or_right(path.string() + " flipped at " + std::to_string(i));
      }
      put(i, whole[i]);
    }
    ASSERT_EQ(read_file(path), whole);
    for (std::size_t size = whole.size(); size-- > 0 && !HasFailure();) {
      ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(size)), 0);
      expect_miss_or_right(path.string() + " truncated to " + std::to_string(size));
    }
    write_file(path, whole);
    EXPECT_TRUE(open().value()->find(record.id)->has_value());
    EXPECT_TRUE(open().value()->find_kernel(artifact.key)->has_value());
  }
}

TEST_F(DatabaseDamageTest, DamageIsReplacedByPublishingAgain) {
  for (const fs::path& file : {record_file(), pointer_file(), blob_file()}) write_file(file, "{");
  std::unique_ptr<Database> database = open().value();
  EXPECT_EQ(database->check()->size(), 3u);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(database->look_up(record.spec, record.rows, record.device)->served, Served::fallback);
    EXPECT_FALSE(database->load_kernel(record.kernel)->has_value());
  }
  ASSERT_EQ(warnings.size(), 2u);  // one for records, one for kernels
  EXPECT_NE(warnings[0].find(record.id), std::string::npos);
  EXPECT_NE(warnings[1].find(artifact.key), std::string::npos);
  ASSERT_TRUE(database->store_kernel(artifact).ok());
  ASSERT_TRUE(database->publish(record).ok());
  EXPECT_TRUE(database->check()->empty());
  EXPECT_TRUE(database->load_kernel(record.kernel)->has_value());
  EXPECT_EQ(database->look_up(record.spec, record.rows, record.device)->served, Served::exact);
}

TEST_F(DatabaseDamageTest, FilesUnderAnotherNameAreDamage) {
  const Record other = sample_record(record.spec, 77);
  fs::copy_file(record_file(), root / "records" / (other.id + ".json"));
  fs::copy_file(pointer_file(), root / "kernels" / (sha256_hex("other key") + ".json"));
  fs::copy_file(blob_file(), root / "kernels" / (sha256_hex("other bytes") + ".o"));
  write_file(root / "records" / "notes.txt", "hello");
  std::unique_ptr<Database> database = open().value();
  EXPECT_FALSE(database->find(other.id)->has_value());
  EXPECT_FALSE(database->find_kernel(sha256_hex("other key"))->has_value());
  EXPECT_EQ(database->list()->size(), 1u);
  EXPECT_EQ(database->check()->size(), 4u);
}

// Two writers of one key whose compilers made different bytes: whichever pointer is last, it names a whole blob.
TEST_F(DatabaseDamageTest, MetadataAndCodeAreNeverAMixedPair) {
  Artifact other = artifact;
  other.bytes = "other code";
  const std::string first_pointer = read_file(pointer_file());
  std::unique_ptr<Database> database = open().value();
  const StoredKernel stored = database->store_kernel(other).value();
  EXPECT_EQ(database->find_kernel(artifact.key)->value().bytes, other.bytes);
  EXPECT_EQ(database->load_kernel(stored)->value().bytes, other.bytes);
  EXPECT_FALSE(database->load_kernel(record.kernel)->has_value());
  write_file(pointer_file(), first_pointer);
  EXPECT_EQ(database->find_kernel(artifact.key)->value().bytes, artifact.bytes);
  EXPECT_EQ(database->load_kernel(record.kernel)->value().bytes, artifact.bytes);
  EXPECT_FALSE(database->load_kernel(stored)->has_value());
  fs::remove(blob_file());
  EXPECT_FALSE(database->find_kernel(artifact.key)->has_value());
}

TEST_F(DatabaseDamageTest, HostileFilesAreRefusedWithoutReadingThem) {
  const fs::path huge = root / "records" / (std::string(32, 'a') + ".json");
  write_file(huge, "{");
  fs::resize_file(huge, std::uintmax_t{1} << 30);  // sparse
  ASSERT_EQ(::mkfifo((root / "records" / (std::string(32, 'b') + ".json")).c_str(), 0600), 0);
  fs::create_directory(root / "records" / (std::string(32, 'c') + ".json"));
  fs::create_symlink(record_file(), root / "records" / (std::string(32, 'd') + ".json"));
  std::unique_ptr<Database> database = open().value();
  for (char name : {'a', 'b', 'c', 'd'}) EXPECT_FALSE(database->find(std::string(32, name))->has_value());
  std::vector<Damage> damage;
  EXPECT_EQ(database->list(&damage)->size(), 1u);
  ASSERT_EQ(damage.size(), 4u);
  EXPECT_NE(damage[0].reason.find("more than"), std::string::npos);
  EXPECT_NE(damage[1].reason.find("not a regular file"), std::string::npos);
  EXPECT_NE(damage[2].reason.find("not a regular file"), std::string::npos);
  EXPECT_NE(damage[3].reason.find("symbolic link"), std::string::npos);
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(DatabaseDamageTest, DirectoriesAreCreatedForTheirUserAlone) {
  const mode_t before = ::umask(0);
  const fs::path deep = directory.path() / "a" / "b";
  const bool opened = Database::open(deep).ok();
  ::umask(before);
  ASSERT_TRUE(opened);
  for (const fs::path& made : {deep.parent_path(), deep, deep / "records", deep / "kernels"})
    EXPECT_EQ(fs::status(made).permissions(), fs::perms::owner_all) << made;
}

// `reason` is in the message, and the remedy is there.
void expect_refused(const Result<std::unique_ptr<Database>>& opened, const std::string& reason) {
  ASSERT_FALSE(opened.ok()) << reason;
  EXPECT_EQ(opened.error().kind, ErrorKind::environment);
  EXPECT_NE(opened.error().message.find(reason), std::string::npos) << opened.error().message;
  EXPECT_FALSE(opened.error().remedy.empty());
}

TEST_F(DatabaseDamageTest, UntrustedKernelDirectoriesAreRefused) {
  const fs::path kernels = root / "kernels";
  for (mode_t mode : {0770, 0707, 0777, 01777}) {
    ASSERT_EQ(::chmod(kernels.c_str(), mode), 0);
    expect_refused(open(), "writable for others");
    expect_refused(open(true), "writable for others");
  }
  ASSERT_EQ(::chmod(kernels.c_str(), 0755), 0);
  EXPECT_TRUE(open().ok());

  fs::rename(kernels, root / "elsewhere");
  fs::create_directory_symlink(root / "elsewhere", kernels);
  expect_refused(open(), "symbolic link");
  fs::remove(kernels);
  write_file(kernels, "a file");
  expect_refused(open(), "Not a directory");
  fs::remove(kernels);
  fs::rename(root / "elsewhere", kernels);
  EXPECT_TRUE(open().ok());
}

TEST_F(DatabaseDamageTest, KernelDirectoryOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(::chown((root / "kernels").c_str(), 12345, 12345), 0);
  expect_refused(open(), "belongs to user 12345");
}

TEST_F(DatabaseDamageTest, UntrustedKernelFilesAreMisses) {
  std::unique_ptr<Database> database = open().value();
  for (const fs::path& file : {blob_file(), pointer_file()}) {
    ASSERT_EQ(::chmod(file.c_str(), 0664), 0);
    EXPECT_FALSE(database->find_kernel(artifact.key)->has_value()) << file;
    EXPECT_EQ(database->check()->size(), 1u);
    ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
    EXPECT_TRUE(database->find_kernel(artifact.key)->has_value()) << file;

    const fs::path moved = directory.path() / "moved";
    fs::rename(file, moved);
    fs::create_symlink(moved, file);
    EXPECT_FALSE(database->find_kernel(artifact.key)->has_value()) << file;
    fs::remove(file);
    fs::rename(moved, file);
    EXPECT_TRUE(database->find_kernel(artifact.key)->has_value()) << file;
  }
  for (const std::string key : {"../records/x", "", "/etc/passwd", "KEY"}) EXPECT_FALSE(database->find_kernel(key)->has_value());
}

}  // namespace
}  // namespace headnorm
