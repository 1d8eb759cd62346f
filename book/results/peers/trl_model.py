"""Models and tokenizers for TRL, made here: nothing is downloaded. Runs in the peer's environment."""

from __future__ import annotations

from typing import Any


def word_tokenizer(words: int) -> Any:
    """A word a number, 0, 1, … up to so many; behind them one token that ends answers and one that fills them up."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    vocabulary = {str(word): word for word in range(words)} | {"<end>": words, "<fill>": words + 1}
    made = Tokenizer(WordLevel(vocabulary, unk_token="<fill>"))
    made.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>", pad_token="<fill>")


def gpt2(vocabulary: int, positions: int, *, width: int = 64, layers: int = 2, heads: int = 4) -> Any:
    """A random GPT-2 of this shape: like `Decoder`, but for the bias of the head."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary,
            n_positions=positions,
            n_embd=width,
            n_layer=layers,
            n_head=heads,
            activation_function="gelu",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=None,
        )
    )
