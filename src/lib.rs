//! lockscope: see live Redis locks as locks, across lock libraries.
//!
//! # Data flow
//!
//! ```text
//!  Redis ─► topology ─► server, sources, scan      ask or listen; judge nothing
//!                            │ Observation
//!                            ▼
//!                         engine ─► model           the table keeps, the verdict judges: pure
//!                            │ LockView, Transition
//!             ┌──────────────┼───────────────┐
//!           output         app ─► views    demo      readers
//!             │              ▲
//!         commands        console ◄─ keys            its driver carries out effects; the operator writes beside the loop
//!             └──────┬───────┘
//!                 actions ─► one gate ─► Lua ─► Redis
//! ```
//!
//! # The path of one notification
//!
//! From the socket to a cell on the screen, 37 functions in 22 files:
//!
//! 1. `topology::bounded`: `Bounded::poll_read` limits what comes; the client crate makes messages of it.
//! 2. `sources::notify::keyspace`: `Follower::forward` has `Packer::pack` put those that are ready into one `EventBatch`
//!    (`push`), and sends it to its driver's inbox.
//! 3. `engine`: `said` asks each `Driver::poll` in turn; `Engine::turn` hands it to `Engine::take`, which drains the inbox.
//! 4. `engine::driver`: `Driver::take` and `observe` count it.
//! 5. `model::table`: `Table::apply` and `take_event` keep it with its lock; `agenda`: `enqueue` asks for a look.
//! 6. `engine::looker`: `Driver::ask_for_looks` takes tickets (`Table::to_read`); `run` has `sources::look::look` read the
//!    keys. The answer goes through the same inbox, 3 and 4.
//! 7. `model::table::settle`: `Table::answer`, `settle_unless_overtaken` and `settle` have `Comparison::of` compare it with
//!    what was known, for which `Recogniser::read` and the dialect's own `read` decode it. `explain` has `resolve` explain
//!    the difference by the events; `keep` stores it and has `Narrator::tell` tell the transitions. The readers get those;
//!    the cell does not wait for them.
//! 8. `console::run`: `run` and `Real::draw` make a frame; `console::driver::compose`, `App::compose` and `see_rows` take the
//!    rows in sight by `Table::view`, which judges.
//! 9. `views`: `draw`, `locks::draw`, `row` and `Row::cell` write the cell.
//!
//! # Layers
//!
//! Each layer uses only those above it in this table; `tests/layers.rs` checks every `crate::` path against it.
//!
//! | layer | what it owns |
//! |---|---|
//! | `base` | safe text, JSON, globs, time, faults, processes and signals: nothing about locks |
//! | `lock` | the nouns: key, holder, value |
//! | `dialects` | how each library stores its locks: pure |
//! | `model` | the table, histories, the timeline, who wants what, verdicts and findings: pure, the time is an argument |
//! | `filter` | the filter language: pure |
//! | `metrics` | what is measured over time: the table of metrics, the samples of one moment: pure |
//! | `alerts` | rules over those series, and their evaluation: pure |
//! | `store` | the history on disk: one recorder, many readers |
//! | `topology` | URLs, nodes, connections |
//! | `http` | a client for HTTP, for Alertmanager and Prometheus |
//! | `server` | facts about a server, our permissions there, and what they mean (the doctor's checks) |
//! | `sources` | reading keys, notifications, waiters, sampling; their pace |
//! | `scan` | scanning the keyspace |
//! | `engine` | starts the sources, owns the table |
//! | `actions` | every write: planned, admitted at one gate, performed, on record |
//! | `test_lock` | locks of our own |
//! | `lab` | test locks and contenders beside the console |
//! | `watchdog_probe` | the canary lock of `probe` |
//! | `settings` | command line, config and environment merged; the key table with the screens |
//! | `daemon` | the loop of `serve` and `record`: one engine, a moment each second, several readers |
//! | `tune` | replay of rules over a history, with one threshold after another |
//! | `prometheus` | the user's own Prometheus: its rules and their history |
//! | `output` | tables, pages, JSON, CSV |
//! | `app` | what the console's keys do: pure |
//! | `views` | what the console shows |
//! | `console` | the loop, the driver between app and world, and the operator that writes |
//! | `demo` | a private server with a simulated fleet |
//! | `commands` | one command per file |
//! | `testkit` | what unit tests share |

// They panic on a closed pipe or a full disk. Data goes through a writer, messages through `talk`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod actions;
pub mod alerts;
pub mod app;
pub mod base;
pub mod commands;
pub mod console;
pub mod daemon;
pub mod demo;
pub mod dialects;
pub mod engine;
mod filter;
pub mod http;
pub mod lab;
pub mod lock;
pub mod metrics;
pub mod model;
mod output;
pub mod prometheus;
mod scan;
pub mod server;
pub mod settings;
pub mod sources;
pub mod store;
pub mod test_lock;
pub mod topology;
pub mod tune;
pub mod views;
mod watchdog_probe;

#[cfg(test)]
mod testkit;
