//! A clock with actors: nanoseconds that nobody waits for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One of those whose time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// A thread of the workload, by its number.
    Host(usize),
    /// The thread that works in the background. Its disk requests go to the background list of each
    /// disk, and cost the hosts no time.
    Background,
}

/// A handle to virtual time; clones are the same clock.
///
/// Everything runs in one thread of the operating system. An event loop makes the host with the
/// smallest time current, by [`next_host`](Self::next_host), and lets it take its next step. The
/// step is real code that runs at once and to its end. What it costs is added to its host's time.
///
/// ```
/// use sim_disk::time::{Actor, Clock};
///
/// let clock = Clock::with(2, 1);
/// assert_eq!(clock.next_host(), Actor::Host(0));
/// clock.charge_cpu(300); // The only core is busy until 300.
/// assert_eq!(clock.next_host(), Actor::Host(1));
/// clock.charge_cpu(100);
/// assert_eq!(clock.now(), 400);
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    times: Arc<Mutex<Times>>,
}

#[derive(Debug)]
struct Times {
    current: Actor,
    hosts: Vec<u64>,
    background: u64,
    /// When each core is free; none: there are enough.
    cores: Vec<u64>,
}

impl Times {
    fn time(&mut self, actor: Actor) -> &mut u64 {
        match actor {
            Actor::Host(number) => &mut self.hosts[number],
            Actor::Background => &mut self.background,
        }
    }

    fn now(&mut self) -> &mut u64 {
        self.time(self.current)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock of one host, with as many cores as are wanted.
    #[must_use]
    pub fn new() -> Self {
        Self::with(1, 0)
    }

    /// A clock of some hosts on some cores; with zero cores, each actor has a core for itself.
    ///
    /// # Panics
    /// When there is no host.
    #[must_use]
    pub fn with(hosts: usize, cores: usize) -> Self {
        assert!(hosts > 0, "somebody's time has to pass");
        let current = Actor::Host(0);
        let times = Times { current, hosts: vec![0; hosts], background: 0, cores: vec![0; cores] };
        Self { times: Arc::new(Mutex::new(times)) }
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The actor whose time passes.
    #[must_use]
    pub fn actor(&self) -> Actor {
        self.lock().current
    }

    /// Nanoseconds that have passed for the current actor.
    #[must_use]
    pub fn now(&self) -> u64 {
        *self.lock().now()
    }

    /// Nanoseconds that have passed for one actor.
    ///
    /// # Panics
    /// When there is no such host.
    #[must_use]
    pub fn now_of(&self, actor: Actor) -> u64 {
        *self.lock().time(actor)
    }

    /// From now on, the time of this actor passes.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn switch_to(&self, actor: Actor) {
        let mut times = self.lock();
        times.time(actor);
        times.current = actor;
    }

    /// Makes the host with the smallest time current; among several, the first.
    pub fn next_host(&self) -> Actor {
        let mut times = self.lock();
        let next = (0..times.hosts.len()).min_by_key(|number| times.hosts[*number]);
        times.current = Actor::Host(next.unwrap_or(0));
        times.current
    }

    /// Adds to the current actor's time: it waits for a medium.
    pub fn charge(&self, nanos: u64) {
        let mut times = self.lock();
        let now = times.now();
        *now = now.saturating_add(nanos);
    }

    /// Adds to the current actor's time, once a core is free for it: it computes. What computes
    /// nothing waits for no core.
    pub fn charge_cpu(&self, nanos: u64) {
        if nanos == 0 {
            return;
        }
        let mut times = self.lock();
        let now = *times.now();
        let core = (0..times.cores.len()).min_by_key(|core| times.cores[*core]);
        let start = core.map_or(now, |core| now.max(times.cores[core]));
        let end = start.saturating_add(nanos);
        if let Some(core) = core {
            times.cores[core] = end;
        }
        *times.now() = end;
    }

    /// The current actor waits until this time, unless it is past.
    pub fn wait_until(&self, time: u64) {
        let mut times = self.lock();
        let now = times.now();
        *now = time.max(*now);
    }

    /// Does some work as [`Actor::Background`], at once and to its end.
    ///
    /// The work begins at the time of the caller, or where earlier work in the background ended,
    /// and costs the caller no time. Take a [ticket](crate::time::TimedDisk::ticket) of each disk
    /// afterwards, to know when its requests are served.
    pub fn in_background<R>(&self, work: impl FnOnce() -> R) -> R {
        let mut times = self.lock();
        let (caller, now) = (times.current, *times.now());
        times.background = times.background.max(now);
        times.current = Actor::Background;
        drop(times);
        let _back = Back { clock: self, to: caller };
        work()
    }
}

/// Makes the caller current again, also when the work panics.
struct Back<'a> {
    clock: &'a Clock,
    to: Actor,
}

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.clock.lock().current = self.to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_actor_has_its_own_time() {
        let clock = Clock::with(3, 0);
        clock.charge(10);
        assert_eq!(clock.next_host(), Actor::Host(1));
        clock.charge(5);
        clock.switch_to(Actor::Host(2));
        clock.wait_until(7);
        clock.wait_until(3);
        let times = [0, 1, 2].map(|host| clock.now_of(Actor::Host(host)));
        assert_eq!(times, [10, 5, 7]);
        assert_eq!(clock.next_host(), Actor::Host(1));
    }

    #[test]
    fn cores_limit_what_is_computed_and_not_what_waits() {
        let clock = Clock::with(3, 2);
        for _ in 0..3 {
            clock.next_host();
            clock.charge_cpu(100);
        }
        let times = [0, 1, 2].map(|host| clock.now_of(Actor::Host(host)));
        assert_eq!(times, [100, 100, 200]);
        clock.switch_to(Actor::Host(0));
        clock.charge(50);
        assert_eq!(clock.now(), 150);
    }

    #[test]
    fn what_computes_nothing_waits_for_no_core() {
        let clock = Clock::with(2, 1);
        clock.charge_cpu(10);
        clock.switch_to(Actor::Host(1));
        clock.charge_cpu(0);
        assert_eq!(clock.now(), 0);
        clock.charge_cpu(1);
        assert_eq!(clock.now(), 11);
    }

    #[test]
    fn work_in_the_background_costs_the_caller_nothing() {
        let clock = Clock::new();
        clock.charge(10);
        let said = clock.in_background(|| {
            clock.charge(100);
            clock.actor()
        });
        assert_eq!((said, clock.actor()), (Actor::Background, Actor::Host(0)));
        assert_eq!((clock.now(), clock.now_of(Actor::Background)), (10, 110));
        clock.in_background(|| clock.charge(1));
        assert_eq!(clock.now_of(Actor::Background), 111);
    }

    #[test]
    fn a_panic_in_the_background_gives_the_clock_back() {
        let clock = Clock::new();
        let work = || clock.in_background(|| panic!("as a test"));
        assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(work)).is_err());
        assert_eq!(clock.actor(), Actor::Host(0));
    }
}
