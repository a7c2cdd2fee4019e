//! One boot of the machine, from its start to the cut of its power.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::image::Image;

/// Bytes of persistent memory, and of the disk.
const NVM_BYTES: u64 = 256 << 20;
const DISK_BYTES: u64 = 512 << 20;
/// How often a machine is switched on that stops before its first process begins: the kernel gives
/// up where the emulator gets too little of the processor. Nothing has touched the media then.
const BOOTS: u32 = 4;
/// How long a boot may take.
const LONGEST: Duration = Duration::from_secs(600);

/// When the power of a machine goes.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// So long after the writer has begun to open its database.
    BehindOpening(Duration),
    /// So long after it has checked what it found.
    BehindFound(Duration),
    /// The machine switches itself off, within this time.
    Its(Duration),
}

/// What a machine has said.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) found: Option<i64>,
    pub(crate) acknowledged: Option<i64>,
    pub(crate) checkpoints: u64,
    pub(crate) closed: Option<i64>,
    pub(crate) failure: Option<String>,
    pub(crate) seconds: f64,
    is_formatted: bool,
    is_opening: bool,
}

impl Seen {
    fn take(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let word = words.next().unwrap_or_default();
        let number = words.next().and_then(|word| word.parse().ok());
        match word {
            "FORMATTED" => self.is_formatted = true,
            "OPENING" => self.is_opening = true,
            "FOUND" => self.found = number,
            // A line that the cut has torn tells of a smaller number, or of none.
            "ACK" => {
                if let Some(count) = words.next().and_then(|word| word.parse().ok()) {
                    self.acknowledged = number.max(self.acknowledged);
                    self.checkpoints = count;
                }
            }
            "CLOSED" => self.closed = number,
            "FAILED" => self.failure = Some(line.to_owned()),
            _ => {}
        }
    }
}

/// A machine that can be booted.
pub(crate) struct Machine<'a> {
    pub(crate) image: &'a Image,
    pub(crate) work: &'a Path,
    pub(crate) plant: &'a str,
}

/// An emulator that is killed when it is dropped.
struct Emulator(Child);

impl Drop for Emulator {
    fn drop(&mut self) {
        let _has_ended = self.0.kill();
        let _code = self.0.wait();
    }
}

impl Machine<'_> {
    fn medium(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    fn boot(&self, stage: &str) -> Result<(Emulator, Receiver<String>), Box<dyn Error>> {
        let (nvm, disk) = (self.medium("nvm.img"), self.medium("disk.img"));
        let memory = format!(
            "memory-backend-file,id=memory,share=on,mem-path={},size={NVM_BYTES},align=2M",
            nvm.display()
        );
        let drive = format!("file={},if=none,id=disk,format=raw", disk.display());
        let line = format!(
            "console=ttyS0 quiet panic=-1 no_timer_check random.trust_cpu=on stage={stage} \
             plant={}",
            self.plant
        );
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-machine", "q35,nvdimm=on", "-accel", "tcg,thread=multi", "-cpu", "max"]);
        command.args(["-smp", "1", "-m", "512M,slots=2,maxmem=4G", "-nodefaults"]);
        command.args(["-no-user-config", "-display", "none", "-vga", "none", "-serial", "stdio"]);
        command.arg("-no-reboot").arg("-kernel").arg(&self.image.kernel);
        command.arg("-initrd").arg(&self.image.initrd).args(["-append", &line]);
        command.args(["-object", &memory, "-device", "nvdimm,id=nvdimm,memdev=memory"]);
        command.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(File::create(self.medium("qemu.log"))?);
        let mut emulator = Emulator(command.spawn()?);
        let out = emulator.0.stdout.take().ok_or("no output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok((emulator, lines))
    }

    /// Makes the media anew.
    pub(crate) fn format(&self) -> Result<(), Box<dyn Error>> {
        for (name, bytes) in [("nvm.img", NVM_BYTES), ("disk.img", DISK_BYTES)] {
            let path = self.medium(name);
            drop(std::fs::remove_file(&path));
            File::create(path)?.set_len(bytes)?;
        }
        let seen = self.run("format", Ending::Its(LONGEST))?;
        match seen.failure {
            None if seen.is_formatted => Ok(()),
            failure => Err(failure.unwrap_or("the media were not formatted".to_owned()).into()),
        }
    }

    /// Boots, and ends the machine.
    pub(crate) fn run(&self, stage: &str, ending: Ending) -> Result<Seen, Box<dyn Error>> {
        for _ in 0..BOOTS {
            if let Some(seen) = self.run_once(stage, ending)? {
                return Ok(seen);
            }
        }
        let log = self.medium("last-boot.log");
        Err(format!("the machine does not come up: {}", log.display()).into())
    }

    /// Boots, and ends the machine. `None` if it did not come up.
    fn run_once(&self, stage: &str, ending: Ending) -> Result<Option<Seen>, Box<dyn Error>> {
        let start = Instant::now();
        let (emulator, lines) = self.boot(stage)?;
        let (mut seen, mut all) = (Seen::default(), String::new());
        let mut end = start + LONGEST;
        let mut is_set = false;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = match lines.recv_timeout(left) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            };
            seen.take(&line);
            all += &line;
            all.push('\n');
            let after = match ending {
                Ending::BehindOpening(after) if seen.is_opening => Some(after),
                Ending::BehindFound(after) if seen.found.is_some() => Some(after),
                Ending::Its(after) => Some(after),
                _ => None,
            };
            if let Some(after) = after.filter(|_| !is_set) {
                (end, is_set) = (Instant::now() + after, true);
            }
            if seen.failure.is_some() {
                break;
            }
        }
        // The power goes. What the machine had said before is still to be heard.
        drop(emulator);
        for line in lines {
            seen.take(&line);
        }
        seen.seconds = start.elapsed().as_secs_f64();
        std::fs::write(self.medium("last-boot.log"), &all)?;
        let has_come_up = seen.is_formatted || seen.is_opening || seen.failure.is_some();
        Ok(has_come_up.then_some(seen))
    }
}
