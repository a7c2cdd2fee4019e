//! No option that is not on the medium decides whether a journal opens.
