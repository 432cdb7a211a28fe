"""A simulator of Huawei Ascend NPUs with an ACL-compatible API."""

__version__ = "0.1.0"
