// A document: an ordered tree of maps, lists and scalars, written as YAML or as JSON from the same value, so
// that the two can never say different things. Included by *_document.cc and *_report.cc files alone: the
// JSON library stays out of every other header.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "planner/spec/yaml_reader.h"

namespace hpplan {

using Document = nlohmann::ordered_json;

// Human-first YAML: maps of a few scalars and lists of scalars on one line, the rest in blocks. Byte-stable;
// numbers in the shortest form that reads back.
std::string to_yaml(const Document& document);
// The document as text for hashing: the same for a document and for what a YAML or JSON reader makes of its
// written form, whatever the layout or quoting.
std::string canonical(const Document& document);
std::string canonical(const YamlNode& node);

// Two-space JSON of the same document, numbers in the same form.
std::string to_json(const Document& document);

}  // namespace hpplan
