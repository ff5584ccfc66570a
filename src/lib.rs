//! lockscope: see live Redis locks as locks, across lock libraries.

// They panic when the reader is gone or the disk is full. Data goes through a writer, words through `talk`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod actions;
pub mod app;
pub mod audit;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod config;
pub mod contention;
#[cfg(unix)]
pub mod demo;
pub mod dialects;
pub mod fault;
pub mod filter;
pub mod glob;
pub mod inspect;
pub mod keys;
pub mod lab;
pub mod look;
pub mod model;
pub mod monitor;
pub mod nearest;
pub mod notify;
pub mod operator;
pub mod output;
pub mod pace;
pub mod permissions;
pub mod picture;
pub mod prompt;
pub mod run;
pub mod scan;
pub mod scene;
pub mod scripts;
pub mod secret;
pub mod server_url;
pub mod servers;
pub mod settings;
pub mod spread;
pub mod talk;
pub mod test_lock;
pub mod text;
pub mod theme;
pub mod topology;
pub mod views;
pub mod watchdog_probe;

#[cfg(test)]
mod sample;
#[cfg(test)]
mod stage;
