"""Two ways to values, one answer: kernels run instruction by instruction against whole-operator values."""
