//! A serializer that keeps [`Bounds`](super::bounds::Bounds), level for level as reading does.

use std::fmt;

use serde::ser::{Error, Serialize, Serializer};

use super::bounds::Guard;

impl<T: Serialize + ?Sized> Serialize for Guard<'_, &T> {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.inner.serialize(Guard::new(serializer, self.bounds))
    }
}

macro_rules! serialize {
    ($($name:ident: $value:ty,)*) => {$(
        #[inline]
        fn $name(self, value: $value) -> Result<S::Ok, S::Error> {
            self.inner.$name(value)
        }
    )*};
}

impl<'b, S: Serializer> Serializer for Guard<'b, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Guard<'b, S::SerializeSeq>;
    type SerializeTuple = Guard<'b, S::SerializeTuple>;
    type SerializeTupleStruct = Guard<'b, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Guard<'b, S::SerializeTupleVariant>;
    type SerializeMap = Guard<'b, S::SerializeMap>;
    type SerializeStruct = Guard<'b, S::SerializeStruct>;
    type SerializeStructVariant = Guard<'b, S::SerializeStructVariant>;

    serialize! {
        serialize_bool: bool,
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128,
        serialize_f32: f32, serialize_f64: f64,
        serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str,
    }

    #[inline]
    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    #[inline]
    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?;
        self.inner.serialize_some(&Guard::new(value, bounds))
    }

    #[inline]
    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.bounds.deeper(S::Error::custom)?;
        self.inner.serialize_unit_variant(name, index, variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?;
        self.inner.serialize_newtype_struct(name, &Guard::new(value, bounds))
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?;
        self.inner.serialize_newtype_variant(name, index, variant, &Guard::new(value, bounds))
    }

    #[inline]
    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?;
        Ok(Guard::counted(self.inner.serialize_seq(len)?, bounds))
    }

    #[inline]
    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?;
        Ok(Guard::counted(self.inner.serialize_map(len)?, bounds))
    }

    #[inline]
    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?;
        Ok(Guard::new(self.inner.serialize_tuple(len)?, bounds))
    }

    #[inline]
    fn serialize_tuple_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?;
        Ok(Guard::new(self.inner.serialize_tuple_struct(name, len)?, bounds))
    }

    #[inline]
    fn serialize_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?;
        Ok(Guard::new(self.inner.serialize_struct(name, len)?, bounds))
    }

    // A variant with fields is read as an enum and then as a tuple: two levels.
    #[inline]
    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?.deeper(S::Error::custom)?;
        Ok(Guard::new(self.inner.serialize_tuple_variant(name, index, variant, len)?, bounds))
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let bounds = self.bounds.deeper(S::Error::custom)?.deeper(S::Error::custom)?;
        Ok(Guard::new(self.inner.serialize_struct_variant(name, index, variant, len)?, bounds))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}
