//! What recovery does with what it finds: one pure function, one row a case.
//! See [`decide`] for the table.

/// How the scan of a segment stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// At the end of the file, behind a whole batch.
    End,
    /// At zeros that reach to the end of the file.
    Zeros,
    /// At a batch that is longer than the file.
    Short,
    /// At bytes that are no sound batch.
    Bad,
    /// At a batch whose leader epoch is below that of the batch before it.
    EpochBack,
    /// At a batch that begins below the end of the batch before it, or outside its segment.
    OffsetBack,
}

/// What is known about the place where a scan stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the columns of a decision table, each free of the others"
)]
pub struct Situation {
    /// How it stopped.
    pub stop: Stop,
    /// Whether the expected offset is below the believed recovery point.
    pub below_recovery_point: bool,
    /// Whether this is the last segment.
    pub last_segment: bool,
    /// Whether something that looks like records stands behind the place.
    pub more_behind: bool,
    /// Whether our own record of the log, where it is a witness, says that more stood here.
    pub witness_says_more: bool,
}

/// The row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the table at `decide` says what each row is")]
pub enum Row {
    A,
    B,
    C,
    D,
    E,
    F,
    G,
    H,
    I,
    K,
    N,
}

impl Row {
    /// The letter.
    pub const fn letter(self) -> char {
        match self {
            Self::A => 'A',
            Self::B => 'B',
            Self::C => 'C',
            Self::D => 'D',
            Self::E => 'E',
            Self::F => 'F',
            Self::G => 'G',
            Self::H => 'H',
            Self::I => 'I',
            Self::K => 'K',
            Self::N => 'N',
        }
    }
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// Nothing stands in the way: the next segment, or the end.
    GoOn,
    /// The marker is believed: nothing is scanned.
    Trust,
    /// The rest is cut; it holds nothing.
    Cut,
    /// The rest is saved beside the log, then cut.
    SaveAndCut,
    /// Nothing is cut; the log opens degraded.
    Degrade,
}

impl Decision {
    /// The name that tools print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GoOn => "sound",
            Self::Trust => "trust",
            Self::Cut => "cut",
            Self::SaveAndCut => "save_and_cut",
            Self::Degrade => "degrade",
        }
    }
}

impl Row {
    /// The decision of the row.
    pub const fn decision(self) -> Decision {
        match self {
            Self::A => Decision::GoOn,
            Self::B => Decision::Trust,
            Self::C => Decision::Cut,
            Self::D | Self::E | Self::F | Self::G | Self::H => Decision::SaveAndCut,
            Self::I | Self::K | Self::N => Decision::Degrade,
        }
    }
}

/// The row that a situation belongs to: exactly one.
///
/// A scan walks the batches from the recovery point on and stops somewhere. `o` is the offset that
/// is expected there, `W` the recovery point if it is believed, else the log start. Each row is
/// reached by a directory in `tests/rows.rs`.
///
/// | row | place | stop | behind it | decision |
/// |---|---|---|---|---|
/// | A | any | end of the segment's file | | go on with the next segment, or finish |
/// | B | | clean-shutdown marker that the last batch confirms | | trust, no scan |
/// | C | o >= W | zeros to the end of the last segment | | cut, nothing to save: room that was never used |
/// | D | o >= W | fewer bytes than header or length say | nothing sound | cut and save: a torn append |
/// | E | o >= W | wrong bytes, or zeros before an empty segment | nothing sound | cut and save: a torn append, or garbage |
/// | F | o >= W | zeros, too few or wrong bytes | sound batches, or segments with bytes | cut and save all of it |
/// | G | o >= W | an epoch below its predecessor's | | cut and save: a truncation that was undone |
/// | H | o >= W | an offset below the log end | | cut and save: stale batches |
/// | I | o < W | anything but the end of a file | | keep, open degraded |
/// | K | o < W | end of a sealed segment's file | our record of it says more | keep, open degraded |
/// | N | o < W | end of the last segment's file | our record of the log says more | keep, open degraded |
#[must_use]
pub const fn decide(situation: Situation) -> Row {
    let Situation {
        stop,
        below_recovery_point,
        last_segment,
        more_behind,
        witness_says_more,
    } = situation;
    match stop {
        Stop::End if !(below_recovery_point && witness_says_more) => Row::A,
        Stop::End if last_segment => Row::N,
        Stop::End => Row::K,
        _ if below_recovery_point => Row::I,
        Stop::EpochBack => Row::G,
        Stop::OffsetBack => Row::H,
        Stop::Zeros | Stop::Short | Stop::Bad if more_behind => Row::F,
        Stop::Zeros if last_segment => Row::C,
        Stop::Zeros | Stop::Bad => Row::E,
        Stop::Short => Row::D,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const STOPS: [Stop; 6] = [
        Stop::End,
        Stop::Zeros,
        Stop::Short,
        Stop::Bad,
        Stop::EpochBack,
        Stop::OffsetBack,
    ];

    fn all() -> impl Iterator<Item = Situation> {
        STOPS.into_iter().flat_map(|stop| {
            (0..16u8).map(move |bits| Situation {
                stop,
                below_recovery_point: bits & 1 != 0,
                last_segment: bits & 2 != 0,
                more_behind: bits & 4 != 0,
                witness_says_more: bits & 8 != 0,
            })
        })
    }

    #[test]
    fn nothing_below_the_recovery_point_is_ever_cut() {
        for situation in all().filter(|situation| situation.below_recovery_point) {
            let decision = decide(situation).decision();

            assert!(
                matches!(decision, Decision::GoOn | Decision::Degrade),
                "{situation:?}"
            );
        }
    }

    #[test]
    fn what_may_hold_records_is_saved_before_it_is_cut() {
        for situation in all() {
            if decide(situation).decision() == Decision::Cut {
                assert_eq!(situation.stop, Stop::Zeros);
                assert!(!situation.more_behind);
            }
        }
    }

    /// The rows as the table at [`decide`] has them, without the marker's, which is no scan.
    type Condition = fn(Situation) -> bool;
    const ROWS: [(Row, Condition); 10] = [
        (Row::A, |s| s.stop == Stop::End && !misses(s)),
        (Row::C, |s| {
            is_tail(s) && s.stop == Stop::Zeros && s.last_segment
        }),
        (Row::D, |s| is_tail(s) && s.stop == Stop::Short),
        (Row::E, |s| {
            is_tail(s) && (s.stop == Stop::Bad || is_zeros_inside(s))
        }),
        (Row::F, |s| above(s) && is_unreadable(s) && s.more_behind),
        (Row::G, |s| above(s) && s.stop == Stop::EpochBack),
        (Row::H, |s| above(s) && s.stop == Stop::OffsetBack),
        (Row::I, |s| s.below_recovery_point && s.stop != Stop::End),
        (Row::K, |s| {
            s.stop == Stop::End && misses(s) && !s.last_segment
        }),
        (Row::N, |s| {
            s.stop == Stop::End && misses(s) && s.last_segment
        }),
    ];

    fn above(s: Situation) -> bool {
        !s.below_recovery_point
    }

    fn misses(s: Situation) -> bool {
        s.below_recovery_point && s.witness_says_more
    }

    fn is_unreadable(s: Situation) -> bool {
        matches!(s.stop, Stop::Zeros | Stop::Short | Stop::Bad)
    }

    fn is_tail(s: Situation) -> bool {
        above(s) && is_unreadable(s) && !s.more_behind
    }

    fn is_zeros_inside(s: Situation) -> bool {
        s.stop == Stop::Zeros && !s.last_segment
    }

    #[test]
    fn each_combination_belongs_to_exactly_one_row() {
        let mut hits: BTreeMap<Row, u32> = BTreeMap::new();
        for situation in all() {
            let rows: Vec<Row> = ROWS
                .into_iter()
                .filter(|(_, holds)| holds(situation))
                .map(|(row, _)| row)
                .collect();

            assert_eq!(rows, [decide(situation)], "{situation:?}");
            *hits.entry(decide(situation)).or_default() += 1;
        }

        assert_eq!(hits.values().sum::<u32>(), 6 * 16);
        let letters: String = hits.keys().map(|row| row.letter()).collect();
        assert_eq!(letters, "ACDEFGHIKN");
    }

    #[test]
    fn a_file_that_ends_behind_a_batch_is_sound_without_a_witness() {
        for situation in all().filter(|s| s.stop == Stop::End && !s.witness_says_more) {
            assert_eq!(decide(situation), Row::A);
        }
    }
}
