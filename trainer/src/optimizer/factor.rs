//! Which axes of a parameter Adafactor factors: rules by logical axis.
//!
//! ```text
//! ["embed", "layers", "heads", "kv"]  ->  [row, batch, column, column]
//! ["embed", "layers"]                 ->  [none, batch]      rows alone factor nothing
//! ```

use std::collections::BTreeMap;

use crate::ops::optimizer::FactorDim;
use crate::optimizer::OptimizerError;
use crate::shape::Shape;

/// What Adafactor does along each logical axis.
pub type FactorRules = BTreeMap<String, FactorDim>;

/// T5X's rules.
pub fn standard_logical_factor_rules() -> FactorRules {
    use FactorDim::{Batch, Column, None, Row};
    let rules = [
        ("vocab", Column),
        ("embed", Row),
        ("mlp", Column),
        ("heads", Column),
        ("kv", Column),
        ("joined_kv", Column),
        ("relpos_buckets", None),
        ("layers", Batch),
        ("stack", Batch),
        ("q_wi_fused", Column),
        ("o_wo_fused", Column),
        ("multiquery_heads", Column),
        ("kv_fused", Column),
        ("layer_norm_scale", None),
        ("mlp_activations", Column),
    ];
    rules.map(|(axis, kind)| (axis.to_owned(), kind)).into()
}

/// What the rules make of a parameter's axes.
pub(super) fn kinds_of(
    rules: &FactorRules,
    parameter: &str,
    axes: &[&str],
) -> Result<Vec<FactorDim>, OptimizerError> {
    let kind = |axis: &&str| {
        rules.get(*axis).copied().ok_or_else(|| OptimizerError::UnknownAxis {
            parameter: parameter.to_owned(),
            axis: (*axis).to_owned(),
            known: rules.keys().map(|axis| format!("`{axis}`")).collect(),
        })
    };
    let mut kinds: Vec<FactorDim> = axes.iter().map(kind).collect::<Result<_, _>>()?;
    let has = |kinds: &[FactorDim], kind| kinds.contains(&kind);
    if has(&kinds, FactorDim::Row) && has(&kinds, FactorDim::Column) {
        if has(&kinds, FactorDim::None) {
            return Err(OptimizerError::Incomplete { parameter: parameter.to_owned(), kinds });
        }
    } else {
        // Rows alone and columns alone factor nothing.
        for kind in &mut kinds {
            if *kind != FactorDim::Batch {
                *kind = FactorDim::None;
            }
        }
    }
    Ok(kinds)
}

/// Rows and columns of a parameter with at most two axes: the longer axis, the later of two equal ones, is summed over
/// for the rows. Short ones are not factored.
pub(super) fn heuristic(shape: &Shape, min_dim_size_to_factor: usize) -> Vec<FactorDim> {
    match shape.dims() {
        [first, second] if (*first).min(*second) >= min_dim_size_to_factor => {
            if first > second {
                vec![FactorDim::Column, FactorDim::Row]
            } else {
                vec![FactorDim::Row, FactorDim::Column]
            }
        }
        dims => vec![FactorDim::None; dims.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_about_axes() {
        use FactorDim::{Batch, Column, None, Row};
        let rules = standard_logical_factor_rules();
        let of = |axes: &[&str]| kinds_of(&rules, "w", axes);
        assert_eq!(of(&["embed", "layers", "heads", "kv"]), Ok(vec![Row, Batch, Column, Column]));
        assert_eq!(of(&["embed", "layers"]), Ok(vec![None, Batch]));
        assert_eq!(of(&["heads", "layers", "relpos_buckets"]), Ok(vec![None, Batch, None]));
        let error = of(&["embed", "mlp", "relpos_buckets"]).unwrap_err();
        insta::assert_snapshot!(error, @"`w` is factored into [Row, Column, None]: with rows and columns, no axis may be left out");
        let error = of(&["embed", "expert"]).unwrap_err();
        insta::assert_snapshot!(error, @"no factor rule is about axis `expert` of `w`; there are rules for `embed`, `heads`, `joined_kv`, `kv`, `kv_fused`, `layer_norm_scale`, `layers`, `mlp`, `mlp_activations`, `multiquery_heads`, `o_wo_fused`, `q_wi_fused`, `relpos_buckets`, `stack`, `vocab`");
    }

    #[test]
    fn rows_are_what_is_left_of_the_longer_axis() {
        use FactorDim::{Column, None, Row};
        assert_eq!(heuristic(&Shape::new([12, 20]), 8), [Row, Column]);
        assert_eq!(heuristic(&Shape::new([20, 12]), 8), [Column, Row]);
        assert_eq!(heuristic(&Shape::new([16, 16]), 16), [Row, Column]);
        assert_eq!(heuristic(&Shape::new([4, 30]), 8), [None, None]);
        assert_eq!(heuristic(&Shape::new([4000]), 8), [None]);
    }
}
