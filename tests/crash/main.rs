//! A part of what `crash_explorer` (`explorer.rs` beside this file) tries, for every run of the
//! tests: all single operations, each barrier ignored, and the places where a log broke once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic_in_result_fn,
    clippy::unwrap_in_result,
    clippy::wildcard_enum_match_arm,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::similar_names,
    clippy::match_same_arms,
    clippy::single_match_else,
    clippy::type_complexity,
    clippy::print_stdout,
    clippy::disallowed_methods,
    dead_code,
    unreachable_pub,
    reason = "tests stop at the first surprise; the explorer uses the rest"
)]

use highwater::storage::Barrier;

mod case;
#[path = "../common/mod.rs"]
mod common;
mod judge;
mod model;
mod ops;
mod search;
mod seen;

use case::{Case, Cut, Verdict};
use ops::{Op, STARTS, Start};
use search::{Explorer, Options};

fn start(name: &str) -> Start {
    *STARTS.iter().find(|start| start.name == name).unwrap()
}

/// Explores one sequence; the number of violations, and what they are.
fn explore_one(name: &str, ops: &[Op], ignored: Option<Barrier>) -> (u64, String) {
    let explorer = Explorer::new(Options {
        only: Some((start(name), ops.to_vec())),
        second_cuts: 32,
        threads: 1,
        ignored,
        ..Options::default()
    });
    explorer.explore();
    assert!(explorer.states() > 10, "{name} {ops:?}");
    let told = explorer
        .told()
        .into_iter()
        .map(|(case, why)| format!("{case}: {why}\n"));
    (explorer.violations(), told.collect())
}

fn holds(name: &str, ops: &[Op]) {
    let (violations, told) = explore_one(name, ops, None);
    assert_eq!(violations, 0, "{told}");
}

#[test]
fn a_power_cut_in_any_single_operation_breaks_no_promise() {
    let explorer = Explorer::new(Options {
        depth: 1,
        second_cuts: 4,
        ..Options::default()
    });
    explorer.explore();

    println!("{} crash states", explorer.states());
    assert!(explorer.states() > 5_000);
    assert_eq!(explorer.violations(), 0, "{:?}", explorer.told());
}

/// A sequence for each barrier in which something is lost without it.
#[test]
fn each_barrier_is_needed() {
    use Barrier as B;
    let cases: [(B, &str, &[Op]); 15] = [
        (B::ContentBeforeRename, "unsynced", &[Op::Checkpoint]),
        (B::RenameBeforeReturn, "unsynced", &[Op::Checkpoint]),
        (
            B::BatchesBeforeAcknowledgement,
            "empty",
            &[Op::AppendSynced],
        ),
        (B::SegmentBeforeRoll, "unsynced", &[Op::Roll]),
        (
            B::IndexesBeforeSeal,
            "unsynced",
            &[Op::Roll, Op::Checkpoint],
        ),
        (
            B::IndexesBeforeRecoveryPoint,
            "unsynced",
            &[Op::Sync, Op::Checkpoint],
        ),
        (
            B::NamesBeforeFirstAppend,
            "unsynced",
            &[Op::Roll, Op::AppendSynced],
        ),
        (
            B::CutBeforeNextAppend,
            "unsynced",
            &[Op::Sync, Op::Truncate],
        ),
        (B::RemovalsBeforeReuse, "two-segments", &[Op::TruncateFully]),
        (B::SavedBeforeCut, "unsynced", &[Op::Append]),
        (B::SavedNameBeforeCut, "unsynced", &[Op::Append]),
        (B::RecoveredBeforeOpen, "unsynced", &[Op::Kill]),
        (B::LogNameBeforeFirstAppend, "empty", &[Op::AppendSynced]),
        (
            B::DeletionBeforeForgetting,
            "unsynced",
            &[Op::Roll, Op::Delete],
        ),
        (B::MarkerGoneBeforeFirstOpen, "unsynced", &[Op::Close]),
    ];
    for barrier in Barrier::ALL {
        assert!(
            cases.iter().any(|(covered, ..)| *covered == barrier),
            "{barrier:?}"
        );
    }
    for (barrier, name, ops) in cases {
        holds(name, ops);
        let (violations, told) = explore_one(name, ops, Some(barrier));
        assert!(violations > 0, "{barrier:?} ignored: nobody notices");
        println!("{barrier:?} ignored: {violations} violations, {told}");
    }
}

#[test]
fn a_case_is_printed_read_back_and_made_smaller() {
    let ignored = Some(Barrier::BatchesBeforeAcknowledgement);
    let explorer = Explorer::new(Options {
        only: Some((start("unsynced"), vec![Op::AppendSynced])),
        threads: 1,
        ignored,
        ..Options::default()
    });
    explorer.explore();
    let (case, _) = explorer.told().swap_remove(0);

    assert_eq!(Case::parse(&case.to_string()).as_ref(), Some(&case));
    let small = case.shrunk(ignored);
    assert!(
        matches!(small.verdict(ignored), Verdict::Broken(_)),
        "{small}"
    );
    let lost = small.lost(ignored);
    assert!(lost.len() <= 2, "{lost:?}");
    assert_eq!(
        small.verdict(None),
        Verdict::Holds,
        "with the barrier nothing is lost"
    );
    let nowhere = Case {
        cuts: vec![Cut {
            moment: 1_000,
            fates: Vec::new(),
        }],
        ..small
    };
    assert_eq!(nowhere.verdict(None), Verdict::Pointless);
}

/// Two runs with one seed try the same disks.
#[test]
fn a_seed_repeats_the_exploration() {
    let states = |seed| {
        let explorer = Explorer::new(Options {
            only: Some((start("two-segments"), vec![Op::Truncate])),
            seed,
            ..Options::default()
        });
        explorer.explore();
        explorer.states()
    };

    assert_eq!(states(3), states(3));
    assert_ne!(states(3), states(4));
}

/// The first bytes of the header, which no checksum covers, were torn: the batch before it was
/// taken for the damaged one, and the log opened degraded.
#[test]
fn a_torn_base_offset_is_no_damage_of_the_batch_before_it() {
    holds("closed", &[Op::AssignEpoch, Op::AppendSynced]);
}

/// The indexes of the last segment were removed and written anew in place: a power cut left torn
/// entries below the recovery point, and lookups went past records.
#[test]
fn an_index_that_is_made_anew_is_whole_at_any_moment() {
    holds("closed", &[Op::Kill]);
}

/// A power cut between the two indexes of a segment left one that recovery starts at an entry of,
/// and a time index of other entries: searches by time missed records.
#[test]
fn an_offset_index_never_stands_beside_a_time_index_of_other_entries() {
    holds(
        "raised",
        &[
            Op::Kill,
            Op::AppendSynced,
            Op::Follow,
            Op::Append,
            Op::Truncate,
        ],
    );
}

/// The recovery point stood in the gap that a truncation inside a batch had left; batches came
/// behind it, a power cut took them, and the log that ended below the recovery point opened
/// degraded.
#[test]
fn a_recovery_point_in_a_gap_is_written_as_the_end_of_the_batch_before() {
    holds(
        "unsynced",
        &[Op::Checkpoint, Op::Truncate, Op::Follow, Op::Checkpoint],
    );
}

/// A truncation wrote the recovery point down while index entries below it were not synced.
#[test]
fn a_truncation_syncs_the_indexes_below_the_recovery_point_that_it_writes() {
    holds("unsynced", &[Op::AppendSynced, Op::Truncate]);
}

/// The epoch of records that are all deleted was moved to the log start at one open, and forgotten
/// at the next.
#[test]
fn an_epoch_of_deleted_records_alone_stays() {
    holds("raised", &[Op::DeleteRecords]);
}
