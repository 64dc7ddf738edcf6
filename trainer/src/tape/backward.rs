//! Reverse-mode differentiation: the tape goes on with what computes the gradients.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::ops::{Add, Fill};
use crate::tape::{Origin, Recorded, Tape, TapeError, Var};

/// Gradients so far, by tensor.
type Gradients = BTreeMap<Var, Var>;

impl Tape {
    /// Records the gradients of `loss`, one number, with respect to each of `of`. What `loss` does not depend on gets
    /// zeros.
    pub fn backward(&mut self, loss: Var, of: &[Var]) -> Result<Vec<Var>, TapeError> {
        if self.shape(loss).elements() != 1 || !self.is_float(loss) {
            return Err(TapeError::NotScalar {
                name: self.name(loss).to_owned(),
                spec: self.spec(loss).clone(),
            });
        }
        let seed = self.record(Fill::new(1.0, self.shape(loss).clone()), &[])?;
        self.pull_back(&[(loss, seed)], of)
    }

    /// Records the gradients with respect to each of `of`, where those of some tensors are known: pairs of a tensor
    /// and its gradient.
    pub fn pull_back(&mut self, known: &[(Var, Var)], of: &[Var]) -> Result<Vec<Var>, TapeError> {
        let mut gradients = Gradients::new();
        for &(var, gradient) in known {
            self.accumulate(&mut gradients, var, gradient)?;
        }
        self.sweep(0..self.nodes.len(), &mut gradients, of)?;
        let mut found = Vec::with_capacity(of.len());
        for &var in of {
            found.push(match gradients.get(&var) {
                Some(&gradient) => gradient,
                None => self.record(Fill::new(0.0, self.shape(var).clone()), &[])?,
            });
        }
        Ok(found)
    }

    /// Walks over these nodes from the last to the first.
    fn sweep(&mut self, nodes: Range<usize>, gradients: &mut Gradients, of: &[Var]) -> Result<(), TapeError> {
        let needed = self.needed(of);
        let mut segment = self.segments.len();
        let mut at = nodes.end;
        while at > nodes.start {
            at -= 1;
            while segment > 0 && self.segments[segment - 1].nodes.start > at {
                segment -= 1;
            }
            if segment > 0 && self.segments[segment - 1].nodes.contains(&at) {
                segment -= 1;
                at = self.segments[segment].nodes.start;
                self.sweep_again(segment, gradients, of)?;
                continue;
            }
            self.differentiate(at, gradients, &needed)?;
        }
        Ok(())
    }

    /// Records a segment once more, and walks over that recording.
    fn sweep_again(
        &mut self,
        segment: usize,
        gradients: &mut Gradients,
        of: &[Var],
    ) -> Result<(), TapeError> {
        let Segment { outputs, first_site, body } = {
            let segment = &self.segments[segment];
            Segment {
                outputs: segment.outputs.clone(),
                first_site: segment.first_site,
                body: Rc::clone(&segment.body),
            }
        };
        if !outputs.iter().any(|output| gradients.contains_key(output)) {
            return Ok(());
        }
        let sites = std::mem::replace(&mut self.sites, first_site);
        let first = self.nodes.len();
        self.in_segment = true;
        let again = body(self);
        self.in_segment = false;
        self.sites = sites;
        for (old, new) in outputs.into_iter().zip(again?) {
            if let Some(gradient) = gradients.remove(&old) {
                self.accumulate(gradients, new, gradient)?;
            }
        }
        self.sweep(first..self.nodes.len(), gradients, of)
    }

    fn differentiate(
        &mut self,
        at: usize,
        gradients: &mut Gradients,
        needed: &[bool],
    ) -> Result<(), TapeError> {
        let node = self.nodes[at].clone();
        let needs: Vec<bool> = node.inputs.iter().map(|var| needed[var.index()]).collect();
        let of_outputs: Vec<Option<Var>> =
            node.outputs.iter().map(|output| gradients.get(output).copied()).collect();
        if !needs.contains(&true) || of_outputs.iter().all(Option::is_none) {
            return Ok(());
        }
        let recorded = Recorded { inputs: node.inputs.clone(), outputs: node.outputs.clone(), needs };
        let of_inputs = node.op.backward(self, &recorded, &of_outputs)?;
        for (i, gradient) in of_inputs.into_iter().enumerate() {
            if let Some(gradient) = gradient.filter(|_| recorded.needs(i)) {
                debug_assert_eq!(self.shape(gradient), self.shape(node.inputs[i]), "{}", node.op.name());
                self.accumulate(gradients, node.inputs[i], gradient)?;
            }
        }
        Ok(())
    }

    fn accumulate(&mut self, gradients: &mut Gradients, var: Var, gradient: Var) -> Result<(), TapeError> {
        let sum = match gradients.get(&var) {
            Some(&so_far) => self.record(Add, &[so_far, gradient])?,
            None => gradient,
        };
        gradients.insert(var, sum);
        Ok(())
    }

    /// Which tensors depend on one of `of` in a way that can be differentiated.
    fn needed(&self, of: &[Var]) -> Vec<bool> {
        let mut needed = vec![false; self.values.len()];
        of.iter().for_each(|var| needed[var.index()] = true);
        for node in &self.nodes {
            if node.inputs.iter().any(|var| needed[var.index()]) {
                for output in node.outputs.iter().filter(|output| self.is_float(**output)) {
                    needed[output.index()] = true;
                }
            }
        }
        debug_assert!(of.iter().all(|var| !matches!(self.values[var.index()].origin, Origin::Constant(_))));
        needed
    }
}

/// What a second recording needs of a segment.
struct Segment {
    outputs: Vec<Var>,
    first_site: u32,
    body: super::Body,
}
