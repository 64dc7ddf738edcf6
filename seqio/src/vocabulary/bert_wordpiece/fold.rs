//! Text in lower case and without accents: Unicode's NFKC_Casefold, then NFD, then without nonspacing marks.
//!
//! ```text
//! "Ünïted STRASSE, straße, ﬁn"  ->  "united strasse, strasse, fin"
//! ```

use std::sync::OnceLock;

use icu_normalizer::DecomposingNormalizerBorrowed;
use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory};
use icu_properties::{CodePointMapData, CodePointSetData};

const NFD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfd();
const NFKD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfkd();

/// Characters are worked out a page at a time, when the first of a page is met.
const PAGE: usize = 256;
static PAGES: [OnceLock<Page>; 0x11_0000 / PAGE] = [const { OnceLock::new() }; 0x11_0000 / PAGE];

/// What the characters of a page become.
struct Page {
    text: String,
    /// Where in `text` the next character's part begins.
    ends: [u16; PAGE],
    /// Whether a part has a mark that stays, and whose place depends on the marks around it.
    ordered: [bool; PAGE],
}

/// The text with case folded and marks taken off.
pub(super) fn lower_case(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut lower = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii() {
            lower.push(char.to_ascii_lowercase());
            continue;
        }
        let (page, place) = (page(char), char as usize % PAGE);
        if page.ordered[place] {
            return in_order(text);
        }
        let start = if place == 0 { 0 } else { page.ends[place - 1] };
        lower.push_str(&page.text[usize::from(start)..usize::from(page.ends[place])]);
    }
    lower
}

/// The same for any text: what characters become one by one is put into canonical order before marks are taken off.
fn in_order(text: &str) -> String {
    let folded: String = text.chars().map(fold).collect();
    NFD.normalize_iter(folded.chars()).filter(|char| !is_nonspacing(*char)).collect()
}

fn page(char: char) -> &'static Page {
    let number = char as usize / PAGE;
    PAGES[number].get_or_init(|| {
        let mut page = Page { text: String::new(), ends: [0; PAGE], ordered: [false; PAGE] };
        for place in 0..PAGE {
            if let Some(char) = u32::try_from(number * PAGE + place).ok().and_then(char::from_u32) {
                let folded = fold(char);
                page.ordered[place] = folded.chars().any(is_ordered);
                page.text.extend(folded.chars().filter(|char| !is_nonspacing(*char)));
            }
            page.ends[place] =
                u16::try_from(page.text.len()).expect("a character becomes 18 at most, of 4 bytes each");
        }
        page
    })
}

/// NFKC_Casefold of one character, decomposed.
fn fold(char: char) -> String {
    let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let mut folded: String = NFD.normalize_iter(std::iter::once(char)).collect();
    // Replacing compatibility forms can bring upper case back, and the other way round; twice is enough.
    for _ in 0..2 {
        folded = folded.chars().flat_map(fold_case).collect();
        folded = NFKD.normalize_iter(folded.chars()).filter(|char| !ignorable.contains(*char)).collect();
    }
    let folded: String = folded.chars().flat_map(fold_case).collect();
    NFD.normalize_iter(folded.chars()).collect()
}

/// Unicode's full case folding of one character. It is the lower case of its upper case, with two exceptions.
fn fold_case(char: char) -> impl Iterator<Item = char> {
    let (kept, folded) = match char {
        // Its upper case is `I`, from which it is to stay apart.
        'ı' => (Some(char), None),
        // Cherokee folds to upper case, which is the older.
        '\u{13A0}'..='\u{13F5}' => (Some(char), None),
        '\u{13F8}'..='\u{13FD}' | '\u{AB70}'..='\u{ABBF}' => (char.to_uppercase().next(), None),
        _ => (None, Some(char.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase))),
    };
    kept.into_iter().chain(folded.into_iter().flatten())
}

fn is_nonspacing(char: char) -> bool {
    CodePointMapData::<GeneralCategory>::new().get(char) == GeneralCategory::NonspacingMark
}

fn is_ordered(char: char) -> bool {
    CanonicalCombiningClassMapBorrowed::new().get_u8(char) != 0 && !is_nonspacing(char)
}
