//! The headless commands, one per file. They read the same model as the console and write to any `Write`.

pub mod doctor;
