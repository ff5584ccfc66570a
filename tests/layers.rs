//! The code keeps to the layers of `src/lib.rs`: no module uses a layer that comes after its own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The order of the layers, from the table in `lib.rs`.
fn layers(map: &str) -> Vec<String> {
    let rows = map.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_string())).collect()
}

/// The modules of the crate that a source names by a `crate::` path, in a `use` or inline, with the line of each.
/// A link in a comment is not a dependency.
fn named(source: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = lines.join("\n");
    let mut found = Vec::new();
    for (at, path) in code.match_indices("crate::") {
        let (number, rest) = (code[..at].matches('\n').count() + 1, &code[at + path.len()..]);
        let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        match rest.strip_prefix('{') {
            Some(list) => found.extend(items(list).iter().map(|item| (number, word(item.trim())))),
            None => found.push((number, word(rest))),
        }
    }
    found.retain(|(_, module)| !module.is_empty());
    found
}

/// The items of a list in braces, which may go over several lines; what is in braces of its own belongs to its item.
fn items(list: &str) -> Vec<String> {
    let (mut found, mut depth) = (vec![String::new()], 0);
    for character in list.chars() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => found.push(String::new()),
            other if depth == 0 => found.last_mut().expect("there is one from the start").push(other),
            _ => {}
        }
    }
    found
}

/// The edges of a file that the order does not allow.
fn upward(order: &[String], top: &str, source: &str) -> Vec<(usize, String)> {
    let rank = |module: &str| order.iter().position(|layer| layer == module);
    let own = rank(top).unwrap_or_else(|| panic!("src/lib.rs has no layer {top:?}; add it to the table"));
    let mut found = named(source);
    found.retain(|(_, module)| rank(module).is_some_and(|other| other > own && module != "testkit"));
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            false => {}
        }
    }
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn no_layer_uses_one_above_it() {
    let order = layers(&std::fs::read_to_string(src().join("lib.rs")).unwrap());
    let mut files = Vec::new();
    sources(&src(), &mut files);
    let (mut wrong, mut seen) = (Vec::new(), BTreeMap::new());
    for path in files {
        let name = path.strip_prefix(src()).unwrap();
        let top = name.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs").to_string();
        if ["lib", "main"].contains(&top.as_str()) {
            continue;
        }
        let edges = upward(&order, &top, &std::fs::read_to_string(&path).unwrap());
        wrong.extend(edges.iter().map(|(line, module)| format!("{}:{line} uses {module}", name.display())));
        *seen.entry(top).or_insert(0) += 1;
    }
    assert!(wrong.is_empty(), "these use a layer above their own:\n{}", wrong.join("\n"));
    let unused: Vec<&String> = order.iter().filter(|layer| !seen.contains_key(*layer)).collect();
    assert!(unused.is_empty(), "src/lib.rs names layers that are not there: {unused:?}");
}

#[test]
fn an_upward_edge_is_noticed_however_it_is_written() {
    let order: Vec<String> = ["base", "model", "views"].map(String::from).to_vec();
    for source in [
        "use crate::views::Row;",
        "    let row = crate::views::row(lock);",
        "use crate::{base, views};",
        "use crate::{\n    base::{text, time},\n    views::Row,\n};",
        "pub(in crate::views) fn draw() {}",
    ] {
        assert_eq!(upward(&order, "model", source).len(), 1, "{source}");
    }
    for source in [
        "use crate::base::text;",
        "use crate::{base::{glob, views}, model};",
        "//! See [`views`](crate::views).",
        "use crate::model::Lock;",
    ] {
        assert_eq!(upward(&order, "model", source), [], "{source}");
    }
}

/// The lines that change a view of a lock. Its proof may be changed: it is read when an operator asks for a write.
fn changed_views(fields: &[String], source: &str) -> Vec<usize> {
    let is_name = |c: char| c.is_alphanumeric() || "._".contains(c);
    let is_field = |path: &str| {
        let field = path.split('.').next().unwrap_or_default();
        field != "proof" && fields.iter().any(|known| known == field)
    };
    let changes = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        ["lock.", "view.", "locks[*index].", "locks[index]."].iter().any(|name| {
            code.split(name).skip(1).any(|rest| {
                let (path, after) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
                let set = after.starts_with(" = ") || after.starts_with(" += ");
                is_field(path) && (set || path.ends_with(".push") || path.ends_with(".extend"))
            })
        })
    };
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines().enumerate().filter(|(_, line)| changes(line)).map(|(number, _)| number + 1).collect()
}

/// The fields of [`LockView`], from its source.
fn fields_of_a_view() -> Vec<String> {
    let source = std::fs::read_to_string(src().join("model/view.rs")).unwrap();
    let body = source.split("pub struct LockView {").nth(1).unwrap().split("\n}").next().unwrap();
    let fields = body.lines().filter_map(|line| line.trim().strip_prefix("pub ")?.split_once(':'));
    fields.map(|(name, _)| name.to_string()).collect()
}

#[test]
fn only_the_model_judges_a_lock() {
    let fields = fields_of_a_view();
    assert!(fields.contains(&"verdict".to_string()) && fields.len() > 20, "{fields:?}");
    let (mut files, mut wrong) = (Vec::new(), Vec::new());
    sources(&src(), &mut files);
    for path in files {
        let name = path.strip_prefix(src()).unwrap();
        let is_test = name.ends_with("tests.rs") || name.starts_with("testkit");
        if name.starts_with("model") || is_test {
            continue;
        }
        let lines = changed_views(&fields, &std::fs::read_to_string(&path).unwrap());
        wrong.extend(lines.iter().map(|line| format!("{}:{line}", name.display())));
    }
    assert!(wrong.is_empty(), "these change the view of a lock, which is the model's to judge: {wrong:?}");
}

#[test]
fn a_view_that_is_changed_elsewhere_is_noticed() {
    let fields = fields_of_a_view();
    for source in [
        "lock.waits = Some(waits);",
        "    lock.verdict.state = State::Contended;",
        "lock.verdict.evidence.push(why);",
        "locks[*index].tries = None;",
    ] {
        assert_eq!(changed_views(&fields, source), [1], "{source}");
    }
    for source in ["if lock.waits == None {}", "let waits = lock.waits;", "lock.proof.blocked = Some(true);"] {
        assert_eq!(changed_views(&fields, source), [0; 0], "{source}");
    }
}

/// Lines that format an `error`: by convention this name means an error of a server or the client crate. Its text may
/// contain anything, so only `text::said` formats it; other failures are called `why`.
fn formatted_errors(source: &str) -> Vec<usize> {
    let written = ["{error}", "{error:", "{err}", "{err:", "error.to_string()", "err.to_string()"];
    let lines = source.lines().enumerate();
    let code = lines.map(|(number, line)| (number + 1, line.split("//").next().unwrap_or_default()));
    code.filter(|(_, code)| written.iter().any(|text| code.contains(text))).map(|(number, _)| number).collect()
}

#[test]
fn an_error_reply_is_formatted_in_one_place() {
    let mut files = Vec::new();
    sources(&src(), &mut files);
    // It turns them into sentences, with the same function.
    files.retain(|path| !path.ends_with("topology/fault.rs"));
    let found = files.iter().flat_map(|path| {
        let lines = formatted_errors(&std::fs::read_to_string(path).unwrap());
        lines.into_iter().map(move |line| format!("{}:{line}", path.display()))
    });
    let found: Vec<String> = found.collect();
    assert!(found.is_empty(), "use text::said, or call it `why` if no server said it:\n{}", found.join("\n"));
}

#[test]
fn an_error_that_is_formatted_raw_is_noticed() {
    assert_eq!(formatted_errors("let a = 1;\nlet why = format!(\"lost: {error}\");"), [2]);
    assert_eq!(formatted_errors("Failed(error.to_string())"), [1]);
    assert_eq!(formatted_errors("// {error}\nFailed(text::said(&error))"), []);
}

#[test]
fn a_folder_has_its_file_beside_it_and_no_mod_rs() {
    let mut files = Vec::new();
    sources(&src(), &mut files);
    let forbidden: Vec<_> = files.iter().filter(|path| path.ends_with("mod.rs")).collect();
    assert!(forbidden.is_empty(), "x.rs stands beside x/ everywhere: {forbidden:?}");
}

/// Expressions that assume one node.
const ONE_NODE: [&str; 6] =
    ["NodeId(0)", "nodes()[0]", "nodes[0]", "nodes().first()", "nodes.first()", "nodes().next()"];

/// The lines of a source that assume one node; code after `#[cfg(test)]` may.
fn assumes_one_node(source: &str) -> Vec<usize> {
    let lines = source.lines().enumerate().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
    let assumes = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        ONE_NODE.iter().any(|words| code.contains(words))
    };
    lines.filter(|(_, line)| assumes(line)).map(|(number, _)| number + 1).collect()
}

#[test]
fn nobody_outside_topology_and_engine_takes_it_that_there_is_one_node() {
    let mut files = Vec::new();
    sources(&src(), &mut files);
    let mut wrong = Vec::new();
    for path in files {
        let name = path.strip_prefix(src()).unwrap();
        let top = name.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if ["topology", "engine", "testkit"].contains(&top) || name.ends_with("tests.rs") {
            continue;
        }
        let lines = assumes_one_node(&std::fs::read_to_string(&path).unwrap());
        wrong.extend(lines.iter().map(|line| format!("{}:{line}", name.display())));
    }
    assert!(wrong.is_empty(), "these assume one node:\n{}", wrong.join("\n"));
}

#[test]
fn a_line_that_assumes_one_node_is_noticed() {
    let source = "let node = &topology.nodes()[0];\n// nodes()[0] in prose\nlet id = NodeId(0);\nlet nodes = [1];\n#[cfg(test)]\nmod tests { NodeId(0) }";
    assert_eq!(assumes_one_node(source), [1, 3]);
}
