#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/spec/error.h"
#include "runtime/safetensors.h"

namespace hpplan::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// tensor name -> shard path, from an index file.
std::map<std::string, std::string> read_index(const fs::path& index) {
  Json json;
  try {
    std::ifstream in(index);
    json = Json::parse(in);
  } catch (const Json::exception& e) {
    throw InputError({index.string()}, "", std::string("not JSON: ") + e.what());
  }
  if (!json.is_object() || !json.contains("weight_map") ||
      !json["weight_map"].is_object()) {
    throw InputError({index.string()}, "weight_map",
                     "an object of tensor names and file names expected");
  }
  std::map<std::string, std::string> shards;
  for (const auto& [name, file] : json["weight_map"].items()) {
    if (!file.is_string() || fs::path(file.get<std::string>()).filename() !=
                                 fs::path(file.get<std::string>())) {
      throw InputError(
          {index.string()}, name,
          "the name of a file beside the index expected, given " + file.dump());
    }
    shards[name] = (index.parent_path() / file.get<std::string>()).string();
  }
  return shards;
}

}  // namespace

Checkpoint::Checkpoint(const std::string& path) : path_(path) {
  const auto add_file = [&](const std::string& file) {
    auto mapped = std::make_unique<SafetensorsFile>(file);
    for (const auto& entry : mapped->tensors()) shard_of_[entry.first] = file;
    files_[file] = std::move(mapped);
  };
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    add_file(path);
    return;
  }
  std::vector<fs::path> indexes, files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors.index.json")) indexes.push_back(entry.path());
    // Other tensors (references, outputs) may lie in the folder; weights have diffusers'
    // names.
    if (name.ends_with(".safetensors") &&
        (name.starts_with("diffusion_pytorch_model") || name.starts_with("model"))) {
      files.push_back(entry.path());
    }
  }
  if (indexes.size() == 1) {
    shard_of_ = read_index(indexes[0]);
    return;
  }
  if (indexes.empty() && files.size() == 1) {
    add_file(files[0].string());
    return;
  }
  throw InputError(
      {path}, "",
      concat("a checkpoint folder with one diffusion_pytorch_model*.safetensors, or "
             "shards with one index, expected; found ",
             files.size(), " files and ", indexes.size(), " indexes"));
}

const SafetensorsFile& Checkpoint::shard(const std::string& name) const {
  const auto found = shard_of_.find(name);
  if (found == shard_of_.end())
    throw InputError({path_}, name,
                     "no such tensor in the checkpoint" + did_you_mean(name, names()));
  auto& file = files_[found->second];
  if (!file) {
    if (!fs::exists(found->second))
      throw InputError({found->second}, name, "this shard of the checkpoint is missing");
    file = std::make_unique<SafetensorsFile>(found->second);
  }
  if (file->tensors().count(name) == 0) {
    throw InputError({found->second}, name,
                     "the index says this tensor is here, the file does not have it");
  }
  return *file;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> out;
  for (const auto& entry : shard_of_) out.push_back(entry.first);
  return out;
}

const StoredTensor& Checkpoint::info(const std::string& name) const {
  return shard(name).tensors().at(name);
}

at::Tensor Checkpoint::read(const std::string& name, const Slice& slice) const {
  return shard(name).read(name, slice);
}

std::uint64_t Checkpoint::bytes_read() const {
  std::uint64_t bytes = 0;
  for (const auto& entry : files_) {
    if (entry.second) bytes += entry.second->bytes_read();
  }
  return bytes;
}

}  // namespace hpplan::runtime
