//! What stands beside the nodes that are read: rows of the table for replicas and deposed masters, what is wrong there, and
//! the sentinels.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{nodes, say_check};
use crate::app::App;
use crate::app::scene::OtherNode;
use crate::server::Role;
use crate::server::health::{Check, Status};
use crate::views::part::safe;
use crate::views::wrap::Labelled;

/// The cells of one, in the order of the columns.
pub(super) fn cells(app: &App, node: &OtherNode) -> [(String, Style); 8] {
    let (theme, plain) = (app.theme, Style::new());
    let (dash, unknown) = (|| (theme.sign("—", "-").to_string(), theme.dim()), || ("?".to_string(), theme.dim()));
    let (role, lag) = match &node.role {
        Some(Role::Replica(upstream)) if !upstream.link_up => ("replica", ("down".into(), theme.bad())),
        Some(Role::Replica(upstream)) => {
            ("replica", upstream.silent_s.map_or_else(unknown, |lag| (format!("{lag}s"), plain)))
        }
        Some(role) => (role.name(), dash()),
        None => ("?", unknown()),
    };
    let watched = match (&node.silent, node.reigns) {
        (Some(_), _) => ("NO ANSWER".into(), theme.bad()),
        (None, true) => ("DEPOSED".into(), theme.bad()),
        (None, false) => ("asked".into(), theme.dim()),
    };
    let clock = node.clock.map_or_else(unknown, |clock| nodes::clock_of(clock, theme));
    [(role.into(), plain), dash(), lag, clock, watched, dash(), dash(), dash()]
}

/// What is wrong at one; empty if nothing is.
pub(super) fn lines(app: &App, node: &OtherNode, width: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let mut page = Labelled::new(width, theme);
    page.lines.push(Line::styled(format!(" {}", safe(&node.name, theme)), theme.title()));
    if let Some(why) = &node.silent {
        page.say("asked", &safe(&format!("no answer: {why}"), theme), theme.bad());
    }
    if node.reigns {
        let deposed = "it still says that it is the master, although another one has its place: what clients write there is \
                       lost when it is demoted";
        page.say("deposed", &safe(deposed, theme), theme.bad());
    }
    let wrong = |check: &&Check| matches!(check.status, Status::Warn | Status::Bad);
    node.checks.iter().filter(wrong).for_each(|check| say_check(&mut page, check, theme));
    if page.lines.len() == 1 { Vec::new() } else { page.lines }
}

/// The sentinels of the service, and what they can do together.
pub(super) fn sentinels(app: &App, width: usize) -> Vec<Line<'static>> {
    let (theme, others) = (app.theme, &app.scene.others);
    let Some((council, check)) = others.council.as_ref().zip(others.sentinels()) else { return Vec::new() };
    let mut page = Labelled::new(width, theme);
    page.lines.push(Line::styled(format!(" The service {}", safe(&council.service, theme)), theme.title()));
    say_check(&mut page, &check, theme);
    for (name, answers) in &council.sentinels {
        let (word, style) = if *answers { ("answers", theme.good()) } else { ("NO ANSWER", theme.bad()) };
        let name = Span::raw(format!("   sentinel {}  ", safe(name, theme)));
        page.lines.push(Line::from(vec![name, Span::styled(word, style)]));
    }
    page.lines
}
