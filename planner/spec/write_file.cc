#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "planner/spec/error.h"
#include "planner/spec/plan_yaml.h"

namespace hpplan {

void write_file(const std::string& path, const std::string& text) {
  const std::string temporary = concat(path, ".tmp.", getpid());
  const auto fail = [&](const char* what) {
    const std::string why = std::strerror(errno);
    unlink(temporary.c_str());
    throw InputError({path}, "", concat(what, ": ", why));
  };
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) fail("cannot be written");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      close(file);
      errno = error;
      fail("cannot be written");
    }
    done += static_cast<std::size_t>(n);
  }
  const bool synced = fsync(file) == 0;
  if (close(file) != 0 || !synced) fail("cannot be written whole");
  if (rename(temporary.c_str(), path.c_str()) != 0) fail("cannot be put in place");
}

}  // namespace hpplan
