//! The names of weights by address, because XNNPACK identifies weights by their address alone.

use std::{collections::HashMap, sync::Arc};

/// The names of weights by address.
///
/// The last name of an address counts, because addresses are reused.
#[derive(Debug, Default)]
pub(super) struct Names {
    by_address: HashMap<usize, Arc<str>, foldhash::fast::RandomState>,
}

impl Names {
    /// Sets the name of the data at an address. Zero is ignored.
    pub(super) fn register(&mut self, address: usize, name: &str) {
        if address != 0 {
            self.by_address.insert(address, name.into());
        }
    }

    /// Gives `alias` the name of `original`, because both have the same data. If the original has no name, the alias loses its own.
    ///
    /// The name is copied now. So an alias may be the original of another, aliases cannot form a circle, and a later name of the
    /// original's address, when it has other data, does not change the alias.
    pub(super) fn alias(&mut self, alias: usize, original: usize) {
        match self.by_address.get(&original).cloned() {
            Some(name) if alias != 0 => self.by_address.insert(alias, name),
            _ => self.by_address.remove(&alias),
        };
    }

    /// Forgets the name of an address.
    pub(super) fn forget(&mut self, address: usize) {
        self.by_address.remove(&address);
    }

    /// Forgets all names.
    pub(super) fn clear(&mut self) {
        self.by_address = HashMap::default();
    }

    pub(super) fn len(&self) -> usize {
        self.by_address.len()
    }

    /// Returns the names of a kernel and its bias; `bias` is zero if there is none. `None` if either has no name: a packed weight
    /// with an unnamed bias would be found for every other unnamed bias too.
    pub(super) fn called(&self, kernel: usize, bias: usize) -> Option<(Arc<str>, Option<Arc<str>>)> {
        let weight = Arc::clone(self.by_address.get(&kernel)?);
        let bias = match bias {
            0 => None,
            bias => Some(Arc::clone(self.by_address.get(&bias)?)),
        };
        Some((weight, bias))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(names: &Names, kernel: usize, bias: usize) -> Option<String> {
        names.called(kernel, bias).map(|(weight, bias)| match bias {
            Some(bias) => format!("{weight}+{bias}"),
            None => weight.to_string(),
        })
    }

    #[test]
    fn a_weight_has_a_name_only_if_its_bias_has_one_too() {
        let mut names = Names::default();
        names.register(1, "w");
        names.register(2, "b");
        assert_eq!(called(&names, 1, 0).as_deref(), Some("w"));
        assert_eq!(called(&names, 1, 2).as_deref(), Some("w+b"));
        assert_eq!(called(&names, 1, 3), None);
        assert_eq!(called(&names, 3, 2), None);
    }

    #[test]
    fn nothing_lies_at_zero() {
        let mut names = Names::default();
        names.register(0, "nothing");
        assert_eq!(called(&names, 0, 0), None);
        names.register(1, "w");
        names.alias(0, 1);
        assert_eq!(called(&names, 0, 0), None);
        assert_eq!(names.len(), 1);
    }

    #[test]
    fn an_alias_is_what_its_original_is_and_may_be_an_original_too() {
        let mut names = Names::default();
        names.register(1, "w");
        names.alias(2, 1);
        names.alias(3, 2);
        assert_eq!(called(&names, 3, 0).as_deref(), Some("w"));
        names.alias(1, 3);
        names.alias(1, 1);
        assert_eq!(called(&names, 1, 0).as_deref(), Some("w"));
    }

    #[test]
    fn aliases_of_each_other_name_nothing() {
        let mut names = Names::default();
        names.alias(1, 2);
        names.alias(2, 1);
        assert_eq!((called(&names, 1, 0), called(&names, 2, 0)), (None, None));
    }

    #[test]
    fn an_alias_of_what_has_no_name_loses_the_name_it_had() {
        let mut names = Names::default();
        names.register(1, "before");
        names.alias(1, 2);
        assert_eq!(called(&names, 1, 0), None);
    }

    #[test]
    fn an_address_that_is_used_again_is_what_was_said_last() {
        let mut names = Names::default();
        names.register(1, "w");
        names.alias(2, 1);
        names.register(1, "other");
        assert_eq!(called(&names, 1, 0).as_deref(), Some("other"));
        assert_eq!(called(&names, 2, 0).as_deref(), Some("w"), "the alias is what it was made of");
        names.register(2, "third");
        assert_eq!(called(&names, 2, 0).as_deref(), Some("third"));
        names.forget(1);
        assert_eq!(called(&names, 1, 0), None);
        names.clear();
        assert_eq!((called(&names, 2, 0), names.len()), (None, 0));
    }
}
