#include "planner/spec/microbench.h"

#include <algorithm>
#include <array>
#include <optional>

#include "planner/spec/document.h"
#include "planner/spec/quantity.h"

namespace hpplan {
namespace {

constexpr std::array<const char*, 5> kKinds = {"collective", "gemm", "attention",
                                               "elementwise", "p2p"};

const YamlNode* child(const YamlNode& node, const std::string& key) {
  for (const YamlEntry& entry : node.entries)
    if (entry.key == key) return &entry.node;
  return nullptr;
}

// The names publications and tools use.
std::optional<Collective> op_named(const std::string& name) {
  if (name == "alltoall") return Collective::kAllToAll;
  if (name == "send_recv") return Collective::kShift;
  for (const Collective op :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
        Collective::kAllToAll, Collective::kShift})
    if (name == to_string(op)) return op;
  return std::nullopt;
}

std::vector<double> positive(MapReader& in, const std::string& key) {
  const YamlNode& list = in.require(key);
  if (list.kind != YamlNode::Kind::kList)
    in.fail(key, concat("expected a list, got ", list.kind_text()));
  std::vector<double> numbers;
  for (const YamlNode& item : list.items) {
    numbers.push_back(item.number(in.name(key)));
    if (numbers.back() <= 0)
      throw InputError(item.where, in.name(key),
                       concat("expected a figure above 0, got ", numbers.back()));
  }
  if (numbers.empty()) in.fail(key, "is empty: leave the row out");
  return numbers;
}

// x and time element by element; unit: "us" or "ms".
std::vector<BenchPoint> points_of(MapReader& in, const std::string& x,
                                  const std::string& unit) {
  const double scale = unit == "us" ? 1e-6 : 1e-3;
  const std::vector<double> at = positive(in, x), times = positive(in, "time_" + unit);
  std::vector<double> spreads(at.size(), 0);
  if (const YamlNode* list = in.find("spread_" + unit)) {
    spreads.clear();
    for (const YamlNode& item : list->items)
      spreads.push_back(item.number(in.name("spread_" + unit)));
  }
  for (const auto& [key, size] : {std::pair("time_" + unit, times.size()),
                                  std::pair("spread_" + unit, spreads.size())})
    if (size != at.size())
      in.fail(key, concat("has ", size, " figures, ", x, " has ", at.size()));
  std::vector<BenchPoint> points;
  for (std::size_t i = 0; i < at.size(); ++i)
    points.push_back({at[i], Seconds(times[i] * scale), Seconds(spreads[i] * scale)});
  return points;
}

DType dtype_of(MapReader& in) {
  const std::string name = in.text("dtype", "bf16");
  const std::optional<DType> dtype = dtype_from(name);
  if (!dtype)
    in.fail("dtype",
            concat("expected f32, bf16, f16, fp8, int8 or nvfp4, got '", name, "'"));
  return *dtype;
}

void read_collective(const YamlNode& row, MapReader& in, Microbench& out) {
  if (!in.has("size_bytes") || !in.has("time_us")) return;
  CollectiveSeries series;
  series.line = row.where.line;
  const std::string name = in.text("op");
  const std::optional<Collective> op = op_named(name);
  if (!op)
    in.fail("op", concat("expected all_reduce, all_gather, reduce_scatter, all_to_all or "
                         "shift, got '",
                         name, "'"));
  series.op = *op;
  series.ranks = static_cast<int>(in.integer("devices", 2, 1 << 20));
  series.axis = in.text("axis", "");
  if (const YamlNode* groups = in.find("groups"))
    for (const YamlNode& group : groups->items) {
      series.groups.push_back(group.integers(in.name("groups"), 0, 1 << 20));
      if (static_cast<int>(series.groups.back().size()) != series.ranks)
        throw InputError(group.where, in.name("groups"),
                         concat("a group of ", series.groups.back().size(),
                                " devices in a row of ", series.ranks));
    }
  series.points = points_of(in, "size_bytes", "us");
  out.collectives.push_back(std::move(series));
}

void read_gemm(const YamlNode& row, MapReader& in, Microbench& out) {
  if (!in.has("m") || !in.has("time_ms")) return;
  GemmSeries series;
  series.line = row.where.line;
  series.dtype = dtype_of(in);
  series.n = in.integer("n", 1);
  series.k = in.integer("k", 1);
  series.points = points_of(in, "m", "ms");
  out.gemms.push_back(std::move(series));
}

void read_attention(const YamlNode& row, MapReader& in, Microbench& out) {
  if (!in.has("seq") || !in.has("time_ms")) return;
  AttentionSeries series;
  series.line = row.where.line;
  series.dtype = dtype_of(in);
  series.batch = static_cast<int>(in.integer_or("batch", 1, 1, 1 << 20));
  series.heads = static_cast<int>(in.integer("heads", 1, 1 << 20));
  series.head_dim = static_cast<int>(in.integer("head_dim", 1, 1 << 20));
  series.points = points_of(in, "seq", "ms");
  if (in.has("queries")) {
    series.queries = positive(in, "queries");
    if (series.queries.size() != series.points.size())
      in.fail("queries", concat("has ", series.queries.size(), " figures, seq has ",
                                series.points.size()));
  } else {
    for (const BenchPoint& point : series.points) series.queries.push_back(point.x);
  }
  out.attentions.push_back(std::move(series));
}

void read_copy(const YamlNode& row, MapReader& in, Microbench& out) {
  if (in.text("op", "") != "copy") return;
  out.copies.push_back({points_of(in, "bytes", "us"), row.where.line});
}

Document numbers(const std::vector<BenchPoint>& points, Seconds BenchPoint::*time,
                 double unit) {
  Document list = Document::array();
  for (const BenchPoint& point : points)
    list.push_back(parse_number(format_rounded((point.*time).value / unit, 6)));
  return list;
}

Document xs(const std::vector<BenchPoint>& points) {
  Document list = Document::array();
  for (const BenchPoint& point : points)
    list.push_back(static_cast<std::int64_t>(point.x));
  return list;
}

void put_times(Document& row, const std::vector<BenchPoint>& points,
               const std::string& unit) {
  const double seconds = unit == "us" ? 1e-6 : 1e-3;
  row["time_" + unit] = numbers(points, &BenchPoint::time, seconds);
  row["spread_" + unit] = numbers(points, &BenchPoint::spread, seconds);
}

}  // namespace

bool is_microbench(const YamlNode& root) {
  if (root.kind != YamlNode::Kind::kList || root.items.empty()) return false;
  return std::all_of(root.items.begin(), root.items.end(), [](const YamlNode& group) {
    const YamlNode* kind = child(group, "kind");
    return kind != nullptr &&
           std::find(kKinds.begin(), kKinds.end(), kind->scalar) != kKinds.end();
  });
}

std::vector<Microbench> parse_microbench(const YamlNode& root) {
  std::vector<Microbench> groups;
  for (const YamlNode& node : root.items) {
    MapReader in(node, concat("[", groups.size(), "]"));
    Microbench group;
    group.line = node.where.line;
    group.id = in.text("id");
    group.software = in.text("software", "");
    if (const YamlNode* hardware = in.find("hardware");
        hardware != nullptr && hardware->kind == YamlNode::Kind::kMap) {
      MapReader where(*hardware, in.name("hardware"));
      group.device = where.text("device", "");
      group.topology = where.text("topology", "");
      group.host = where.text("host", "");
      if (!group.topology.empty())
        group.devices = static_cast<int>(where.integer("devices", 1, 1 << 20));
    }
    const std::string kind = in.text("kind");
    const YamlNode& rows = in.require("rows");
    if (rows.kind != YamlNode::Kind::kList)
      in.fail("rows", concat("expected a list, got ", rows.kind_text()));
    for (std::size_t i = 0; i < rows.items.size(); ++i) {
      const YamlNode& row = rows.items[i];
      MapReader fields(row, concat(group.id, ".rows[", i, "]"));
      if (kind == "collective" || kind == "p2p") read_collective(row, fields, group);
      if (kind == "gemm") read_gemm(row, fields, group);
      if (kind == "attention") read_attention(row, fields, group);
      if (kind == "elementwise") read_copy(row, fields, group);
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::string microbench_to_yaml(const Microbench& probe) {
  Document all = Document::array();
  const auto group = [&](const char* kind, const char* quantity, const char* unit,
                         Document rows) {
    if (rows.empty()) return;
    Document d;
    d["id"] = concat(probe.id, "-", kind);
    d["kind"] = kind;
    d["hardware"] = {{"device", probe.device},
                     {"topology", probe.topology},
                     {"devices", probe.devices},
                     {"host", probe.host}};
    d["software"] = probe.software;
    d["quantity"] = quantity;
    d["unit"] = unit;
    d["rows"] = std::move(rows);
    all.push_back(std::move(d));
  };
  Document rows = Document::array();
  for (const CollectiveSeries& series : probe.collectives) {
    Document row;
    row["axis"] = series.axis;
    row["op"] = std::string(to_string(series.op));
    row["devices"] = series.ranks;
    row["groups"] = series.groups;
    row["size_bytes"] = xs(series.points);
    put_times(row, series.points, "us");
    rows.push_back(std::move(row));
  }
  group("collective",
        "time of one collective, all groups at once, of the slowest rank; median", "us",
        std::move(rows));
  rows = Document::array();
  for (const GemmSeries& series : probe.gemms) {
    Document row;
    row["dtype"] = std::string(to_string(series.dtype));
    row["n"] = series.n;
    row["k"] = series.k;
    row["m"] = xs(series.points);
    put_times(row, series.points, "ms");
    rows.push_back(std::move(row));
  }
  group("gemm", "time of one product, all ranks at once, of the slowest; median", "ms",
        std::move(rows));
  rows = Document::array();
  for (const AttentionSeries& series : probe.attentions) {
    Document row;
    row["dtype"] = std::string(to_string(series.dtype));
    row["batch"] = series.batch;
    row["heads"] = series.heads;
    row["head_dim"] = series.head_dim;
    row["seq"] = xs(series.points);
    Document queries = Document::array();
    for (const double q : series.queries) queries.push_back(static_cast<std::int64_t>(q));
    row["queries"] = std::move(queries);
    put_times(row, series.points, "ms");
    rows.push_back(std::move(row));
  }
  group("attention", "time of one call, all ranks at once, of the slowest; median", "ms",
        std::move(rows));
  rows = Document::array();
  for (const CopySeries& series : probe.copies) {
    Document row;
    row["op"] = "copy";
    row["bytes"] = xs(series.points);
    put_times(row, series.points, "us");
    rows.push_back(std::move(row));
  }
  group("elementwise", "time of one copy, all ranks at once, of the slowest; median",
        "us", std::move(rows));
  return to_yaml(all);
}

}  // namespace hpplan
