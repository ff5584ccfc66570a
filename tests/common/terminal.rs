//! A program in its own terminal: a pty, and an emulator that interprets its output.

// Each test binary compiles this module and uses a part of it.
#![allow(dead_code)]

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};

use crate::common::{clean_environment, process, wait_until};

pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Terminal {
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<Mutex<Seen>>,
    reader: Option<JoinHandle<()>>,
}

struct Seen {
    raw: Vec<u8>,
    emulator: vt100::Parser,
}

/// The state after the program ended.
pub struct Left {
    pub status: ExitStatus,
    pub raw: Vec<u8>,
    pub screen: vt100::Screen,
    /// Line editing and echo are on again.
    pub cooked: bool,
}

impl Terminal {
    /// Starts a program on a terminal of 80x24, in the environment of the binary under test.
    pub fn start(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
        let pair = native_pty_system().openpty(size(80, 24)).expect("a pty");
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        // A pty starts its program in its home, but a test's home does not exist.
        command.cwd(std::env::temp_dir());
        command.env_clear();
        for (name, value) in clean_environment(&process::scratch("terminal-home")) {
            command.env(name, value);
        }
        command.env("TERM", "xterm-256color");
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("the program starts");
        // Close our end, or reading would not end with the program.
        drop(pair.slave);
        let emulator = vt100::Parser::new(nonzero(24), nonzero(80), 0);
        let seen = Arc::new(Mutex::new(Seen { raw: Vec::new(), emulator }));
        let mut output = pair.master.try_clone_reader().expect("the output of the pty");
        let keyboard = pair.master.take_writer().expect("the input of the pty");
        let into = seen.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let mut seen = into.lock().unwrap();
                seen.raw.extend_from_slice(&buffer[..count]);
                seen.emulator.process(&buffer[..count]);
            }
        });
        Terminal { master: pair.master, keyboard, child, seen, reader: Some(reader) }
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).and_then(|()| self.keyboard.flush()).expect("the terminal takes keys");
    }

    pub fn resize(&mut self, width: u16, height: u16) {
        self.seen.lock().unwrap().emulator.screen_mut().set_size(nonzero(height), nonzero(width));
        self.master.resize(size(width, height)).expect("the pty can be resized");
    }

    pub fn signal(&self, signal: libc::c_int) {
        let pid = self.child.process_id().expect("a process") as libc::pid_t;
        // SAFETY: `kill` has no memory effects, and the child has not been reaped while we hold it.
        unsafe { libc::kill(pid, signal) };
    }

    /// All output so far.
    pub fn raw(&self) -> Vec<u8> {
        self.seen.lock().unwrap().raw.clone()
    }

    pub fn screen(&self) -> vt100::Screen {
        self.seen.lock().unwrap().emulator.screen().clone()
    }

    /// Waits until the screen is as wanted, and returns its text.
    #[track_caller]
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let mut look = || {
            last = self.screen().contents();
            wanted(&last)
        };
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_until(what, PATIENCE, &mut look)));
        assert!(found.is_ok(), "waited in vain: {what}\n{last}");
        last
    }

    /// The program's exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of ours")
    }

    /// Waits until the program has ended.
    #[track_caller]
    pub fn wait_for_end(mut self) -> Left {
        let mut status = None;
        wait_until("the program ends", PATIENCE, || {
            status = self.child.try_wait().expect("a child of ours");
            status.is_some()
        });
        let cooked = self.is_cooked();
        self.reader.take().expect("a reader").join().expect("the reader does not panic");
        Left { status: status.expect("waited for"), raw: self.raw(), screen: self.screen(), cooked }
    }

    pub fn is_cooked(&self) -> bool {
        let fd = self.master.as_raw_fd().expect("a pty has a descriptor");
        // SAFETY: the structure is filled by the call, and the descriptor is open while we hold the master.
        let flags = unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(fd, &mut settings), 0, "the settings of the pty");
            settings.c_lflag
        };
        flags & libc::ICANON != 0 && flags & libc::ECHO != 0
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Left {
    /// The terminal is as it was before.
    #[track_caller]
    pub fn assert_restored(&self) {
        let screen = &self.screen;
        let raw = String::from_utf8_lossy(&self.raw);
        assert!(!screen.alternate_screen(), "the alternate screen was not left: {raw:?}");
        assert!(!screen.hide_cursor(), "the cursor is hidden: {raw:?}");
        assert!(!screen.bracketed_paste(), "bracketed paste is on: {raw:?}");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        assert!(self.cooked, "the terminal is still raw");
        for (on, off) in [("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?2004h", "\x1b[?2004l"), ("\x1b[?25l", "\x1b[?25h")] {
            assert!(raw.rfind(off) > raw.rfind(on) && raw.contains(on), "{off:?} must follow {on:?}: {raw:?}");
        }
        assert!(raw.rfind("\x1b[?2026l") >= raw.rfind("\x1b[?2026h"), "a frame was left open");
    }
}

fn size(width: u16, height: u16) -> PtySize {
    PtySize { rows: height, cols: width, pixel_width: 0, pixel_height: 0 }
}

fn nonzero(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a screen has a size")
}
