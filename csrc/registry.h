// The handlers of all families, by name. A family registers its own where it defines them.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "xla/ffi/api/c_api.h"

namespace hs {

inline std::vector<std::pair<std::string, XLA_FFI_Handler*>>& handlers() {
  static std::vector<std::pair<std::string, XLA_FFI_Handler*>> all;
  return all;
}

struct Registered {
  Registered(const char* name, XLA_FFI_Handler* handler) { handlers().emplace_back(name, handler); }
};

}  // namespace hs
