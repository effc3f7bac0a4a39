//! One line of a scenario as text: a verb, plain words and `key=value` pairs.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Why a line is none. The caller adds the number of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

pub(crate) type Parsed<T> = Result<T, Malformed>;

/// What a verb wants behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) words: usize,
    pub(crate) required: &'static [&'static str],
    pub(crate) optional: &'static [&'static str],
}

impl Shape {
    pub(crate) const fn words(words: usize) -> Self {
        Self {
            words,
            required: &[],
            optional: &[],
        }
    }

    pub(crate) const fn keys(
        required: &'static [&'static str],
        optional: &'static [&'static str],
    ) -> Self {
        Self {
            words: 0,
            required,
            optional,
        }
    }
}

/// A line that is neither blank nor a comment.
#[derive(Debug)]
pub(crate) struct Line<'t> {
    pub(crate) verb: &'t str,
    pub(crate) words: Vec<&'t str>,
    pub(crate) keys: BTreeMap<&'t str, &'t str>,
}

impl<'t> Line<'t> {
    /// Splits a line; `None` for a blank line or a comment.
    pub(crate) fn split(text: &'t str) -> Parsed<Option<Self>> {
        if text.starts_with('#') {
            return Ok(None);
        }
        let mut parts = text.trim().split(' ').filter(|part| !part.is_empty());
        let Some(verb) = parts.next() else {
            return Ok(None);
        };
        let mut line = Self {
            verb,
            words: Vec::new(),
            keys: BTreeMap::new(),
        };
        for part in parts {
            match part.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    if line.keys.insert(key, value).is_some() {
                        return Err(Malformed(format!("{key}= stands there twice")));
                    }
                }
                _ => line.words.push(part),
            }
        }
        Ok(Some(line))
    }

    /// Checks that the line has what its verb wants, and nothing else.
    pub(crate) fn check(&self, shape: Shape) -> Parsed<()> {
        let verb = self.verb;
        if self.words.len() != shape.words {
            return Err(Malformed(format!(
                "{verb} wants {} plain words, there are {}",
                shape.words,
                self.words.len()
            )));
        }
        if let Some(key) = shape.required.iter().find(|key| !self.has(key)) {
            return Err(Malformed(format!("{verb} wants {key}=")));
        }
        let known = |key: &&str| shape.required.contains(key) || shape.optional.contains(key);
        if let Some(key) = self.keys.keys().find(|key| !known(key)) {
            return Err(Malformed(format!("{verb} does not know {key}=")));
        }
        Ok(())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// The value of a key, empty if it is missing.
    pub(crate) fn text(&self, key: &str) -> &'t str {
        self.keys.get(key).copied().unwrap_or_default()
    }

    /// The only plain word, as a number.
    pub(crate) fn word<N: FromStr>(&self) -> Parsed<N> {
        number(self.words.first().copied().unwrap_or_default())
    }

    /// The number of a key, `None` if the key is missing.
    pub(crate) fn number<N: FromStr>(&self, key: &str) -> Parsed<Option<N>> {
        self.keys.get(key).map(|text| number(text)).transpose()
    }

    /// The number of a key that [`Line::check`] has found.
    pub(crate) fn wanted<N: FromStr>(&self, key: &str) -> Parsed<N> {
        number(self.text(key))
    }

    /// The truth of a key, false if the key is missing.
    pub(crate) fn flag(&self, key: &str) -> Parsed<bool> {
        match self.keys.get(key).copied() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Malformed(format!("{key}= wants true or false"))),
        }
    }
}

fn number<N: FromStr>(text: &str) -> Parsed<N> {
    text.parse()
        .map_err(|_| Malformed(format!("{text:?} is no number, or out of range")))
}

/// Decodes standard base64; the padding may be missing.
pub(crate) fn base64(text: &str) -> Parsed<Vec<u8>> {
    let bad = || Malformed("batch= is not base64".to_owned());
    let digits = text.trim_end_matches('=');
    let padding = text.len().saturating_sub(digits.len());
    if padding > 2 || (padding > 0 && !text.len().is_multiple_of(4)) {
        return Err(bad());
    }
    let mut bytes = Vec::with_capacity(digits.len());
    for group in digits.as_bytes().chunks(4) {
        let mut bits: u32 = 0;
        for digit in group {
            bits = (bits << 6) | u32::from(base64_digit(*digit).ok_or_else(bad)?);
        }
        let missing = 4_u32.saturating_sub(u32::try_from(group.len()).unwrap_or(4));
        let [_, a, b, c] = (bits << missing.saturating_mul(6)).to_be_bytes();
        match missing {
            0 => bytes.extend([a, b, c]),
            1 => bytes.extend([a, b]),
            2 => bytes.push(a),
            _ => return Err(bad()),
        }
    }
    Ok(bytes)
}

fn base64_digit(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => digit.checked_sub(b'A'),
        b'a'..=b'z' => digit.checked_sub(b'a')?.checked_add(26),
        b'0'..=b'9' => digit.checked_sub(b'0')?.checked_add(52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Decodes pairs of hexadecimal digits.
pub(crate) fn hex(text: &str) -> Parsed<Vec<u8>> {
    let bad = || Malformed("hex= is not hexadecimal".to_owned());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(bad());
    }
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let pair = |&[high, low]: &[u8; 2]| Some((digit(high)? << 4) | digit(low)?);
    pairs
        .iter()
        .map(|digits| pair(digits).ok_or_else(bad))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_takes_padding_or_none() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zg", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
        ] {
            assert_eq!(base64(text).unwrap(), bytes.as_bytes(), "{text}");
        }
        for text in ["Z", "Zg=", "Zg===", "Zm9v====", "Zm9-", "Z=g=", "=", "Zm 9"] {
            assert!(base64(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hexadecimal_comes_in_pairs() {
        assert_eq!(hex("00fFa7").unwrap(), [0, 255, 167]);
        assert_eq!(hex("").unwrap(), []);
        assert!(hex("abc").is_err());
        assert!(hex("+1").is_err());
    }

    #[test]
    fn a_line_is_split_at_spaces_and_at_the_first_equals_sign() {
        let line = Line::split("  verb  a=b=c  =d word ").unwrap().unwrap();

        assert_eq!(line.verb, "verb");
        assert_eq!(line.words, ["=d", "word"]);
        assert_eq!(line.text("a"), "b=c");
        assert!(Line::split("verb a=1 a=2").is_err());
        assert!(Line::split("   ").unwrap().is_none());
        assert!(Line::split("# verb").unwrap().is_none());
    }
}
