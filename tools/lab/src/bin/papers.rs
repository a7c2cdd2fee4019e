//! The papers' time figures, in virtual time: `cargo run --release -p lab --bin papers`.

#![forbid(unsafe_code)]

use lab::papers::row::Row;
use lab::papers::small::{self, Folder};

fn main() -> Result<(), lab::engines::Failure> {
    let traces = std::env::args().nth(1).ok_or("a folder of traces")?;
    let folder = Folder(traces.as_ref());
    print!("{}", Row::HEAD);
    let print = |rows: Vec<Row>| rows.iter().for_each(|row| print!("{}", row.line()));
    print(lab::papers::gates::rows(1)?);
    print(small::mobibench(&folder)?);
    print(small::filebench(&folder)?);
    print(small::tpcc(&folder)?);
    print(small::overwrites(1)?);
    Ok(())
}
