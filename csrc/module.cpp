// The Python module: handlers as capsules, and which instruction set and how many threads they use.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "isa.h"
#include "memory.h"
#include "registry.h"
#include "streaming/streaming.h"
#include "threads.h"

namespace nb = nanobind;

NB_MODULE(_kernels, module) {
  module.def("handlers", [] {
    nb::dict found;
    for (const auto& [name, handler] : hs::handlers())
      found[name.c_str()] = nb::capsule(reinterpret_cast<void*>(handler));
    return found;
  });
  module.def("instruction_sets", &hs::runnable);
  module.def("instruction_set", [] { return hs::runnable()[size_t(hs::isa())]; });
  module.def("use_instruction_set", &hs::use);
  module.def("limit_threads", &hs::limit_threads);
  module.def("keep_memory", [](int megabytes) { hs::kept_memory.keep(megabytes); });
  hs::define_streams(module);
}
