//! Real libraries in processes of their own.
