"""What a server understands beyond the plain OpenAI API: found in preflight; what it lacks is left out and said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Extensions of one kind of server. A field that is False is left out of the bodies, and `lacks` says so.

    Sources: vLLM 0.32 `entrypoints/openai/protocol.py`; SGLang `srt/entrypoints/openai/protocol.py`; llama.cpp
    `tools/server/README.md`. Plain is what https://platform.openai.com/docs/api-reference/chat documents.

    Attributes:
        cache_salt: requests can be kept from sharing the prefix cache (without it, cold is not under our control).
        running_usage: `stream_options.continuous_usage_stats` (without it, tokens of an event are unknown).
        template_arguments: `chat_template_kwargs`.
        ignore_eos: a fixed output length can be asked for.
        tokenize: which form of /tokenize it has, if any.
    """

    name: str
    title: str
    cache_salt: bool = False
    running_usage: bool = False
    template_arguments: bool = False
    ignore_eos: bool = False
    tokenize: str | None = None

    @property
    def lacks(self) -> tuple[str, ...]:
        """One sentence for each thing that is left out."""
        missing = {
            "no cache_salt: cold requests rely on distinct prompts": self.cache_salt,
            "no running usage: tokens of each chunk are unknown, so there is no ITL": self.running_usage,
            "no chat_template_kwargs: thinking is left to the server's defaults": self.template_arguments,
            "no ignore_eos: output lengths vary with the answer": self.ignore_eos,
            "no /tokenize: prompt lengths are estimates until usage tells": self.tokenize is not None,
        }
        return tuple(sentence for sentence, has in missing.items() if not has)


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            name="vllm", title="vLLM",
            cache_salt=True, running_usage=True, template_arguments=True, ignore_eos=True, tokenize="messages",
        ),
        Dialect(
            name="sglang", title="SGLang",
            cache_salt=True, running_usage=True, template_arguments=True, ignore_eos=True, tokenize="messages",
        ),
        Dialect(name="llama.cpp", title="llama.cpp", template_arguments=True, ignore_eos=True, tokenize="llama.cpp"),
        Dialect(name="plain", title="plain OpenAI API"),
    )
}  # fmt: skip


def named(name: str) -> Dialect:
    """The dialect of that name; an unknown one is treated as the plain OpenAI API, which everybody speaks."""
    return DIALECTS.get(name, DIALECTS["plain"])
