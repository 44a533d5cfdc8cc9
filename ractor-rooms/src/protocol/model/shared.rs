//! Parts of a state that most steps leave alone: cloned by reference, hashed once.

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;

use super::explore::Fingerprint;

pub(super) struct Shared<T>(Rc<Part<T>>);

#[derive(Clone)]
struct Part<T> {
    value: T,
    /// The hash of the value, 0 while nobody has asked.
    hash: Cell<u64>,
}

impl<T> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self(Rc::new(Part { value, hash: Cell::new(0) }))
    }
}

impl<T: Clone> Shared<T> {
    pub(super) fn get_mut(&mut self) -> &mut T {
        let part = Rc::make_mut(&mut self.0);
        part.hash.set(0);
        &mut part.value
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0.value == other.0.value
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if self.0.hash.get() == 0 {
            let mut hasher = Fingerprint::default();
            self.0.value.hash(&mut hasher);
            self.0.hash.set(hasher.finish() | 1);
        }
        state.write_u64(self.0.hash.get());
    }
}
