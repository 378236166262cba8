#include "planner/spec/model.h"

namespace hpplan {
int ModelSpec::layers() const {
  int n = 0;
  for (const BlockSpec& block : blocks) n += block.count;
  return n;
}
}  // namespace hpplan
