// What XLA has to know of a handler, read off its parameters.
#pragma once
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "handlers/buffers.h"
#include "memory.h"

namespace hs {

// Asks for large pages in a result, which a kernel is about to write for the first time: the system then clears its
// memory in far fewer steps. Where it does not know them, nothing happens.
inline void use_large_pages(Out& out) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t page = uintptr_t(1) << 21;
  const auto begin = reinterpret_cast<uintptr_t>(out->untyped_data());
  const uintptr_t from = (begin + page - 1) / page * page, to = (begin + out->size_bytes()) / page * page;
  if (to > from) madvise(reinterpret_cast<void*>(from), to - from, MADV_HUGEPAGE);
#else
  (void)out;
#endif
}
template <class Other>
void use_large_pages(Other&) {}

template <class Function, class Binding>
auto bind_rest(Function function, Binding binding, const char* const*) {
  return binding.To(function);
}

template <class Function, class Binding, class Parameter, class... Rest>
auto bind_rest(Function function, Binding binding, const char* const* names, Parameter*, Rest*... rest) {
  if constexpr (std::is_same_v<Parameter, ffi::ThreadPool>)
    return bind_rest(function, std::move(binding).template Ctx<ffi::ThreadPool>(), names, rest...);
  else if constexpr (std::is_same_v<Parameter, Buffer>)
    return bind_rest(function, std::move(binding).template Arg<Buffer>(), names, rest...);
  else if constexpr (std::is_same_v<Parameter, Out>)
    return bind_rest(function, std::move(binding).template Ret<Buffer>(), names, rest...);
  else
    return bind_rest(function, std::move(binding).template Attr<Parameter>(*names), names + 1, rest...);
}

// Buffers are arguments, an `Out` is a result, a number is an attribute: attributes have these names, in their order.
template <class... Parameters, class... Names>
auto bind(ffi::Error (*function)(Parameters...), Names... names) {
  static_assert((0 + ... + std::is_arithmetic_v<Parameters>) == sizeof...(names), "one name for each attribute");
  const char* const all[] = {names..., nullptr};
  const auto prepared = [function](Parameters... parameters) {
    (use_large_pages(parameters), ...);
    try {
      const ffi::Error result = function(parameters...);
      kept_memory.give_back_surplus();
      return result;
    } catch (const std::bad_alloc&) {
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, "a kernel found too little memory to work in.");
    }
  };
  return bind_rest(prepared, ffi::Ffi::Bind(), all, static_cast<Parameters*>(nullptr)...);
}

// Defines `function`_handler; the names of the attributes follow.
#define HS_HANDLER(function, ...)                                          \
  XLA_FFI_Error* function##_handler(XLA_FFI_CallFrame* frame) {            \
    static auto* const handler = bind(function, ##__VA_ARGS__).release();  \
    return handler->Call(frame);                                           \
  }

}  // namespace hs
