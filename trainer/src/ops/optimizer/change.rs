//! How a parameter takes an update: weight decay, momentum, and what happens to what is not a number.

/// The same for every element of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    /// What momentum keeps of itself; `None`: there is none.
    pub(crate) momentum: Option<f32>,
    /// Elements that would become no number stay as they are.
    pub(crate) skip_nan: bool,
}

impl Change {
    /// Words of the kernels' uniform structs.
    pub(super) fn params(&self) -> [u32; 2] {
        [self.momentum.unwrap_or(0.0).to_bits(), u32::from(self.skip_nan)]
    }

    /// Applies updates to as many parameters, of which `weight_decay` is taken off first.
    #[inline(always)]
    pub(super) fn apply(
        self,
        parameters: &mut [f32],
        momenta: Option<&mut [f32]>,
        updates: impl Iterator<Item = f32>,
        weight_decay: f32,
    ) {
        let keep = 1.0 - weight_decay;
        let unless_nan = |new: f32, old: f32| if self.skip_nan && new.is_nan() { old } else { new };
        match (momenta, self.momentum) {
            (Some(momenta), Some(beta)) => {
                for ((x, m), update) in parameters.iter_mut().zip(momenta).zip(updates) {
                    let momentum = beta * *m + (1.0 - beta) * update;
                    *m = unless_nan(momentum, *m);
                    *x = unless_nan(keep * *x - momentum, *x);
                }
            }
            _ => {
                for (x, update) in parameters.iter_mut().zip(updates) {
                    *x = unless_nan(keep * *x - update, *x);
                }
            }
        }
    }
}
