//! The record of a computation: which operation makes which tensor of which others.
//!
//! ```text
//! x = input, w = stored          y = matmul(x, w)          loss = …(y)
//! backward(loss, [w])       ->   dy = …, dw = matmul_tn(x, dy)
//! ```
//!
//! Nothing is computed while recording. Shapes are known at once, so that a whole step can be planned, its memory
//! counted, and the same record run every step.

mod backward;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::host::HostTensor;
use crate::op::Op;
use crate::shape::{Kind, Shape, Spec};
use crate::store::{StoreId, Stores};

/// A tensor on a tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(u32);

impl Var {
    /// Its place among the tape's tensors.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a tensor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It outlives the step: a parameter, a part of the optimizer's state.
    Stored(StoreId),
    /// The host hands it over at every run.
    Input,
    /// Known when it was recorded.
    Constant(usize),
    /// Made by this node.
    Node(usize),
}

/// A tensor of the tape.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) spec: Spec,
    pub(crate) origin: Origin,
}

/// One operation applied.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) op: Arc<dyn Op>,
    pub(crate) inputs: Vec<Var>,
    pub(crate) outputs: Vec<Var>,
}

/// An operation applied, as its derivative sees it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What went in.
    pub inputs: Vec<Var>,
    /// What came out.
    pub outputs: Vec<Var>,
    needs: Vec<bool>,
}

impl Recorded {
    /// Does anybody want the gradient of input `i`?
    pub fn needs(&self, i: usize) -> bool {
        self.needs[i]
    }
}

type Body = Rc<dyn Fn(&mut Tape) -> Result<Vec<Var>, TapeError>>;

/// Nodes whose results are computed again in the backward pass instead of being kept.
struct Segment {
    nodes: std::ops::Range<usize>,
    outputs: Vec<Var>,
    first_site: u32,
    body: Body,
}

/// Why an operation was not recorded.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// Shapes or kinds that do not go together.
    #[error("`{op}` in `{scope}`: {reason}; it got {inputs}")]
    Mismatch {
        /// The operation.
        op: &'static str,
        /// The part of the model.
        scope: String,
        /// What is wrong.
        reason: String,
        /// Names, kinds and shapes of the inputs.
        inputs: String,
    },
    /// Gradients were asked of something that is not one number.
    #[error("gradients are taken of one number, but `{name}` is {spec}")]
    NotScalar {
        /// The tensor.
        name: String,
        /// What it is.
        spec: Spec,
    },
    /// Two different inputs of one name.
    #[error("input `{name}` is {first} and {second}")]
    InputTwice {
        /// The input.
        name: String,
        /// As it was named first.
        first: Spec,
        /// As it was named then.
        second: Spec,
    },
}

/// The record of a computation.
#[derive(Default)]
pub struct Tape {
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) constants: Vec<HostTensor>,
    inputs: BTreeMap<String, Var>,
    stored: BTreeMap<StoreId, Var>,
    scope: Vec<String>,
    segments: Vec<Segment>,
    sites: u32,
    in_segment: bool,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tape").field("values", &self.values).field("nodes", &self.nodes).finish()
    }
}

impl Tape {
    /// An empty record.
    pub fn new() -> Self {
        Self::default()
    }

    /// A tensor that the host hands over at every run. The same name is the same tensor.
    pub fn input(&mut self, name: &str, spec: Spec) -> Result<Var, TapeError> {
        if let Some(&var) = self.inputs.get(name) {
            let first = self.spec(var).clone();
            if first == spec {
                return Ok(var);
            }
            return Err(TapeError::InputTwice { name: name.to_owned(), first, second: spec });
        }
        let var = self.value(name.to_owned(), spec, Origin::Input);
        self.inputs.insert(name.to_owned(), var);
        Ok(var)
    }

    /// A tensor that outlives the step.
    pub fn stored(&mut self, stores: &Stores, id: StoreId) -> Var {
        if let Some(&var) = self.stored.get(&id) {
            return var;
        }
        let store = stores.get(id);
        let var = self.value(store.name.clone(), store.spec.clone(), Origin::Stored(id));
        self.stored.insert(id, var);
        var
    }

    /// Integers that never change.
    pub fn constant(&mut self, name: &str, shape: impl Into<Shape>, values: Vec<i32>) -> Var {
        let spec = Spec::i32(shape);
        assert_eq!(spec.shape.elements(), values.len(), "constant `{name}`: as many values as its shape has");
        self.constants.push(HostTensor::I32(values));
        self.value(name.to_owned(), spec, Origin::Constant(self.constants.len() - 1))
    }

    /// Applies an operation that has one output.
    pub fn record(&mut self, op: impl Op + 'static, inputs: &[Var]) -> Result<Var, TapeError> {
        Ok(self.record_all(op, inputs)?[0])
    }

    /// Applies an operation.
    pub fn record_all(&mut self, op: impl Op + 'static, inputs: &[Var]) -> Result<Vec<Var>, TapeError> {
        let specs: Vec<Spec> = inputs.iter().map(|&var| self.spec(var).clone()).collect();
        let made = op.outputs(&specs).map_err(|reason| self.mismatch(op.name(), inputs, reason))?;
        let node = self.nodes.len();
        let outputs: Vec<Var> = made
            .into_iter()
            .map(|spec| {
                let name = match self.scope.as_slice() {
                    [] => op.name().to_owned(),
                    scope => format!("{}:{}", scope.join("/"), op.name()),
                };
                self.value(name, spec, Origin::Node(node))
            })
            .collect();
        self.nodes.push(Node { op: Arc::new(op), inputs: inputs.to_vec(), outputs: outputs.clone() });
        Ok(outputs)
    }

    /// An error about tensors that do not go together.
    pub fn mismatch(&self, op: &'static str, inputs: &[Var], reason: String) -> TapeError {
        let words = inputs.iter().map(|&var| format!("`{}` {}", self.name(var), self.spec(var)));
        TapeError::Mismatch {
            op,
            scope: self.scope.join("/"),
            reason,
            inputs: words.collect::<Vec<_>>().join(", "),
        }
    }

    /// Records within a named part of the model.
    pub fn scoped<T>(
        &mut self,
        name: impl Into<String>,
        body: impl FnOnce(&mut Self) -> Result<T, TapeError>,
    ) -> Result<T, TapeError> {
        self.scope.push(name.into());
        let result = body(self);
        self.scope.pop();
        result
    }

    /// Records `body`; the backward pass records it again instead of keeping what it made. `body` must record the same
    /// both times.
    pub fn recomputed(
        &mut self,
        body: impl Fn(&mut Self) -> Result<Vec<Var>, TapeError> + 'static,
    ) -> Result<Vec<Var>, TapeError> {
        if self.in_segment {
            return body(self);
        }
        let (first_node, first_site) = (self.nodes.len(), self.sites);
        // The second recording happens in the backward pass, where the scope is another one.
        let scope = self.scope.clone();
        let body: Body = Rc::new(move |tape: &mut Self| {
            let outside = std::mem::replace(&mut tape.scope, scope.clone());
            let result = body(tape);
            tape.scope = outside;
            result
        });
        self.in_segment = true;
        let outputs = body(self);
        self.in_segment = false;
        let outputs = outputs?;
        self.segments.push(Segment {
            nodes: first_node..self.nodes.len(),
            outputs: outputs.clone(),
            first_site,
            body,
        });
        Ok(outputs)
    }

    /// A number for the next place where something is drawn at random: 0, 1, … in the order of recording.
    pub fn next_site(&mut self) -> u32 {
        self.sites += 1;
        self.sites - 1
    }

    /// Names a tensor, within the current part of the model.
    pub fn label(&mut self, var: Var, name: &str) {
        self.values[var.index()].name = self.scoped_name(name);
    }

    /// The name of a tensor.
    pub fn name(&self, var: Var) -> &str {
        &self.values[var.index()].name
    }

    /// The tensors with this name, in the order in which they were recorded.
    pub fn named(&self, name: &str) -> Vec<Var> {
        let found = self.values.iter().enumerate().filter(|(_, value)| value.name == name);
        found.map(|(i, _)| Var(i as u32)).collect()
    }

    /// The shape and the kind of a tensor.
    pub fn spec(&self, var: Var) -> &Spec {
        &self.values[var.index()].spec
    }

    /// The shape of a tensor.
    pub fn shape(&self, var: Var) -> &Shape {
        &self.spec(var).shape
    }

    pub(crate) fn is_float(&self, var: Var) -> bool {
        self.spec(var).kind == Kind::F32
    }

    fn scoped_name(&self, name: &str) -> String {
        match self.scope.as_slice() {
            [] => name.to_owned(),
            scope => format!("{}/{name}", scope.join("/")),
        }
    }

    fn value(&mut self, name: String, spec: Spec, origin: Origin) -> Var {
        self.values.push(Value { name, spec, origin });
        Var(self.values.len() as u32 - 1)
    }
}
