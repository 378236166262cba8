// The packed sequence as ranks see it: whose rows are where, and at which angles.
#include "runtime/models/h3_sequence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "planner/spec/error.h"
#include "runtime/models/h3_request.h"

namespace hpplan::runtime {
namespace {

H3Config tiny() {
  H3Config c;
  c.head_dim = 16;
  c.rope_freqs = 2;
  c.patch[0] = 1;
  c.patch[1] = c.patch[2] = 2;
  return c;
}

// 5 text, 2 conditioning, 6 audio and 2 * 2 * 3 video rows: 25.
H3Layout layout() { return {5, 2, 6, 2, 2, 3}; }

TensorMap request() { return h3_layout_tensors(layout(), tiny()); }

at::Tensor cosines(int parts, int part, bool pad) {
  return H3Sequence(request(), tiny(), parts, part, pad).cos();
}

// BL-095, BL-096, BL-097: a shard has one row of angles for every row it holds, those of
// the rows' global numbers, whatever streams they belong to.
TEST(H3Sequence, BL095BL096BL097AnglesAreThoseOfTheRowsHeld) {
  const at::Tensor whole = cosines(1, 0, false);
  ASSERT_EQ(whole.size(0), 25);
  ASSERT_EQ(whole.size(1), 6);
  for (const int parts : {2, 3, 4, 7, 25}) {
    std::vector<at::Tensor> shards;
    for (int part = 0; part < parts; ++part) {
      const H3Sequence sequence(request(), tiny(), parts, part, false);
      EXPECT_EQ(sequence.cos().size(0), sequence.held());
      EXPECT_TRUE(
          at::equal(sequence.cos(), whole.narrow(0, sequence.first(), sequence.held())));
      shards.push_back(sequence.cos());
    }
    EXPECT_TRUE(at::equal(at::cat(shards), whole));
  }
}

// BL-098: padding changes no real row's angle.
TEST(H3Sequence, BL098PaddingShiftsNoPosition) {
  const at::Tensor whole = cosines(1, 0, false);
  for (const int parts : {2, 4, 6}) {  // padded to 26, 28, 30
    for (int part = 0; part < parts; ++part) {
      const H3Sequence sequence(request(), tiny(), parts, part, true);
      EXPECT_EQ(sequence.held(), (25 + parts - 1) / parts);
      EXPECT_TRUE(at::equal(sequence.cos().narrow(0, 0, sequence.real()),
                            whole.narrow(0, sequence.first(), sequence.real())));
    }
  }
}

// BL-082: index tensors count over the whole sequence; each rank's pieces say where its
// own rows lie, and all ranks together hold every row of every stream once.
TEST(H3Sequence, BL082GlobalIndicesBecomeLocalPieces) {
  const TensorMap whole = request();
  for (const int parts : {1, 2, 4, 7}) {
    for (const char* stream : {"video", "audio", "text"}) {
      std::vector<int> held(whole.at(std::string(stream) + "_indices").size(0));
      const auto packed = whole.at(std::string(stream) + "_indices");
      for (int part = 0; part < parts; ++part) {
        const H3Sequence sequence(whole, tiny(), parts, part, false);
        const StreamRowsOf& rows = sequence.stream(stream);
        EXPECT_EQ(rows.own, sequence.own_of(stream, part));
        std::int64_t count = 0;
        for (const Piece& p : rows.pieces) {
          for (std::int64_t i = 0; i < p.count; ++i) {
            const std::int64_t row = rows.own[p.stream + i];
            ++held[row];
            EXPECT_EQ(packed[row].item<std::int64_t>(), sequence.first() + p.packed + i);
          }
          count += p.count;
        }
        EXPECT_EQ(count, static_cast<std::int64_t>(rows.own.size()));
      }
      EXPECT_EQ(held, std::vector<int>(held.size(), 1)) << stream << " over " << parts;
    }
  }
}

TEST(H3Sequence, RunsFollowLevelAndModality) {
  // Text and video rows at level 0, conditioning at 1, audio at 2.
  const TensorMap times = h3_times(request(), 0.25F, 0.5F, 0.75F);
  EXPECT_TRUE(at::equal(times.at("timestep"), at::tensor({0.25F, 0.75F, 0.5F})));
  const H3Sequence sequence(request(), tiny(), 2, 0,
                            false);  // rows 0 to 12: text, conditioning, audio
  std::vector<std::vector<std::int64_t>> runs;
  for (const runtime::Run& r : sequence.modulation_runs(times.at("timestep_indices"), 3))
    runs.push_back({r.begin, r.end, r.table_row});
  EXPECT_EQ(runs,
            (std::vector<std::vector<std::int64_t>>{{0, 5, 1}, {5, 7, 3}, {7, 13, 8}}));
  EXPECT_EQ(sequence.level_runs(times.at("timestep_indices"), 3).size(), 3U);
}

TEST(H3Sequence, RefusalsNameTheTensor) {
  const auto text = [](const std::string& name, const at::Tensor& value) -> std::string {
    TensorMap bad = request();
    if (value.defined()) {
      bad[name] = value;
    } else {
      bad.erase(name);
    }
    try {
      H3Sequence(bad, tiny(), 2, 0, false);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  const TensorMap good = request();
  EXPECT_NE(text("token_tags", {}).find("token_tags: this tensor is missing"),
            std::string::npos);
  EXPECT_NE(text("token_tags", at::zeros({3}, at::kLong)).find("25 rows expected"),
            std::string::npos);
  EXPECT_NE(text("token_tags", at::full({25}, 3, at::kLong)).find("row 0"),
            std::string::npos);
  EXPECT_NE(text("token_tags", at::zeros({25})).find("whole numbers"), std::string::npos);
  EXPECT_NE(text("position_ids", at::zeros({25, 2})).find("[rows, 3]"),
            std::string::npos);
  EXPECT_NE(text("audio_indices", good.at("audio_indices") + 1).find("taken already"),
            std::string::npos);
  EXPECT_NE(text("text_indices", at::arange(4)).find("belongs to no stream"),
            std::string::npos);
  EXPECT_NE(
      text("video_indices", good.at("video_indices") + 100).find("not in the sequence"),
      std::string::npos);
  EXPECT_THROW(H3Sequence(good, tiny(), 26, 0, false), InputError);
}

// The layout of a request is the one the released pipeline packs.
TEST(H3Request, LayoutIsThePipelines) {
  const TensorMap reference = read_safetensors(std::string(HPPLAN_SOURCE_DIR) +
                                               "/tests/data/h3/layout.safetensors");
  const TensorMap ours = h3_layout_tensors({7, 0, 22, 7, 3, 5}, tiny());
  for (const auto& [name, tensor] : reference) {
    EXPECT_TRUE(
        at::allclose(ours.at(name).to(at::kDouble), tensor.to(at::kDouble), 1e-12, 1e-12))
        << name;
  }
}

// Every row of a planned request lands in the layout, also where they are no whole
// frames.
TEST(H3Request, LayoutHoldsExactlyThePlannedRows) {
  Workload workload;
  workload.height = 64;
  workload.width = 96;
  const auto rows = [](std::int64_t text, std::int64_t audio, std::int64_t video,
                       std::int64_t reference) {
    return Rows{{{"text", StreamKind::kPacked, text},
                 {"audio", StreamKind::kPacked, audio},
                 {"video", StreamKind::kPacked, video},
                 {"reference", StreamKind::kPacked, reference}}};
  };
  EXPECT_EQ(h3_layout_of(rows(5, 4, 12, 0), workload).frames, 2);
  EXPECT_EQ(h3_layout_of(rows(5, 4, 13, 0), workload).frames, 13);
  const TensorMap request = h3_random_request(tiny(), rows(5, 7, 13, 3), workload, 1);
  EXPECT_EQ(request.at("position_ids").size(0), 28);
  EXPECT_NO_THROW(H3Sequence(request, tiny(), 4, 0, false));
  EXPECT_EQ(request.at("condition_video_rows").item<std::int64_t>(), 3);
}

}  // namespace
}  // namespace hpplan::runtime
