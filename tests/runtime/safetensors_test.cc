// Safetensors files: what is refused, what a slice is, what is copied and touched.
#include "runtime/safetensors.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

namespace fs = std::filesystem;

class Safetensors : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(HPPLAN_BIN_DIR) / ("safetensors_test." + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  // A file with this header text and so many data bytes.
  std::string raw(const std::string& header, std::size_t bytes,
                  std::int64_t claimed = -1) const {
    std::ofstream out(path("raw.safetensors"), std::ios::binary);
    const std::uint64_t length = claimed < 0 ? header.size() : claimed;
    for (int i = 0; i < 8; ++i) out.put(static_cast<char>(length >> (8 * i)));
    out << header << std::string(bytes, 'x');
    return path("raw.safetensors");
  }
  // The text of the InputError that opening the file gives; "" when it opens.
  static std::string refusal(const std::string& file) {
    try {
      SafetensorsFile opened(file);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_F(Safetensors, RoundTripOfEveryDtype) {
  TensorMap tensors;
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
        at::kShort, at::kChar, at::kByte, at::kBool}) {
    tensors[c10::toString(type)] = at::arange(12).reshape({3, 4}).to(type);
  }
  tensors["scalar"] = at::full({}, 2.5);
  tensors["empty"] = at::empty({0, 3});
  tensors["transposed"] = at::arange(6).reshape({2, 3}).t();
  write_safetensors(path("a.safetensors"), tensors, {{"seed", "7"}});
  const TensorMap back = read_safetensors(path("a.safetensors"));
  ASSERT_EQ(back.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(back.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(back.at(name), tensor)) << name;
  }
  EXPECT_EQ(SafetensorsFile(path("a.safetensors")).metadata().at("seed"), "7");
}

TEST_F(Safetensors, SlicesOfRowsAndColumns) {
  const at::Tensor whole = at::arange(7 * 10).reshape({7, 10}).to(at::kFloat);
  write_safetensors(path("a.safetensors"), {{"w", whole}});
  const SafetensorsFile file(path("a.safetensors"));
  EXPECT_TRUE(at::equal(file.read("w", {0, {{2, 5}}}), whole.slice(0, 2, 5)));
  EXPECT_TRUE(at::equal(file.read("w", {1, {{0, 2}, {5, 9}}}),
                        at::cat({whole.slice(1, 0, 2), whole.slice(1, 5, 9)}, 1)));
  EXPECT_TRUE(at::equal(file.read("w", {0, {{6, 7}, {0, 1}}}),
                        at::cat({whole.slice(0, 6, 7), whole.slice(0, 0, 1)})));
  EXPECT_EQ(file.bytes_read(), (3 * 10 + 7 * 6 + 2 * 10) * sizeof(float));
}

TEST_F(Safetensors, RefusalsNameFileAndTensor) {
  EXPECT_NE(refusal(path("absent.safetensors")).find("absent.safetensors"),
            std::string::npos);
  const auto expect = [&](const std::string& file, const std::string& tensor,
                          const std::string& what) {
    const std::string text = refusal(file);
    EXPECT_NE(text.find("raw.safetensors"), std::string::npos) << text;
    EXPECT_NE(text.find(tensor), std::string::npos) << text;
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  const std::string good = R"({"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})";
  EXPECT_EQ(refusal(raw(good, 16)), "");
  expect(raw(good, 15), "w", "truncated");
  expect(raw(good, 17), "", "belong to none");
  expect(raw(good, 16, 1000), "header", "truncated");
  expect(raw(good, 16, std::int64_t{1} << 60), "header", "not a safetensors file");
  expect(raw("{\"w\":", 0), "header", "not JSON");
  expect(raw("[1]", 0), "header", "object");
  expect(raw(R"({"w":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}})", 4), "w", "F31");
  expect(raw(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "w", "12");
  expect(raw(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "w",
         "shape");
  expect(
      raw(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
          4),
      "w", "larger");
  expect(raw(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "w",
         "data_offsets");
  expect(raw(R"({"w":{"dtype":"F32","shape":[1]}})", 4), "w", "data_offsets is missing");
  expect(
      raw(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
          12),
      "b", "overlaps");
  expect(
      raw(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
          12),
      "b", "belong to no tensor");
  expect(
      raw(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
          8),
      "a", "twice");
  std::ofstream(path("raw.safetensors"), std::ios::trunc) << "abc";
  expect(path("raw.safetensors"), "header", "truncated");
}

TEST_F(Safetensors, UnknownTensorNamesTheNearest) {
  write_safetensors(path("a.safetensors"), {{"proj_in.weight", at::ones({1})}});
  try {
    SafetensorsFile(path("a.safetensors")).read("proj_in.weigth");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("proj_in.weight'"), std::string::npos)
        << e.what();
  }
}

TEST_F(Safetensors, ShardedCheckpointAndWhatIsWrongWithOne) {
  write_safetensors(path("diffusion_pytorch_model-00001-of-00002.safetensors"),
                    {{"a", at::ones({2})}});
  write_safetensors(path("diffusion_pytorch_model-00002-of-00002.safetensors"),
                    {{"b", at::zeros({3})}});
  const auto index = [&](const std::string& map) {
    std::ofstream(path("diffusion_pytorch_model.safetensors.index.json"))
        << R"({"metadata":{},"weight_map":)" << map << "}";
  };
  const auto error = [&](const std::string& name) -> std::string {
    try {
      Checkpoint(folder_.string()).read(name);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(error("a").find("0 indexes"), std::string::npos)
      << error("a");  // two files, nothing says how they belong
  index(
      R"({"a":"diffusion_pytorch_model-00001-of-00002.safetensors","b":"diffusion_pytorch_model-00002-of-00002.safetensors"})");
  EXPECT_EQ(error("b"), "");
  EXPECT_EQ(Checkpoint(folder_.string()).names(), (std::vector<std::string>{"a", "b"}));
  index(R"({"a":"diffusion_pytorch_model-00003-of-00002.safetensors"})");
  EXPECT_NE(error("a").find(
                "00003-of-00002.safetensors: a: this shard of the checkpoint is missing"),
            std::string::npos)
      << error("a");
  index(R"({"b":"diffusion_pytorch_model-00001-of-00002.safetensors"})");
  EXPECT_NE(error("b").find("does not have it"), std::string::npos) << error("b");
  index(R"({"b":"../elsewhere.safetensors"})");
  EXPECT_NE(error("b").find("beside the index"), std::string::npos) << error("b");
}

TEST_F(Safetensors, WritingLeavesAWholeFileOrNone) {
  EXPECT_THROW(
      write_safetensors(path("no/such/folder.safetensors"), {{"a", at::ones({1})}}),
      InputError);
  write_safetensors(path("a.safetensors"), {{"a", at::ones({1})}});
  fs::create_directory(path("taken.safetensors"));
  EXPECT_THROW(write_safetensors(path("taken.safetensors"), {{"a", at::ones({1})}}),
               InputError);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder_))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 1);  // no temporary is left behind
}

// Pages of `file` in the page cache.
std::size_t resident_pages(const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY);
  const std::size_t size = fs::file_size(file), page = sysconf(_SC_PAGESIZE);
  void* at = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> seen((size + page - 1) / page);
  mincore(at, size, seen.data());
  munmap(at, size);
  close(fd);
  return std::count_if(seen.begin(), seen.end(), [](unsigned char c) { return c & 1; });
}

// A row slice brings in the pages of its own bytes and the header, not its neighbours'.
TEST_F(Safetensors, SliceTouchesOnlyItsPages) {
  const std::string file = path("big.safetensors");
  write_safetensors(file, {{"w", at::ones({4096, 1024})}});  // 16 MiB
  const int fd = open(file.c_str(), O_RDONLY);
  fsync(fd);
  posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
  if (resident_pages(file) != 0) GTEST_FAIL() << "this file system keeps pages: " << file;
  const SafetensorsFile mapped(file);
  mapped.read("w", {0, {{1024, 2048}}});  // 4 MiB
  const std::size_t shard = 4 * 1024 * 1024 / sysconf(_SC_PAGESIZE);
  EXPECT_LE(resident_pages(file), shard * 102 / 100);
}

// 1 TiB of weights on a machine with less: only the slice is ever in memory.
TEST_F(Safetensors, FileLargerThanMemoryLoads) {
  const std::int64_t rows = std::int64_t{1} << 26, width = 4096;
  const std::string header =
      R"({"w":{"dtype":"F32","shape":[67108864,4096],"data_offsets":[0,1099511627776]}})";
  const std::string file = raw(header, 0);
  if (truncate(file.c_str(), 8 + static_cast<off_t>(header.size()) + rows * width * 4) !=
      0) {
    FAIL() << "cannot make a sparse file of that size: " << strerror(errno);
  }
  const SafetensorsFile mapped(file);
  const at::Tensor slice = mapped.read("w", {0, {{rows - 256, rows}}});
  EXPECT_EQ(slice.sizes(), (std::vector<std::int64_t>{256, width}));
  EXPECT_EQ(slice.count_nonzero().item<std::int64_t>(), 0);
  EXPECT_EQ(mapped.bytes_read(), 256 * width * 4);
}

}  // namespace
}  // namespace hpplan::runtime
