//! A kernel expression as text: what it loads, its arguments and coordinates found through the nest of the launch.
use crate::{
    Dialect, Sources,
    bindings::{Access, ArgumentPlace, Bindings, Place},
    dense::{REPORT, TakenInputs},
    launcher::{Found, Key, Launcher, Work},
    nest::{Nest, Strides},
    write_expr,
};
use adamant_ir::{
    DType, ErrorKind, MAX_RANK, Scalar, Shape,
    expr::{Expr, Instr, Reg},
    reference::{round_float, wrap_int},
};

/// Can the dialect say the expression, and why not?
///
/// # Errors
/// `Unsupported`, naming the dtype or function.
pub(crate) fn check(dialect: &dyn Dialect, expr: &Expr) -> Result<(), ErrorKind> {
    let nothing = |_: u16| String::new();
    let sources = Sources { load: &nothing, arg: &nothing, index: &|_| "0u".into(), key: &|_, _| "0u".into(), element: ["0u", "0u"] };
    write_expr(expr, dialect, &sources).map(drop)
}

/// An expression with its operands bound.
pub(crate) struct Program<'e> {
    expr: &'e Expr,
    /// binding of each input
    inputs: Vec<(usize, DType)>,
    /// the dtype of each argument
    args: Vec<DType>,
    /// axes whose coordinate is read, and whether the element's number is; each is an operand of the nest
    indices: Vec<u8>,
    random: bool,
    faults: Option<usize>,
    /// input 0 is no operand but the variable `given`
    given: bool,
    /// where its parameters begin
    base: usize,
}
impl<'e> Program<'e> {
    /// Binds the inputs, and the reports if it divides.
    pub fn new(bindings: &mut Bindings, expr: &'e Expr, work: &Work<'_>) -> Program<'e> {
        Program::with_operands(bindings, expr, work, false)
    }
    /// The same where input 0 is the variable `given` of the text, and the work's inputs are those behind it.
    pub fn behind(bindings: &mut Bindings, expr: &'e Expr, work: &Work<'_>) -> Program<'e> {
        Program::with_operands(bindings, expr, work, true)
    }
    fn with_operands(bindings: &mut Bindings, expr: &'e Expr, work: &Work<'_>, given: bool) -> Program<'e> {
        let mut program = Program { expr, inputs: Vec::new(), args: Vec::new(), indices: Vec::new(), random: false, faults: None, given, base: 0 };
        for o in work.inputs {
            program.inputs.push((bindings.bind(o.place(), Access::Read), o.dtype));
        }
        program.args = work.args.iter().map(|_| DType::F32).collect();
        for (instr, &dtype) in expr.instrs.iter().zip(&expr.dtypes) {
            match *instr {
                Instr::Arg(k) => program.args[k as usize] = dtype,
                Instr::Index(axis) if !program.indices.contains(&axis) => program.indices.push(axis),
                Instr::Random(_) => program.random = true,
                Instr::Binary(f, x, _) if f.can_fault(expr.dtypes[x as usize]) => program.faults = Some(bindings.bind(Place::Faults, Access::Atomic)),
                _ => {}
            }
        }
        program
    }
    /// The place of its report.
    pub fn report(&self, launcher: &mut dyn Launcher) -> u32 {
        if self.faults.is_some() { launcher.report(Found::Division) } else { 0 }
    }
    /// The operands of the nest: the inputs, then the coordinates that it reads, then the element's number.
    pub fn operands(&self, work: &Work<'_>) -> Vec<(usize, Strides)> {
        // A key is read by its own shape: all elements read all of it.
        let is_key = |k: usize| self.expr.instrs.contains(&Instr::Random(k as u16));
        let mut operands: Vec<_> = work.inputs.iter().enumerate().map(|(k, o)| if is_key(k) { (o.offset, [0; MAX_RANK]) } else { o.layout() }).collect();
        for &axis in &self.indices {
            let mut strides = [0; MAX_RANK];
            strides[axis as usize] = 1;
            operands.push((0, strides));
        }
        if self.random {
            operands.push((0, work.space.strides()));
        }
        operands
    }
    /// Appends what the text depends on besides the expression.
    pub fn describe(&self, key: &mut Key) {
        key.extend(self.inputs.iter().map(|i| i.0 as u8));
    }
    /// Appends the arguments and the keys' steps.
    pub fn place(&mut self, bindings: &mut Bindings, parameters: &mut Vec<u32>, work: &Work<'_>) {
        self.base = parameters.len();
        for (&dtype, value) in self.args.iter().zip(work.args) {
            bindings.arguments.push(ArgumentPlace { word: parameters.len(), argument: std::ptr::from_ref(value) as usize, dtype });
            parameters.extend(argument_words(*value, dtype));
        }
        parameters.extend(work.inputs.iter().map(|o| o.strides[0] as u32));
    }
    /// Statements that name the places `a<k>` of the inputs, the coordinates and the element's number; the nest's
    /// coordinates must be known. `number` is the element's number where the nest has one group.
    pub fn places(&self, nest: &Nest, number: &str) -> String {
        let operands = self.inputs.len() + self.indices.len() + usize::from(self.random);
        (0..operands).map(|k| format!("let a{k}: u32 = {};\n", nest.at(k, number))).collect()
    }
    /// The input of a load, by its number among those of the work.
    pub fn input_of(&self, load: u16) -> Option<usize> {
        (load as usize).checked_sub(usize::from(self.given))
    }
    /// Where its inputs lie: binding and dtype.
    pub fn inputs(&self) -> &[(usize, DType)] {
        &self.inputs
    }
    /// Input k at its place, or where it was taken from there with its neighbours.
    pub fn load(&self, bindings: &Bindings, k: u16, taken: &TakenInputs<'_>) -> String {
        if let Some(own) = self.input_of(k).filter(|own| taken.inputs.get(*own).is_some_and(|is_taken| *is_taken)) {
            return bindings.value_of(self.inputs[own].1, &format!("taken{own}[e]"));
        }
        let k = match (self.given, k) {
            (true, 0) => return "given".into(),
            (true, k) => k - 1,
            (false, k) => k,
        };
        let (binding, dtype) = self.inputs[k as usize];
        bindings.load(binding, dtype, &format!("a{k}"))
    }
    /// Argument k.
    pub fn arg(&self, bindings: &Bindings, k: u16) -> String {
        let (at, dtype) = (self.base + 2 * k as usize, self.args[k as usize]);
        let bits = if dtype.size() == 8 { format!("vec2<u32>(p[{at}u], p[{}u])", at + 1) } else { format!("p[{at}u]") };
        // Narrow floats travel as f32.
        bindings.value_of(if dtype.is_float() && dtype != DType::F64 { DType::F32 } else { dtype }, &bits)
    }
    /// The statements that define `r<k>` for each register, behind those that name the places.
    ///
    /// # Errors
    /// As [`check`].
    pub fn body(&self, bindings: &Bindings, nest: &Nest, number: &str) -> Result<String, ErrorKind> {
        self.body_of(bindings, nest, number, &TakenInputs::NOTHING)
    }
    /// As [`Program::body`], where some inputs' elements have been taken with their neighbours.
    ///
    /// # Errors
    /// As [`check`].
    pub fn body_of(&self, bindings: &Bindings, nest: &Nest, number: &str, taken: &TakenInputs<'_>) -> Result<String, ErrorKind> {
        let mut text = self.places(nest, number);
        let first_index = self.inputs.len();
        let element = format!("a{}", (first_index + self.indices.len() + usize::from(self.random)).saturating_sub(1));
        let key = |k: u16, word: usize| {
            let (binding, dtype) = self.inputs[k as usize];
            // The low half of a word of 64 bits.
            let scale = if dtype.size() == 8 { "2u * " } else { "" };
            bindings.word(binding, &format!("{scale}(a{k} + {word}u * p[{}u])", self.base + 2 * self.args.len() + k as usize))
        };
        let sources = Sources {
            load: &|k| self.load(bindings, k, taken),
            arg: &|k| self.arg(bindings, k),
            index: &|axis| format!("a{}", first_index + self.indices.iter().position(|a| *a == axis).unwrap_or(0)),
            key: &key,
            element: [&element, "0u"],
        };
        text += &bindings.dialect.verbatim(write_expr(self.expr, bindings.dialect, &sources)?.body);
        if let Some(faults) = self.faults {
            for (instr, _) in self.expr.instrs.iter().zip(&self.expr.dtypes) {
                if let Instr::Binary(f, x, y) = *instr
                    && f.can_fault(self.expr.dtypes[x as usize])
                {
                    let t = bindings.dialect.integer(self.expr.dtypes[y as usize])?;
                    text += &format!("if (r{y} == {t}(0)) {{ {} }}\n", bindings.atomic_min(faults, REPORT, "0u"));
                }
            }
        }
        Ok(text)
    }
    /// The bits of a register as an element of its dtype.
    pub fn bits(&self, bindings: &Bindings, r: Reg) -> String {
        bindings.bits_of(self.expr.dtypes[r as usize], &format!("r{r}"))
    }
    /// The dtype of a register.
    pub fn dtype(&self, r: Reg) -> DType {
        self.expr.dtypes[r as usize]
    }
}
/// A number as two words of parameters.
pub fn argument_words(value: Scalar, dtype: DType) -> [u32; 2] {
    if dtype == DType::F64 {
        let bits = value.to_f64().to_bits();
        return [bits as u32, (bits >> 32) as u32];
    }
    if dtype.is_float() {
        return [(round_float(value.to_f64(), dtype) as f32).to_bits(), 0];
    }
    let v = wrap_int(value.to_i64(), dtype);
    [v as u32, (v >> 32) as u32]
}
/// All axes of a space, in order.
pub(crate) fn axes(space: &Shape) -> Vec<usize> {
    (0..space.rank()).collect()
}
