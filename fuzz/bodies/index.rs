//! Index bytes of any content are looked up and checked without a panic.

use highwater::index::{OffsetIndexView, TimeIndexView, TransactionIndex, offset, time};
use highwater::types::{Offset, Position, Timestamp};

/// The first byte picks a base offset, the rest is the file.
pub(crate) fn run(data: &[u8]) {
    let Some((&pick, bytes)) = data.split_first() else {
        return;
    };
    let base = if pick & 1 == 0 {
        Offset::ZERO
    } else {
        Offset::MAX
    };

    let view = OffsetIndexView::new(base, bytes);
    let sound = offset::sound_prefix(bytes, base, u64::MAX);
    assert!(sound.entries <= view.len());
    let checked = view.check(u64::MAX).is_ok();
    for (at, position) in view.iter() {
        let found = view.lookup(at);
        assert!(!checked || found == (at, position));
        assert!(!checked || view.upper_bound(position) == Some((at, position)));
    }
    view.last_before_position(Position::new(u64::from(pick)));

    let view = TimeIndexView::new(base, bytes);
    assert!(time::sound_prefix(bytes, base).entries <= view.len());
    let checked = view.check().is_ok();
    for (timestamp, at) in view.iter() {
        assert!(!checked || view.lookup(timestamp) == (timestamp, at));
    }
    view.lookup(Timestamp::NONE);

    if let Ok(parsed) = TransactionIndex::parse(bytes) {
        let mut again = Vec::new();
        parsed.index.encode_from(0, &mut again);
        assert_eq!(again.len().saturating_add(parsed.torn_bytes), bytes.len());
        assert!(bytes.starts_with(&again));
    }
}
