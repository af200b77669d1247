//! The keys of `[distributed]` by which ranks share the model out, and not the rows alone.
//!
//! ```toml
//! [distributed]
//! mesh = { data = 2, pipeline = 1, tensor = 2 }   # multiplied they are the ranks; a missing `data` is what is left over
//! tensor = "auto"             # which layers are cut; or a table of patterns:
//! sequence_axis = 1           # what lies between pieces of layers is cut along it
//! schedule = "1f1b"           # of a pipeline: gpipe, 1f1b, interleaved, interleaved:N
//! micro_batches = 4           # of each part of a step, in a pipeline; twice the stages unless it is said
//! sync_bn = true              # batch norms see the rows of all ranks
//!
//! [distributed.tensor]
//! "blocks.*.linear1" = "column"
//! "blocks.*.linear2" = "row"
//! ```
//!
//! What cannot go together is refused here, as far as it follows from the description alone.
use crate::{Failure, config::Section};
use adamant_core::Error;
use adamant_nn::{Walk, glob_matches};
use adamant_parallel::{MeshShape, pipeline::PipelineSchedule, tensor::ParallelStyle};

/// How ranks share a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MeshRecipe {
    /// none: what is left over
    data: Option<usize>,
    rest: MeshShape,
    pub styles: TensorStyles,
    pub sequence_axis: Option<usize>,
    pub schedule: PipelineSchedule,
    micro_batches: Option<usize>,
}
/// Which layers are cut.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TensorStyles {
    /// those that can be, as far as their kinds tell
    Auto,
    /// by patterns over paths
    Patterns(Vec<(String, ParallelStyle)>),
}
impl MeshRecipe {
    /// The mesh of so many ranks.
    ///
    /// # Errors
    /// Axes that do not multiply up to them.
    pub fn shape(&self, s: &Section<'_>, ranks: usize) -> Result<MeshShape, Failure> {
        let shape = MeshShape { data: self.data.unwrap_or((ranks / self.rest.ranks()).max(1)), ..self.rest };
        if shape.ranks() == ranks {
            return Ok(shape);
        }
        let started = format!("{ranks} rank{} started", if ranks == 1 { " was" } else { "s were" });
        Err(s.wrong_key("mesh", format!("{shape} is {} ranks, and {started}: `adamant launch -n {}`, or another mesh", shape.ranks(), shape.ranks())))
    }
    /// Is more shared out than rows?
    pub fn shares_the_model(&self) -> bool {
        self.rest.ranks() > 1
    }
    pub fn pipelines(&self) -> usize {
        self.rest.pipeline
    }
    pub fn tensors(&self) -> usize {
        self.rest.tensor
    }
    /// Micro-batches of a part of a step that has so many rows.
    pub fn micro_batches_of(&self, rows: usize) -> usize {
        let stages = self.rest.pipeline;
        let micros = self.micro_batches.unwrap_or(2 * stages).min(rows).max(1);
        if self.schedule.chunks() > 1 { (micros / stages).max(1) * stages } else { micros }
    }
}
/// Names of styles.
const STYLES: [(&str, ParallelStyle); 8] = [
    ("column", ParallelStyle::Column),
    ("column_gathered", ParallelStyle::ColumnGathered),
    ("row", ParallelStyle::Row),
    ("heads", ParallelStyle::Heads),
    ("vocabulary", ParallelStyle::Vocabulary),
    ("apart", ParallelStyle::Apart),
    ("scatter", ParallelStyle::Scatter),
    ("gather", ParallelStyle::Gather),
];
/// Reads the keys; none where there is no mesh.
///
/// # Errors
/// A style, an axis, a schedule that there is not; a key that says nothing without a mesh.
pub(super) fn mesh(s: &Section<'_>) -> Result<Option<MeshRecipe>, Failure> {
    let table = s.section("mesh")?;
    let styles = if s.is_text("tensor") {
        match s.text("tensor")? {
            Some("auto") | None => Some(TensorStyles::Auto),
            Some(other) => return Err(s.wrong_key("tensor", format!("there is no `{other}`; there are \"auto\" and a table of patterns"))),
        }
    } else {
        s.section("tensor")?.map(|table| styles(&table)).transpose()?.map(TensorStyles::Patterns)
    };
    let sequence_axis = s.size("sequence_axis")?;
    let schedule = s.text("schedule")?.map(|text| text.parse().map_err(|e: Error| s.wrong_key("schedule", e.kind()))).transpose()?;
    let micro_batches = s.size("micro_batches")?;
    let Some(table) = table else {
        let said = ["tensor", "sequence_axis", "schedule", "micro_batches"].into_iter().find(|key| s.has(key));
        return said.map_or(Ok(None), |key| Err(s.wrong_key(key, "it says nothing without a `mesh`")));
    };
    let axis = |key: &'static str| match table.size(key)? {
        Some(0) => Err(table.wrong_key(key, "an axis that is not used has 1")),
        n => Ok(n),
    };
    let data = axis("data")?;
    let (pipeline, tensor, expert) = (axis("pipeline")?.unwrap_or(1), axis("tensor")?.unwrap_or(1), axis("expert")?.unwrap_or(1));
    table.finish()?;
    let rest = MeshShape { data: 1, pipeline, tensor, expert };
    if expert > 1 {
        return Err(table.wrong_key(
            "expert",
            "no layer of a description has experts that ranks could share out: `adamant::parallel::MixtureOfExperts`, of modules of one's own",
        ));
    }
    if tensor > 1 && styles.is_none() {
        return Err(table.wrong_key("tensor", "which layers are cut is not said: `tensor = \"auto\"`, or a table `[distributed.tensor]` of patterns"));
    }
    if micro_batches == Some(0) {
        return Err(s.wrong_key("micro_batches", "it is 1 at least"));
    }
    let schedule = schedule.unwrap_or(PipelineSchedule::OneForwardOneBackward);
    if let (chunks @ 2.., true) = (schedule.chunks(), pipeline > 1)
        && micro_batches.is_some_and(|n| !n.is_multiple_of(pipeline))
    {
        return Err(s.wrong_key("micro_batches", format!("with {chunks} stretches for each stage it is a multiple of the {pipeline} stages")));
    }
    if schedule.chunks() == 0 {
        return Err(s.wrong_key("schedule", "each stage has one stretch of layers at least"));
    }
    Ok(Some(MeshRecipe { data, rest, styles: styles.unwrap_or(TensorStyles::Patterns(Vec::new())), sequence_axis, schedule, micro_batches }))
}
fn styles(s: &Section<'_>) -> Result<Vec<(String, ParallelStyle)>, Failure> {
    let style = |(pattern, name): (&str, &str)| match STYLES.iter().find(|(known, _)| *known == name) {
        Some((_, style)) => Ok((pattern.to_string(), *style)),
        None => Err(s.wrong_key(pattern, format!("there is no `{name}`; there are {}", STYLES.map(|(name, _)| name).join(", ")))),
    };
    let styles = s.texts_by_key()?.into_iter().map(style).collect();
    s.finish()?;
    styles
}
/// Is there a module for each pattern? `model` may be known by its shapes alone.
///
/// # Errors
/// The first pattern that no module's path is like.
pub(crate) fn patterns_fit(root: &Section<'_>, model: &dyn Walk) -> Result<(), Failure> {
    let Some(MeshRecipe { styles: TensorStyles::Patterns(styles), .. }) = super::distributed(root)?.mesh else { return Ok(()) };
    let paths: Vec<String> = model.named_modules().into_iter().map(|(path, _)| path).filter(|path| !path.is_empty()).collect();
    let Some((pattern, _)) = styles.iter().find(|(pattern, _)| !paths.iter().any(|path| glob_matches(pattern, path))) else { return Ok(()) };
    let told = format!("no layer has a path like this one; there are {}", paths.join(", "));
    Err(match root.section("distributed")?.map(|s| s.section("tensor")).transpose()?.flatten() {
        Some(table) => table.wrong_key(pattern, told),
        None => root.wrong(told),
    })
}
/// Refuses what a model that ranks share cannot do.
///
/// # Errors
/// The key, and why.
pub(crate) fn goes_with_mesh(root: &Section<'_>, recipe: &MeshRecipe) -> Result<(), Failure> {
    if !recipe.shares_the_model() {
        return Ok(());
    }
    let precision = super::precision(root)?;
    if let Some(s) = root.section("precision")?.filter(|_| precision != adamant_amp::Precision::default()) {
        return Err(s.wrong_key("mode", "a model that ranks share (`distributed.mesh`) computes in f32: scales and fallbacks are each rank's own"));
    }
    for (key, why) in [
        ("distill", "a teacher is whole on every rank, and its student (`distributed.mesh`) is not"),
        ("quantize", "observers see one rank's inputs alone: codes are trained without a `distributed.mesh`"),
    ] {
        if root.has(key) {
            return Err(root.wrong_key(key, why));
        }
    }
    let clip = super::clip(root)?;
    let whole = |kind: &adamant_optim::ClippingType| matches!(kind, adamant_optim::ClippingType::Percentile | adamant_optim::ClippingType::Agc);
    if let Some(kind) = clip.as_ref().map(|clip| clip.clipping_type) {
        if whole(&kind) {
            return Err(root.wrong_key("clip", format!("`{kind}` looks at gradients as a whole, of which ranks of a `distributed.mesh` have pieces")));
        }
        let of_groups = kind == adamant_optim::ClippingType::Norm && root.section("optimizer")?.is_some_and(|s| s.has("groups"));
        if recipe.pipelines() > 1 && (of_groups || kind == adamant_optim::ClippingType::LayerWise) {
            return Err(
                root.wrong_key("clip", format!("`{kind}` limits some parameters by themselves, which lie on several stages of a pipeline: `global_norm`"))
            );
        }
    }
    Ok(())
}
