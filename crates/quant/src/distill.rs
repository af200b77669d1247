//! Knowledge distillation: a student that learns from a teacher.
