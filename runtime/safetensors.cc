#include "runtime/safetensors.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "planner/spec/error.h"

namespace hpplan::runtime {
namespace {

using Json = nlohmann::json;
constexpr std::uint64_t kLargestHeader =
    100'000'000;  // as the format's own reader limits it

struct DTypeName {
  const char* name;
  at::ScalarType type;
};
constexpr DTypeName kDTypes[] = {
    {"F64", at::kDouble},
    {"F32", at::kFloat},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I64", at::kLong},
    {"I32", at::kInt},
    {"I16", at::kShort},
    {"I8", at::kChar},
    {"U8", at::kByte},
    {"BOOL", at::kBool},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"F8_E5M2", at::kFloat8_e5m2},
};

std::optional<at::ScalarType> dtype_named(const std::string& name) {
  for (const DTypeName& d : kDTypes) {
    if (name == d.name) return d.type;
  }
  return std::nullopt;
}

const char* name_of(at::ScalarType type) {
  for (const DTypeName& d : kDTypes) {
    if (type == d.type) return d.name;
  }
  return nullptr;
}

[[noreturn]] void bad(const std::string& path, const std::string& tensor,
                      const std::string& what) {
  throw InputError({path}, tensor, what);
}

// Whole numbers only: a float, a negative number or one past 2^63 is refused.
std::int64_t whole_number(const std::string& path, const std::string& tensor,
                          const Json& value, const char* field) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() ? value.get<std::uint64_t>() > INT64_MAX
                                  : value.get<std::int64_t>() < 0)) {
    bad(path, tensor,
        concat(field, ": a whole number >= 0 expected, given ", value.dump()));
  }
  return value.get<std::int64_t>();
}

StoredTensor parse_tensor(const std::string& path, const std::string& name,
                          const Json& entry) {
  if (!entry.is_object()) bad(path, name, "an object expected, given " + entry.dump());
  for (const char* field : {"dtype", "shape", "data_offsets"}) {
    if (!entry.contains(field)) bad(path, name, concat(field, " is missing"));
  }
  StoredTensor t;
  t.name = name;
  const std::string dtype = entry["dtype"].is_string() ? entry["dtype"].get<std::string>()
                                                       : entry["dtype"].dump();
  const auto type = dtype_named(dtype);
  if (!type) bad(path, name, "dtype " + dtype + " is not one that can be read");
  t.dtype = *type;
  if (!entry["shape"].is_array())
    bad(path, name, "shape: a list expected, given " + entry["shape"].dump());
  std::uint64_t bytes = c10::elementSize(t.dtype);
  for (const Json& d : entry["shape"]) {
    const std::int64_t size = whole_number(path, name, d, "shape");
    if (size > 0 && bytes > INT64_MAX / static_cast<std::uint64_t>(size)) {
      bad(path, name, "shape " + entry["shape"].dump() + " is larger than any file");
    }
    bytes *= static_cast<std::uint64_t>(size);
    t.shape.push_back(size);
  }
  const Json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2) {
    bad(path, name, "data_offsets: two numbers expected, given " + offsets.dump());
  }
  t.begin =
      static_cast<std::uint64_t>(whole_number(path, name, offsets[0], "data_offsets"));
  t.end =
      static_cast<std::uint64_t>(whole_number(path, name, offsets[1], "data_offsets"));
  if (t.end < t.begin || t.end - t.begin != bytes) {
    bad(path, name,
        concat("data_offsets ", offsets.dump(), " hold ",
               static_cast<std::int64_t>(t.end - t.begin), " bytes, but ", dtype, " ",
               entry["shape"].dump(), " needs ", bytes));
  }
  return t;
}

// nlohmann keeps the last of two equal keys silently; a header with two tensors of one
// name is refused.
Json parse_header_json(const std::string& path, const char* begin, const char* end) {
  std::vector<std::string> keys;
  const auto collect = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 1)
      keys.push_back(value.get<std::string>());
    return true;
  };
  Json header;
  try {
    header = Json::parse(begin, end, collect);
  } catch (const Json::exception& e) {
    bad(path, "header", std::string("not JSON: ") + e.what());
  }
  if (!header.is_object()) bad(path, "header", "a JSON object expected");
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) bad(path, *twice, "stands twice in the header");
  return header;
}

// Ranges of `tensor` that a slice asks for, checked.
std::vector<std::pair<std::int64_t, std::int64_t>> checked_ranges(
    const StoredTensor& tensor, const Slice& slice) {
  HP_CHECK(slice.dim >= 0 && slice.dim < 2 && slice.dim < tensor.shape.size(),
           tensor.name, " dim ", slice.dim);
  for (const auto& [begin, end] : slice.ranges) {
    HP_CHECK(0 <= begin && begin <= end && end <= tensor.shape[slice.dim], tensor.name,
             " [", begin, ",", end, ")");
  }
  return slice.ranges;
}

void advise(const char* begin, const char* end, int advice) {
  static const std::uintptr_t page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto from = reinterpret_cast<std::uintptr_t>(begin),
       to = reinterpret_cast<std::uintptr_t>(end);
  if (advice == MADV_DONTNEED) {
    // Only pages that lie wholly inside: a neighbour's copy may be reading the others.
    from = (from + page - 1) / page * page;
    to = to / page * page;
  } else {
    from = from / page * page;
  }
  if (to > from) madvise(reinterpret_cast<void*>(from), to - from, advice);
}

}  // namespace

std::int64_t Slice::extent() const {
  std::int64_t n = 0;
  for (const auto& [begin, end] : ranges) n += end - begin;
  return n;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    throw InputError({path}, "",
                     std::string("cannot be opened: ") + std::strerror(errno));
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    throw InputError({path}, "", "is not a regular file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ >= 8) {
    void* at = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) data_ = static_cast<const char*>(at);
  }
  const int error = errno;
  ::close(fd);
  if (size_ < 8)
    bad(path, "header",
        concat("the file is truncated: it has ", size_,
               " bytes, the header length alone takes 8"));
  if (data_ == nullptr)
    bad(path, "", std::string("cannot be mapped: ") + std::strerror(error));
  // No readahead of its own: the neighbours of a slice belong to other ranks.
  madvise(const_cast<char*>(data_), size_, MADV_RANDOM);
  try {
    parse_header();
  } catch (...) {
    munmap(const_cast<char*>(data_), size_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

void SafetensorsFile::parse_header() {
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | static_cast<unsigned char>(data_[i]);
  if (length > kLargestHeader)
    bad(path_, "header", concat("claims ", length, " bytes; not a safetensors file"));
  if (length > size_ - 8) {
    bad(path_, "header",
        concat("the file is truncated: the header takes ", length,
               " bytes, the file has ", size_ - 8, " after its length"));
  }
  const std::uint64_t base = 8 + length;
  const Json header = parse_header_json(path_, data_ + 8, data_ + base);
  std::vector<const StoredTensor*> order;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) bad(path_, name, "an object expected");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string())
          bad(path_, name + "." + key, "text expected, given " + value.dump());
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    StoredTensor t = parse_tensor(path_, name, entry);
    if (t.end > size_ - base) {
      bad(path_, name,
          concat("the file is truncated: bytes ", t.begin, " to ", t.end,
                 " of the data expected, the file has ", size_ - base));
    }
    t.begin += base;
    t.end += base;
    order.push_back(&(tensors_[name] = std::move(t)));
  }
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = base;
  for (const StoredTensor* t : order) {
    if (t->begin < at)
      bad(path_, t->name,
          concat("overlaps the tensor before it: starts at byte ", t->begin - base,
                 ", that one ends at ", at - base));
    if (t->begin > at)
      bad(path_, t->name,
          concat("starts at byte ", t->begin - base, ", expected ", at - base,
                 ": bytes that belong to no tensor"));
    at = t->end;
  }
  if (at != size_)
    bad(path_, "", concat(size_ - at, " bytes after the last tensor belong to none"));
}

const StoredTensor& SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& entry : tensors_) known.push_back(entry.first);
  bad(path_, name, "no such tensor" + did_you_mean(name, known));
}

at::Tensor SafetensorsFile::read(const StoredTensor& tensor, const Slice& slice) const {
  const char* from = data_ + tensor.begin;
  const auto options = at::TensorOptions().dtype(tensor.dtype);
  if (slice.whole()) {
    at::Tensor out = at::empty(tensor.shape, options);
    advise(from, data_ + tensor.end, MADV_WILLNEED);
    if (out.nbytes() > 0) std::memcpy(out.data_ptr(), from, out.nbytes());
    advise(from, data_ + tensor.end, MADV_DONTNEED);
    bytes_read_ += out.nbytes();
    return out;
  }
  const auto ranges = checked_ranges(tensor, slice);
  std::vector<std::int64_t> shape = tensor.shape;
  shape[slice.dim] = slice.extent();
  at::Tensor out = at::empty(shape, options);
  // Bytes of one index along the sliced dimension, and how many times the pattern
  // repeats.
  std::uint64_t unit = c10::elementSize(tensor.dtype);
  for (std::size_t d = slice.dim + 1; d < shape.size(); ++d) unit *= tensor.shape[d];
  const std::int64_t repeats = slice.dim == 0 ? 1 : tensor.shape[0];
  const std::uint64_t pitch = unit * tensor.shape[slice.dim];
  char* to = static_cast<char*>(out.data_ptr());
  for (std::int64_t r = 0; r < repeats; ++r) {
    for (const auto& [begin, end] : ranges) {
      const char* piece = from + r * pitch + begin * unit;
      const std::uint64_t bytes = (end - begin) * unit;
      if (bytes == 0) continue;
      advise(piece, piece + bytes, MADV_WILLNEED);
      std::memcpy(to, piece, bytes);
      to += bytes;
    }
  }
  advise(from, data_ + tensor.end, MADV_DONTNEED);
  bytes_read_ += out.nbytes();
  return out;
}

at::Tensor SafetensorsFile::read(const std::string& name, const Slice& slice) const {
  return read(find(name), slice);
}

TensorMap read_safetensors(const std::string& path) {
  const SafetensorsFile file(path);
  TensorMap out;
  for (const auto& [name, tensor] : file.tensors()) out[name] = file.read(tensor);
  return out;
}

void write_safetensors(const std::string& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::vector<at::Tensor> data;
  std::uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
    HP_CHECK(name_of(host.scalar_type()) != nullptr, name,
             " has a dtype that safetensors cannot hold");
    header[name] = {{"dtype", name_of(host.scalar_type())},
                    {"shape", host.sizes().vec()},
                    {"data_offsets", {at, at + host.nbytes()}}};
    at += host.nbytes();
    data.push_back(host);
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts aligned, as the format asks
  const std::string scratch = concat(path, ".", getpid(), ".tmp");
  std::ofstream out(scratch, std::ios::binary | std::ios::trunc);
  for (int i = 0; i < 8; ++i) out.put(static_cast<char>(text.size() >> (8 * i)));
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (const at::Tensor& t : data)
    out.write(static_cast<const char*>(t.data_ptr()),
              static_cast<std::streamsize>(t.nbytes()));
  out.close();
  std::error_code renamed;
  if (out) std::filesystem::rename(scratch, path, renamed);
  if (!out || renamed) {
    std::error_code ignored;
    std::filesystem::remove(scratch, ignored);
    throw InputError(
        {path}, "",
        renamed ? "cannot be written: " + renamed.message()
                : std::string(
                      "cannot be written: no such folder, no permission or no space"));
  }
}

}  // namespace hpplan::runtime
