"""Helpers for tests of programs on device npu, under the names that tests of torch_npu import."""
