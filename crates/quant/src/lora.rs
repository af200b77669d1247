//! Low-rank adapters (LoRA): a frozen weight plus a product of two small trained ones.
