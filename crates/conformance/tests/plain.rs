//! The suite on the plain loops.
use adamant_conformance::plain;

adamant_conformance::suite!(|| plain::device(2048, usize::MAX));
