//! A process is killed, and some time later the power goes: caches survive the first, not the
//! second.

use sim_disk::{Defect, Model};

use super::{LOSING, Litmus, Place, X0, X1, X86, Y0};

pub(crate) const TESTS: &[Litmus] = &[
    Litmus {
        name: "a kill changes nothing in memory",
        why: "caches belong to the machine: what was stored is there and still at risk",
        models: LOSING,
        program: |p| p.store(X0, 1).killed(),
        sees: &[X0, Place::Kills],
        allowed: &[&[0, 0], &[1, 0], &[0, 1], &[1, 1]],
        forbidden: &[],
        kills: &[Defect::KillLosesCaches, Defect::KillIsAFence],
    },
    Litmus {
        name: "the next process makes it durable",
        why: "recovery flushes what it found, and may then rely on it",
        models: LOSING,
        program: |p| p.store(X0, 1).killed().weak(X0).fence().returns(),
        sees: &[X0, Place::Returns],
        allowed: &[&[0, 0], &[1, 0], &[1, 1]],
        forbidden: &[&[0, 1]],
        kills: &[Defect::KillLosesCaches],
    },
    Litmus {
        name: "the next process relies on what it sees",
        why: "recovery that builds on what it has not flushed may lose the ground",
        models: LOSING,
        program: |p| p.store(X0, 1).killed().store(Y0, 1).weak(Y0).fence().returns(),
        sees: &[X0, Y0, Place::Returns],
        allowed: &[&[0, 0, 0], &[1, 0, 0], &[0, 1, 0], &[1, 1, 0], &[0, 1, 1], &[1, 1, 1]],
        forbidden: &[&[0, 0, 1], &[1, 0, 1]],
        kills: &[Defect::KillLosesCaches, Defect::KillIsAFence],
    },
    Litmus {
        name: "flushed, killed, fenced",
        why: "the next process's fence is not the one that the flush waited for",
        models: LOSING,
        program: |p| p.store(X0, 1).weak(X0).killed().fence().returns(),
        sees: &[X0, Place::Returns],
        allowed: &[&[0, 0], &[1, 0], &[0, 1], &[1, 1]],
        forbidden: &[],
        kills: &[Defect::KillIsAFence, Defect::KillLosesCaches, Defect::WeakFlushIsStrong],
    },
    Litmus {
        name: "streamed, killed, fenced",
        why: "the same for streams, in every model",
        models: &Model::ALL,
        program: |p| p.stream(X0, 1).killed().fence().returns(),
        sees: &[X0, Place::Returns],
        allowed: &[&[0, 0], &[1, 0], &[0, 1], &[1, 1]],
        forbidden: &[],
        kills: &[Defect::KillIsAFence, Defect::KillLosesCaches, Defect::StreamIsDurable],
    },
    Litmus {
        name: "streamed, killed, flushed",
        why: "a flush of the line and a fence make certain whatever is visible",
        models: &Model::ALL,
        program: |p| p.stream(X0, 1).killed().weak(X0).fence().returns(),
        sees: &[X0, Place::Returns],
        allowed: &[&[0, 0], &[1, 0], &[1, 1]],
        forbidden: &[&[0, 1]],
        kills: &[Defect::KillLosesCaches],
    },
    Litmus {
        name: "order across a kill",
        why: "the line does not know that the process is another one",
        models: X86,
        program: |p| p.store(X0, 1).killed().by(1).store(X1, 1),
        sees: &[X0, X1],
        allowed: &[&[0, 0], &[1, 0], &[1, 1]],
        forbidden: &[&[0, 1]],
        kills: &[Defect::NoOrderInsideLine, Defect::KillLosesCaches],
    },
    Litmus {
        name: "a kill takes all threads",
        why: "no fence of any thread of the old process is still to come",
        models: LOSING,
        program: |p| {
            let p = p.by(0).store(X0, 1).weak(X0).by(1).store(Y0, 1).weak(Y0).killed();
            p.by(0).fence().by(1).fence().returns()
        },
        sees: &[X0, Y0, Place::Returns],
        allowed: &[
            &[0, 0, 0],
            &[1, 0, 0],
            &[0, 1, 0],
            &[1, 1, 0],
            &[0, 0, 1],
            &[1, 0, 1],
            &[0, 1, 1],
            &[1, 1, 1],
        ],
        forbidden: &[],
        kills: &[Defect::KillIsAFence, Defect::WeakFlushIsStrong],
    },
    Litmus {
        name: "killed with durable caches",
        why: "what was stored had been durable long before",
        models: &[Model::Eadr],
        program: |p| p.store(X0, 1).killed().store(Y0, 1),
        sees: &[X0, Y0, Place::Kills],
        allowed: &[&[0, 0, 0], &[1, 0, 0], &[1, 0, 1], &[1, 1, 1]],
        forbidden: &[&[0, 0, 1], &[0, 1, 1]],
        kills: &[Defect::CachesAreLost],
    },
];
