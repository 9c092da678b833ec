"""Write a tiny Qwen3 model folder (config, Qwen tokenizer, chat template; no weights) for `vllm serve --load-format dummy`.

usage: make_model.py QWEN_TIKTOKEN OUT
"""

import json
import sys
from pathlib import Path

from transformers import PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import TikTokenConverter

SPLIT = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
]
CHAT_TEMPLATE = """\
{%- if tools %}<|im_start|>system
# Tools
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Return calls as <tool_call>{"name":..., "arguments":...}</tool_call><|im_end|>
{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% if reasoning_effort is defined and reasoning_effort == 'low' %}<think>
{% endif %}{%- endif %}"""


def main(ranks: str, out: str) -> None:
    """Convert the ranks to a Hugging Face tokenizer and write it beside a config of 2 layers."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=TikTokenConverter(vocab_file=ranks, pattern=SPLIT, extra_special_tokens=SPECIAL).converted(),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=262_144,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    vocabulary = (len(tokenizer) + 63) // 64 * 64
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "vocab_size": vocabulary, "max_position_embeddings": 262_144, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "hidden_act": "silu",
        "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": tokenizer.eos_token_id}))


if __name__ == "__main__":
    main(*sys.argv[1:3])
