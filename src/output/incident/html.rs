//! Writes HTML in which nothing that came from a server can be anything but text.
//!
//! Tags are texts of the program itself, which the type of [`Html::tag`] demands. Everything else goes through [`escaped`].

use std::fmt::Write;

use crate::base::text::visible;

/// A page that is being written.
#[derive(Default)]
pub struct Html(String);

impl Html {
    /// Markup of our own.
    pub fn tag(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Any text, in an element or in the quotes of an attribute.
    pub fn text(&mut self, text: &str) -> &mut Html {
        self.0.push_str(&escaped(text));
        self
    }

    /// A number in an attribute of a picture.
    pub fn number(&mut self, number: f64) -> &mut Html {
        // Writing to memory does not fail; what is no number would break the picture.
        let _ = write!(self.0, "{:.1}", if number.is_finite() { number } else { 0.0 });
        self
    }

    /// What was written elsewhere in the same way.
    pub fn append(&mut self, other: Html) -> &mut Html {
        self.0.push_str(&other.0);
        self
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// A text as it is shown: control characters and such visible, and nothing in it is markup.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // What was made visible before, like a key, has no such character left; making it visible again would double its escapes.
    let shown =
        if text.chars().any(crate::base::text::is_hidden) { visible(text.as_bytes()) } else { text.to_string() };
    for c in shown.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a browser makes of the text of an element.
    fn read_back(html: &str) -> String {
        let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        named.iter().fold(html.to_string(), |text, (entity, c)| text.replace(entity, c))
    }

    proptest! {
        #[test]
        fn no_text_is_markup_and_none_is_lost(text in "[<>&\"'a-z/=! \\x00-\\x1f\u{7f}\u{202e}\u{2028}锁&;#-]{0,80}") {
            let html = escaped(&text);
            prop_assert!(!html.contains(['<', '>', '"', '\'']), "{}", html);
            prop_assert!(html.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{:?}", html);
            for (at, _) in html.match_indices('&') {
                let entity = html[at..].split_inclusive(';').next().unwrap_or_default();
                prop_assert!(["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"].contains(&entity), "{}", html);
            }
            let shown = if text.chars().any(crate::base::text::is_hidden) { visible(text.as_bytes()) } else { text };
            prop_assert_eq!(read_back(&html), shown);
        }
    }

    #[test]
    fn a_script_is_text() {
        assert_eq!(escaped("<script>'\"&"), "&lt;script&gt;&#39;&quot;&amp;");
        assert_eq!(escaped("a\nb\u{202e}c\\n"), "a\\nb\\u{202e}c\\\\n");
        assert_eq!(escaped("lock:a\\n"), "lock:a\\n", "a key that was made visible is not changed again");
    }
}
