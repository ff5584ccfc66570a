//! `lockscope info`: the settings in force, without asking a server.

use std::io::Write;

use crate::base::fault::Fault;
use crate::base::glob::{Glob, Globs};
use crate::base::text;
use crate::dialects::{self, default_patterns};
use crate::settings::Settings;
use crate::settings::config;

pub fn run(settings: &Settings) -> Result<u8, Fault> {
    let path = |path: Option<std::path::PathBuf>| path.map_or("none".into(), |path| path.display().to_string());
    let servers: Vec<String> = settings.servers.iter().map(|server| server.shown()).collect();
    let patterns = if settings.patterns.is_empty() {
        let mut globs = default_patterns();
        globs.extend(settings.extra_patterns.iter().cloned());
        globs
    } else {
        settings.patterns.clone()
    };
    let patterns = Globs::new(patterns).minimal();
    let mut lines = vec![
        ("version", env!("LOCKSCOPE_VERSION").to_string()),
        ("config", path(settings.config_file.clone())),
        ("config path", path(config::default_path())),
        ("server", servers.join(" ")),
        ("target", settings.target.clone().unwrap_or("none".into())),
        ("environment", settings.environment.map_or("not given", |environment| environment.name()).into()),
        ("read-only", if settings.write { "no" } else { "yes" }.into()),
    ];
    lines.extend(patterns.iter().map(|glob: &Glob| ("patterns", glob.as_str().to_string())));
    lines.extend(settings.mappings.iter().map(|mapping| {
        ("mappings", format!("{}={}", dialects::dialect(mapping.dialect).name(), mapping.glob.as_str()))
    }));
    lines.extend(dialects::all().iter().map(|dialect| ("libraries", dialect.name().to_string())));
    super::print(|out| {
        let mut last = "";
        for (label, text) in &lines {
            writeln!(out, "{:<12} {}", if label == &last { "" } else { label }, text::harmless(text))?;
            last = label;
        }
        Ok(())
    })
}
