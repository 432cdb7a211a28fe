// Dispatch of operators: plans made in Python, the CPU fallback, copies and views.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <pybind11/pybind11.h>

namespace npu {

// ``compile(name, overload, args)`` returns None (no plan), or what `Plan` in ops.cpp reads; ``launch(launcher, device,
// stream, addresses)`` enqueues it; ``before``/``after`` charge a CPU fallback; ``settle`` makes values final;
// ``redraw(function)`` tells the graph being captured how random values are drawn again.
void set_dispatcher(pybind11::object compile, pybind11::object launch, pybind11::object before,
                    pybind11::object after, pybind11::object settle, pybind11::object redraw);
void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack);  // by its plan, else on the CPU
at::Tensor host_alias(const at::Tensor& tensor);  // the same bytes as a CPU tensor
void clear_plans();
void use_flash_attention(bool on);
pybind11::dict plan_counts();

}  // namespace npu
