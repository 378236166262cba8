// Groups and meshes of 2 to 8 ranks, as threads over Gloo.
#include "runtime/group.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "planner/spec/error.h"
#include "tests/support/run_ranks.h"

namespace hpplan::runtime {
namespace {

Mesh tp_mesh(int n) { return Mesh::from_order(Degrees::make(n, 1, 1), {Axis::kTp}); }
Mesh ring_mesh(int n) { return Mesh::from_order(Degrees::make(1, n, 1), {Axis::kRing}); }

at::Tensor number(double value, std::int64_t n = 1) {
  return at::full({n}, value, at::kFloat);
}

// What rank i of n contributes in these tests.
at::Tensor contribution(int rank, std::int64_t rows) {
  return at::arange(rows * 3, at::kFloat).view({rows, 3}) + 100.0 * rank;
}

TEST(Group, OneRankIsTheIdentity) {
  const Group one;
  const at::Tensor x = contribution(0, 4);
  EXPECT_EQ(one.size(), 1);
  EXPECT_EQ(one.rank(), 0);
  for (const at::Tensor& y :
       {one.all_reduce(x), one.all_gather(x, 0), one.reduce_scatter(x, 0),
        one.all_to_all(x), one.shift(x), one.broadcast(x, 0)})
    EXPECT_TRUE(y.is_same(x));
  one.barrier();
  EXPECT_EQ(one.all_gather_text("a"), std::vector<std::string>{"a"});
}

class GroupOf : public testing::TestWithParam<int> {};

TEST_P(GroupOf, CollectivesByValue) {
  const int n = GetParam();
  run_ranks(tp_mesh(n), [n](const DeviceMesh& mesh) {
    const Group& group = mesh.group(Axis::kTp);
    const int me = group.rank();
    EXPECT_TRUE(group.all_reduce(number(me + 1, 5)).equal(number(n * (n + 1) / 2, 5)));
    EXPECT_TRUE(group.all_reduce(number(me), ReduceOp::kMax).equal(number(n - 1)));
    EXPECT_TRUE(group.all_reduce(number(me), ReduceOp::kMin).equal(number(0)));

    std::vector<at::Tensor> all, uneven;
    std::vector<std::int64_t> sizes;
    for (int i = 0; i < n; ++i) {
      all.push_back(contribution(i, 2));
      sizes.push_back(i % 3);  // some have nothing
      uneven.push_back(contribution(i, sizes.back()));
    }
    for (const std::int64_t dim : {0, 1}) {
      EXPECT_TRUE(group.all_gather(all[me], dim).equal(at::cat(all, dim)));
      std::vector<at::Tensor> turned;
      for (const at::Tensor& x : uneven) turned.push_back(dim == 0 ? x : x.t());
      EXPECT_TRUE(group.all_gather(turned[me], dim, sizes).equal(at::cat(turned, dim)));
    }

    const at::Tensor wide = at::arange(2 * n * 3, at::kFloat).view({2, n * 3}) * (me + 1);
    const at::Tensor want =
        (at::arange(2 * n * 3, at::kFloat).view({2, n * 3}) * (n * (n + 1) / 2))
            .narrow(1, me * 3, 3);
    EXPECT_TRUE(group.reduce_scatter(wide, 1).equal(want));

    const at::Tensor even = at::arange(n * 2, at::kFloat) + 100.0 * me;
    std::vector<at::Tensor> got;
    for (int i = 0; i < n; ++i)
      got.push_back((at::arange(n * 2, at::kFloat) + 100.0 * i).narrow(0, me * 2, 2));
    EXPECT_TRUE(group.all_to_all(even).equal(at::cat(got)));

    const int before = (me + n - 1) % n;
    EXPECT_TRUE(group.shift(contribution(me, 3)).equal(contribution(before, 3)));
    std::vector<std::int64_t> rows;
    for (int i = 0; i < n; ++i) rows.push_back(i == 1 ? 0 : i + 1);
    EXPECT_TRUE(group.shift(contribution(me, rows[me]), rows)
                    .equal(contribution(before, rows[before])));

    EXPECT_TRUE(group.broadcast(number(me + 7), n - 1).equal(number(n + 6)));
    group.barrier();
    std::vector<std::string> texts;
    for (int i = 0; i < n; ++i) texts.push_back("rank " + std::to_string(i));
    EXPECT_EQ(group.all_gather_text(texts[me]), texts);
  });
}

// Member i sends i + j + 1 elements to member j, and nothing where the sum is a multiple
// of 3.
TEST_P(GroupOf, BL129UnevenExchangeFromOneTable) {
  const int n = GetParam();
  SizeTable table(n);
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) table[i].push_back((i + j) % 3 == 0 ? 0 : i + j + 1);
  run_ranks(tp_mesh(n), [&](const DeviceMesh& mesh) {
    const Group& group = mesh.group(Axis::kTp);
    std::vector<at::Tensor> out, want;
    for (int j = 0; j < n; ++j) {
      out.push_back(at::full({table[group.rank()][j], 2}, 10.0 * group.rank() + j));
      want.push_back(at::full({table[j][group.rank()], 2}, 10.0 * j + group.rank()));
    }
    EXPECT_TRUE(group.all_to_all(at::cat(out), table).equal(at::cat(want)));
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, GroupOf, testing::Values(2, 3, 4, 5, 8),
                         [](const auto& info) {
                           return concat("Ranks", info.param);
                         });

// Added in fp32 and rounded once: in bf16 1 + 2^-9 + 2^-9 would stay 1.
TEST(Group, SixteenBitSumsAreRoundedOnce) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    run_ranks(tp_mesh(5), [type](const DeviceMesh& mesh) {
      const Group& group = mesh.group(Axis::kTp);
      const double small = type == at::kBFloat16 ? 1.0 / 512 : 1.0 / 4096;
      const at::Tensor x = at::full({33}, group.rank() == 0 ? 1.0 : small).to(type);
      const at::Tensor want = at::full({33}, 1.0 + 4 * small).to(type);
      EXPECT_GT(want[0].item<float>(), 1.0F);
      EXPECT_TRUE(group.all_reduce(x).equal(want));
    });
  }
}

// A view that is not contiguous is not reduced in place: the result is what was reduced.
TEST(Group, BL134ReducedBufferIsReturned) {
  run_ranks(tp_mesh(2), [](const DeviceMesh& mesh) {
    const Group& group = mesh.group(Axis::kTp);
    const at::Tensor x = contribution(group.rank(), 4).t();
    ASSERT_FALSE(x.is_contiguous());
    const at::Tensor want = (contribution(0, 4) + contribution(1, 4)).t();
    EXPECT_TRUE(group.all_reduce(x).equal(want));
    EXPECT_TRUE(group.shift(x).equal(contribution(1 - group.rank(), 4).t()));
    EXPECT_TRUE(group.all_gather(x, 0).equal(
        at::cat({contribution(0, 4).t(), contribution(1, 4).t()})));
  });
}

// What the ranks say about a call that does not agree, before anything is sent.
std::vector<std::string> disagreement(int n,
                                      const std::function<void(const Group&)>& call) {
  std::vector<std::string> said(n);
  RankSettings settings;
  settings.collective_timeout = std::chrono::seconds(5);
  run_ranks(
      tp_mesh(n),
      [&](const DeviceMesh& mesh) {
        const Group& group = mesh.group(Axis::kTp);
        try {
          call(group);
        } catch (const CommError& e) {
          said[group.rank()] = e.what();
        }
        mesh.world().barrier();
      },
      settings);
  return said;
}

TEST(Group, BL132DifferentCountsAreFoundBeforeTheCall) {
  const auto said = disagreement(8, [](const Group& group) {
    (void)group.all_reduce(number(1, group.rank() == 3 ? 409598 : 409600));
  });
  for (int r = 0; r < 8; ++r) {
    EXPECT_NE(said[r].find("rank " + std::to_string(r) + ": tp all_reduce #1"),
              std::string::npos)
        << said[r];
    EXPECT_NE(said[r].find("409598"), std::string::npos) << said[r];
    EXPECT_NE(said[r].find("409600"), std::string::npos) << said[r];
  }
  EXPECT_NE(said[0].find("rank 3 calls all_reduce of Float [409598]"), std::string::npos)
      << said[0];
}

TEST(Group, BL129DifferentSizeTablesAreFoundBeforeTheCall) {
  const auto said = disagreement(3, [](const Group& group) {
    SizeTable table(3, std::vector<std::int64_t>(3, 2));
    if (group.rank() == 1) table[0][2] = 0;
    (void)group.all_to_all(number(1, 6), table);
  });
  for (const std::string& text : said)
    EXPECT_NE(text.find("all_to_all"), std::string::npos) << text;
}

TEST(Group, DifferentDtypesAndCollectivesAreFound) {
  const auto types = disagreement(2, [](const Group& group) {
    (void)group.all_reduce(group.rank() == 0 ? number(1) : number(1).to(at::kDouble));
  });
  EXPECT_NE(types[0].find("Double"), std::string::npos) << types[0];
  const auto kinds = disagreement(2, [](const Group& group) {
    if (group.rank() == 0) {
      (void)group.all_reduce(number(1));
    } else {
      (void)group.broadcast(number(1), 0);
    }
  });
  EXPECT_NE(kinds[0].find("rank 1 calls broadcast"), std::string::npos) << kinds[0];
}

// A rank that leaves without a word: the others name it, or their broken collective,
// within the timeout.
TEST(Group, AMissingRankIsReportedWithinTheTimeout) {
  RankSettings settings;
  settings.collective_timeout = std::chrono::seconds(2);
  const auto begin = std::chrono::steady_clock::now();
  try {
    run_ranks(
        tp_mesh(3),
        [](const DeviceMesh& mesh) {
          const Group& group = mesh.group(Axis::kTp);
          (void)group.all_reduce(number(1));
          if (group.rank() == 2) return;
          (void)group.all_reduce(number(1));
        },
        settings);
    FAIL() << "nothing was thrown";
  } catch (const CommError& e) {
    EXPECT_NE(std::string(e.what()).find("tp all_reduce #2 in group [0, 1, 2]"),
              std::string::npos)
        << e.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// Ring sizes that are odd, and a block beyond 64 MB on two ranks.
TEST(Group, BL124RingStepIsOneGroupedSendAndReceive) {
  for (const int n : {2, 3, 5}) {
    run_ranks(ring_mesh(n), [n](const DeviceMesh& mesh) {
      const Group& ring = mesh.group(Axis::kRing);
      at::Tensor x = number(ring.rank(), n == 2 ? 17 << 20 : 1000);
      for (int step = 1; step < n; ++step) {
        x = ring.shift(x);
        EXPECT_EQ(x[0].item<float>(), (ring.rank() + n - step) % n);
        EXPECT_EQ(x[-1].item<float>(), (ring.rank() + n - step) % n);
      }
    });
  }
}

// Groups are warm when the mesh is open: a neighbour exchange of some members may be the
// first operation.
TEST(DeviceMesh, BL123ShiftMayBeTheFirstOperation) {
  run_ranks(ring_mesh(4), [](const DeviceMesh& mesh) {
    EXPECT_EQ(mesh.group(Axis::kRing).shift(number(mesh.rank())).item<float>(),
              (mesh.rank() + 3) % 4);
  });
}

TEST(DeviceMesh, BL122EveryGroupIsOpenAndWarmAtTheStart) {
  const Mesh grid =
      Mesh::from_order(Degrees::make(2, 2, 2), {Axis::kTp, Axis::kUlysses, Axis::kRing});
  run_ranks(grid, [](const DeviceMesh& mesh) {
    for (const Axis axis : {Axis::kRing, Axis::kUlysses, Axis::kTp})
      EXPECT_EQ(mesh.group(axis).members(), mesh.mesh().group(mesh.rank(), axis));
    EXPECT_EQ(mesh.sequence().members(),
              mesh.mesh().group(mesh.rank(), {Axis::kRing, Axis::kUlysses}));
    EXPECT_EQ(mesh.world().size(), 8);
    // One member alone may now stay away from a group that others use.
    if (mesh.coordinate(Axis::kTp) == 0)
      (void)mesh.group(Axis::kRing).all_reduce(number(1));
    EXPECT_TRUE(mesh.ledger().counts().empty() || mesh.coordinate(Axis::kTp) == 0);
  });
}

TEST(DeviceMesh, BL172AxesOfOneRankHaveNoCommunicator) {
  run_ranks(tp_mesh(2), [](const DeviceMesh& mesh) {
    for (const Axis axis : {Axis::kReplica, Axis::kCfg, Axis::kRing, Axis::kUlysses}) {
      EXPECT_EQ(mesh.group(axis).size(), 1);
      const at::Tensor x = number(1);
      EXPECT_TRUE(mesh.group(axis).all_reduce(x).is_same(x));
    }
    EXPECT_TRUE(mesh.ledger().counts().empty());
  });
}

// TP innermost: the sequence groups are strided; every pair of axis groups shares this
// rank alone.
TEST(DeviceMesh, BL003AxisGroupsShareOneRank) {
  const Mesh grid = Mesh::from_order(Degrees::make(2, 1, 2), {Axis::kTp, Axis::kUlysses});
  run_ranks(grid, [](const DeviceMesh& mesh) {
    const int r = mesh.rank();
    EXPECT_EQ(mesh.group(Axis::kUlysses).members(), (std::vector<int>{r % 2, r % 2 + 2}));
    EXPECT_EQ(mesh.group(Axis::kTp).members(),
              (std::vector<int>{r / 2 * 2, r / 2 * 2 + 1}));
    // By value: the sum over ulysses is of ranks with the same weights.
    EXPECT_EQ(mesh.group(Axis::kUlysses)
                  .all_reduce(number(mesh.coordinate(Axis::kTp)))
                  .item<float>(),
              2 * mesh.coordinate(Axis::kTp));
  });
}

// Members are in the order of the plan's grid, not sorted, and so are the places in every
// result.
TEST(DeviceMesh, BL005GroupOrderIsThePlans) {
  const Mesh grid(Degrees::make(4, 1, 2), {Axis::kUlysses, Axis::kTp},
                  {6, 0, 5, 3, 1, 7, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7});
  run_ranks(grid, [&](const DeviceMesh& mesh) {
    const Group& tp = mesh.group(Axis::kTp);
    EXPECT_EQ(tp.members(), grid.group(mesh.rank(), Axis::kTp));
    EXPECT_EQ(tp.rank(), mesh.coordinate(Axis::kTp));
    const at::Tensor all = tp.all_gather(number(mesh.rank()), 0);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(all[i].item<float>(), tp.members()[i]);
    const at::Tensor from = tp.shift(number(mesh.rank()));
    EXPECT_EQ(from.item<float>(), tp.members()[(tp.rank() + 3) % 4]);
  });
}

// Shards are chosen by coordinate: two hosts with one rank each still hold two shards.
TEST(DeviceMesh, BL010ShardsFollowTheTpCoordinate) {
  run_ranks(tp_mesh(2), [](const DeviceMesh& mesh) {
    const at::Tensor weight = at::arange(8, at::kFloat).view({4, 2});
    const at::Tensor own = weight.chunk(2, 0)[mesh.coordinate(Axis::kTp)];
    const auto all =
        mesh.group(Axis::kTp).all_gather_text(std::to_string(own.sum().item<float>()));
    EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 2U);
  });
}

TEST(DeviceMesh, BL146OneRankIsMain) {
  run_ranks(Mesh::from_order(Degrees::make(2, 2, 1), {Axis::kTp, Axis::kRing}),
            [](const DeviceMesh& mesh) {
              EXPECT_EQ(mesh.coordinate(Axis::kCfg), 0);
              EXPECT_EQ(
                  mesh.world().all_reduce(number(mesh.main() ? 1 : 0)).item<float>(), 1);
            });
}

// A decision that depends on local data is made once for all ranks that share the forward
// pass.
TEST(DeviceMesh, BL136LocalDecisionsAreReduced) {
  const Mesh grid =
      Mesh::from_order(Degrees::make(1, 2, 2), {Axis::kUlysses, Axis::kRing});
  run_ranks(grid, [](const DeviceMesh& mesh) {
    const double local =
        mesh.sequence().rank() == 1 ? 0.9 : 0.1;  // one side would skip, three would not
    const float agreed =
        mesh.sequence().all_reduce(number(local), ReduceOp::kMax).item<float>();
    const bool skip = agreed < 0.5F;
    EXPECT_FALSE(skip);
    if (!skip) (void)mesh.group(Axis::kUlysses).all_reduce(number(1));
  });
}

// Two communications under way at once, issued by one thread in one order over the
// groups.
TEST(DeviceMesh, BL128SeveralGroupsInOneOrder) {
  const Mesh grid =
      Mesh::from_order(Degrees::make(2, 2, 2), {Axis::kTp, Axis::kUlysses, Axis::kRing});
  run_ranks(grid, [](const DeviceMesh& mesh) {
    for (int round = 0; round < 50; ++round) {
      Pending ring =
          mesh.group(Axis::kRing).shift_async(number(mesh.coordinate(Axis::kRing), 4096));
      Pending tp = mesh.group(Axis::kTp).all_reduce_async(number(1, 1000));
      EXPECT_EQ(mesh.group(Axis::kUlysses).all_to_all(number(round, 2))[0].item<float>(),
                round);
      EXPECT_EQ(tp.wait()[999].item<float>(), 2);
      EXPECT_EQ(ring.wait()[4095].item<float>(), 1 - mesh.coordinate(Axis::kRing));
    }
    EXPECT_EQ(
        mesh.ledger().counts(),
        (std::map<std::string, std::int64_t>{
            {"ring/shift", 50}, {"tp/all_reduce", 50}, {"ulysses/all_to_all", 50}}));
  });
}

TEST(Ledger, CountsBytesAndTheNewestCollective) {
  run_ranks(tp_mesh(4), [](const DeviceMesh& mesh) {
    const Group& group = mesh.group(Axis::kTp);
    std::vector<std::string> seen;
    mesh.ledger().observe([&](const CollectiveRecord& r) {
      EXPECT_TRUE(r.done && *r.done >= r.issued);
      seen.push_back(r.str());
    });
    (void)group.all_reduce(number(1, 1000));
    (void)group.all_gather(number(1, 100), 0);
    (void)group.shift(number(1, 10));
    (void)group.all_to_all(number(1, 8));
    const std::uint64_t bytes = 2 * 4000 * 3 / 4 + 400 * 3 + 40 + 32 * 3 / 4;
    EXPECT_EQ(mesh.ledger().wire_bytes(),
              (std::map<std::string, std::uint64_t>{{"tp", bytes}}));
    EXPECT_EQ(mesh.ledger().last()->str(), "tp all_to_all #4 in group [0, 1, 2, 3]");
    EXPECT_EQ(seen.size(), 4U);
    EXPECT_EQ(seen[0], "tp all_reduce #1 in group [0, 1, 2, 3]");
    mesh.ledger().reset();
    EXPECT_TRUE(mesh.ledger().counts().empty());
  });
}

TEST(Store, TcpServesOtherProcessesAndSaysWhenItCannot) {
  const Store served = Store::tcp("127.0.0.1", 0, true, std::chrono::seconds(5));
  const Store client =
      Store::tcp("127.0.0.1", served.port(), false, std::chrono::seconds(5));
  client.set("a", "1");
  EXPECT_EQ(served.get("a", std::chrono::seconds(1)), "1");
  EXPECT_EQ(client.add("n", 2), 2);
  EXPECT_THROW((void)client.get("nowhere", std::chrono::milliseconds(50)),
               std::exception);
  EXPECT_THROW(
      (void)Store::tcp("127.0.0.1", served.port(), true, std::chrono::seconds(1)),
      InputError);
}

}  // namespace
}  // namespace hpplan::runtime
