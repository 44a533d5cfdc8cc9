//! The bounds that a value keeps on its way through serde, in both directions.

use std::cell::Cell;

/// How deep a value may be nested: each struct, tuple, enum, option, sequence and map is one level, a
/// variant with several fields two.
///
/// Serde recurses once per level, and a stack that runs out ends the process.
pub const MAX_DEPTH: u32 = 256;

/// What all the parts of one value share.
pub(super) struct Shared {
    /// Elements of sequences and maps so far. One that has bytes pays for itself; one that has none
    /// would let a few bytes state a loop of any length.
    elements: Cell<usize>,
    max_elements: usize,
    /// The most elements that are worth preparing for: the bytes there are.
    max_hint: usize,
}

impl Shared {
    pub(super) fn new(max_elements: usize, max_hint: usize) -> Self {
        Self { elements: Cell::new(0), max_elements, max_hint }
    }

    pub(super) fn elements(&self) -> usize {
        self.elements.get()
    }
}

/// The bounds at one place in a value. Small, because every part of it is handed one.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'b> {
    shared: &'b Shared,
    depth: u32,
}

impl<'b> Bounds<'b> {
    pub(super) fn new(shared: &'b Shared) -> Self {
        Self { shared, depth: 0 }
    }

    /// The bounds one level further in.
    #[inline]
    pub(super) fn deeper<E, M>(self, error: M) -> Result<Self, E>
    where
        M: FnOnce(String) -> E,
    {
        if self.depth >= MAX_DEPTH {
            return Err(error(too_deep()));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    /// Counts an element.
    #[inline]
    pub(super) fn count<E, M>(self, error: M) -> Result<(), E>
    where
        M: FnOnce(String) -> E,
    {
        let elements = self.shared.elements.get().saturating_add(1);
        self.shared.elements.set(elements);
        if elements > self.shared.max_elements {
            return Err(error(too_many(elements, self.shared.max_elements)));
        }
        Ok(())
    }

    #[inline]
    pub(super) fn hint(self, stated: Option<usize>) -> Option<usize> {
        stated.map(|stated| stated.min(self.shared.max_hint))
    }
}

#[cold]
fn too_deep() -> String {
    format!("nested too deep; expected at most {MAX_DEPTH} levels")
}

#[cold]
pub(super) fn too_many(elements: usize, max: usize) -> String {
    format!("too many elements without bytes: found {elements}; expected at most {max} elements")
}

/// Something of serde's, and the bounds that it has to keep.
pub(super) struct Guard<'b, X> {
    pub(super) inner: X,
    pub(super) bounds: Bounds<'b>,
    pub(super) counted: bool,
}

impl<'b, X> Guard<'b, X> {
    pub(super) fn new(inner: X, bounds: Bounds<'b>) -> Self {
        Self { inner, bounds, counted: false }
    }

    /// Counts the elements: the length of a sequence or map is stated by the bytes, that of a tuple or
    /// struct by the type.
    pub(super) fn counted(inner: X, bounds: Bounds<'b>) -> Self {
        Self { inner, bounds, counted: true }
    }
}
