//! Tokens beside their text: pieces above ids, segments, positions and weights, wrapped to the page.
//!
//! ```text
//!   piece    ▁The ▁quick ▁fox </s> <pad> × 12
//!   id         37   1704 3981    1          0
//!   segment     1      1    1    1          0
//! ```

use std::io::{self, Write};

use seqio::Vocabulary;
use unicode_width::UnicodeWidthStr as _;

use crate::format::count;
use crate::output::{Paint, Style};

/// Columns of tokens, ready to be shown.
#[derive(Debug)]
pub(crate) struct TokenGrid {
    /// Names of the lines under each other; the first is shown above the ids' pieces.
    labels: Vec<String>,
    columns: Vec<Column>,
    hidden: usize,
}

#[derive(Debug)]
struct Column {
    cells: Vec<String>,
    style: Option<Style>,
}

/// What stands beside each token of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside<'a> {
    /// Segment ids: 0 is padding.
    pub(crate) segments: Option<&'a [i32]>,
    /// Positions within the segment.
    pub(crate) positions: Option<&'a [i32]>,
    /// Loss weights.
    pub(crate) weights: Option<&'a [f32]>,
    /// What the model sees at the place of the token that it is to say.
    pub(crate) inputs: Option<&'a [i32]>,
    /// 1 for places that see each other whatever their order.
    pub(crate) prefix: Option<&'a [i32]>,
}

impl TokenGrid {
    /// Lays out at most `limit` columns. A run of the same padding becomes one column.
    pub(crate) fn new(ids: &[i32], vocabulary: &dyn Vocabulary, beside: Beside<'_>, limit: usize) -> Self {
        let mut labels = vec!["piece".to_owned(), "id".to_owned()];
        labels.extend(beside.inputs.map(|_| "input".to_owned()));
        labels.extend(beside.segments.map(|_| "segment".to_owned()));
        labels.extend(beside.positions.map(|_| "position".to_owned()));
        labels.extend(beside.weights.map(|_| "weight".to_owned()));
        labels.extend(beside.prefix.map(|_| "prefix".to_owned()));
        let is_padding = |place: usize| beside.segments.is_some_and(|segments| segments[place] == 0);
        let mut columns = Vec::new();
        let mut place = 0;
        while place < ids.len() && columns.len() < limit {
            let mut run = 1;
            let same = |other: usize| is_padding(other) && ids[other] == ids[place];
            while is_padding(place) && place + run < ids.len() && same(place + run) {
                run += 1;
            }
            columns.push(column(ids, vocabulary, beside, place, run));
            place += run;
        }
        Self { labels, columns, hidden: ids.len() - place }
    }

    /// Writes the lines, wrapped to `width`.
    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        paint: Paint,
        indent: usize,
        width: usize,
    ) -> io::Result<()> {
        let label_width = self.labels.iter().map(|label| label.width()).max().unwrap_or(0);
        let room = width.saturating_sub(indent + label_width + 1).max(20);
        let mut rest = self.columns.as_slice();
        while !rest.is_empty() {
            let mut used = 0;
            let fits = rest.iter().take_while(|column| {
                used += column.width() + 1;
                used <= room
            });
            let (line, after) = rest.split_at(fits.count().max(1));
            for (number, label) in self.labels.iter().enumerate() {
                write!(out, "{:indent$}{}", "", paint.text(Style::Faint, format!("{label:<label_width$}")))?;
                for column in line {
                    let cell = &column.cells[number];
                    let padded = format!("{}{cell}", " ".repeat(column.width() - cell.width()));
                    match column.style {
                        Some(style) => write!(out, " {}", paint.text(style, padded))?,
                        None => write!(out, " {padded}")?,
                    }
                }
                writeln!(out)?;
            }
            rest = after;
            if !rest.is_empty() {
                writeln!(out)?;
            }
        }
        if self.hidden > 0 {
            writeln!(out, "{:indent$}… and {} more", "", count(self.hidden as u64))?;
        }
        Ok(())
    }
}

impl Column {
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.width()).max().unwrap_or(0)
    }
}

fn column(ids: &[i32], vocabulary: &dyn Vocabulary, beside: Beside<'_>, place: usize, run: usize) -> Column {
    let mut piece = shown_piece(ids[place], vocabulary);
    if run > 1 {
        piece.push_str(&format!(" × {}", count(run as u64)));
    }
    let mut cells = vec![piece, ids[place].to_string()];
    cells.extend(beside.inputs.map(|inputs| inputs[place].to_string()));
    cells.extend(beside.segments.map(|segments| segments[place].to_string()));
    cells.extend(beside.positions.map(|positions| positions[place].to_string()));
    cells.extend(beside.weights.map(|weights| shown_weight(weights[place])));
    cells.extend(beside.prefix.map(|prefix| prefix[place].to_string()));
    let without_loss = beside.weights.is_some_and(|weights| weights[place] == 0.0);
    let style = match beside.segments.map(|segments| segments[place]) {
        Some(0) => Some(Style::Faint),
        _ if without_loss => Some(Style::Faint),
        Some(segment) => Some(Style::Segment(segment)),
        None => None,
    };
    Column { cells, style }
}

fn shown_weight(weight: f32) -> String {
    if weight.fract() == 0.0 { format!("{weight:.0}") } else { format!("{weight:.2}") }
}

/// A piece without anything that would break the line.
pub(crate) fn shown_piece(id: i32, vocabulary: &dyn Vocabulary) -> String {
    match vocabulary.piece(id) {
        Some(piece) => shown_text(&piece, usize::MAX),
        None => format!("[{id}]"),
    }
}

/// Text on one line: control characters are escaped, and after `limit` characters it ends in `…`.
pub(crate) fn shown_text(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for (number, c) in text.chars().enumerate() {
        if number >= limit {
            shown.push('…');
            break;
        }
        match c {
            '\n' => shown.push('⏎'),
            '\t' => shown.push('⇥'),
            ' ' if text.chars().all(|c| c == ' ') => shown.push('␠'),
            c if c.is_control() || is_invisible(c) => shown.push_str(&format!("\\u{{{:x}}}", c as u32)),
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that change the direction or the look of what follows.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use seqio::{EncodeCounts, SpecialIds, VocabularyError};

    /// Letters: `a` is 3, `b` is 4 …
    #[derive(Debug)]
    pub(crate) struct Letters;

    impl Vocabulary for Letters {
        fn kind(&self) -> &'static str {
            "letters"
        }
        fn vocab_size(&self) -> usize {
            29
        }
        fn extra_ids(&self) -> usize {
            0
        }
        fn special_ids(&self) -> SpecialIds {
            SpecialIds { pad: 0, eos: Some(1), bos: None, unk: Some(2) }
        }
        fn encode_into(&self, text: &str, ids: &mut Vec<i32>) -> Result<EncodeCounts, VocabularyError> {
            ids.extend(text.bytes().map(|byte| i32::from(byte - b'a') + 3));
            Ok(EncodeCounts::default())
        }
        fn decode(&self, ids: &[i32]) -> String {
            ids.iter().filter_map(|id| self.piece(*id)).collect()
        }
        fn piece(&self, id: i32) -> Option<String> {
            match id {
                0 => Some("<pad>".to_owned()),
                1 => Some("</s>".to_owned()),
                2 => Some("<unk>".to_owned()),
                id @ 3..29 => Some(char::from(b'a' + (id - 3) as u8).to_string()),
                _ => None,
            }
        }
        fn file(&self) -> Option<&[u8]> {
            None
        }
    }

    fn shown(grid: &TokenGrid, width: usize) -> String {
        let mut text = Vec::new();
        grid.write(&mut text, Paint::plain(), 2, width).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn pieces_stand_above_ids_and_padding_is_one_column() {
        let beside = Beside {
            segments: Some(&[1, 1, 2, 2, 0, 0, 0]),
            positions: Some(&[0, 1, 0, 1, 0, 0, 0]),
            weights: Some(&[1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0]),
            inputs: Some(&[0, 3, 0, 5, 0, 0, 0]),
            prefix: None,
        };
        let grid = TokenGrid::new(&[3, 1, 5, 1, 0, 0, 0], &Letters, beside, 100);
        insta::assert_snapshot!(shown(&grid, 80), @r"
        piece    a </s>    c </s> <pad> × 3
        id       3    1    5    1         0
        input    0    3    0    5         0
        segment  1    1    2    2         0
        position 0    1    0    1         0
        weight   1    1 0.50    0         0
        ");
    }

    #[test]
    fn long_rows_wrap_and_end_at_the_limit() {
        let ids: Vec<i32> = (3..29).collect();
        let grid = TokenGrid::new(&ids, &Letters, Beside::default(), 12);
        insta::assert_snapshot!(shown(&grid, 28), @r"
        piece a b c d e f g  h  i
        id    3 4 5 6 7 8 9 10 11

        piece  j  k  l
        id    12 13 14
        … and 14 more
        ");
    }

    #[test]
    fn nothing_in_a_piece_breaks_the_line_or_hides() {
        assert_eq!(shown_text("a\nb\tc\u{0}\u{202e}", 99), "a⏎b⇥c\\u{0}\\u{202e}");
        assert_eq!(shown_text("  ", 99), "␠␠");
        assert_eq!(shown_text("abcdef", 3), "abc…");
        assert_eq!(shown_piece(99, &Letters), "[99]");
    }
}
