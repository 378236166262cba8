// Output of nccl-tests and nccom-test in every layout that was met, and the wrong ones.
#include "planner/bench_import.h"

#include <gtest/gtest.h>

#include <regex>

#include "planner/spec/yaml_reader.h"

namespace hpplan {
namespace {

std::string sample(const std::string& name) {
  return read_text_file(std::string(HPPLAN_SOURCE_DIR) + "/tests/data/bench/" + name);
}

BenchTable only(const std::string& name, const BenchHints& hints = {}) {
  const auto tables = import_bench(sample(name), name, hints);
  EXPECT_EQ(tables.size(), 1u);
  return tables.at(0);
}

std::string error_of(const std::string& text, const std::string& file,
                     const BenchHints& hints = {}) {
  try {
    import_bench(text, file, hints);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

const BenchRow& row_of(const BenchTable& table, double size) {
  for (const BenchRow& row : table.rows)
    if (row.size.value == size) return row;
  throw std::runtime_error("no such size");
}

TEST(NcclTests, OldAllReduceTakesRanksFromTheDeviceList) {
  const BenchTable t = only("nccltests_old_allreduce_a100_8.txt");
  EXPECT_EQ(t.op, Collective::kAllReduce);
  EXPECT_EQ(t.ranks, 8);
  EXPECT_EQ(t.tool, "nccl-tests");
  // Zero sizes and the message between the rows are no rows; 4 B to 8 GiB in powers of
  // two are.
  EXPECT_EQ(t.rows.size(), 32u);
  EXPECT_DOUBLE_EQ(row_of(t, 4).time.value, 34.73e-6);
}

TEST(NcclTests, NoRedopColumn) {
  const BenchTable t = only("nccltests_old_allgather_a100_8.txt");
  EXPECT_EQ(t.op, Collective::kAllGather);
  EXPECT_DOUBLE_EQ(row_of(t, 32).time.value, 35.03e-6);
}

TEST(NcclTests, EmptyRedopCellIsNoColumnShift) {
  const BenchTable t = only("nccltests_old_alltoall_a100_8.txt");
  EXPECT_EQ(t.op, Collective::kAllToAll);
  EXPECT_DOUBLE_EQ(row_of(t, 32).time.value, 89.00e-6);
}

TEST(NcclTests, MpirunPrefixAndRanksFromTheRatio) {
  const BenchTable t = only("nccltests_p5_2node_mpirun_prefix.txt");
  EXPECT_EQ(t.op, Collective::kAllReduce);
  EXPECT_EQ(t.ranks, 16);  // 437.79 / 233.49 = 2 * 15 / 16
  EXPECT_EQ(t.rows.size(), 6u);
  EXPECT_DOUBLE_EQ(row_of(t, 2147483648.0).time.value, 9197.5e-6);
}

TEST(NcclTests, HeaderWithoutRows) {
  EXPECT_NE(
      error_of(sample("nccltests_2196_header_layout.txt"), "x.txt").find("without a row"),
      std::string::npos);
}

TEST(NcclTests, MoreColumnsOfLaterVersions) {
  const std::string text =
      "# nccl-tests version 2.19.6\n# Collective test starting: sendrecv_perf\n"
      "#  Rank  0 Group  0 Pid 1 on h device  0 [0000:53:00] NVIDIA H100\n"
      "#  Rank  1 Group  0 Pid 1 on h device  1 [0000:64:00] NVIDIA H100\n"
      "#   size count type redop root   time  algbw  busbw #wrong i_min i_max i_p99 i_cv "
      "  time algbw busbw #wrong i_min "
      "i_max i_p99 i_cv\n"
      "#    (B) (elements)             (us) (GB/s) (GB/s)        (us)\n"
      "  1048576  262144  float   none   -1   20.0  52.43  52.43      0   19   21   21  "
      "0.1   21.0  49.93 49.93  0 19 21 21 "
      "0.1\n";
  const auto tables = import_bench(text, "log");
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].op, Collective::kShift);
  EXPECT_EQ(tables[0].ranks, 2);
  EXPECT_DOUBLE_EQ(tables[0].rows.at(0).time.value, 20e-6);
}

TEST(NccomTest, ColumnsByName) {
  const BenchTable t = only("nccom_allg_32rank_io_sizes.txt");
  EXPECT_EQ(t.op, Collective::kAllGather);
  EXPECT_EQ(t.ranks, 32);  // 21.93 / 22.64 = 31 / 32
  EXPECT_EQ(t.rows.size(), 4u);
  EXPECT_DOUBLE_EQ(row_of(t, 524288).time.value, 23.16e-6);
}

TEST(NccomTest, AverageAmongSeveralTimes) {
  const BenchTable t = only("nccom_allg_8rank_stats.txt");
  EXPECT_EQ(t.ranks, 8);
  EXPECT_DOUBLE_EQ(row_of(t, 524288).time.value, 14.83e-6);
}

TEST(NccomTest, BinaryGigabytesAreNoUnitMistake) {
  const BenchTable t = only("nccom_allr_64rank_2node.txt");
  EXPECT_EQ(t.op, Collective::kAllReduce);
  EXPECT_EQ(t.ranks, 64);
  EXPECT_DOUBLE_EQ(row_of(t, 8).time.value, 520e-6);
}

TEST(NccomTest, Json) {
  const BenchTable t =
      only("nccom_results_json.txt", {Collective::kAllGather, std::nullopt});
  EXPECT_EQ(t.ranks, 32);
  EXPECT_DOUBLE_EQ(row_of(t, 65536).time.value, 8.18e-6);
  EXPECT_NE(error_of(sample("nccom_results_json.txt"), "x").find("which collective"),
            std::string::npos);
}

TEST(NccomTest, TwoStreamsAreTwoTables) {
  const std::string text = sample("nccom_multistream_two_blocks.txt");
  // The first block alone says what it is by its ratio: 16.71 / 8.91 = 2 * 15 / 16. The
  // second has no figure above 1 GB/s, so nothing tells its ranks.
  const auto first = text.substr(0, text.find("size(B)", 10));
  const auto tables = import_bench(first, "streams.txt");
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].op, Collective::kAllReduce);
  EXPECT_EQ(tables[0].ranks, 16);
  EXPECT_EQ(tables[0].rows.size(), 11u);
  EXPECT_NE(error_of(text, "streams.txt"), "");
}

TEST(BenchImport, TwoRunsInOneText) {
  const std::string both = sample("nccltests_old_allreduce_a100_8.txt") +
                           sample("nccltests_old_alltoall_a100_8.txt");
  // The old tool names no operation: one is told by its ratio, 0.875 may be three.
  EXPECT_NE(error_of(both, "log.txt").find("which collective"), std::string::npos);
  // One operation cannot be both.
  EXPECT_NE(error_of(both, "log.txt", {Collective::kAllReduce, 8}).find("second table"),
            std::string::npos);
  const auto named = import_bench("# Collective test starting: all_reduce_perf\n" +
                                      sample("nccltests_old_allreduce_a100_8.txt") +
                                      "# Collective test starting: alltoall_perf\n" +
                                      sample("nccltests_old_alltoall_a100_8.txt"),
                                  "log.txt");
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[1].op, Collective::kAllToAll);
  EXPECT_EQ(named[1].ranks, 8);
}

TEST(NccomTest, FailedRunIsNoZero) {
  EXPECT_NE(error_of(sample("nccom_failure.txt"), "nccom_failure.txt").find("failed"),
            std::string::npos);
}

TEST(BenchImport, MislabelledIsRefused) {
  const std::string reduce = sample("nccltests_old_allreduce_a100_8.txt");
  // Another operation than the ratio of its bandwidths tells.
  EXPECT_NE(
      error_of(reduce, "x", {Collective::kAllToAll, std::nullopt}).find("mislabelled"),
      std::string::npos);
  // Another rank count than the text lists.
  EXPECT_NE(error_of(reduce, "x", {Collective::kAllReduce, 4}).find("the text lists 8"),
            std::string::npos);
  // A reduction in an all-gather: superbenchmark's file under another name, small sizes
  // only (no ratio to go by).
  const std::string small =
      "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
      "#   (B) (elements) (us) (GB/s) (GB/s)\n 1024 256 float sum -1 20.0 0.05 0.04 0 "
      "20.0 0.05 0.04 0\n";
  EXPECT_NE(error_of(small, "all_gather.txt", {std::nullopt, 8}).find("reduction"),
            std::string::npos);
}

TEST(BenchImport, WrongUnitsAreRefused) {
  std::string text = sample("nccom_allg_32rank_io_sizes.txt");
  text = std::regex_replace(text, std::regex(R"(time:avg\(us\))"), "time:avg(ms)");
  EXPECT_NE(error_of(text, "nccom_allg.txt").find("another unit"), std::string::npos);
  text = std::regex_replace(text, std::regex(R"(\(ms\))"), "(min)");
  EXPECT_NE(error_of(text, "nccom_allg.txt").find("expected us, ms, ns or s"),
            std::string::npos);
}

TEST(BenchImport, SomethingElseIsRefused) {
  EXPECT_NE(error_of("hello\n", "x").find("neither"), std::string::npos);
  EXPECT_NE(error_of("", "x"), "");
  EXPECT_NE(error_of("{\"results\": 3}", "x").find("results"), std::string::npos);
}

TEST(BenchImport, Argument) {
  const auto [hints, path] = parse_bench_argument("all_to_all:8:/tmp/a:b.txt");
  EXPECT_EQ(hints.op, Collective::kAllToAll);
  EXPECT_EQ(hints.ranks, 8);
  EXPECT_EQ(path, "/tmp/a:b.txt");
  EXPECT_EQ(parse_bench_argument("C:log").second, "C:log");
  EXPECT_EQ(parse_bench_argument("shift:log").first.op, Collective::kShift);
}

}  // namespace
}  // namespace hpplan
