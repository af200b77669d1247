//! sort
