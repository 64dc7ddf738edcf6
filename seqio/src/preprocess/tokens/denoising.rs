//! Inputs and targets made of one sequence under one mask, as ropes.
//!
//! ```text
//! targets: a rope of 568    ->    inputs: 512 tokens to be made     targets: 114 tokens to be made
//! ```

use std::sync::Arc;

use crate::item::{Rope, TokenOp};
use crate::objective::{DenoiseFn, MaskBuffer, MaskCounts, MaskRule, ObjectiveError, Replacements};
use crate::rng::Key;

/// What the keys of one sequence are for.
const MASK: u64 = 0;
const INPUTS: u64 = 1;
const TARGETS: u64 = 2;

/// Inputs and targets of a sequence.
#[derive(Debug)]
pub(super) struct Denoising {
    rule: Arc<Rule>,
    inputs: Arc<dyn TokenOp>,
    /// None: the sequence itself.
    targets: Option<Arc<dyn TokenOp>>,
    /// Ids in front of the inputs.
    mode: Arc<[i32]>,
}

#[derive(Debug)]
struct Rule {
    mask: MaskRule,
    inputs: DenoiseFn,
    targets: Option<DenoiseFn>,
    by: Replacements,
}

impl Denoising {
    /// Inputs by one function and targets by another; without one the targets are the sequence.
    pub(super) fn new(
        mask: MaskRule,
        inputs: DenoiseFn,
        targets: Option<DenoiseFn>,
        by: Replacements,
    ) -> Self {
        let rule = Arc::new(Rule { mask, inputs, targets, by });
        let half = |function: DenoiseFn, stream: u64| -> Arc<dyn TokenOp> {
            Arc::new(Half { rule: Arc::clone(&rule), function, stream })
        };
        Self {
            inputs: half(inputs, INPUTS),
            targets: targets.map(|function| half(function, TARGETS)),
            rule,
            mode: Arc::from([]),
        }
    }

    /// Puts ids in front of the inputs.
    pub(super) fn mode(mut self, ids: impl Into<Arc<[i32]>>) -> Self {
        self.mode = ids.into();
        self
    }

    /// What is wrong with it, in words: with its settings, or with sequences of up to `max_length` tokens, if that is
    /// known.
    pub(super) fn check(&self, max_length: Option<u32>) -> Result<(), String> {
        let Rule { mask, inputs, targets, by } = &*self.rule;
        mask.check(max_length)?;
        for function in [Some(*inputs), *targets].into_iter().flatten() {
            function.check(by)?;
            if let Some(length) = max_length
                && let Ok(Some(counts)) = mask.counts(length)
            {
                function.check_sentinels(counts, by).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Inputs and targets of `tokens`, whose key is `key`.
    pub(super) fn plan(
        &self,
        tokens: Rope,
        key: Key,
        buffer: &mut MaskBuffer,
    ) -> Result<(Rope, Rope), ObjectiveError> {
        let rule = &*self.rule;
        let counts = match rule.mask.counts(tokens.len())? {
            Some(counts) => {
                rule.check_sentinels(counts)?;
                counts
            }
            None => rule.draw(tokens.len(), key, buffer)?,
        };
        let mut inputs = Rope::ids(Arc::clone(&self.mode));
        if let MaskRule::RandomPrefix { .. } = rule.mask
            && (rule.inputs, rule.targets)
                == (DenoiseFn::DropNonnoiseTokens, Some(DenoiseFn::DropNoiseTokens))
        {
            let prefix = counts.noise_tokens;
            inputs.append(tokens.slice(0, prefix));
            return Ok((inputs, tokens.slice(prefix, tokens.len() - prefix)));
        }
        let made = |op: &Arc<dyn TokenOp>, function: DenoiseFn, tokens: Rope| {
            Rope::made(Arc::clone(op), vec![tokens], key, function.length(counts))
        };
        inputs.append(made(&self.inputs, rule.inputs, tokens.clone()));
        let targets = match (&self.targets, rule.targets) {
            (Some(op), Some(function)) => made(op, function, tokens),
            _ => tokens,
        };
        Ok((inputs, targets))
    }
}

impl Rule {
    /// A random mask with more spans than there are sentinels is drawn again, but not for ever: where they are rare it
    /// makes no difference, and where they are not the settings are wrong.
    const TRIES: u64 = 8;

    fn check_sentinels(&self, counts: MaskCounts) -> Result<(), ObjectiveError> {
        self.inputs.check_sentinels(counts, &self.by)?;
        self.targets.map_or(Ok(()), |targets| targets.check_sentinels(counts, &self.by))
    }

    /// Draws the mask of a sequence into `buffer`.
    fn draw(&self, length: u32, key: Key, buffer: &mut MaskBuffer) -> Result<MaskCounts, ObjectiveError> {
        let mut tried = 0;
        loop {
            let counts = self.mask.draw(length, key.child(MASK).child(tried), buffer)?.counts();
            tried += 1;
            match self.check_sentinels(counts) {
                Ok(()) => return Ok(counts),
                Err(error) if tried == Self::TRIES => return Err(error),
                Err(_) => {}
            }
        }
    }
}

/// Inputs or targets.
#[derive(Debug)]
struct Half {
    rule: Arc<Rule>,
    function: DenoiseFn,
    stream: u64,
}

impl TokenOp for Half {
    fn write(&self, inputs: &[&[i32]], key: Key, out: &mut [i32]) -> Result<(), String> {
        let [tokens] = inputs else { return Err("a sequence is made of one sequence".to_owned()) };
        let length = u32::try_from(tokens.len()).map_err(|_| "a sequence is too long".to_owned())?;
        let mut buffer = MaskBuffer::default();
        self.rule.draw(length, key, &mut buffer).map_err(|error| error.to_string())?;
        let mut made = Vec::with_capacity(out.len());
        self.function.apply(tokens, buffer.mask(), &self.rule.by, key.child(self.stream), &mut made);
        write_all(&made, out)
    }
}

/// Copies what was made; it must be as long as was planned.
pub(super) fn write_all(made: &[i32], out: &mut [i32]) -> Result<(), String> {
    if made.len() != out.len() {
        return Err(format!("{} ids were made where {} were planned", made.len(), out.len()));
    }
    out.copy_from_slice(made);
    Ok(())
}
