//! Reads of whole batches, up to a bound that the isolation names. Kafka: `UnifiedLog.read`.

use std::io;

use crate::error::{Error, ErrorKind, Result};
use crate::index::AbortedTransaction;
use crate::log::Log;
use crate::log::filter::AbortedFilter;
use crate::log::plan::Damage;
use crate::log::scan::Fault;
use crate::log::segment::{Located, Opened, Segment};
use crate::log::view::View;
use crate::names::FileType;
use crate::record::{BATCH_HEADER_BYTES, Batch, BatchHeader, Batches, DecodeError};
use crate::storage::{Dir, Fenced, File, ReadBuffer};
use crate::types::{Offset, Position};

/// How far a reader may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// To the log end: replicas, and tools.
    LogEnd,
    /// To the high watermark: consumers that read uncommitted records.
    #[default]
    HighWatermark,
    /// To the last stable offset: consumers that read committed records only. Records of aborted
    /// transactions are among them: see [`Fetched::committed_batches`].
    Committed,
}

/// Batches that were read, and the memory they lie in.
///
/// Reading into the same value again reuses its memory, and a read that continues where the last
/// one ended needs no index.
#[derive(Debug, Default)]
pub struct Fetched {
    buffer: ReadBuffer,
    /// The batches in it.
    taken: usize,
    next_offset: Option<Offset>,
    resume: Option<Resume>,
    aborted: Vec<AbortedTransaction>,
}

/// Where the batch behind the last one that was read begins.
#[derive(Clone, Copy, Debug)]
struct Resume {
    offset: Offset,
    segment: Offset,
    generation: u64,
    position: u64,
}

impl Fetched {
    /// The batches, one behind the other, as they stand in the log.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes().get(..self.taken).unwrap_or_default()
    }

    /// The batches one by one. The first may begin below the offset that was asked for.
    pub fn batches(&self) -> Batches<'_> {
        Batches::new(self.bytes())
    }

    /// The aborted transactions whose records overlap what was read, by rising markers; empty
    /// unless it was read at [`Isolation::Committed`].
    pub fn aborted_transactions(&self) -> &[AbortedTransaction] {
        &self.aborted
    }

    /// The batches whose records a reader of committed records gets: markers and the records of
    /// aborted transactions are left out, without a look at their values. Only for what was read at
    /// [`Isolation::Committed`].
    pub fn committed_batches(&self) -> impl Iterator<Item = Result<Batch<'_>, DecodeError>> {
        let mut filter = AbortedFilter::new();
        filter.expect(&self.aborted);
        self.batches()
            .filter(move |batch| batch.as_ref().map_or(true, |batch| filter.delivers(batch)))
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Where to read on: the offset behind the last batch; `None` if nothing was read.
    pub fn next_offset(&self) -> Option<Offset> {
        self.next_offset
    }

    fn clear(&mut self) {
        self.taken = 0;
        self.next_offset = None;
        self.aborted.clear();
    }
}

/// How much a read takes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    from: Offset,
    max_bytes: usize,
    min_one: bool,
    bound: Offset,
}

/// The segment that is read from.
struct Part<'v, D: Dir> {
    view: &'v View<D>,
    at: usize,
    segment: &'v Segment<D>,
    opened: Opened<D>,
    end: u64,
}

impl<D: Dir> Log<D> {
    /// Reads whole batches from `from` on, at least one if there is one, else at most `max_bytes`.
    ///
    /// Never crosses from one segment to the next: ask again at [`Fetched::next_offset`]. Each
    /// batch is checked before it is handed out, unless the configuration says otherwise.
    ///
    /// # Errors
    /// `OffsetOutOfRange` below the log start or above the log end. `Damaged` where the batch that
    /// holds `from` is damaged: its offsets are there, but cannot be read.
    pub fn read(&self, from: Offset, max_bytes: usize, isolation: Isolation) -> Result<Fetched> {
        let mut fetched = Fetched::default();
        self.read_into(from, max_bytes, true, isolation, &mut fetched)?;
        Ok(fetched)
    }

    /// As [`Log::read`], into memory that was used before. With `min_one` false a first batch
    /// larger than `max_bytes` is left out.
    ///
    /// # Errors
    /// As for [`Log::read`].
    pub fn read_into(
        &self,
        from: Offset,
        max_bytes: usize,
        min_one: bool,
        isolation: Isolation,
        fetched: &mut Fetched,
    ) -> Result<()> {
        if isolation != Isolation::LogEnd {
            self.settle_watermark();
        }
        self.unchanged(|view| {
            let bound = match self.bound(view, from, isolation) {
                Ok(bound) => bound,
                // Nothing was looked at: no reason to wait for the writer.
                Err(outside) => return Ok(Err(outside)),
            };
            let limits = Limits {
                from,
                max_bytes,
                min_one,
                bound,
            };
            fetched.clear();
            self.read_view(view, limits, fetched)?;
            if let (Isolation::Committed, Some(end)) = (isolation, fetched.next_offset) {
                fetched.aborted = self.aborted_for_readers(view, from, end)?;
            }
            Ok(Ok(()))
        })?
    }

    /// Looks at the log until no truncation or removal of segments came between: what such a change
    /// took away was no longer there to be seen.
    pub(crate) fn unchanged<T>(
        &self,
        mut look: impl FnMut(&View<Fenced<D>>) -> Result<T>,
    ) -> Result<T> {
        loop {
            let view = self.view.load();
            let seen = look(&view);
            if seen.is_err() {
                // A truncation cuts the file before it publishes the end: wait for it, then look
                // again.
                drop(self.writer());
            }
            if self.view.load().generation == view.generation {
                return seen;
            }
        }
    }

    /// The offset that a reader may not reach; exclusive.
    fn bound(&self, view: &View<Fenced<D>>, from: Offset, isolation: Isolation) -> Result<Offset> {
        if from < view.log_start || from > view.log_end {
            return Err(Error::new(
                ErrorKind::OffsetOutOfRange,
                format!("read outside [{}, {}]", view.log_start, view.log_end),
            )
            .at_path(self.path())
            .at_offset(from)
            .next_step("start at the log start or at the log end"));
        }
        let within = |damage: &&Damage| damage.first_offset <= from && from < damage.end_offset;
        if let Some(damage) = view.damage.iter().find(within) {
            return Err(Error::new(ErrorKind::Damaged, "read damaged offsets")
                .at_path(&self.path().join(&damage.file))
                .at_position(damage.position)
                .at_offset(from)
                .caused_by(damage.detail.clone())
                .next_step("fetch them from a replica; reading goes on behind the damage"));
        }
        let bound = match isolation {
            Isolation::LogEnd => view.log_end,
            Isolation::HighWatermark => view.high_watermark,
            Isolation::Committed => view.last_stable_offset(),
        };
        // After a failed write or sync only what is known to be on the device is shown.
        Ok(if self.dir.is_fenced() {
            bound.min(view.recovery_point)
        } else {
            bound
        })
    }

    fn read_view(
        &self,
        view: &View<Fenced<D>>,
        limits: Limits,
        fetched: &mut Fetched,
    ) -> Result<()> {
        if limits.from >= limits.bound || (limits.max_bytes == 0 && !limits.min_one) {
            return Ok(());
        }
        let first = view.floor(limits.from).unwrap_or(0);
        for (at, segment) in view.segments.iter().enumerate().skip(first) {
            let opened = self.handles.open(segment)?;
            let part = Part {
                view,
                at,
                segment,
                opened,
                end: view.bytes_of(segment),
            };
            if let Some(position) = self.first_position(&part, limits.from, fetched)? {
                return self.read_at(&part, position, limits, fetched);
            }
        }
        Ok(())
    }

    /// Where the first batch that reaches `from` begins; `None` if this segment holds none.
    fn first_position(
        &self,
        part: &Part<'_, Fenced<D>>,
        from: Offset,
        fetched: &Fetched,
    ) -> Result<Option<u64>> {
        let resume = fetched.resume.filter(|resume| {
            resume.offset == from
                && resume.segment == part.segment.base
                && resume.generation == part.view.generation
        });
        if let Some(resume) = resume {
            return Ok((resume.position < part.end).then_some(resume.position));
        }
        let mut located = part.opened.locate(from, part.end);
        // A wrong base offset may name offsets that stand in sound batches behind it.
        if let Ok(Located::At(position, header)) = &located
            && part.view.damage.iter().any(|damage| {
                damage.position == *position
                    && damage.end_offset <= from
                    && damage.file == part.segment.file_name(FileType::Log)
            })
        {
            let behind = position.plus(u64::from(header.bytes));
            located = part.opened.locate_from(behind, from, part.end);
        }
        match located.map_err(|e| self.read_error(part, Position::ZERO, e))? {
            Located::At(position, _) => Ok(Some(position.get())),
            Located::Absent => Ok(None),
            Located::Bad(position, fault) => Err(self.damaged(part, position, from, fault)),
        }
    }

    fn read_at(
        &self,
        part: &Part<'_, Fenced<D>>,
        position: u64,
        limits: Limits,
        fetched: &mut Fetched,
    ) -> Result<()> {
        let at = Position::new(position);
        let left = usize::try_from(part.end.saturating_sub(position)).unwrap_or(usize::MAX);
        // One header more than asked for: a batch is handed out only if what follows continues it.
        let chunk = limits.max_bytes.saturating_add(BATCH_HEADER_BYTES);
        self.fill(part, &mut fetched.buffer, position, chunk.min(left))?;
        let first = BatchHeader::parse(fetched.buffer.bytes())
            .map_err(|e| self.damaged(part, at, limits.from, Fault::Decode(e)))?;
        let first_bytes = usize::try_from(first.bytes).unwrap_or(usize::MAX);
        if first_bytes > left {
            return Err(self.damaged(part, at, limits.from, Fault::Short));
        }
        if first_bytes > limits.max_bytes && !limits.min_one {
            return Ok(());
        }
        let mut max_bytes = limits.max_bytes;
        if first_bytes > max_bytes {
            max_bytes = first_bytes;
            let chunk = first_bytes.saturating_add(BATCH_HEADER_BYTES);
            self.fill(part, &mut fetched.buffer, position, chunk.min(left))?;
        }
        let taken = self.take(
            part,
            at,
            Limits {
                max_bytes,
                ..limits
            },
            fetched.buffer.bytes(),
        )?;
        fetched.taken = taken.bytes;
        if let Some(next) = taken.next_offset {
            fetched.next_offset = Some(next);
            fetched.resume = Some(Resume {
                offset: next,
                segment: part.segment.base,
                generation: part.view.generation,
                position: at.plus(u64::try_from(taken.bytes).unwrap_or(0)).get(),
            });
        }
        Ok(())
    }

    /// Makes `buffer` hold `bytes` bytes from `position` on.
    fn fill(
        &self,
        part: &Part<'_, Fenced<D>>,
        buffer: &mut ReadBuffer,
        position: u64,
        bytes: usize,
    ) -> Result<()> {
        part.opened
            .log()
            .read_exact_at(buffer.room(bytes, position), position)
            .map_err(|e| self.read_error(part, Position::new(position), e))
    }

    /// The whole, sound batches at the front of `buffer` that the limits allow.
    fn take(
        &self,
        part: &Part<'_, Fenced<D>>,
        position: Position,
        limits: Limits,
        buffer: &[u8],
    ) -> Result<TakenBatches> {
        let mut taken = TakenBatches {
            bytes: 0,
            next_offset: None,
        };
        while let Some(rest) = buffer.get(taken.bytes..).filter(|rest| !rest.is_empty()) {
            let checked = self.check_batch(part, rest, taken.next_offset);
            let header = match checked {
                Ok(header) => header,
                Err(fault) if taken.bytes == 0 => {
                    return Err(self.damaged(part, position, limits.from, fault));
                }
                // Cut off by the limit, or damaged: the next read begins there and will tell.
                Err(_) => break,
            };
            let end = taken
                .bytes
                .saturating_add(usize::try_from(header.bytes).unwrap_or(usize::MAX));
            let last = Offset::new(header.last_offset).unwrap_or(Offset::MAX);
            if end > limits.max_bytes || last >= limits.bound {
                break;
            }
            taken = TakenBatches {
                bytes: end,
                next_offset: Some(last.next()),
            };
        }
        Ok(taken)
    }

    /// Checks the batch in front: its checksum, that it continues what stands before it, and that
    /// what stands behind continues it. Base offset and epoch lie outside the checksum.
    fn check_batch(
        &self,
        part: &Part<'_, Fenced<D>>,
        rest: &[u8],
        least: Option<Offset>,
    ) -> Result<BatchHeader, Fault> {
        let batch = Batch::parse(rest).map_err(Fault::Decode)?;
        let header = *batch.header();
        if !self.config.verify_reads {
            return Ok(header);
        }
        batch.verify().map_err(Fault::Decode)?;
        let least = least.unwrap_or(part.segment.base);
        if header.base_offset < least.get() && !header.is_compressed_wrapper() {
            return Err(Fault::Decode(DecodeError::BadOffset(header.base_offset)));
        }
        let behind = rest.get(batch.bytes().len()..).unwrap_or_default();
        let next = match BatchHeader::parse(behind) {
            Ok(next) => next.base_offset,
            Err(_) => part.view.end_of(part.at).get(),
        };
        if next <= header.last_offset {
            return Err(Fault::Decode(DecodeError::BadOffset(header.base_offset)));
        }
        Ok(header)
    }

    fn damaged(
        &self,
        part: &Part<'_, Fenced<D>>,
        position: Position,
        offset: Offset,
        fault: Fault,
    ) -> Error {
        Error::new(ErrorKind::Damaged, "read a damaged batch")
            .at_path(&self.path().join(part.segment.file_name(FileType::Log)))
            .at_position(position)
            .at_offset(offset)
            .caused_by(fault.to_string())
            .next_step("fetch it from a replica; highwater verify names all damage")
    }

    fn read_error(
        &self,
        part: &Part<'_, Fenced<D>>,
        position: Position,
        error: io::Error,
    ) -> Error {
        Error::io(
            "read",
            &self.path().join(part.segment.file_name(FileType::Log)),
            error,
        )
        .at_position(position)
    }
}

/// Batches that a read may hand out.
struct TakenBatches {
    bytes: usize,
    next_offset: Option<Offset>,
}
