// The Python classes of streams.
#pragma once
#include <nanobind/nanobind.h>

namespace hs {

void define_streams(nanobind::module_& module);

}  // namespace hs
