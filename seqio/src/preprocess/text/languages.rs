//! English names of languages by their two letters of ISO 639-1.
//!
//! ```text
//! de -> German    zh-cn -> Chinese
//! ```

/// Codes with the names that the Unicode CLDR gives them in English, sorted.
#[rustfmt::skip]
const NAMES: &[(&str, &str)] = &[
    ("aa", "Afar"), ("ab", "Abkhazian"), ("ae", "Avestan"), ("af", "Afrikaans"), ("ak", "Akan"),
    ("am", "Amharic"), ("an", "Aragonese"), ("ar", "Arabic"), ("as", "Assamese"), ("av", "Avaric"),
    ("ay", "Aymara"), ("az", "Azerbaijani"), ("ba", "Bashkir"), ("be", "Belarusian"), ("bg", "Bulgarian"),
    ("bi", "Bislama"), ("bm", "Bambara"), ("bn", "Bangla"), ("bo", "Tibetan"), ("br", "Breton"),
    ("bs", "Bosnian"), ("ca", "Catalan"), ("ce", "Chechen"), ("ch", "Chamorro"), ("co", "Corsican"),
    ("cr", "Cree"), ("cs", "Czech"), ("cu", "Church Slavic"), ("cv", "Chuvash"), ("cy", "Welsh"),
    ("da", "Danish"), ("de", "German"), ("dv", "Divehi"), ("dz", "Dzongkha"), ("ee", "Ewe"),
    ("el", "Greek"), ("en", "English"), ("eo", "Esperanto"), ("es", "Spanish"), ("et", "Estonian"),
    ("eu", "Basque"), ("fa", "Persian"), ("ff", "Fula"), ("fi", "Finnish"), ("fj", "Fijian"),
    ("fo", "Faroese"), ("fr", "French"), ("fy", "Western Frisian"), ("ga", "Irish"),
    ("gd", "Scottish Gaelic"), ("gl", "Galician"), ("gn", "Guarani"), ("gu", "Gujarati"), ("gv", "Manx"),
    ("ha", "Hausa"), ("he", "Hebrew"), ("hi", "Hindi"), ("ho", "Hiri Motu"), ("hr", "Croatian"),
    ("ht", "Haitian Creole"), ("hu", "Hungarian"), ("hy", "Armenian"), ("hz", "Herero"),
    ("ia", "Interlingua"), ("id", "Indonesian"), ("ie", "Interlingue"), ("ig", "Igbo"),
    ("ii", "Sichuan Yi"), ("ik", "Inupiaq"), ("io", "Ido"), ("is", "Icelandic"), ("it", "Italian"),
    ("iu", "Inuktitut"), ("ja", "Japanese"), ("jv", "Javanese"), ("ka", "Georgian"), ("kg", "Kongo"),
    ("ki", "Kikuyu"), ("kj", "Kuanyama"), ("kk", "Kazakh"), ("kl", "Kalaallisut"), ("km", "Khmer"),
    ("kn", "Kannada"), ("ko", "Korean"), ("kr", "Kanuri"), ("ks", "Kashmiri"), ("ku", "Kurdish"),
    ("kv", "Komi"), ("kw", "Cornish"), ("ky", "Kyrgyz"), ("la", "Latin"), ("lb", "Luxembourgish"),
    ("lg", "Ganda"), ("li", "Limburgish"), ("ln", "Lingala"), ("lo", "Lao"), ("lt", "Lithuanian"),
    ("lu", "Luba-Katanga"), ("lv", "Latvian"), ("mg", "Malagasy"), ("mh", "Marshallese"), ("mi", "Māori"),
    ("mk", "Macedonian"), ("ml", "Malayalam"), ("mn", "Mongolian"), ("mr", "Marathi"), ("ms", "Malay"),
    ("mt", "Maltese"), ("my", "Burmese"), ("na", "Nauru"), ("nb", "Norwegian Bokmål"),
    ("nd", "North Ndebele"), ("ne", "Nepali"), ("ng", "Ndonga"), ("nl", "Dutch"),
    ("nn", "Norwegian Nynorsk"), ("no", "Norwegian"), ("nr", "South Ndebele"), ("nv", "Navajo"),
    ("ny", "Nyanja"), ("oc", "Occitan"), ("oj", "Ojibwa"), ("om", "Oromo"), ("or", "Odia"),
    ("os", "Ossetic"), ("pa", "Punjabi"), ("pi", "Pali"), ("pl", "Polish"), ("ps", "Pashto"),
    ("pt", "Portuguese"), ("qu", "Quechua"), ("rm", "Romansh"), ("rn", "Rundi"), ("ro", "Romanian"),
    ("ru", "Russian"), ("rw", "Kinyarwanda"), ("sa", "Sanskrit"), ("sc", "Sardinian"), ("sd", "Sindhi"),
    ("se", "Northern Sami"), ("sg", "Sango"), ("sh", "Serbo-Croatian"), ("si", "Sinhala"), ("sk", "Slovak"),
    ("sl", "Slovenian"), ("sm", "Samoan"), ("sn", "Shona"), ("so", "Somali"), ("sq", "Albanian"),
    ("sr", "Serbian"), ("ss", "Swati"), ("st", "Southern Sotho"), ("su", "Sundanese"), ("sv", "Swedish"),
    ("sw", "Swahili"), ("ta", "Tamil"), ("te", "Telugu"), ("tg", "Tajik"), ("th", "Thai"),
    ("ti", "Tigrinya"), ("tk", "Turkmen"), ("tl", "Tagalog"), ("tn", "Tswana"), ("to", "Tongan"),
    ("tr", "Turkish"), ("ts", "Tsonga"), ("tt", "Tatar"), ("tw", "Twi"), ("ty", "Tahitian"),
    ("ug", "Uyghur"), ("uk", "Ukrainian"), ("ur", "Urdu"), ("uz", "Uzbek"), ("ve", "Venda"),
    ("vi", "Vietnamese"), ("vo", "Volapük"), ("wa", "Walloon"), ("wo", "Wolof"), ("xh", "Xhosa"),
    ("yi", "Yiddish"), ("yo", "Yoruba"), ("za", "Zhuang"), ("zh", "Chinese"), ("zu", "Zulu"),
];

/// The English name of a language by its code; a region behind the two letters, as in `zh-cn`, does not count.
pub(super) fn language_name(code: &str) -> Option<&'static str> {
    let is_longer = code.chars().nth(2).is_some_and(char::is_alphanumeric);
    let code = code.get(..2).filter(|_| !is_longer)?.to_ascii_lowercase();
    let place = NAMES.binary_search_by_key(&code.as_str(), |(known, _)| known).ok()?;
    Some(NAMES[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_has_its_english_name() {
        assert_eq!(language_name("de"), Some("German"));
        assert_eq!(language_name("zh-cn"), Some("Chinese"));
        assert_eq!(language_name("EN"), Some("English"));
        assert_eq!(language_name("tlh"), None, "it is not Tagalog");
        assert_eq!((language_name("xx"), language_name("d"), language_name("é")), (None, None, None));
        assert!(NAMES.is_sorted_by_key(|(code, _)| code));
    }
}
