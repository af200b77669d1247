//! What differs between MPI libraries in binary form: one table for each of the three interfaces.
//!
//! | ABI | handles | source |
//! |---|---|---|
//! | Open MPI | pointers: the addresses of symbols such as `ompi_mpi_comm_world` | `mpi.h` of Open MPI 4.1 and 5.0, which share the soname `libmpi.so.40` |
//! | MPICH | integers | `mpi.h` of MPICH 5.0; the same since MPICH 3.1 and for all that keep to its ABI (`libmpi.so.12`: Intel MPI, MVAPICH, Cray) |
//! | standard | pointers whose values are constants | MPI 5.0, chapter 20 (application binary interface), as `mpi_abi.h` of MPICH 5.0 has it |
//!
//! The tables are data: nothing here opens a library or calls it.
use adamant_ir::DType;

/// A binary interface of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiAbi {
    /// handles are addresses of symbols
    OpenMpi,
    /// handles are 32-bit integers
    Mpich,
    /// MPI 5.0's own: handles are constants as wide as a pointer
    Standard,
}
/// A handle that is there before any call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predefined {
    /// the address of this symbol
    Symbol(&'static str),
    /// this value
    Value(usize),
}
/// One interface.
#[derive(Debug)]
pub struct AbiTable {
    /// which
    pub abi: MpiAbi,
    /// as messages name it
    pub name: &'static str,
    /// `MPI_COMM_WORLD`
    pub world: Predefined,
    /// `MPI_ERRORS_RETURN`
    pub errors_return: Predefined,
    /// `MPI_SUM`
    pub sum: Predefined,
    /// `MPI_BYTE`
    pub byte: Predefined,
    /// `MPI_FLOAT`, `MPI_DOUBLE`, `MPI_INT8_T` to `MPI_INT64_T`, `MPI_UINT8_T` to `MPI_UINT64_T`
    pub numbers: [Predefined; 10],
    /// `MPI_ANY_SOURCE`
    pub any_source: i32,
    /// `MPI_UNDEFINED`
    pub undefined: i32,
    /// `MPI_THREAD_SERIALIZED`: a thread at a time
    pub serialized: i32,
    /// `MPI_THREAD_MULTIPLE`
    pub multiple: i32,
    /// bytes of `MPI_Status`
    pub status_bytes: usize,
    /// which of its integers is `MPI_SOURCE`
    pub source_at: usize,
}
/// The dtypes of [`AbiTable::numbers`], in their order. Halves have no type of MPI's own.
pub const NUMBERS: [DType; 10] = [DType::F32, DType::F64, DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16, DType::U32, DType::U64];

impl AbiTable {
    /// The type that MPI adds a dtype as; none where it has no such type.
    pub fn number(&self, dtype: DType) -> Option<Predefined> {
        NUMBERS.iter().zip(self.numbers).find(|(known, _)| **known == dtype).map(|(_, handle)| handle)
    }
}
impl MpiAbi {
    /// Its table.
    pub fn table(self) -> &'static AbiTable {
        match self {
            MpiAbi::OpenMpi => &OPEN_MPI,
            MpiAbi::Mpich => &MPICH,
            MpiAbi::Standard => &STANDARD,
        }
    }
    /// Which interface a library has, by what was found in it.
    ///
    /// The standard one comes first: a library of Open MPI that has it stands on another that holds Open MPI's symbols, and the
    /// library of MPICH's own ABI has `MPI_Abi_get_version` too, which then tells a version below 1.
    ///
    /// # Errors
    /// Neither: the text that the library tells of itself.
    pub fn of(standard_version: Option<i32>, has_open_mpi_symbols: bool, told: &str) -> Result<MpiAbi, String> {
        match standard_version {
            Some(1) => Ok(MpiAbi::Standard),
            Some(version) if version > 1 => Err(format!("version {version} of the standard's binary interface, of which only 1 is known")),
            _ if has_open_mpi_symbols => Ok(MpiAbi::OpenMpi),
            _ if ["MPICH", "Intel(R) MPI", "MVAPICH"].iter().any(|known| told.contains(known)) => Ok(MpiAbi::Mpich),
            _ => {
                let told = told.lines().next().unwrap_or_default();
                Err(format!("none of the three binary interfaces that are known: it says `{told}`"))
            }
        }
    }
}
use Predefined::{Symbol, Value};
static OPEN_MPI: AbiTable = AbiTable {
    abi: MpiAbi::OpenMpi,
    name: "Open MPI",
    world: Symbol("ompi_mpi_comm_world"),
    errors_return: Symbol("ompi_mpi_errors_return"),
    sum: Symbol("ompi_mpi_op_sum"),
    byte: Symbol("ompi_mpi_byte"),
    numbers: [
        Symbol("ompi_mpi_float"),
        Symbol("ompi_mpi_double"),
        Symbol("ompi_mpi_int8_t"),
        Symbol("ompi_mpi_int16_t"),
        Symbol("ompi_mpi_int32_t"),
        Symbol("ompi_mpi_int64_t"),
        Symbol("ompi_mpi_uint8_t"),
        Symbol("ompi_mpi_uint16_t"),
        Symbol("ompi_mpi_uint32_t"),
        Symbol("ompi_mpi_uint64_t"),
    ],
    any_source: -1,
    undefined: -32766,
    serialized: 2,
    multiple: 3,
    // Source, tag, error, cancelled, and a size_t.
    status_bytes: 16 + size_of::<usize>(),
    source_at: 0,
};
static MPICH: AbiTable = AbiTable {
    abi: MpiAbi::Mpich,
    name: "MPICH",
    world: Value(0x4400_0000),
    errors_return: Value(0x5400_0001),
    sum: Value(0x5800_0003),
    byte: Value(0x4c00_010d),
    numbers: [
        Value(0x4c00_040a),
        Value(0x4c00_080b),
        Value(0x4c00_0137),
        Value(0x4c00_0238),
        Value(0x4c00_0439),
        Value(0x4c00_083a),
        Value(0x4c00_013b),
        Value(0x4c00_023c),
        Value(0x4c00_043d),
        Value(0x4c00_083e),
    ],
    any_source: -2,
    undefined: -32766,
    serialized: 2,
    multiple: 3,
    // Two halves of a count, source, tag, error.
    status_bytes: 20,
    source_at: 2,
};
static STANDARD: AbiTable = AbiTable {
    abi: MpiAbi::Standard,
    name: "the standard ABI of MPI 5",
    world: Value(0x101),
    errors_return: Value(0x143),
    sum: Value(0x21),
    byte: Value(0x247),
    numbers: [Value(0x210), Value(0x214), Value(0x240), Value(0x248), Value(0x250), Value(0x258), Value(0x241), Value(0x249), Value(0x251), Value(0x259)],
    any_source: -1,
    undefined: -32766,
    serialized: 2048,
    multiple: 4096,
    // Source, tag, error and five integers of its own.
    status_bytes: 32,
    source_at: 0,
};
