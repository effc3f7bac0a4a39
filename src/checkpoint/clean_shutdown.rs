//! `.kafka_cleanshutdown`: says that every log of the data directory was closed.
//!
//! Kafka (`CleanShutdownFileHandler`) writes `{"version":0,"brokerEpoch":N}`, reads past members
//! that it does not know, and takes a marker with any content for clean. This crate adds
//! `highwater`.

use std::fmt::Write;

/// What the marker says beyond being there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanShutdown {
    /// The epoch that the controller had given the broker.
    pub broker_epoch: Option<i64>,
    /// The generation of the state file that was written with this marker.
    pub generation: Option<u64>,
}

impl CleanShutdown {
    /// Reads a marker. Content that is no JSON object of numbers, words and strings says nothing;
    /// the stop was clean all the same.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let members = str::from_utf8(bytes)
            .ok()
            .and_then(members)
            .unwrap_or_default();
        let last = |name: &str| members.iter().rev().find(|(key, _)| *key == name);
        Self {
            broker_epoch: last("brokerEpoch").and_then(|(_, value)| value.parse().ok()),
            generation: last("highwater").and_then(|(_, value)| value.parse().ok()),
        }
    }

    /// Makes the text of a marker; without a broker epoch it says -1, as Kafka does.
    #[must_use]
    pub fn print(&self) -> String {
        let epoch = self.broker_epoch.unwrap_or(-1);
        let mut out = format!("{{\"version\":0,\"brokerEpoch\":{epoch}");
        if let Some(generation) = self.generation {
            append(&mut out, format_args!(",\"highwater\":{generation}"));
        }
        out.push('}');
        out
    }
}

#[expect(
    clippy::let_underscore_must_use,
    reason = "writing to a String cannot fail"
)]
fn append(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// The members of a flat JSON object: names without their escapes undone, values as they stand,
/// strings with their quotes. `None` if it is none.
fn members(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut rest = text
        .trim_ascii()
        .strip_prefix('{')?
        .strip_suffix('}')?
        .trim_ascii();
    let mut members = Vec::new();
    while !rest.is_empty() {
        let (name, behind) = string(rest)?;
        let behind = behind
            .trim_ascii_start()
            .strip_prefix(':')?
            .trim_ascii_start();
        let (value, behind) = match string(behind) {
            Some((text, behind)) => (text, behind),
            None => behind.split_at_checked(behind.find(',').unwrap_or(behind.len()))?,
        };
        members.push((name.trim_matches('"'), scalar(value.trim_ascii())?));
        rest = match behind.trim_ascii_start().strip_prefix(',') {
            Some(more) if !more.trim_ascii().is_empty() => more.trim_ascii(),
            None if behind.trim_ascii().is_empty() => "",
            Some(_) | None => return None,
        };
    }
    Some(members)
}

/// A string at the front, quotes included, and what follows it.
fn string(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let inside = text.strip_prefix('"')?;
    let end = inside.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    // The quote before and the quote behind.
    text.split_at_checked(end.checked_add(2)?)
}

fn scalar(value: &str) -> Option<&str> {
    let is_number = value.parse::<f64>().is_ok_and(f64::is_finite);
    let is_word = matches!(value, "true" | "false" | "null");
    (is_number || is_word || value.starts_with('"')).then_some(value)
}
