//! Interleaved measurement for machines that are never quiet.
//!
//! Every round runs every case once, in a new random order. A case runs a batch of operations,
//! sized to a fraction of a millisecond. A ratio is taken between two cases of the *same* round;
//! the table shows its median over rounds, with the 10th and 90th percentile. What disturbs a whole
//! round disturbs both sides of a ratio. What disturbs one batch lies outside the percentiles.

use std::time::{Duration, Instant};

/// Runs a number of operations and says how long they took.
pub type Run<'a> = Box<dyn FnMut(u64) -> Duration + 'a>;

/// One row of a table.
pub struct Case<'a> {
    name: String,
    /// The row that ratios are taken against; itself for a reference row.
    versus: String,
    /// Operations that one counted operation stands for (two threads do two at a time).
    per_count: u64,
    /// The ratio that a reference machine showed.
    reference: Option<f64>,
    /// Whether it does all that the others do, and so may be the best.
    contends: bool,
    run: Run<'a>,
    batch: u64,
    nanos: Vec<f64>,
}

/// A table of cases that are measured against each other.
pub struct Table<'a> {
    title: String,
    cases: Vec<Case<'a>>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds that count.
    pub rounds: usize,
    /// How long a batch should take.
    pub batch: Duration,
}

/// How a bench was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// For the names of its cases.
    List,
    /// By `cargo test`, which only asks whether it runs.
    Try,
    /// For a short run.
    Quick,
    /// For a full run.
    Full,
}

impl Asked {
    pub fn of_arguments() -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
        match (has("--list"), has("--bench"), has("--quick")) {
            (true, ..) => Self::List,
            (_, false, _) => Self::Try,
            (_, _, true) => Self::Quick,
            _ => Self::Full,
        }
    }

    /// How much is measured of cases that take nanoseconds.
    pub const fn effort(self) -> Effort {
        let (rounds, micros) = match self {
            Self::List | Self::Try => (1, 10),
            Self::Quick => (21, 200),
            Self::Full => (101, 400),
        };
        Effort { rounds, batch: Duration::from_micros(micros) }
    }

    /// Chooses one of three values, for cases that take longer.
    pub fn of<T>(self, tried: T, quick: T, full: T) -> T {
        match self {
            Self::List | Self::Try => tried,
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// Random numbers for the order of cases. The seed is fixed, since the machine is noise enough.
pub struct Shuffler(u64);

impl Shuffler {
    pub const fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    pub fn shuffle(&mut self, order: &mut [usize]) {
        for last in (1..order.len()).rev() {
            // Xorshift: any generator will do.
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            let other = (self.0 % (last as u64 + 1)) as usize;
            order.swap(last, other);
        }
    }
}

/// The time that `count` calls of `work` take.
pub fn timed(count: u64, mut work: impl FnMut(u64)) -> Duration {
    let start = Instant::now();
    for index in 0..count {
        work(index);
    }
    start.elapsed()
}

impl<'a> Table<'a> {
    /// An empty table.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), cases: Vec::new() }
    }

    /// Adds a row whose ratios are taken against the row called `versus`.
    pub fn row(
        &mut self,
        name: impl Into<String>,
        versus: &str,
        per_count: u64,
        reference: Option<f64>,
        run: impl FnMut(u64) -> Duration + 'a,
    ) {
        self.cases.push(Case {
            contends: true,
            name: name.into(),
            versus: versus.to_owned(),
            per_count,
            reference,
            run: Box::new(run),
            batch: 1,
            nanos: Vec::new(),
        });
    }

    /// Says that the last row does less than the others, and so cannot be the best.
    pub fn out_of_contest(&mut self) {
        if let Some(case) = self.cases.last_mut() {
            case.contends = false;
        }
    }

    /// Measures and prints.
    pub fn print(self, effort: Effort) {
        self.print_medians(effort);
    }

    /// Like `print`, and returns the medians, in nanoseconds, in the order of the rows.
    pub fn print_medians(mut self, effort: Effort) -> Vec<f64> {
        self.cases.iter_mut().for_each(|case| case.size_batch(effort.batch));
        let mut order: Vec<_> = (0..self.cases.len()).collect();
        let mut shuffler = Shuffler::new();
        // The first two rounds warm up.
        for round in 0..effort.rounds + 2 {
            shuffler.shuffle(&mut order);
            for &index in &order {
                let case = &mut self.cases[index];
                let nanos = case.nanos_per_operation();
                if round >= 2 {
                    case.nanos.push(nanos);
                }
            }
        }
        self.report();
        self.cases.iter().map(|case| quantile(&case.nanos, 0.5)).collect()
    }

    fn report(&self) {
        println!("## {}", self.title);
        println!(
            "{:<44} {:>9} {:>9} {:>9} | {:>8} {:>6} {:>6} | {:>7} | {:>9}",
            "case", "ns", "p10", "p90", "to limit", "p10", "p90", "to best", "reference"
        );
        for case in &self.cases {
            let limit = self.cases.iter().find(|other| other.name == case.versus);
            let to_limit = limit.map(|limit| case.ratios(limit)).unwrap_or_default();
            let best = self
                .cases
                .iter()
                .filter(|other| other.contends && other.versus == case.versus)
                .min_by(|a, b| quantile(&a.nanos, 0.5).total_cmp(&quantile(&b.nanos, 0.5)));
            let to_best = best.map(|best| case.ratios(best)).unwrap_or_default();
            let reference = match case.reference {
                Some(ratio) => format!("{ratio:.2}"),
                None => "-".to_owned(),
            };
            println!(
                "{:<44} {:>9.1} {:>9.1} {:>9.1} | {:>8.2} {:>6.2} {:>6.2} | {:>7.2} | {:>9}",
                case.name,
                quantile(&case.nanos, 0.5),
                quantile(&case.nanos, 0.1),
                quantile(&case.nanos, 0.9),
                quantile(&to_limit, 0.5),
                quantile(&to_limit, 0.1),
                quantile(&to_limit, 0.9),
                quantile(&to_best, 0.5),
                reference,
            );
        }
        println!();
    }
}

impl Case<'_> {
    fn nanos_per_operation(&mut self) -> f64 {
        let took = (self.run)(self.batch);
        took.as_nanos() as f64 / (self.batch * self.per_count) as f64
    }

    /// Finds how many operations take about as long as a batch should.
    fn size_batch(&mut self, target: Duration) {
        self.batch = 1;
        while (self.run)(self.batch) < target / 4 && self.batch < 1 << 24 {
            self.batch *= 2;
        }
        // Twice: work that is done for the first time takes longer, so the first size is too small.
        for _ in 0..2 {
            // The quickest of three: an interruption would make batches too small.
            let quickest = (0..3).map(|_| (self.run)(self.batch)).min().unwrap_or(target);
            let scale = target.as_nanos() as f64 / quickest.as_nanos().max(1) as f64;
            self.batch = ((self.batch as f64 * scale).ceil() as u64).max(1);
        }
    }

    /// The ratio of this case to another one, round by round.
    fn ratios(&self, other: &Case<'_>) -> Vec<f64> {
        self.nanos.iter().zip(&other.nanos).map(|(mine, theirs)| mine / theirs).collect()
    }
}

pub fn quantile(values: &[f64], at: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let index = (sorted.len().saturating_sub(1) as f64 * at).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

/// Prints which machine the numbers are of, and how busy it was.
pub fn print_machine() {
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = model.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown").to_owned()
    };
    println!(
        "machine: {} (family {}, model {}), {processors} processors, {} {}",
        field("model name"),
        field("cpu family"),
        field("model\t"),
        std::env::consts::OS,
        std::env::consts::ARCH,
    );
    print_load("before");
}

/// Prints the load average.
pub fn print_load(when: &str) {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load {when}: {}", load.split(' ').take(3).collect::<Vec<_>>().join(" "));
}
