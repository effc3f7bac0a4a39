//! What a log should hold after each operation, and what a power cut may leave of it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use highwater::record::{BatchBuilder, Codec};

use crate::common::{epoch, offset};
use crate::ops::Op;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    pub base: i64,
    pub last: i64,
    pub epoch: i32,
    /// Of each record.
    pub times: Arc<[i64]>,
    pub bytes: Arc<[u8]>,
}

impl Batch {
    /// Records that name their offsets, the epoch and the step: what is appended in place of
    /// something that was cut is other bytes of the same length.
    pub fn new(codec: Codec, base: i64, leader_epoch: i32, records: i64, step: u32) -> Self {
        let mut builder = BatchBuilder::new(codec)
            .base_offset(offset(base))
            .leader_epoch(epoch(leader_epoch));
        // Times that neither rise nor fall: the largest one stands anywhere.
        let times: Arc<[i64]> = (base..base + records)
            .map(|at| 1_000 + (at * 7) % 11 * 10)
            .collect();
        for (at, time) in (base..base + records).zip(times.iter()) {
            let value = format!("record {at:06} of epoch {leader_epoch:03} at step {step:03}");
            builder
                .push(*time, None, Some(value.as_bytes()), &[])
                .unwrap();
        }
        Self {
            base,
            last: base + records - 1,
            epoch: leader_epoch,
            times,
            bytes: builder.finish().unwrap().into(),
        }
    }

    /// As a client sends it: what the leader stamps makes it the bytes of the model.
    pub fn unstamped(&self) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        bytes[..8].fill(0);
        bytes[12..16].fill(0xff);
        bytes
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Model {
    pub batches: Vec<Batch>,
    pub start: i64,
    pub end: i64,
    /// Below it everything was promised to survive a power cut.
    pub synced: i64,
    pub epoch: i32,
    /// (epoch, where it began) of each epoch that a call made durable.
    pub epochs: Vec<(i32, i64)>,
    pub watermark: i64,
    /// The high watermark that was last made durable.
    pub watermark_row: i64,
    /// Operations so far.
    pub step: u32,
}

impl Model {
    fn add(&mut self, codec: Codec, gap: i64, records: i64) {
        // Where the first batch of a log begins is told by its header alone, no checksum covers it,
        // and a torn one would move it: `DURABILITY.md`, what is not promised.
        let gap = if self.batches.is_empty() { 0 } else { gap };
        let base = self.end + gap;
        let batch = Batch::new(codec, base, self.epoch, records, self.step);
        self.begin_epoch(base);
        self.end = batch.last + 1;
        self.batches.push(batch);
    }

    fn begin_epoch(&mut self, start: i64) {
        let latest = self.epochs.last().map(|(epoch, _)| *epoch);
        if latest.is_none_or(|latest| latest < self.epoch) {
            // An epoch that got no batch gives way to the next one.
            self.epochs.retain(|(_, begins)| *begins < start);
            self.epochs.push((self.epoch, start));
        }
    }

    /// The offset that a truncation is asked for: the last one of a batch in the middle.
    pub fn cut(&self) -> i64 {
        let alive: Vec<_> = self
            .batches
            .iter()
            .filter(|b| b.last >= self.start)
            .collect();
        alive
            .get(alive.len() / 2)
            .map_or(self.end, |batch| batch.last)
    }

    /// As it is once `op` is done.
    pub fn after(&self, op: Op) -> Self {
        let mut next = self.clone();
        next.step += 1;
        match op {
            Op::Append => next.add(Codec::None, 0, 2),
            Op::AppendCompressed => next.add(Codec::Lz4, 0, 3),
            Op::AppendSynced => {
                next.add(Codec::None, 0, 1);
                next.synced = next.end;
            }
            Op::Follow => {
                next.add(Codec::None, 2, 2);
                next.epoch += 1;
                next.add(Codec::Gzip, 1, 2);
            }
            Op::Roll | Op::Sync => next.synced = self.end,
            Op::Close => {
                next.synced = self.end;
                next.watermark_row = self.watermark;
            }
            // What recovery accepts is synced before it is served.
            Op::Kill => {
                next.synced = self.end;
                next.watermark = self.watermark_row;
            }
            Op::DeleteRecords => {
                next.start = (self.start + self.end + 1) / 2;
                next.watermark = self.end;
            }
            Op::Retain => next.watermark = self.end,
            Op::Truncate => next.truncate(self.cut()),
            Op::TruncateFully => {
                next.batches.clear();
                next.epochs.clear();
                next.end = self.end + 5;
                next.start = next.end;
                next.synced = next.end;
                next.watermark = next.end;
                next.watermark_row = self.watermark_row.min(next.end);
            }
            Op::AssignEpoch => {
                next.epoch += 1;
                next.begin_epoch(self.end);
            }
            Op::Checkpoint => {
                next.watermark = self.end;
                next.watermark_row = self.end;
            }
            Op::Delete => {
                next = Self {
                    step: next.step,
                    epoch: self.epoch,
                    ..Self::default()
                };
            }
        }
        next
    }

    fn truncate(&mut self, cut: i64) {
        let inside = self.batches.iter().find(|b| b.base <= cut && cut <= b.last);
        let base = inside.map_or(cut, |batch| batch.base);
        self.batches.retain(|batch| batch.last < cut);
        self.end = base.max(cut.min(self.start));
        self.start = self.start.min(self.end);
        self.synced = self.synced.min(self.end);
        self.epochs.retain(|(_, start)| *start < self.end);
        self.watermark = self.end;
        self.watermark_row = self.watermark_row.min(self.end);
    }

    /// Takes over what the opened log says of a gap at its end: that is made by a roll or a
    /// truncation, and does not outlive a reopening.
    pub fn reopened(&mut self, end: i64, watermark: i64) {
        self.end = end;
        self.start = self.start.min(end);
        self.synced = self.synced.min(end);
        // One that no batch has is forgotten by an open, as by Kafka's `LogLoader`.
        self.epochs.retain(|(_, start)| *start < end);
        self.watermark = watermark;
        self.watermark_row = self.watermark_row.min(end);
    }
}

/// What must hold of the log that is opened after a power cut.
#[derive(Clone, Debug, Hash)]
pub struct Promise {
    /// The log is a prefix of these: what is there above the log start is, byte for byte.
    pub full: Vec<Batch>,
    /// So many of them must be there, as far as they are above the log start.
    pub must: usize,
    /// The lowest and the highest log start.
    pub start: (i64, i64),
    /// The highest log end.
    pub end: i64,
    /// Start and end are exactly these.
    pub exactly: Option<(i64, i64)>,
    /// Epochs that are known, as far as the log reaches.
    pub epochs: Vec<(i32, i64)>,
    pub latest_epoch: i32,
    /// The high watermark is no lower, as far as the log reaches.
    pub watermark: i64,
    /// A clean-shutdown marker may stand there.
    pub marker: bool,
    /// The log may also be missing, or empty at 0: it was being deleted and made anew.
    pub fresh: bool,
    /// Bytes that an earlier recovery saved before it cut them.
    pub saved: Vec<Vec<u8>>,
}

impl Promise {
    /// What a power cut in `op`, or right behind it if `done`, must leave.
    pub fn new(op: Op, before: &Model, after: &Model, done: bool) -> Self {
        if op == Op::Delete && !done {
            // Until it is gone, all of it is there.
            return Self {
                fresh: true,
                ..Self::new(Op::Append, before, before, true)
            };
        }
        let cuts = matches!(op, Op::Truncate | Op::TruncateFully);
        let full = if cuts && !done { before } else { after };
        let synced = if done { after.synced } else { before.synced };
        let kept = match op {
            Op::Truncate => after.end,
            Op::TruncateFully => 0,
            _ => i64::MAX,
        };
        let held = |batch: &&Batch| batch.last < synced && batch.last < kept;
        let must = full.batches.iter().take_while(held).count();
        let highest = match op {
            Op::Retain => before.end,
            Op::DeleteRecords | Op::TruncateFully => after.start,
            Op::Delete => 0,
            _ => before.start,
        };
        let lowest = match (op, done) {
            (Op::TruncateFully | Op::Delete, _) => 0,
            (Op::Truncate, false) => after.start,
            (_, true) => after.start,
            (_, false) => before.start,
        };
        let lasting = |entry: &&(i32, i64)| done || after.epochs.contains(entry);
        let known = if done { after } else { before };
        Self {
            full: full.batches.clone(),
            must,
            start: (lowest, highest),
            end: if done {
                after.end
            } else {
                before.end.max(after.end)
            },
            exactly: (done && op == Op::TruncateFully).then_some((after.start, after.end)),
            epochs: known.epochs.iter().filter(lasting).copied().collect(),
            latest_epoch: before.epoch.max(after.epoch),
            // Until all is removed a crash may leave none of it, or some.
            watermark: match (op, done) {
                (_, true) => after.watermark_row,
                (Op::TruncateFully, false) => 0,
                (_, false) => before.watermark_row.min(after.watermark_row),
            },
            marker: op == Op::Close && !done,
            fresh: false,
            saved: Vec::new(),
        }
    }

    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        Hash::hash(self, &mut hasher);
        hasher.finish()
    }
}
