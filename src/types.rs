//! The words of the whole crate: offsets, leader epochs, positions, timestamps, partitions.
//!
//! Each is a type of its own, so that an offset cannot be taken for a position or an epoch.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The place of a record in a log: 0 for the first record ever appended, one more for each next.
///
/// Range: 0 to 2^63 - 1. A value that is the end of a range (`log_end_offset`, `high_watermark`,
/// `recovery_point`) is exclusive; one called `last_*` is inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(i64);

impl Offset {
    /// The first offset of a young log.
    pub const ZERO: Self = Self(0);
    /// The largest offset that can be written down.
    pub const MAX: Self = Self(i64::MAX);

    /// Takes a number from a file or a caller; `None` if it is negative.
    #[must_use]
    pub const fn new(raw: i64) -> Option<Self> {
        if raw < 0 { None } else { Some(Self(raw)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The offset behind this one; stays at [`Offset::MAX`].
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The offset before this one; `None` at zero.
    #[must_use]
    pub const fn previous(self) -> Option<Self> {
        if self.0 == 0 {
            None
        } else {
            Some(Self(self.0.saturating_sub(1)))
        }
    }

    /// The offset `delta` records further on; `None` if it is out of range.
    #[must_use]
    pub const fn checked_add(self, delta: i64) -> Option<Self> {
        match self.0.checked_add(delta) {
            Some(sum) => Self::new(sum),
            None => None,
        }
    }

    /// How many offsets lie from `earlier` (inclusive) to this one (exclusive); negative if this
    /// one is the smaller.
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The number of a leader's reign over a partition, given out by the controller in rising order.
///
/// Range: 0 to 2^31 - 1. What a header holds as -1 ("unknown") is `None` here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderEpoch(i32);

impl LeaderEpoch {
    /// The first epoch.
    pub const ZERO: Self = Self(0);

    /// Takes a number from a file or a caller; `None` if it is negative.
    #[must_use]
    pub const fn new(raw: i32) -> Option<Self> {
        if raw < 0 { None } else { Some(Self(raw)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> i32 {
        self.0
    }
}

/// An epoch and the offset of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpochEntry {
    /// The number of the reign.
    pub epoch: LeaderEpoch,
    /// Where it begins; may be the log end, while it has no record.
    pub start_offset: Offset,
}

/// A place in a file. Unit: bytes from its front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// The front of a file.
    pub const ZERO: Self = Self(0);

    /// A position `raw` bytes from the front.
    #[must_use]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The number of bytes from the front.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position `bytes` further on; stays at the largest number.
    #[must_use]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// The number of bytes from `earlier` to here; 0 if here is before it.
    #[must_use]
    pub const fn bytes_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A point in time as records carry it. Unit: milliseconds since the Unix epoch; -1 means "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The absent timestamp, -1.
    pub const NONE: Self = Self(-1);

    /// A timestamp of `millis` milliseconds since the Unix epoch. Any number is allowed, since
    /// records may hold any.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch; -1 means "none".
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Milliseconds from `earlier` to here, saturating.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A topic and a partition of it: what names a log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The name of the topic. Kafka allows 1 to 249 of `a-z A-Z 0-9 . _ -`.
    pub topic: String,
    /// The number of the partition, 0 or more.
    pub partition: i32,
}

impl TopicPartition {
    /// Names a log.
    #[must_use]
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }

    /// Whether the topic is one that Kafka lets a user make.
    pub fn is_legal(&self) -> bool {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        self.partition >= 0
            && (1..=249).contains(&self.topic.len())
            && self.topic != "."
            && self.topic != ".."
            && self.topic.bytes().all(legal)
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

macro_rules! number_text {
    ($($name:ident: $raw:ty, $make:expr;)*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseNumberError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let raw: $raw = text.parse().map_err(ParseNumberError::Malformed)?;
                $make(raw).ok_or(ParseNumberError::Negative)
            }
        }
    )*};
}

number_text! {
    Offset: i64, Self::new;
    LeaderEpoch: i32, Self::new;
    Position: u64, |raw| Some(Self::new(raw));
    Timestamp: i64, |raw| Some(Self::from_millis(raw));
}

/// Why a text is no offset, epoch, position or timestamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseNumberError {
    /// It is not a decimal number, or too large.
    Malformed(ParseIntError),
    /// It is below zero.
    Negative,
}

impl fmt::Display for ParseNumberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(source) => source.fmt(f),
            Self::Negative => f.write_str("a number of 0 or more is wanted"),
        }
    }
}

impl std::error::Error for ParseNumberError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_numbers_are_no_offsets_and_no_epochs() {
        assert_eq!(Offset::new(-1), None);
        assert_eq!(LeaderEpoch::new(-1), None);
        assert_eq!("-1".parse::<Offset>(), Err(ParseNumberError::Negative));
        assert_eq!("17".parse(), Ok(Offset(17)));
    }

    #[test]
    fn the_largest_offset_has_no_successor() {
        assert_eq!(Offset::MAX.next(), Offset::MAX);
        assert_eq!(Offset::MAX.checked_add(1), None);
        assert_eq!(Offset::ZERO.previous(), None);
    }
}
