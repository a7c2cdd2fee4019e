//! Several threads: whose fence completes what.

use sim_disk::Defect;

use super::{LOSING, Litmus, Place, X0, X1, X86, Y0, Z0};

pub(crate) const TESTS: &[Litmus] = &[
    Litmus {
        name: "somebody else's fence",
        why: "a fence completes the flushes of its own thread only",
        models: LOSING,
        program: |p| p.by(0).store(X0, 1).weak(X0).by(1).fence().store(Y0, 1),
        sees: &[X0, Y0],
        allowed: &[&[0, 0], &[1, 0], &[0, 1], &[1, 1]],
        forbidden: &[],
        kills: &[Defect::FenceCompletesAllThreads, Defect::WeakFlushIsStrong],
    },
    Litmus {
        name: "handed over by a flag",
        why: "a leader's fence after a follower's flush proves nothing, seen flag or not",
        models: LOSING,
        program: |p| {
            p.by(0).store(X0, 1).weak(X0).store(Z0, 1).by(1).store(Y0, 1).weak(Y0).fence().returns()
        },
        sees: &[X0, Y0, Place::Returns],
        allowed: &[&[0, 0, 0], &[1, 0, 0], &[0, 1, 0], &[1, 1, 0], &[0, 1, 1], &[1, 1, 1]],
        forbidden: &[&[0, 0, 1], &[1, 0, 1]],
        kills: &[Defect::FenceCompletesAllThreads, Defect::WeakFlushIsStrong],
    },
    Litmus {
        name: "handed over and flushed again",
        why: "the leader's own flush covers what the follower stored before it",
        models: LOSING,
        program: |p| p.by(0).store(X0, 1).by(1).weak(X0).by(0).store(X0, 2).by(1).fence().returns(),
        sees: &[X0, Place::Returns],
        allowed: &[&[0, 0], &[1, 0], &[2, 0], &[1, 1], &[2, 1]],
        forbidden: &[&[0, 1]],
        kills: &[Defect::FlushCoversLaterStores],
    },
    Litmus {
        name: "two flushes of one line",
        why: "each thread's fence takes the line as of that thread's flush",
        models: LOSING,
        program: |p| {
            p.by(0).store(X0, 1).weak(X0).by(1).store(X0, 2).weak(X0).by(0).fence().store(Y0, 1)
        },
        sees: &[X0, Y0],
        allowed: &[&[0, 0], &[1, 0], &[2, 0], &[1, 1], &[2, 1]],
        forbidden: &[&[0, 1]],
        kills: &[Defect::FenceCompletesAllThreads],
    },
    Litmus {
        name: "the older flush fenced last",
        why: "a line does not go back to what an older flush took",
        models: LOSING,
        program: |p| {
            let p = p.by(0).store(X0, 1).weak(X0).by(1).store(X0, 2).weak(X0).fence();
            p.store(X0, 3).by(0).fence().returns()
        },
        sees: &[X0, Place::Returns],
        allowed: &[&[0, 0], &[1, 0], &[2, 0], &[3, 0], &[2, 1], &[3, 1]],
        forbidden: &[&[0, 1], &[1, 1]],
        kills: &[Defect::FlushCoversLaterStores, Defect::DirtyLinesAreLost],
    },
    Litmus {
        name: "somebody else's exchange",
        why: "a locked operation drains the buffers of its own thread only",
        models: LOSING,
        program: |p| p.by(0).store(X0, 1).weak(X0).by(1).exchange(Y0, 1),
        sees: &[X0, Y0],
        allowed: &[&[0, 0], &[1, 0], &[0, 1], &[1, 1]],
        forbidden: &[],
        kills: &[Defect::FenceCompletesAllThreads],
    },
    Litmus {
        name: "somebody else's strong flush",
        why: "a line is a line: whoever flushes it, all stores before are covered",
        models: X86,
        program: |p| p.by(0).store(X0, 1).by(1).strong(X0).by(0).store(Y0, 1),
        sees: &[X0, Y0],
        allowed: &[&[0, 0], &[1, 0], &[1, 1]],
        forbidden: &[&[0, 1]],
        kills: &[Defect::StrongFlushIsWeak],
    },
    Litmus {
        name: "two threads, one line",
        why: "a line holds a prefix of everybody's stores",
        models: X86,
        program: |p| p.by(0).store(X0, 1).by(1).store(X1, 1).by(0).store(X0, 2),
        sees: &[X0, X1],
        allowed: &[&[0, 0], &[1, 0], &[1, 1], &[2, 1]],
        forbidden: &[&[0, 1], &[2, 0]],
        kills: &[Defect::NoOrderInsideLine, Defect::OnlyOldestAndNewest],
    },
    Litmus {
        name: "somebody else's failed fence",
        why: "what fails is the failing thread's",
        models: LOSING,
        program: |p| {
            let p = p.by(0).store(X0, 1).weak(X0).by(1).store(Y0, 1).weak(Y0).fence_fails();
            p.by(0).fence().store(Z0, 1)
        },
        sees: &[X0, Y0, Z0],
        allowed: &[&[0, 0, 0], &[1, 0, 0], &[0, 1, 0], &[1, 1, 0], &[1, 0, 1], &[1, 1, 1]],
        forbidden: &[&[0, 0, 1], &[0, 1, 1]],
        kills: &[Defect::WeakFlushIsStrong, Defect::DirtyLinesAreLost],
    },
    Litmus {
        name: "three threads, one fence",
        why: "of three flushes of three lines one is completed",
        models: LOSING,
        program: |p| {
            let p = p.by(0).store(X0, 1).weak(X0).by(1).store(Y0, 1).weak(Y0);
            p.by(2).store(Z0, 1).weak(Z0).by(1).fence().returns()
        },
        sees: &[X0, Y0, Z0, Place::Returns],
        allowed: &[
            &[0, 0, 0, 0],
            &[1, 0, 0, 0],
            &[0, 1, 0, 0],
            &[1, 1, 0, 0],
            &[0, 0, 1, 0],
            &[1, 0, 1, 0],
            &[0, 1, 1, 0],
            &[1, 1, 1, 0],
            &[0, 1, 0, 1],
            &[1, 1, 0, 1],
            &[0, 1, 1, 1],
            &[1, 1, 1, 1],
        ],
        forbidden: &[&[1, 0, 1, 1]],
        kills: &[Defect::FenceCompletesAllThreads, Defect::WeakFlushIsStrong],
    },
];
