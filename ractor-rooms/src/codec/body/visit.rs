//! What a bounded deserializer hands to the type that reads: each step inwards is one level.

use std::fmt;

use serde::de::{Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Visitor};

use super::bounds::Guard;

macro_rules! visit {
    ($($name:ident: $value:ty,)*) => {$(
        #[inline]
        fn $name<E: Error>(self, value: $value) -> Result<V::Value, E> {
            self.inner.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Guard<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool: bool,
        visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64, visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_f32: f32, visit_f64: f64,
        visit_char: char,
        visit_str: &str, visit_borrowed_str: &'de str, visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    #[inline]
    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    #[inline]
    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let bounds = self.bounds.deeper(D::Error::custom)?;
        self.inner.visit_some(Guard::new(inner, bounds))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let bounds = self.bounds.deeper(D::Error::custom)?;
        self.inner.visit_newtype_struct(Guard::new(inner, bounds))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let bounds = self.bounds.deeper(A::Error::custom)?;
        self.inner.visit_seq(Guard { inner, bounds, counted: self.counted })
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let bounds = self.bounds.deeper(A::Error::custom)?;
        self.inner.visit_map(Guard { inner, bounds, counted: self.counted })
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let bounds = self.bounds.deeper(A::Error::custom)?;
        self.inner.visit_enum(Guard::new(inner, bounds))
    }
}

/// A visitor that gets what was borrowed as its own, as it asked.
pub(super) struct Owned<V>(pub(super) V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Owned<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    #[inline]
    fn visit_str<E: Error>(self, value: &str) -> Result<V::Value, E> {
        self.0.visit_string(value.to_owned())
    }

    #[inline]
    fn visit_bytes<E: Error>(self, value: &[u8]) -> Result<V::Value, E> {
        self.0.visit_byte_buf(value.to_vec())
    }
}
