//! How far a long run is: one line on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};

/// Steps of a bar; a run says its progress as a part of one.
const STEPS: u64 = 1000;

/// A bar, which goes when it is dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// `what` stands before the bar.
    pub fn new(what: impl Into<String>) -> Self {
        let style = ProgressStyle::with_template("{prefix} [{bar:40}] {wide_msg}");
        let style = style.expect("a right template").progress_chars("##.");
        let bar = ProgressBar::new(STEPS).with_style(style).with_prefix(what.into());
        Self(bar)
    }

    /// Shows how much of the run is done, from 0 to 1.
    pub fn show(&self, done: f64) {
        self.0.set_position((done.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }

    /// Shows `note` behind the bar, too.
    pub fn show_with(&self, done: f64, note: impl Into<String>) {
        self.0.set_message(note.into());
        self.show(done);
    }

    /// Lets others write to the terminal until the next step.
    pub fn clear(&self) {
        self.0.reset();
        self.0.finish_and_clear();
        self.0.reset();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
