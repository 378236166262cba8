// The measurers of other engines, as hpplan carries them: tuning folders get a copy.
#pragma once

namespace hpplan::tools {

extern const char* const kDiffusersMeasure;  // diffusers_measure.py

}  // namespace hpplan::tools
