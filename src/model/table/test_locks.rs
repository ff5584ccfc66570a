//! Which locks are our own tests. Most name lockscope in their token; a token that the user chose has to be expected.

use std::collections::VecDeque;

use crate::dialects::own;
use crate::lock::{Holder, Key, Token};

/// At most this many expected test locks are kept.
const EXPECTED: usize = 64;

/// Test locks whose tokens do not identify them.
#[derive(Default)]
pub(in crate::model) struct TestLocks(VecDeque<(Key, Token)>);

impl TestLocks {
    pub fn expect(&mut self, key: Key, token: Token) {
        self.0.push_back((key, token));
        let over = self.0.len().saturating_sub(EXPECTED);
        self.0.drain(..over);
    }

    /// Whether everybody who holds the key is a test lock of lockscope.
    pub fn hold(&self, key: &Key, holders: &[Holder]) -> bool {
        let expected = |token: &Token| self.0.iter().any(|(of, by)| of == key && by == token);
        let ours = |token: &Token| own::test_holder(token.as_bytes()).is_some() || expected(token);
        !holders.is_empty() && holders.iter().all(|holder| ours(&holder.token))
    }
}
