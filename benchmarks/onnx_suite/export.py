"""BERT-base, ViT-B/16, GPT-2 and a small Llama with random weights, exported by torch.

    python benchmarks/onnx_suite/export.py DIR        (needs torch 2.13.0, onnx, onnxscript, transformers)

Run it outside the repository: transformers imports a package called ``kernels``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    import torch
    import transformers as hf

    torch.manual_seed(0)

    class Wrapped(torch.nn.Module):
        def __init__(self, model: Any, call: Any) -> None:
            super().__init__()
            self.model, self.call = model, call

        def forward(self, *inputs: Any) -> Any:
            return self.call(self.model, *inputs)

    def export(name: str, model: Any, call: Any, inputs: dict[str, Any]) -> None:
        module = Wrapped(model, call).eval()
        with torch.no_grad():
            torch.onnx.export(
                module, tuple(inputs.values()), str(folder / f"{name}.onnx"), input_names=list(inputs), dynamo=True,
                external_data=False,
            )  # fmt: skip

    eager = {"attn_implementation": "eager"}
    ids = torch.randint(0, 900, (1, 128))
    mask = (torch.arange(128) < 96).long().reshape(1, -1)
    export(
        "bert_base", hf.BertModel(hf.BertConfig(**eager)),
        lambda m, i, a: m(input_ids=i, attention_mask=a).last_hidden_state,
        {"input_ids": ids, "attention_mask": mask},
    )  # fmt: skip
    export(
        "vit_b_16", hf.ViTModel(hf.ViTConfig(**eager)), lambda m, x: m(pixel_values=x).last_hidden_state,
        {"pixel_values": torch.randn(1, 3, 224, 224)},
    )  # fmt: skip
    export(
        "gpt2", hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False, **eager)),
        lambda m, i: m(input_ids=i, use_cache=False).logits, {"input_ids": ids[:, :64]},
    )  # fmt: skip
    small = hf.LlamaConfig(
        vocab_size=1000, hidden_size=512, intermediate_size=1376, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=4, use_cache=False, **eager,
    )  # fmt: skip
    export(
        "llama", hf.LlamaForCausalLM(small), lambda m, i: m(input_ids=i, use_cache=False).logits,
        {"input_ids": ids[:, :64]},
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
