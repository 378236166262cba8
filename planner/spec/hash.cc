#include "planner/spec/hash.h"

#include <openssl/evp.h>

#include "planner/spec/error.h"

namespace hpplan {

std::string sha256(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  const int ok = EVP_Digest(text.data(), text.size(), digest, &length, EVP_sha256(), nullptr);
  HP_CHECK(ok == 1, "EVP_Digest");
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "sha256:";
  for (unsigned int i = 0; i < length; ++i) {
    out += kHex[digest[i] >> 4];
    out += kHex[digest[i] & 15];
  }
  return out;
}

}  // namespace hpplan
