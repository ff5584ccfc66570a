//! lockscope: see live Redis locks as locks, across lock libraries.

// They panic when the reader is gone or the disk is full. Data goes through a writer, words through `talk`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod actions;
pub mod app;
pub mod base;
pub mod commands;
pub mod console;
#[cfg(unix)]
pub mod demo;
pub mod dialects;
pub mod engine;
pub mod filter;
pub mod lab;
pub mod lock;
pub mod model;
pub mod output;
pub mod scan;
pub mod server;
pub mod settings;
pub mod sources;
pub mod test_lock;
pub mod topology;
pub mod views;
pub mod watchdog_probe;

#[cfg(test)]
mod testkit;
