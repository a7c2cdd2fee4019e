//! What is wrong with bytes that are to be decoded.

use core::fmt;

use journal_core::policy::ApplyError;

/// Encoded bytes that no encoder here makes for what is to be decoded into. Places are counted from
/// the start of the encoded bytes, and are those where the instruction begins that is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The encoded bytes break off where more is to come.
    CutOff {
        /// How many bytes there are.
        at: usize,
    },
    /// A value that stands for nothing.
    Unknown {
        /// Where.
        at: usize,
    },
    /// A copy from where nothing is.
    NoSource {
        /// Where.
        at: usize,
    },
    /// The encoded bytes make more bytes than are expected.
    TooLong {
        /// Where the first byte too many would be made.
        at: usize,
    },
    /// The encoded bytes end, having made fewer bytes than are expected.
    TooShort {
        /// How many.
        made: usize,
    },
    /// Something stands behind their end.
    Trailing {
        /// Where the end is.
        at: usize,
    },
    /// Images that have to have one length have two.
    Lengths,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff { at } => write!(f, "encoded bytes break off behind {at}"),
            Self::Unknown { at } => write!(f, "encoded bytes mean nothing at {at}"),
            Self::NoSource { at } => write!(f, "a copy at {at} from where nothing is"),
            Self::TooLong { at } => write!(f, "more than is expected is made at {at}"),
            Self::TooShort { made } => write!(f, "no more than {made} bytes are made"),
            Self::Trailing { at } => write!(f, "something stands behind the end at {at}"),
            Self::Lengths => f.write_str("images differ in length"),
        }
    }
}

impl core::error::Error for DecodeError {}

impl From<DecodeError> for ApplyError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::TooLong { at } => Self::OutOfBlock { at },
            DecodeError::TooShort { .. } | DecodeError::Lengths => Self::WrongBase,
            DecodeError::CutOff { at }
            | DecodeError::Unknown { at }
            | DecodeError::NoSource { at }
            | DecodeError::Trailing { at } => Self::Malformed { at },
        }
    }
}
