//! The five levels by which SQLite's connections share a database.
//!
//! Guarantees: one connection at most is above `Shared`, except for readers that have not left yet
//! while one is `Pending`; nobody becomes `Shared` meanwhile; `Exclusive` means that no other
//! connection has any level.

/// What a connection may do; each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing.
    #[default]
    None,
    /// It reads.
    Shared,
    /// It prepares to write. Others read.
    Reserved,
    /// It waits for the readers to leave.
    Pending,
    /// It writes.
    Exclusive,
}

/// Another connection is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// The levels of all connections of a database.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// How many connections are `Shared` or above.
    shared: usize,
    /// The level of the one connection that is above `Shared`, else `None`.
    writer: Level,
}

impl Locks {
    /// Raises a connection from one level to another one. A connection that cannot become
    /// `Exclusive` yet may become `Pending` all the same: `level` says so.
    pub(crate) fn raise(&mut self, level: &mut Level, to: Level) -> Result<(), Busy> {
        if *level >= to {
            return Ok(());
        }
        if *level == Level::None {
            if self.writer >= Level::Pending {
                return Err(Busy);
            }
            self.shared += 1;
            *level = Level::Shared;
        }
        if to == Level::Shared {
            return Ok(());
        }
        if *level == Level::Shared && self.writer != Level::None {
            return Err(Busy);
        }
        let may_be_alone = to == Level::Exclusive && self.shared > 1;
        let now = if may_be_alone { Level::Pending } else { to };
        self.writer = now;
        *level = now;
        if may_be_alone { Err(Busy) } else { Ok(()) }
    }

    /// Lowers a connection to `Shared` or to `None`.
    pub(crate) fn lower(&mut self, level: &mut Level, to: Level) {
        if *level <= to {
            return;
        }
        if *level > Level::Shared {
            self.writer = Level::None;
        }
        if to == Level::None {
            self.shared -= 1;
        }
        *level = to;
    }

    /// Whether any connection prepares to write, or does.
    pub(crate) fn is_reserved(&self) -> bool {
        self.writer != Level::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writes_when_the_readers_have_left() {
        let mut locks = Locks::default();
        let (mut a, mut b, mut c) = (Level::None, Level::None, Level::None);
        assert_eq!(locks.raise(&mut a, Level::Shared), Ok(()));
        assert_eq!(locks.raise(&mut b, Level::Shared), Ok(()));
        assert!(!locks.is_reserved());
        assert_eq!(locks.raise(&mut a, Level::Reserved), Ok(()));
        assert_eq!(locks.raise(&mut b, Level::Reserved), Err(Busy));
        assert_eq!(locks.raise(&mut c, Level::Shared), Ok(()));
        locks.lower(&mut c, Level::None);
        assert_eq!(locks.raise(&mut a, Level::Exclusive), Err(Busy));
        assert_eq!((a, locks.is_reserved()), (Level::Pending, true));
        assert_eq!(locks.raise(&mut c, Level::Shared), Err(Busy));
        locks.lower(&mut b, Level::None);
        assert_eq!(locks.raise(&mut a, Level::Exclusive), Ok(()));
        assert_eq!(locks.raise(&mut b, Level::Shared), Err(Busy));
        locks.lower(&mut a, Level::Shared);
        assert_eq!(locks.raise(&mut b, Level::Shared), Ok(()));
        assert_eq!(locks.raise(&mut b, Level::Reserved), Ok(()));
        locks.lower(&mut b, Level::None);
        locks.lower(&mut a, Level::None);
        assert_eq!(locks.shared, 0);
    }

    /// A connection that finds a hot journal goes from `Shared` to `Exclusive`.
    #[test]
    fn a_reader_alone_may_write_at_once() {
        let mut locks = Locks::default();
        let mut a = Level::Shared;
        locks.shared = 1;
        assert_eq!(locks.raise(&mut a, Level::Exclusive), Ok(()));
        locks.lower(&mut a, Level::None);
        assert_eq!((locks.shared, locks.writer), (0, Level::None));
    }
}
