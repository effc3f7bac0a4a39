//! `partition.metadata`: the topic id of a log (Kafka: `PartitionMetadataFile`).
//!
//! `version: 0` and `topic_id: <22 characters>`, without a line end behind the second line.

use super::{CheckpointError, Reason, lines, number, utf8};

const VERSION: i32 = 0;
const ID_CHARS: usize = 22;

/// The topic that a log belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// The version of the file; 0 is written, higher ones are read as Kafka does.
    pub version: i32,
    topic_id: String,
}

impl PartitionMetadata {
    /// Takes a topic id: a UUID in base64url without padding, 22 characters. `None` if it is none,
    /// or all zero.
    #[must_use]
    pub fn new(topic_id: &str) -> Option<Self> {
        is_topic_id(topic_id).then(|| Self {
            version: VERSION,
            topic_id: topic_id.to_owned(),
        })
    }

    /// The topic id: 22 characters of base64url.
    pub fn topic_id(&self) -> &str {
        &self.topic_id
    }

    /// Reads a file; `None` if it is empty. As in Kafka, the words before the colons do not matter,
    /// nor what stands behind the second line.
    ///
    /// # Errors
    ///
    /// A line without `: `, a version below 0, an id that is none.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, CheckpointError> {
        let mut lines = lines(utf8(bytes)?);
        let Some((line, first)) = lines.next() else {
            return Ok(None);
        };
        let version: i32 = number(line, "version", value(line, first)?)?;
        if version < VERSION {
            return Err(CheckpointError::new(
                line,
                Reason::Version(version.to_string()),
            ));
        }
        let Some((line, second)) = lines.next() else {
            return Err(CheckpointError::new(2, Reason::Missing("topic_id")));
        };
        let id = value(line, second)?;
        let bare = id.strip_suffix("==").unwrap_or(id);
        if !is_topic_id(bare) {
            let reason = Reason::Word {
                field: "topic_id",
                text: id.to_owned(),
            };
            return Err(CheckpointError::new(line, reason));
        }
        Ok(Some(Self {
            version,
            topic_id: bare.to_owned(),
        }))
    }

    /// Makes the text of the file, always of version 0.
    #[must_use]
    pub fn print(&self) -> String {
        format!("version: {VERSION}\ntopic_id: {}", self.topic_id)
    }
}

/// What stands behind the only colon that white space follows.
fn value(line: usize, text: &str) -> Result<&str, CheckpointError> {
    let spaced = |piece: &str| piece.starts_with(|c: char| c.is_ascii_whitespace());
    let mut pieces = text.match_indices(':').filter_map(|(at, _)| {
        let (key, behind) = text.split_at_checked(at)?;
        let behind = behind.strip_prefix(':')?;
        spaced(behind).then_some((key, behind.trim_ascii_start()))
    });
    match (pieces.next(), pieces.next()) {
        (Some((_, value)), None) if !value.is_empty() => Ok(value),
        (first, second) => {
            let found = 1_usize
                .saturating_add(usize::from(first.is_some()))
                .saturating_add(usize::from(second.is_some()));
            Err(CheckpointError::new(
                line,
                Reason::Fields { expected: 2, found },
            ))
        }
    }
}

fn is_topic_id(id: &str) -> bool {
    let in_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    // The last character holds two bits of the UUID: with A to P they are zero.
    let is_zero = id
        .bytes()
        .take(ID_CHARS.saturating_sub(1))
        .all(|byte| byte == b'A')
        && id.ends_with(|last| ('A'..='P').contains(&last));
    id.len() == ID_CHARS && id.bytes().all(in_alphabet) && !is_zero
}
