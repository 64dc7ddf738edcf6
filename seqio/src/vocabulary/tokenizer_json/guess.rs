//! Special ids that a `tokenizer.json` leaves to other files, guessed where its tokens leave no doubt.
//!
//! | id  | taken from |
//! |-----|---|
//! | unk | the model (`unk_token`, `unk_id`) |
//! | eos | the role `eos_token`; else the one special token among `</s>`, `<eos>`, `[EOS]`, `<|endoftext|>`, `<|end_of_text|>`, `<｜end▁of▁sentence｜>`; else BERT's `[SEP]`, as SeqIO has it |
//! | bos | the role `bos_token`; else the one among `<s>`, `<bos>`, `[BOS]`, `<|begin_of_text|>`, `<|startoftext|>`, `<｜begin▁of▁sentence｜>`; else BERT's `[CLS]` |
//! | pad | the role `pad_token`; else the one among `<pad>`, `[PAD]`, `<|pad|>`; else 0, as SeqIO has it |
//!
//! Two of a row at once (a chat model's `</s>` and `<|endoftext|>`) are no guess: the definition has to say.

use super::config::Config;
use crate::vocabulary::SpecialIds;

const EOS: [&str; 6] =
    ["</s>", "<eos>", "[EOS]", "<|endoftext|>", "<|end_of_text|>", "<\u{FF5C}end▁of▁sentence\u{FF5C}>"];
const BOS: [&str; 6] =
    ["<s>", "<bos>", "[BOS]", "<|begin_of_text|>", "<|startoftext|>", "<\u{FF5C}begin▁of▁sentence\u{FF5C}>"];
const PAD: [&str; 3] = ["<pad>", "[PAD]", "<|pad|>"];

/// The special ids of a file.
pub(super) fn special_ids(config: &Config) -> SpecialIds {
    let id_of = |wanted: &str| config.special_tokens().find(|(text, _)| *text == wanted).map(|(_, id)| id);
    let only_one_of = |names: &[&str]| {
        let mut found = names.iter().filter_map(|name| id_of(name));
        found.next().filter(|_| found.next().is_none())
    };
    let none_of = |names: &[&str]| names.iter().all(|name| id_of(name).is_none());
    let (cls, sep) = (id_of("[CLS]"), id_of("[SEP]"));
    let is_bert = cls.is_some() && sep.is_some() && none_of(&EOS) && none_of(&BOS);
    SpecialIds {
        pad: config.role("pad_token").or_else(|| only_one_of(&PAD)).unwrap_or(0),
        eos: config.role("eos_token").or_else(|| only_one_of(&EOS)).or(sep.filter(|_| is_bert)),
        bos: config.role("bos_token").or_else(|| only_one_of(&BOS)).or(cls.filter(|_| is_bert)),
        unk: config.unknown_id(),
    }
}
