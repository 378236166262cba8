#include "planner/spec/document.h"

#include <algorithm>
#include <cctype>

#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

constexpr std::size_t kLine = 110;

std::string number_text(const Document& value) {
  if (value.is_number_float()) return format_number(value.get<double>());
  return value.dump();
}

// Text that a YAML reader would take for something else, or that has characters of the syntax, is quoted.
bool plain(const std::string& text) {
  static const std::string kStart = "-?:,[]{}#&*!|>'\"%@` \t";
  if (text.empty() || kStart.find(text[0]) != std::string::npos || text.back() == ' ') return false;
  if (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.' || text[0] == '+') return false;
  for (const char* word : {"null", "Null", "NULL", "~", "true", "false", "True", "False", "yes", "no", "on", "off"})
    if (text == word) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 || std::string_view(",[]{}\"\\").find(text[i]) != std::string_view::npos) return false;
    if (text[i] == ':' && (i + 1 == text.size() || text[i + 1] == ' ')) return false;
    if (text[i] == '#' && i > 0 && text[i - 1] == ' ') return false;
  }
  return true;
}

std::string scalar(const Document& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return plain(text) ? text : value.dump();
  }
  if (value.is_number()) return number_text(value);
  return value.dump();  // null, true, false
}

std::string flow(const Document& value) {
  if (value.is_array()) {
    std::string text = "[";
    for (const Document& item : value) text += (text.size() > 1 ? ", " : "") + flow(item);
    return text + "]";
  }
  if (value.is_object()) {
    std::string text = "{";
    for (const auto& [key, item] : value.items()) text += (text.size() > 1 ? ", " : "") + key + ": " + flow(item);
    return text + "}";
  }
  return scalar(value);
}

bool leaf(const Document& value) { return !value.is_array() && !value.is_object(); }

// Lists of numbers stay on one line however long; anything else only when it is short.
bool on_one_line(const Document& value, std::size_t indent) {
  if (leaf(value) || value.empty()) return true;
  if (value.is_array() &&
      std::all_of(value.begin(), value.end(), [](const Document& v) { return v.is_number(); }))
    return true;
  return indent + flow(value).size() <= kLine;
}

void write(const Document& value, std::size_t indent, std::string& out);

void write_after(const Document& value, std::size_t indent, std::size_t used, std::string& out) {
  if (on_one_line(value, used)) {
    out += " " + flow(value) + "\n";
  } else {
    out += "\n";
    write(value, indent, out);
  }
}

void write(const Document& value, std::size_t indent, std::string& out) {
  const std::string pad(indent, ' ');
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      const std::string name = plain(key) ? key : Document(key).dump();
      out += pad + name + ":";
      write_after(item, indent + 2, indent + name.size() + 2, out);
    }
  } else {
    for (const Document& item : value) {
      if (on_one_line(item, indent + 2)) {
        out += pad + "- " + flow(item) + "\n";
      } else {
        std::string block;
        write(item, indent + 2, block);
        block[indent] = '-';
        out += block;
      }
    }
  }
}

void write_json(const Document& value, std::size_t indent, std::string& out) {
  const std::string pad(indent + 2, ' ');
  const bool flat = value.is_array() && std::all_of(value.begin(), value.end(), leaf);
  if (leaf(value) || value.empty() || flat) {
    if (flat && !value.empty()) {
      out += "[";
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i) out += ", ";
        write_json(value[i], 0, out);
      }
      out += "]";
    } else {
      out += value.is_number() ? number_text(value) : value.dump();
    }
    return;
  }
  out += value.is_object() ? "{\n" : "[\n";
  std::size_t i = 0;
  for (const auto& [key, item] : value.items()) {
    out += pad;
    if (value.is_object()) out += Document(key).dump() + ": ";
    write_json(item, indent + 2, out);
    out += ++i < value.size() ? ",\n" : "\n";
  }
  out += std::string(indent, ' ') + (value.is_object() ? "}" : "]");
}

}  // namespace

std::string canonical(const Document& value) {
  if (value.is_array()) {
    std::string text = "[";
    for (const Document& item : value) text += canonical(item);
    return text + "]";
  }
  if (value.is_object()) {
    std::string text = "{";
    for (const auto& [key, item] : value.items()) text += concat(key.size(), ':', key, canonical(item));
    return text + "}";
  }
  const std::string text = value.is_string() ? value.get<std::string>() : value.is_null() ? "" : scalar(value);
  return concat(text.size(), ':', text);
}

std::string canonical(const YamlNode& node) {
  std::string text;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "0:";
    case YamlNode::Kind::kScalar:
      return concat(node.scalar.size(), ":", node.scalar);
    case YamlNode::Kind::kList:
      for (const YamlNode& item : node.items) text += canonical(item);
      return "[" + text + "]";
    case YamlNode::Kind::kMap:
      for (const auto& [key, item] : node.entries) text += concat(key.size(), ':', key, canonical(item));
      return "{" + text + "}";
  }
  return text;
}

std::string to_yaml(const Document& document) {
  std::string out;
  write(document, 0, out);
  return out;
}

std::string to_json(const Document& document) {
  std::string out;
  write_json(document, 0, out);
  return out + "\n";
}

}  // namespace hpplan
