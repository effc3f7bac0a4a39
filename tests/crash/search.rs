//! Which cases are tried: every short sequence of operations, the power cut at every moment of the
//! last one, every subset of the plan; then cuts inside the recovery, by seed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use highwater::log_dir::DirOptions;
use highwater::storage::Barrier;
use highwater::storage::sim::{CrashPlan, Fate, Recording, SimDisk};

use crate::case::{Case, Cut, Run, judged, run};
use crate::common::Rng;
use crate::model::Promise;
use crate::ops::{Op, STARTS, Start};
use crate::seen::Seen;

/// Random plans of each moment.
const RANDOM_PLANS: u64 = 16;
/// No more violations than this are told apart and made smaller.
const TOLD: usize = 8;

#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    /// Every sequence of so many operations behind each start.
    pub depth: u32,
    /// Cuts that are tried inside the recovery from each crash state; each of their own recoveries
    /// is cut once.
    pub second_cuts: u64,
    /// Whether longer sequences follow, by seed, until time or states are up.
    pub endless: bool,
    pub time: Option<Duration>,
    pub states: Option<u64>,
    pub threads: usize,
    /// This sequence and no other.
    pub only: Option<(Start, Vec<Op>)>,
    pub ignored: Option<Barrier>,
    /// Whether the first violation ends it.
    pub stops: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            depth: 2,
            second_cuts: 16,
            endless: false,
            time: None,
            states: None,
            threads: 2,
            only: None,
            ignored: None,
            stops: false,
        }
    }
}

pub struct Explorer {
    options: Options,
    began: Instant,
    /// Disks that a power cut left.
    images: Seen,
    /// Those, with what was promised of them.
    judged: Seen,
    /// Logs that recovery made of them.
    opened: Seen,
    /// Of each start.
    dir_options: BTreeMap<&'static str, DirOptions>,
    next: AtomicU64,
    states: AtomicU64,
    violations: AtomicU64,
    stopped: AtomicBool,
    told: Mutex<Vec<(Case, String)>>,
}

impl Explorer {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            began: Instant::now(),
            images: Seen::new(),
            judged: Seen::new(),
            opened: Seen::new(),
            dir_options: STARTS.map(|start| (start.name, start.options())).into(),
            next: AtomicU64::new(0),
            states: AtomicU64::new(0),
            violations: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    pub fn explore(&self) {
        std::thread::scope(|scope| {
            for _ in 0..self.options.threads {
                scope.spawn(|| self.work());
            }
        });
    }

    /// Distinct disks that were opened.
    pub fn states(&self) -> u64 {
        self.states.load(Ordering::Relaxed)
    }

    pub fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    /// Logs that recovery made, told apart.
    pub fn recovered(&self) -> usize {
        self.opened.count()
    }

    pub fn sequences(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// States a second.
    pub fn rate(&self) -> u64 {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap();
        self.states() * 1_000 / millis.max(1)
    }

    /// The first violations, each with its smallest case.
    pub fn told(&self) -> Vec<(Case, String)> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.clone()
    }

    fn is_over(&self) -> bool {
        let enough = |most: u64| self.states() >= most;
        let late = |time: Duration| self.began.elapsed() >= time;
        self.stopped.load(Ordering::Relaxed)
            || self.options.states.is_some_and(enough)
            || self.options.time.is_some_and(late)
    }

    fn work(&self) {
        while !self.is_over() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((start, ops)) = self.sequence(number) else {
                return;
            };
            self.try_sequence(start, &ops);
        }
    }

    /// The sequences, shortest first; of one length in an order by seed.
    fn sequence(&self, mut number: u64) -> Option<(Start, Vec<Op>)> {
        if let Some(only) = &self.options.only {
            return (number == 0).then(|| only.clone());
        }
        let starts = u64::try_from(STARTS.len()).unwrap();
        let ops = u64::try_from(Op::ALL.len()).unwrap();
        // Each start itself, the power cut in each of its operations.
        for start in STARTS {
            let length = u64::try_from(start.ops.len()).unwrap();
            if number < length {
                let first = &start.ops[..=usize::try_from(number).unwrap()];
                let start = Start {
                    ops: first,
                    ..start
                };
                return Some((start, Vec::new()));
            }
            number -= length;
        }
        for length in 1..=self.options.depth {
            let count = starts * ops.pow(length);
            if number < count {
                // Of a prime that divides no count: every number comes once.
                let mut drawn = (number * 7_919 + self.options.seed) % count;
                let start = STARTS[usize::try_from(drawn % starts).unwrap()];
                drawn /= starts;
                let mut op = || {
                    let op = Op::ALL[usize::try_from(drawn % ops).unwrap()].0;
                    drawn /= ops;
                    op
                };
                return Some((start, (0..length).map(|_| op()).collect()));
            }
            number -= count;
        }
        if !self.options.endless {
            return None;
        }
        let mut rng = Rng(self.options.seed ^ number.wrapping_mul(0x9e37_79b9));
        rng.next();
        let start = STARTS[usize::try_from(rng.next() % starts).unwrap()];
        let length = u64::from(self.options.depth) + 1 + rng.next() % 8;
        let draw = |_| Op::ALL[usize::try_from(rng.next() % ops).unwrap()].0;
        Some((start, (0..length).map(draw).collect()))
    }

    fn try_sequence(&self, start: Start, ops: &[Op]) {
        let mut case = Case {
            start,
            ops: ops.to_vec(),
            cuts: Vec::new(),
        };
        let Run {
            mut recording,
            promises,
        } = match run(start, ops, self.options.ignored) {
            Ok(run) => run,
            Err(why) => return self.report(&case, why),
        };
        let mut moment = 0;
        while recording.advance() {
            moment += 1;
            let done = recording.moments() == 1;
            let promise = &promises[usize::from(done)];
            for plan in self.plans(&recording) {
                if self.is_over() {
                    return;
                }
                let fates = recording.disk().fates(&plan);
                let disk = recording.disk().crash_with(&fates);
                case.cuts.push(Cut { moment, fates });
                self.visit(&disk, &mut case, promise, promise.hash());
                case.cuts.pop();
            }
        }
    }

    fn plans(&self, recording: &Recording) -> impl Iterator<Item = CrashPlan> {
        let pending = recording.disk().pending();
        let seed = self.options.seed ^ recording.call().rotate_left(32);
        let random = (0..RANDOM_PLANS).filter(move |_| pending > 1);
        CrashPlan::enumerate(pending).chain(random.map(move |n| CrashPlan::Random {
            seed: seed.wrapping_add(n),
        }))
    }

    fn visit(&self, disk: &SimDisk, case: &mut Case, promise: &Promise, promised: u64) {
        let image = disk.image_hash();
        if self.images.insert(image) {
            self.states.fetch_add(1, Ordering::Relaxed);
        }
        let both = image ^ promised.rotate_left(17);
        if !self.judged.insert(both) {
            return;
        }
        let dir_options = &self.dir_options[case.start.name];
        match judged(disk, dir_options, promise, &self.opened) {
            Err(why) => self.report(case, why),
            Ok(recovery) => {
                let tries = match case.cuts.len() {
                    1 => self.options.second_cuts,
                    2 => self.options.second_cuts.min(1),
                    _ => return,
                };
                let mut rng = Rng(self.options.seed ^ both);
                if recovery.saved.len() > promise.saved.len() {
                    let promise = Promise {
                        saved: recovery.saved,
                        ..promise.clone()
                    };
                    let promised = promise.hash();
                    self.cut_recovery(
                        recovery.recording,
                        case,
                        &promise,
                        promised,
                        tries,
                        &mut rng,
                    );
                } else {
                    self.cut_recovery(recovery.recording, case, promise, promised, tries, &mut rng);
                }
            }
        }
    }

    /// Cuts the power again, inside the recovery.
    fn cut_recovery(
        &self,
        mut recording: Recording,
        case: &mut Case,
        promise: &Promise,
        promised: u64,
        tries: u64,
        rng: &mut Rng,
    ) {
        let behind_first = recording.moments() - 1;
        if behind_first == 0 || tries == 0 {
            return;
        }
        let mut draw = || 1 + rng.below(i64::try_from(behind_first).unwrap());
        let mut moments: Vec<i64> = (0..tries).map(|_| draw()).collect();
        moments.sort_unstable();
        let mut at = 0;
        for moment in moments {
            while at < moment {
                recording.advance();
                at += 1;
            }
            if self.is_over() {
                return;
            }
            let fates = draw_fates(recording.disk(), rng);
            let disk = recording.disk().crash_with(&fates);
            let moment = usize::try_from(moment).unwrap();
            case.cuts.push(Cut { moment, fates });
            self.visit(&disk, case, promise, promised);
            case.cuts.pop();
        }
    }

    fn report(&self, case: &Case, why: String) {
        self.violations.fetch_add(1, Ordering::Relaxed);
        if self.options.stops {
            self.stopped.store(true, Ordering::Relaxed);
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let bare = |text: &str| text.replace(|letter: char| letter.is_ascii_digit(), "");
        let known = |(_, other): &(Case, String)| bare(other) == bare(&why);
        if told.len() < TOLD && !told.iter().any(known) {
            told.push((case.clone(), why));
        }
    }
}

/// One of the plans of a moment.
fn draw_fates(disk: &SimDisk, rng: &mut Rng) -> Vec<Fate> {
    let pending = disk.pending();
    let count = i64::try_from(pending).unwrap();
    let one = |rng: &mut Rng| usize::try_from(rng.below(count)).unwrap();
    let plan = match rng.below(8) {
        0 => CrashPlan::LoseAll,
        1 => CrashPlan::KeepAll,
        2 => CrashPlan::LoseOnly(one(rng)),
        3 => CrashPlan::KeepOnly(one(rng)),
        _ => CrashPlan::Random { seed: rng.next() },
    };
    disk.fates(&plan)
}
