//! Each promise of a file, by counting what a crash may leave; and that no wrong simulator keeps
//! all of them.

use sim_disk::{CrashPoints, Mark, TornBy, Unwritten, World};
use sim_disk::{Defect, Fault, FaultKind, FileFacts, FileImage, Model, Operation, Rules};

use crate::states::{RIGHT, content, states, texts, world_of};

const SECTOR: usize = 512;
const PAGE: usize = 4096;

fn facts(torn_by: TornBy) -> FileFacts {
    FileFacts::new(torn_by, Unwritten::Zeroes)
}

fn zeroes(torn_by: TornBy, len: usize) -> FileImage {
    FileImage::with_content(facts(torn_by), &vec![0; len])
}

fn text(torn_by: TornBy, content: &str) -> FileImage {
    FileImage::with_content(facts(torn_by), content.as_bytes())
}

/// A promise: what it is called, what a program leaves of a world, and what it should leave.
struct Promise {
    name: &'static str,
    files: Vec<FileImage>,
    program: fn(&World),
    /// How many states there are.
    count: usize,
    /// The texts of the first file, where they are listed.
    texts: &'static [&'static str],
}

fn write(world: &World, file: u16, at: u64, bytes: &[u8]) {
    world.file(file).write_all_at(at, bytes).expect("a write");
}

fn sync(world: &World, file: u16) {
    world.file(file).sync().expect("a sync");
}

fn fails_to_sync(world: &World, kind: FaultKind) {
    let syncs = world.operations().of(Operation::FileSync);
    world.inject(Fault::on(Operation::FileSync, syncs, kind));
    world.file(0).sync().expect_err("a fault");
}

fn set_len(world: &World, len: u64) {
    world.file(0).set_len(len).expect("a length");
}

fn counted(
    name: &'static str,
    files: Vec<FileImage>,
    count: usize,
    program: fn(&World),
) -> Promise {
    Promise { name, files, program, count, texts: &[] }
}

fn listed(
    name: &'static str,
    start: &str,
    texts: &'static [&'static str],
    program: fn(&World),
) -> Promise {
    let files = vec![text(TornBy::Page, start)];
    Promise { name, files, program, count: texts.len(), texts }
}

fn bytes_that_arrive_or_not() -> Vec<Promise> {
    vec![
        counted(
            "a write is lost, kept or torn by sector",
            vec![zeroes(TornBy::Sector, PAGE)],
            4,
            |w| {
                write(w, 0, 0, &[1; 2 * SECTOR]);
            },
        ),
        counted(
            "sectors count from the start of the file",
            vec![zeroes(TornBy::Sector, PAGE)],
            8,
            |w| {
                write(w, 0, 500, &[1; SECTOR + 100]);
            },
        ),
        counted(
            "torn by page, the parts in a page go together",
            vec![zeroes(TornBy::Page, 2 * PAGE)],
            4,
            |w| {
                write(w, 0, 4000, &[1; 200]);
            },
        ),
        counted("torn by byte, each byte goes by itself", vec![zeroes(TornBy::Byte, 8)], 32, |w| {
            write(w, 0, 1, &[1; 5]);
        }),
        listed(
            "any subset of the writes, the later on top",
            "....",
            &["....", "AA..", ".BB.", "ABB."],
            |w| {
                write(w, 0, 0, b"AA");
                write(w, 0, 1, b"BB");
            },
        ),
        counted(
            "writes of several calls, in any order",
            vec![zeroes(TornBy::Sector, 4 * SECTOR)],
            16,
            |w| {
                for sector in [3, 0, 2, 1] {
                    write(w, 0, sector * SECTOR as u64, &[1; SECTOR]);
                }
            },
        ),
        counted("what was synced is never lost", vec![zeroes(TornBy::Sector, PAGE)], 1, |w| {
            write(w, 0, 0, &[1; PAGE]);
            sync(w, 0);
        }),
        listed("a sync covers what came before it alone", "....", &["AA..", "AABB"], |w| {
            write(w, 0, 0, b"AA");
            sync(w, 0);
            write(w, 0, 2, b"BB");
        }),
        counted("a sync covers its own file alone", vec![zeroes(TornBy::Page, 8); 2], 2, |w| {
            write(w, 0, 0, &[1; 8]);
            write(w, 1, 0, &[1; 8]);
            sync(w, 1);
        }),
        counted("files lose independently", vec![zeroes(TornBy::Sector, 2 * SECTOR); 2], 16, |w| {
            write(w, 0, 0, &[1; 2 * SECTOR]);
            write(w, 1, 0, &[1; 2 * SECTOR]);
        }),
    ]
}

fn lengths() -> Vec<Promise> {
    vec![
        listed("a length that grew may have done so or not", "AA", &["AA", "AA.."], |w| {
            set_len(w, 4);
        }),
        listed("a cut may leave zeroes behind it", "AAAA", &["AAAA", "AA..", "AA"], |w| {
            set_len(w, 2);
        }),
        listed("a length that was synced stays", "AAAA", &["AA"], |w| {
            set_len(w, 2);
            sync(w, 0);
        }),
        listed("a file grows before the bytes come", "A", &["A", "A.", "AB"], |w| {
            write(w, 0, 1, b"B");
        }),
        listed("a gap is zero", "A", &["A", "A...", "A..B"], |w| write(w, 0, 3, b"B")),
        listed(
            "lengths come in their order",
            "A",
            &["A", "A.", "AB", "A..", "AB.", "A.C", "ABC"],
            |w| {
                write(w, 0, 1, b"B");
                write(w, 0, 2, b"C");
            },
        ),
        listed(
            "what was cut off does not come back behind the end",
            "AAAA",
            &["AAAA", "BBAA", "", "..", "BB"],
            |w| {
                set_len(w, 0);
                write(w, 0, 0, b"BB");
            },
        ),
        listed(
            "nor does what was written before the cut",
            "AAAA",
            &["AAAA", "CCAA", "", ".."],
            |w| {
                write(w, 0, 0, b"CC");
                set_len(w, 0);
                set_len(w, 2);
            },
        ),
        counted("a file grows by sectors", vec![zeroes(TornBy::Sector, 0)], 7, |w| {
            write(w, 0, 0, &[1; 2 * SECTOR]);
        }),
        counted(
            "garbage lies where the bytes did not come",
            vec![FileImage::empty(FileFacts::new(TornBy::Sector, Unwritten::Garbage))],
            13,
            |w| {
                write(w, 0, 0, &[1; 2 * SECTOR]);
            },
        ),
    ]
}

fn failed_syncs() -> Vec<Promise> {
    vec![
        listed("a failed sync makes nothing durable", "..", &["..", "AA"], |w| {
            write(w, 0, 0, b"AA");
            fails_to_sync(w, FaultKind::Error);
        }),
        listed("and the next good one does not cover it", "....", &["..BB", "AABB"], |w| {
            write(w, 0, 0, b"AA");
            fails_to_sync(w, FaultKind::Error);
            write(w, 0, 2, b"BB");
            sync(w, 0);
        }),
        listed(
            "what is written again is covered",
            "....",
            &["..CA", "A.CA", ".ACA", "AACA"],
            |w| {
                for (at, byte) in [(0, b"A"), (1, b"A"), (2, b"A"), (3, b"A")] {
                    write(w, 0, at, byte);
                }
                fails_to_sync(w, FaultKind::NoSpace);
                write(w, 0, 2, b"C");
                write(w, 0, 3, b"A");
                sync(w, 0);
            },
        ),
        listed("a length that was set is covered", "AA", &["A"], |w| {
            set_len(w, 1);
            fails_to_sync(w, FaultKind::Error);
            sync(w, 0);
        }),
        listed("one that a lost write made is not", "A", &["A", "A.", "AB"], |w| {
            write(w, 0, 1, b"B");
            fails_to_sync(w, FaultKind::Error);
            sync(w, 0);
        }),
        listed("dropped pages are gone", "..", &[".."], |w| {
            write(w, 0, 0, b"AA");
            fails_to_sync(w, FaultKind::PagesDropped);
        }),
    ]
}

fn all() -> Vec<Promise> {
    [bytes_that_arrive_or_not(), lengths(), failed_syncs()].into_iter().flatten().collect()
}

/// Whether a simulator keeps a promise.
fn keeps(promise: &Promise, rules: Rules) -> Result<(), String> {
    let dots = |file: &FileImage| {
        let content = content(file);
        let shown: Vec<u8> =
            content.iter().map(|byte| if *byte == b'.' { 0 } else { *byte }).collect();
        FileImage::with_content(file.facts(), &shown)
    };
    let files: Vec<FileImage> = promise.files.iter().map(dots).collect();
    let world = world_of(&files, rules);
    (promise.program)(&world);
    let count = states(&world).len();
    if promise.texts.is_empty() {
        return if count == promise.count { Ok(()) } else { Err(format!("{count} states")) };
    }
    let found = texts(&world);
    let expected = promise.texts.iter().map(|text| (*text).to_owned()).collect();
    if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
}

#[test]
fn each_promise_is_kept_to_the_state() {
    for promise in all() {
        if let Err(found) = keeps(&promise, RIGHT) {
            panic!("{}: {} expected, found {found}", promise.name, promise.count);
        }
    }
}

#[test]
fn every_wrong_simulator_breaks_one() {
    for defect in Defect::OF_FILES {
        let rules = Rules::with_defect(Model::X86Line, defect);
        let broken = all().iter().filter(|promise| keeps(promise, rules).is_err()).count();
        assert!(broken > 0, "no promise notices {defect:?}");
    }
}

#[test]
fn a_killed_process_takes_nothing_with_it() {
    let left = |rules: Rules| {
        let world = world_of(&[zeroes(TornBy::Page, 8)], rules);
        write(&world, 0, 0, &[1; 8]);
        let (tape, start) = (world.tape(), world.start());
        let next = World::killed(&start, rules, &tape, tape.len(), Vec::new());
        let seen = next.visible().file(0).map(content);
        let before = states(&next).len();
        sync(&next, 0);
        (seen, before, states(&next).len())
    };
    assert_eq!(left(RIGHT), (Some(vec![1; 8]), 2, 1), "the next process can sync it");
    let wrong = left(Rules::with_defect(Model::X86Line, Defect::KillLosesCaches));
    assert_ne!(wrong, (Some(vec![1; 8]), 2, 1));
}

#[test]
fn what_returned_is_a_crash_point_of_its_own() {
    let world = world_of(&[zeroes(TornBy::Page, 8)], RIGHT);
    write(&world, 0, 0, &[1; 8]);
    world.returned(1);
    sync(&world, 0);
    let tape = world.tape();
    let points = CrashPoints::new(&world.start(), &tape, RIGHT, 0);
    let points: Vec<_> = points.map(|p| (p.marks().to_vec(), p.image_count())).collect();
    let returned = vec![Mark::Returned(1)];
    assert_eq!(points, [(vec![], 2), (returned.clone(), 2), (returned, 1)]);
}

#[test]
fn many_cuts_of_many_files_are_a_bounded_number_of_points() {
    let world = world_of(&vec![zeroes(TornBy::Page, 300); 4], RIGHT);
    for len in (0..300).rev() {
        for file in 0..4 {
            world.file(file).set_len(len).expect("a length");
        }
    }
    let tape = world.tape();
    let points = CrashPoints::new(&world.start(), &tape, RIGHT, tape.len()).count();
    assert!((64..400).contains(&points), "{points} points");
}
