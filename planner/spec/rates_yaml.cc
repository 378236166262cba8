#include "planner/spec/rates_yaml.h"

#include <algorithm>
#include <array>

#include "planner/spec/quantity.h"
#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

const std::vector<std::string> kSources = {"measured", "published", "datasheet", "fitted", "derived", "assumed"};
const std::vector<std::string> kOps = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift"};

Source read_basis(MapReader& in, Source otherwise, const std::string& key = "basis") {
  return static_cast<Source>(in.one_of_or(key, kSources, static_cast<int>(otherwise)));
}

double read_fraction(MapReader& in, const std::string& key) {
  const double value = in.number(key);
  if (value <= 0 || value > 1) in.fail(key, concat("expected a fraction above 0 and at most 1, got ", value));
  return value;
}

double read_at_least_0(MapReader& in, const std::string& key) {
  const double value = in.number(key);
  if (value < 0) in.fail(key, concat("expected at least 0, got ", value));
  return value;
}

// `points` and `error` of numbers that calibrate wrote.
Confidence read_confidence(MapReader& in) {
  Confidence c;
  c.points = static_cast<int>(in.integer_or("points", 0, 0, 1 << 30));
  c.error = in.number_or("error", 0);
  if (c.error < 0) in.fail("error", concat("expected at least 0, got ", c.error));
  return c;
}

std::string confidence_text(const Confidence& c) {
  return c.points == 0 ? "" : concat(", points: ", c.points, ", error: ", format_number(c.error));
}

GemmRates read_gemm(const YamlNode& node, const std::string& path) {
  MapReader in(node, path);
  GemmRates g;
  g.emax = read_fraction(in, "emax");
  g.m0 = read_at_least_0(in, "m0");
  g.n0 = read_at_least_0(in, "n0");
  g.k0 = read_at_least_0(in, "k0");
  g.source = read_basis(in, Source::kAssumed);
  g.confidence = read_confidence(in);
  in.finish();
  return g;
}

AttentionRates read_attention(const YamlNode& node, const std::string& path) {
  MapReader in(node, path);
  AttentionRates a;
  a.emax_d64 = read_fraction(in, "emax_d64");
  a.emax_d80 = read_fraction(in, "emax_d80");
  a.emax_d128 = read_fraction(in, "emax_d128");
  a.tile_rows = static_cast<int>(in.integer("tile_rows", 1, 1 << 20));
  a.tile_rows_small = static_cast<int>(in.integer_or("tile_rows_small", 0, 0, 1 << 20));
  a.kv0 = read_at_least_0(in, "kv0");
  a.source = read_basis(in, Source::kAssumed);
  a.confidence = read_confidence(in);
  in.finish();
  return a;
}

std::string gemm_text(const GemmRates& g) {
  return concat("{emax: ", format_number(g.emax), ", m0: ", format_number(g.m0), ", n0: ", format_number(g.n0),
                ", k0: ", format_number(g.k0), ", basis: ", to_string(g.source), confidence_text(g.confidence), "}\n");
}

std::string attention_text(const AttentionRates& a) {
  std::string text = concat("{emax_d64: ", format_number(a.emax_d64), ", emax_d80: ", format_number(a.emax_d80),
                            ", emax_d128: ", format_number(a.emax_d128), ", tile_rows: ", a.tile_rows);
  if (a.tile_rows_small > 0) text += concat(", tile_rows_small: ", a.tile_rows_small);
  return text + concat(", kv0: ", format_number(a.kv0), ", basis: ", to_string(a.source), confidence_text(a.confidence), "}\n");
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string_view to_string(Collective op) { return kOps[static_cast<std::size_t>(op)]; }

DeviceRates parse_device(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  MapReader in(root);
  DeviceRates d;
  d.name = in.text("name");
  d.source = in.text("source");
  d.peak_bf16 = in.flops("peak_bf16");
  if (d.peak_bf16.value <= 0) in.fail("peak_bf16", "must be above 0");
  d.peak_fp8 = in.flops_or("peak_fp8", FlopsPerSecond(0));
  d.peak_fp32 = in.flops_or("peak_fp32", FlopsPerSecond(0));
  d.peak_source = read_basis(in, Source::kAssumed, "peak_basis");
  d.memory_bandwidth = in.bandwidth("memory_bandwidth");
  if (d.memory_bandwidth.value <= 0) in.fail("memory_bandwidth", "must be above 0");
  d.memory_efficiency = read_fraction(in, "memory_efficiency");
  d.units = static_cast<int>(in.integer("units", 1, 1 << 20));
  d.gemm = read_gemm(in.require("gemm"), "gemm");
  d.gemm_fp8 = d.gemm;
  if (const YamlNode* fp8 = in.find("gemm_fp8")) d.gemm_fp8 = read_gemm(*fp8, "gemm_fp8");
  d.attention = read_attention(in.require("attention"), "attention");
  d.attention_fa2 = d.attention;
  if (const YamlNode* fa2 = in.find("attention_fa2")) d.attention_fa2 = read_attention(*fa2, "attention_fa2");
  in.finish();
  return d;
}

FabricRates parse_fabric(const std::string& text, const std::string& file) {
  const YamlNode root = parse_yaml(text, file);
  MapReader in(root);
  FabricRates f;
  f.name = in.text("name");
  f.source = in.text("source");
  f.device = in.bandwidth_or("device", BytesPerSecond(0));
  f.link = in.bandwidth_or("link", BytesPerSecond(0));
  f.host = in.bandwidth_or("host", BytesPerSecond(0));
  f.uplink = in.bandwidth_or("uplink", BytesPerSecond(0));
  f.cross = in.bandwidth_or("cross", BytesPerSecond(0));
  f.network = in.bandwidth_or("network", BytesPerSecond(0));
  f.source_tag = read_basis(in, Source::kAssumed);
  if (const YamlNode* curves = in.find("curves")) {
    if (curves->kind != YamlNode::Kind::kList) in.fail("curves", concat("expected a list, got ", curves->kind_text()));
    for (const YamlNode& node : curves->items) {
      MapReader row(node, concat("curves[", f.curves.size(), "]"));
      CollectiveCurve c;
      c.op = static_cast<Collective>(row.one_of("op", kOps));
      c.n = static_cast<int>(row.integer("n", 2, 1 << 20));
      c.a = row.seconds("a");
      c.bandwidth = row.bandwidth("bandwidth");
      if (c.bandwidth.value <= 0) row.fail("bandwidth", "must be above 0");
      c.c = row.seconds_or("c", Seconds(0)).value;  // of the square root of one byte
      c.source = read_basis(row, f.source_tag);
      c.confidence = read_confidence(row);
      row.finish();
      for (const CollectiveCurve& other : f.curves)
        if (other.op == c.op && other.n == c.n)
          row.fail("n", concat("a second curve of ", to_string(c.op), " over ", c.n, " ranks"));
      f.curves.push_back(c);
    }
  }
  for (const std::string& op : in.texts_or_none("direct")) {
    const auto known = std::find(kOps.begin(), kOps.end(), op);
    if (known == kOps.end()) in.fail("direct", concat("expected names of collectives, got '", op, "'", did_you_mean(op, kOps)));
    f.direct.push_back(static_cast<Collective>(known - kOps.begin()));
  }
  in.finish();
  return f;
}

std::string write_device(const DeviceRates& d) {
  std::string text = concat("name: ", d.name, "\nsource: ", quoted(d.source), "\npeak_bf16: ", format(d.peak_bf16));
  if (d.peak_fp8.value > 0) text += concat("\npeak_fp8: ", format(d.peak_fp8));
  if (d.peak_fp32.value > 0) text += concat("\npeak_fp32: ", format(d.peak_fp32));
  text += concat("\npeak_basis: ", to_string(d.peak_source), "\nmemory_bandwidth: ", format(d.memory_bandwidth),
                 "\nmemory_efficiency: ", format_number(d.memory_efficiency), "\nunits: ", d.units, "\n");
  text += "gemm: " + gemm_text(d.gemm);
  if (d.peak_fp8.value > 0) text += "gemm_fp8: " + gemm_text(d.gemm_fp8);
  text += "attention: " + attention_text(d.attention);
  return text + "attention_fa2: " + attention_text(d.attention_fa2);
}

std::string write_fabric(const FabricRates& f) {
  std::string text = concat("name: ", f.name, "\nsource: ", quoted(f.source), "\n");
  const auto capacity = [&](const char* key, BytesPerSecond rate) {
    if (rate.value > 0) text += concat(key, ": ", format(rate), "\n");
  };
  capacity("device", f.device);
  capacity("link", f.link);
  capacity("host", f.host);
  capacity("uplink", f.uplink);
  capacity("cross", f.cross);
  capacity("network", f.network);
  text += concat("basis: ", to_string(f.source_tag), "\n");
  if (!f.direct.empty()) {
    text += "direct: [";
    for (const Collective op : f.direct) text += concat(op == f.direct.front() ? "" : ", ", to_string(op));
    text += "]\n";
  }
  if (!f.curves.empty()) text += "curves:\n";
  for (const CollectiveCurve& c : f.curves)
    text += concat("  - {op: ", to_string(c.op), ", n: ", c.n, ", a: ", format(c.a), ", bandwidth: ",
                   format(c.bandwidth), ", c: ", format(Seconds(c.c)), ", basis: ", to_string(c.source), confidence_text(c.confidence), "}\n");
  return text;
}

}  // namespace hpplan
