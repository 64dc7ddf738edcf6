//! How text is split into words before their bytes are joined to tokens: the patterns of known tokenizers.
//!
//! ```text
//! gpt2     "It's 12345  x"  ->  It|'s| 12345| | x
//! cl100k   "It's 12345  x"  ->  It|'s| |123|45| | x
//! o200k    "It's 12345  x"  ->  It's| |123|45| | x
//! qwen     "It's 12345  x"  ->  It|'s| |1|2|3|4|5| | x
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Splits text into words as the tokenizer of this name does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SplitPattern {
    /// GPT-2 and GPT-3 (`r50k_base`, `p50k_base`).
    Gpt2,
    /// GPT-3.5 and GPT-4 (`cl100k_base`), Llama 3.
    Cl100k,
    /// GPT-4o and later (`o200k_base`, `o200k_harmony`), Llama 4.
    O200k,
    /// Qwen, Qwen 2 and 3.
    Qwen,
}

impl SplitPattern {
    /// Every pattern with its name in task files.
    pub(crate) const NAMES: [&'static str; 4] = ["gpt2", "cl100k", "o200k", "qwen"];

    /// The regular expression, spelled so that the crate knows it and brings a scanner of its own for it.
    pub(super) fn regex(self) -> &'static str {
        match self {
            Self::Gpt2 => r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            Self::Cl100k => {
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            }
            Self::O200k => {
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            }
            Self::Qwen => {
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            }
        }
    }

    /// The special tokens of the tokenizer that the pattern is named after, if a file has as many ranks as that one.
    ///
    /// Rank files do not hold special tokens. Other tokenizers use the same patterns (Llama 3 splits as cl100k does),
    /// and theirs have to be named.
    pub(super) fn special_tokens(self, ranks: usize) -> &'static [(&'static str, u32)] {
        match (self, ranks) {
            (Self::Gpt2, 50_256) => &[("<|endoftext|>", 50_256)],
            (Self::Cl100k, 100_256) => &[
                ("<|endoftext|>", 100_257),
                ("<|fim_prefix|>", 100_258),
                ("<|fim_middle|>", 100_259),
                ("<|fim_suffix|>", 100_260),
                ("<|endofprompt|>", 100_276),
            ],
            (Self::O200k, 199_998) => &[("<|endoftext|>", 199_999), ("<|endofprompt|>", 200_018)],
            (Self::Qwen, 151_643) => {
                &[("<|endoftext|>", 151_643), ("<|im_start|>", 151_644), ("<|im_end|>", 151_645)]
            }
            _ => &[],
        }
    }
}
