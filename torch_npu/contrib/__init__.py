"""Extensions of torch_npu: ``transfer_to_npu`` runs scripts written for CUDA."""
