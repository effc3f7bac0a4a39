//! Stands in for versions 0 and 1 where the feature `legacy` is off.

use super::batch::BatchHeader;
use super::compression::Scratch;
use super::error::DecodeError;
use super::record::Record;

/// The records of a version 0 or 1 entry: there is no such value in this build.
#[derive(Clone, Debug)]
pub(super) enum LegacyRecords<'s> {
    #[expect(dead_code, reason = "it gives the lifetime a use and cannot be made")]
    Never(std::convert::Infallible, &'s ()),
}

impl<'s> LegacyRecords<'s> {
    pub(super) fn of(
        header: &BatchHeader,
        _payload: &'s [u8],
        _scratch: &'s mut Scratch,
    ) -> Result<Self, DecodeError> {
        Err(DecodeError::LegacyUnavailable(header.magic))
    }

    #[expect(clippy::unused_self, reason = "the signature of an iterator")]
    pub(super) fn next(&mut self) -> Option<Result<Record<'s>, DecodeError>> {
        None
    }
}

pub(super) fn verify_inner(
    header: &BatchHeader,
    _payload: &[u8],
    _scratch: &mut Scratch,
) -> Result<(), DecodeError> {
    Err(DecodeError::LegacyUnavailable(header.magic))
}
