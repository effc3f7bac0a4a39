//! `meta.properties`: which node and cluster a data directory belongs to. Read, never written.
//!
//! Java properties (`java.util.Properties`): a `key=value` a line, `#` and `!` begin a comment,
//! `=`, `:` or white space separate, a backslash escapes and joins lines, bytes are Latin-1.

use std::collections::BTreeMap;

use super::{CheckpointError, Reason};

/// What a data directory says of itself. Each fact may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaProperties {
    /// The version: 0 of a broker before KRaft, 1 else.
    pub version: Option<i32>,
    /// `node.id`, or `broker.id` of version 0.
    pub node_id: Option<i32>,
    /// `cluster.id`.
    pub cluster_id: Option<String>,
    /// `directory.id`: a UUID in base64url.
    pub directory_id: Option<String>,
}

impl MetaProperties {
    /// Reads a file. Unknown keys are skipped; of two lines with one key the last counts.
    ///
    /// # Errors
    ///
    /// A malformed `\u` escape, or a version or node id that is no number.
    pub fn parse(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let mut found = properties(bytes)?;
        let number = |key: &'static str| match found.get(key) {
            None => Ok(None),
            Some((line, text)) => text.parse().map(Some).map_err(|_| {
                CheckpointError::new(
                    *line,
                    Reason::Number {
                        field: key,
                        text: text.clone(),
                    },
                )
            }),
        };
        let version = number("version")?;
        let node_id = number("node.id")?.or(number("broker.id")?);
        let mut text = |key: &str| found.remove(key).map(|(_, text)| text);
        Ok(Self {
            version,
            node_id,
            cluster_id: text("cluster.id"),
            directory_id: text("directory.id"),
        })
    }
}

type Properties = BTreeMap<String, (usize, String)>;

/// Keys with their values and the line they stand on, counted from 1.
fn properties(bytes: &[u8]) -> Result<Properties, CheckpointError> {
    let text: String = bytes.iter().copied().map(char::from).collect();
    let mut found = Properties::new();
    let mut lines = super::lines(&text);
    while let Some((at, first)) = lines.next() {
        let mut logical = first.trim_start_matches(is_blank).to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while ends_in_odd_backslashes(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(is_blank));
        }
        let (key, value) = split_pair(&logical);
        let escape = || CheckpointError::new(at, Reason::Escape);
        let key = unescape(key).ok_or_else(escape)?;
        found.insert(key, (at, unescape(value).ok_or_else(escape)?));
    }
    Ok(found)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\u{c}')
}

fn ends_in_odd_backslashes(line: &str) -> bool {
    line.bytes().rev().take_while(|&byte| byte == b'\\').count() & 1 == 1
}

/// Cuts at the first separator that no backslash escapes; white space around it goes.
fn split_pair(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (is_blank(c) || c == '=' || c == ':');
        escaped = c == '\\' && !escaped;
        ends
    });
    let Some((key, rest)) = end.and_then(|end| line.split_at_checked(end)) else {
        return (line, "");
    };
    let rest = rest.trim_start_matches(is_blank);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(is_blank))
}

fn unescape(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let plain = if c == '\\' { chars.next()? } else { c };
        let unit = match (c, plain) {
            ('\\', 'u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let is_sound = digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                u16::from_str_radix(&digits, 16).ok().filter(|_| is_sound)?
            }
            ('\\', 't') => u16::from(b'\t'),
            ('\\', 'n') => u16::from(b'\n'),
            ('\\', 'r') => u16::from(b'\r'),
            ('\\', 'f') => 0x0c,
            // Latin-1, so one unit.
            (_, plain) => u16::try_from(u32::from(plain)).ok()?,
        };
        units.push(unit);
    }
    Some(String::from_utf16_lossy(&units))
}
