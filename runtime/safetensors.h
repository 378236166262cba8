// Safetensors files and checkpoints: memory-mapped, read slice by slice. A rank copies
// the bytes of its own shard and nothing else, so a checkpoint larger than memory loads;
// what was copied is counted. Files and headers are user input: a truncated file,
// overlapping offsets, a size that does not match its shape or an unknown dtype is an
// InputError naming the file and the tensor. Writing goes to a temporary name first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hpplan::runtime {

using TensorMap = std::map<std::string, at::Tensor>;

// A tensor as the header of its file declares it; bytes [begin, end) count from the start
// of the file.
struct StoredTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The part of a tensor that is wanted: index ranges [first, second) along one dimension
// (0 or 1), laid one after the other in the result. No ranges: all of it.
struct Slice {
  int dim = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  bool whole() const { return ranges.empty(); }
  std::int64_t extent() const;  // sum of the ranges' lengths
};

class SafetensorsFile {
 public:
  // Maps the file and checks all of its header.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // A copy, in the stored dtype. The pages it came from are given back to the system.
  at::Tensor read(const StoredTensor& tensor, const Slice& slice = {}) const;
  at::Tensor read(const std::string& name, const Slice& slice = {}) const;
  // Bytes copied out of the mapping so far.
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  void parse_header();
  const StoredTensor& find(const std::string& name) const;

  std::string path_;
  const char* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
  mutable std::uint64_t bytes_read_ = 0;
};

// One file, or a folder as diffusers writes it: a single *.safetensors, or shards named
// by an
// *.safetensors.index.json. Shards are mapped when first asked for.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& path);

  bool has(const std::string& name) const { return shard_of_.count(name) != 0; }
  std::vector<std::string> names() const;
  // Throws InputError, with the nearest name there is, for a tensor the checkpoint lacks.
  const StoredTensor& info(const std::string& name) const;
  at::Tensor read(const std::string& name, const Slice& slice = {}) const;
  std::uint64_t bytes_read() const;

 private:
  const SafetensorsFile& shard(const std::string& name) const;

  std::string path_;
  std::map<std::string, std::string> shard_of_;  // tensor name -> file path
  mutable std::map<std::string, std::unique_ptr<SafetensorsFile>> files_;
};

// All tensors of a file, whole.
TensorMap read_safetensors(const std::string& path);

// Writes beside `path` and renames, so that an interrupted run leaves the old file or
// none. Tensors are moved to the CPU and made contiguous. Throws InputError when the
// folder cannot be written.
void write_safetensors(const std::string& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace hpplan::runtime
