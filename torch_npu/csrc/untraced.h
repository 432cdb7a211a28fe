// What runs in Python on behalf of an operator is not the user's program: torch.compile, which looks at every Python frame
// that is entered beside its graphs, must not trace it.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace npu {

// As long as it lives, frames of this thread run as they are. The caller holds the GIL, before and after.
class Untraced {
 public:
  Untraced() : old_(set(Py_None)) {
    if (old_ == Py_None) {  // nearly always: nothing is compiled
      Py_DECREF(old_);
      old_ = nullptr;
    }
  }
  ~Untraced() {
    if (old_ != nullptr) {
      Py_XDECREF(set(old_));
      Py_DECREF(old_);
    }
  }
  Untraced(const Untraced&) = delete;
  Untraced& operator=(const Untraced&) = delete;

 private:
  static PyObject* set(PyObject* callback) {
    static PyObject* function =
        pybind11::object(pybind11::module_::import("torch._C._dynamo.eval_frame").attr("set_eval_frame")).release().ptr();
    PyObject* old = PyObject_CallOneArg(function, callback);
    if (old == nullptr) {
      PyErr_Clear();
    }
    return old;
  }
  PyObject* old_;
};

}  // namespace npu
