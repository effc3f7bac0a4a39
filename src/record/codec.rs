//! The small vocabularies of batch headers: version, codec, timestamp type.

use std::fmt;
use std::str::FromStr;

/// The version of a record batch, the byte at place 16 of every entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Magic {
    /// Messages without a timestamp, Kafka before 0.10.
    V0,
    /// Messages with a timestamp, Kafka 0.10 (KIP-32).
    V1,
    /// Record batches, Kafka 0.11 (KIP-98). The only version that is written.
    V2,
}

impl Magic {
    /// The byte in the file.
    #[must_use]
    pub const fn get(self) -> i8 {
        match self {
            Self::V0 => 0,
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The version of a byte in a file; `None` if it is not 0, 1 or 2.
    #[must_use]
    pub const fn new(raw: i8) -> Option<Self> {
        match raw {
            0 => Some(Self::V0),
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }
}

impl fmt::Display for Magic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

/// How the records of a batch are compressed. Kafka: `CompressionType`.
///
/// Every codec has its name in every build; features decide which can be read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952. Feature `gzip`.
    Gzip,
    /// Raw snappy blocks in the framing of snappy-java. Feature `snappy`.
    Snappy,
    /// The frame format of LZ4. Feature `lz4`.
    Lz4,
    /// A zstd frame (KIP-110), in version 2 batches only. Feature `zstd`.
    Zstd,
}

impl Codec {
    /// Every codec, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The number in bits 0 to 2 of the attributes.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec of a number; `None` above 4.
    #[must_use]
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The name in Kafka's settings: `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Tells whether this build can compress and decompress with it.
    #[must_use]
    pub const fn is_available(self) -> bool {
        match self {
            Self::None => true,
            Self::Gzip => cfg!(feature = "gzip"),
            Self::Snappy => cfg!(feature = "snappy"),
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|codec| codec.name() == text)
            .ok_or(ParseNameError("none, gzip, snappy, lz4 or zstd is wanted"))
    }
}

/// Whose clock the timestamps of a batch come from. Kafka: `message.timestamp.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimestampType {
    /// The producer's: each record has its own.
    #[default]
    CreateTime,
    /// The leader's: all records of a batch have the largest timestamp of the header.
    LogAppendTime,
}

impl TimestampType {
    /// The name in Kafka's settings: `CreateTime` or `LogAppendTime`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

impl fmt::Display for TimestampType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TimestampType {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "CreateTime" => Ok(Self::CreateTime),
            "LogAppendTime" => Ok(Self::LogAppendTime),
            _ => Err(ParseNameError("CreateTime or LogAppendTime is wanted")),
        }
    }
}

/// Why a text names no codec and no timestamp type. Its text says what would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseNameError(&'static str);

impl fmt::Display for ParseNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ParseNameError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back_to_the_codec() {
        for codec in Codec::ALL {
            assert_eq!(Codec::from_id(codec.id()), Some(codec));
            assert_eq!(codec.name().parse(), Ok(codec));
        }
        assert_eq!(Codec::from_id(5), None);
        assert!("GZIP".parse::<Codec>().is_err());
        assert_eq!("LogAppendTime".parse(), Ok(TimestampType::LogAppendTime));
    }
}
