// Generators and hooks, as the operators and the module see them.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/StorageImpl.h>

namespace npu {

const at::Generator& default_generator(int device);
at::Generator twin_of(const at::Generator& generator);  // the CPU generator behind one of the device
void register_hooks();
void resize_storage(c10::StorageImpl* storage, size_t nbytes, bool keep = true);  // keep: what is there moves along

}  // namespace npu
