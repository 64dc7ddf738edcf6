//! A box within a tensor.

use std::ops::Range;

use crate::shape::Shape;

/// A range of every axis of a tensor.
///
/// ```text
/// whole [4, 6], ranges 2..4 and 0..3      . . . . . .
///                                         . . . . . .
/// runs of 3, at 12 and at 18              x x x . . .
///                                         x x x . . .
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    whole: Vec<usize>,
    ranges: Vec<Range<usize>>,
}

impl Part {
    /// All of a tensor.
    pub fn whole(shape: &Shape) -> Self {
        let whole = shape.dims().to_vec();
        Self { ranges: whole.iter().map(|length| 0..*length).collect(), whole }
    }

    /// The same, of one axis only this range, which lies within what it had.
    pub fn along(mut self, axis: usize, range: Range<usize>) -> Self {
        debug_assert!(range.start <= range.end && range.end <= self.whole[axis], "{range:?} of {self:?}");
        self.ranges[axis] = range;
        self
    }

    /// The part, of a tensor that has only these axes, of what has the same ranges.
    pub fn of_axes(&self, axes: &[usize]) -> Self {
        Self {
            whole: axes.iter().map(|axis| self.whole[*axis]).collect(),
            ranges: axes.iter().map(|axis| self.ranges[*axis].clone()).collect(),
        }
    }

    /// The part's own shape.
    pub fn shape(&self) -> Shape {
        Shape::new(self.ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>())
    }

    /// Whether it is all there is.
    pub fn is_whole(&self) -> bool {
        self.ranges.iter().zip(&self.whole).all(|(range, length)| range.len() == *length)
    }

    /// How many elements follow each other in the whole.
    pub fn run(&self) -> usize {
        let mut run = 1;
        for (range, length) in self.ranges.iter().zip(&self.whole).rev() {
            run *= range.len();
            if range.len() != *length {
                break;
            }
        }
        run
    }

    /// Where the run that holds element `at` of the part begins in the whole.
    pub fn place_of_run(&self, at: usize) -> usize {
        let mut rest = at / self.run().max(1) * self.run();
        let (mut place, mut stride) = (0, 1);
        for (range, length) in self.ranges.iter().zip(&self.whole).rev() {
            let count = range.len().max(1);
            place += (range.start + rest % count) * stride;
            rest /= count;
            stride *= length;
        }
        place
    }

    /// The part of a whole tensor.
    pub fn cut<T: Copy>(&self, whole: &[T]) -> Vec<T> {
        if self.is_whole() {
            return whole.to_vec();
        }
        let (run, elements) = (self.run(), self.shape().elements());
        let mut part = Vec::with_capacity(elements);
        while part.len() < elements {
            let place = self.place_of_run(part.len());
            part.extend_from_slice(&whole[place..place + run]);
        }
        part
    }

    /// Puts the part where it belongs in a whole tensor.
    pub fn paste<T: Copy>(&self, part: &[T], whole: &mut [T]) {
        let run = self.run();
        for (number, values) in part.chunks_exact(run.max(1)).enumerate() {
            let place = self.place_of_run(number * run);
            whole[place..place + run].copy_from_slice(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_and_put_back() {
        let shape = Shape::new([4, 3, 6]);
        let whole: Vec<usize> = (0..72).collect();
        for (rows, middle, columns) in
            [(0..4, 0..3, 0..6), (2..4, 0..3, 0..6), (1..2, 1..3, 2..4), (0..4, 2..3, 0..6)]
        {
            let part =
                Part::whole(&shape).along(0, rows.clone()).along(1, middle.clone()).along(2, columns.clone());
            let mut expected = Vec::new();
            for row in rows {
                for place in middle.clone() {
                    expected.extend(columns.clone().map(|column| (row * 3 + place) * 6 + column));
                }
            }
            assert_eq!(part.cut(&whole), expected, "{part:?}");
            assert_eq!(part.shape().elements(), expected.len());
            let mut back = vec![usize::MAX; 72];
            part.paste(&expected, &mut back);
            assert!(back.iter().enumerate().all(|(i, x)| if expected.contains(&i) {
                *x == i
            } else {
                *x == usize::MAX
            }));
        }
        assert_eq!(Part::whole(&Shape::new([])).cut(&[5]), [5]);
        assert!(Part::whole(&shape).along(1, 1..1).cut(&whole).is_empty());
    }
}
