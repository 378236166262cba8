#include "planner/spec/mesh.h"

#include <gtest/gtest.h>

#include "planner/spec/error.h"

namespace hpplan {
namespace {

using Groups = std::vector<std::vector<int>>;

// BL-003: TP innermost. Sequence groups must be strided; runs of consecutive ranks would mix weight shards.
TEST(Mesh, BL003TpInnermostStridesUlysses) {
  const Mesh mesh = Mesh::from_order(Degrees::make(2, 1, 2), {Axis::kTp, Axis::kUlysses});
  EXPECT_EQ(mesh.groups(Axis::kTp), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(mesh.groups(Axis::kUlysses), (Groups{{0, 2}, {1, 3}}));
}

// BL-006: rank 17 of cp16 x dp2 is cp coordinate 1 and replica coordinate 1.
TEST(Mesh, BL006CoordinatesAreNamedByAxis) {
  const Mesh mesh = Mesh::from_order(Degrees::make(1, 16, 1, 1, 2), {Axis::kRing, Axis::kReplica});
  EXPECT_EQ(mesh.coordinate(17, Axis::kRing), 1);
  EXPECT_EQ(mesh.coordinate(17, Axis::kReplica), 1);
  EXPECT_EQ(mesh.group(17, Axis::kReplica), (std::vector<int>{1, 17}));
}

TEST(Mesh, ExplicitRanksKeepTheirOrder) {
  const Mesh mesh(Degrees::make(2, 1, 2), {Axis::kUlysses, Axis::kTp}, {0, 3, 1, 2}, {4, 5, 6, 7});
  EXPECT_EQ(mesh.group(3, Axis::kTp), (std::vector<int>{0, 3}));
  EXPECT_EQ(mesh.groups(Axis::kUlysses), (Groups{{0, 1}, {3, 2}}));
  EXPECT_EQ(mesh.group(2, {Axis::kRing, Axis::kUlysses}), (std::vector<int>{3, 2}));
}

TEST(Mesh, RefusesWhatIsNoPartition) {
  EXPECT_THROW(Mesh(Degrees::make(2, 1, 2), {Axis::kUlysses, Axis::kTp}, {0, 1, 2}, {0, 1, 2}), InputError);
  EXPECT_THROW(Mesh(Degrees::make(2, 1, 1), {Axis::kTp}, {0, 0}, {0, 1}), InputError);
  EXPECT_THROW(Mesh(Degrees::make(2, 1, 1), {Axis::kTp}, {0, 1}, {5, 5}), InputError);
  EXPECT_THROW(Mesh(Degrees::make(2, 1, 1), {Axis::kRing}, {0, 1}, {0, 1}), InputError);
}

}  // namespace
}  // namespace hpplan
