//! Programs of calls, each compared with a map of byte vectors, also after an open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use block_files::{BlockFiles, Error};
use proptest::prelude::*;

use crate::calls::{journal, reopened, world};

#[derive(Clone, Debug)]
enum Act {
    Create(u8),
    Remove(u8),
    Rename(u8, u8),
    Write(u8, u16, u16),
    SetLen(u8, u16),
    Sync,
    Checkpoint,
    Reopen,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let name = 0..4_u8;
    let act = prop_oneof![
        2 => name.clone().prop_map(Act::Create),
        1 => name.clone().prop_map(Act::Remove),
        1 => (name.clone(), name.clone()).prop_map(|(from, to)| Act::Rename(from, to)),
        6 => (name.clone(), 0..3000_u16, 0..700_u16)
            .prop_map(|(name, at, bytes)| Act::Write(name, at, bytes)),
        3 => (name, 0..3500_u16).prop_map(|(name, len)| Act::SetLen(name, len)),
        1 => Just(Act::Sync),
        1 => Just(Act::Checkpoint),
        1 => Just(Act::Reopen),
    ];
    prop::collection::vec(act, 1..60)
}

type Files = BTreeMap<String, Vec<u8>>;

fn name(number: u8) -> String {
    format!("f{number}")
}

fn act_on(files: &BlockFiles, model: &mut Files, act: &Act, salt: u8) -> Result<(), Error> {
    match *act {
        Act::Create(number) => {
            let expected = match model.entry(name(number)) {
                Entry::Occupied(_) => Err(Error::Exists),
                Entry::Vacant(place) => {
                    place.insert(Vec::new());
                    Ok(())
                }
            };
            assert_eq!(files.create(&name(number)).map(drop), expected);
        }
        Act::Remove(number) => {
            let expected = model.remove(&name(number)).map(drop).ok_or(Error::NotFound);
            assert_eq!(files.remove(&name(number)), expected);
        }
        Act::Rename(from, to) => {
            let expected = match (model.contains_key(&name(from)), model.contains_key(&name(to))) {
                (false, _) => Err(Error::NotFound),
                (true, true) if from != to => Err(Error::Exists),
                _ => {
                    let bytes = model.remove(&name(from)).expect("it is there");
                    model.insert(name(to), bytes);
                    Ok(())
                }
            };
            assert_eq!(files.rename(&name(from), &name(to)), expected);
        }
        Act::Write(number, at, bytes) => {
            let Some(content) = model.get_mut(&name(number)) else { return Ok(()) };
            let (at, bytes) = (usize::from(at), vec![salt; usize::from(bytes)]);
            files.open_file(&name(number))?.write_at(at as u64, &bytes)?;
            if !bytes.is_empty() {
                content.resize(content.len().max(at + bytes.len()), 0);
                content[at..][..bytes.len()].copy_from_slice(&bytes);
            }
        }
        Act::SetLen(number, len) => {
            let Some(content) = model.get_mut(&name(number)) else { return Ok(()) };
            files.open_file(&name(number))?.set_len(len.into())?;
            content.resize(len.into(), 0);
        }
        Act::Sync => files.sync()?,
        Act::Checkpoint => drop(files.checkpoint()?),
        Act::Reopen => {}
    }
    Ok(())
}

fn is_as(files: &BlockFiles, model: &Files) -> Result<(), Error> {
    let names: Vec<_> = files.list().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, model.keys().cloned().collect::<Vec<_>>());
    for (name, content) in model {
        let mut bytes = vec![9; content.len() + 3];
        let read = files.open_file(name)?.read_at(0, &mut bytes)?;
        assert!(bytes[..read] == content[..], "{name}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn files_are_as_their_model(acts in acts()) {
        let world = world(1 << 17, 128, 300);
        let mut files = BlockFiles::format(Arc::new(journal(&world))).expect("files");
        let mut model = Files::new();
        for (salt, act) in (1_u8..).zip(&acts) {
            act_on(&files, &mut model, act, salt).expect("room for all of it");
            if matches!(act, Act::Reopen) {
                files.sync().expect("a sync");
                drop(files);
                files = BlockFiles::open(Arc::new(reopened(&world))).expect("files");
            }
            is_as(&files, &model).expect("readable");
        }
    }
}
