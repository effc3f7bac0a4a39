//! zstd frames. Contexts are used again: they cost more than a small batch does.

use std::cell::RefCell;

use zstd::bulk::Compressor;
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{DCtx, DParameter};

use super::{Bounded, DecodeError};

/// The largest window that zstd's own decoder takes unless told otherwise: 2^27 bytes.
const LARGEST_WINDOW_LOG: u32 = 27;

/// A decoder's state, made when it is first wanted.
#[derive(Default)]
pub(super) struct Context(Option<DCtx<'static>>);

impl Context {
    pub(super) fn decompress(
        &mut self,
        payload: &[u8],
        mut out: Bounded<'_>,
    ) -> Result<(), DecodeError> {
        if self.0.is_none() {
            self.0 = DCtx::try_create();
        }
        let context = self.0.as_mut().ok_or_else(|| out.malformed())?;
        context.init().map_err(|_| out.malformed())?;
        // The window is memory besides the output: a frame may declare one that it never fills.
        let window_log = window_log(out.limit);
        context
            .set_parameter(DParameter::WindowLogMax(window_log))
            .map_err(|_| out.malformed())?;
        out.fill(Decoder::with_context(payload, context))
    }
}

/// The smallest window that holds `limit` bytes, within what zstd allows.
fn window_log(limit: usize) -> u32 {
    let bits = usize::BITS.saturating_sub(limit.saturating_sub(1).leading_zeros());
    // Encoders choose 2^20 to 2^22 for streams of unknown length, however short.
    bits.clamp(23, LARGEST_WINDOW_LOG)
}

pub(super) fn compress(level: Option<i32>, records: &[u8], out: &mut Vec<u8>) -> Option<()> {
    thread_local! {
        static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    }
    let levels = zstd::compression_level_range();
    let level = level.unwrap_or(3).clamp(*levels.start(), *levels.end());
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            *compressor = Compressor::new(level).ok();
        }
        let compressor = compressor.as_mut()?;
        compressor.set_compression_level(level).ok()?;
        out.extend_from_slice(&compressor.compress(records).ok()?);
        Some(())
    })
}
