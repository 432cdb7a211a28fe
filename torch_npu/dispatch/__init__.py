"""From ATen to Ascend IR: `table` says what each operator becomes, `plan` builds it, `run` launches it."""
