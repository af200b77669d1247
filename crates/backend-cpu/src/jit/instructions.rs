//! The instructions of AVX2 by width of a lane. Must not know registers.
use super::graph::PairOp;
use iced_x86::Code;

/// Instructions on vectors of one width of lane.
pub(crate) struct VectorCodes {
    pub sqrt: Code,
    pub whole: Code,
    pub shift_left: Code,
    pub shift_right: Code,
    pub select: Code,
    pub compare: Code,
    /// first · second + third, into the first
    pub mul_add_213: Code,
    /// second · third + first, into the first
    pub mul_add_231: Code,
    /// first · third + second, into the first
    pub mul_add_132: Code,
    /// bytes as lanes
    pub widen_bytes: Code,
    add: Code,
    sub: Code,
    mul: Code,
    div: Code,
    min: Code,
    max: Code,
    int_add: Code,
    int_sub: Code,
    int_equal: Code,
    int_greater: Code,
}
impl VectorCodes {
    /// The instruction of a pair, but for comparisons of floats.
    pub fn pair(&self, op: PairOp) -> Code {
        match op {
            PairOp::Add => self.add,
            PairOp::Sub => self.sub,
            PairOp::Mul => self.mul,
            PairOp::Div => self.div,
            PairOp::Min => self.min,
            PairOp::Max => self.max,
            PairOp::And => Code::VEX_Vandps_ymm_ymm_ymmm256,
            PairOp::Or => Code::VEX_Vorps_ymm_ymm_ymmm256,
            PairOp::Xor => Code::VEX_Vxorps_ymm_ymm_ymmm256,
            PairOp::IntAdd => self.int_add,
            PairOp::IntSub => self.int_sub,
            PairOp::IntEqual => self.int_equal,
            PairOp::IntGreater => self.int_greater,
            PairOp::Less | PairOp::LessEqual | PairOp::Equal | PairOp::Unordered => self.compare,
        }
    }
}
/// Lanes of 32 bits.
pub(crate) static SINGLE: VectorCodes = VectorCodes {
    sqrt: Code::VEX_Vsqrtps_ymm_ymmm256,
    whole: Code::VEX_Vroundps_ymm_ymmm256_imm8,
    shift_left: Code::VEX_Vpslld_ymm_ymm_imm8,
    shift_right: Code::VEX_Vpsrld_ymm_ymm_imm8,
    select: Code::VEX_Vblendvps_ymm_ymm_ymmm256_ymm,
    compare: Code::VEX_Vcmpps_ymm_ymm_ymmm256_imm8,
    mul_add_213: Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256,
    mul_add_231: Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256,
    mul_add_132: Code::VEX_Vfmadd132ps_ymm_ymm_ymmm256,
    widen_bytes: Code::VEX_Vpmovzxbd_ymm_xmmm64,
    add: Code::VEX_Vaddps_ymm_ymm_ymmm256,
    sub: Code::VEX_Vsubps_ymm_ymm_ymmm256,
    mul: Code::VEX_Vmulps_ymm_ymm_ymmm256,
    div: Code::VEX_Vdivps_ymm_ymm_ymmm256,
    min: Code::VEX_Vminps_ymm_ymm_ymmm256,
    max: Code::VEX_Vmaxps_ymm_ymm_ymmm256,
    int_add: Code::VEX_Vpaddd_ymm_ymm_ymmm256,
    int_sub: Code::VEX_Vpsubd_ymm_ymm_ymmm256,
    int_equal: Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256,
    int_greater: Code::VEX_Vpcmpgtd_ymm_ymm_ymmm256,
};
/// Lanes of 64 bits.
pub(crate) static DOUBLE: VectorCodes = VectorCodes {
    sqrt: Code::VEX_Vsqrtpd_ymm_ymmm256,
    whole: Code::VEX_Vroundpd_ymm_ymmm256_imm8,
    shift_left: Code::VEX_Vpsllq_ymm_ymm_imm8,
    shift_right: Code::VEX_Vpsrlq_ymm_ymm_imm8,
    select: Code::VEX_Vblendvpd_ymm_ymm_ymmm256_ymm,
    compare: Code::VEX_Vcmppd_ymm_ymm_ymmm256_imm8,
    mul_add_213: Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256,
    mul_add_231: Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256,
    mul_add_132: Code::VEX_Vfmadd132pd_ymm_ymm_ymmm256,
    widen_bytes: Code::VEX_Vpmovzxbq_ymm_xmmm32,
    add: Code::VEX_Vaddpd_ymm_ymm_ymmm256,
    sub: Code::VEX_Vsubpd_ymm_ymm_ymmm256,
    mul: Code::VEX_Vmulpd_ymm_ymm_ymmm256,
    div: Code::VEX_Vdivpd_ymm_ymm_ymmm256,
    min: Code::VEX_Vminpd_ymm_ymm_ymmm256,
    max: Code::VEX_Vmaxpd_ymm_ymm_ymmm256,
    int_add: Code::VEX_Vpaddq_ymm_ymm_ymmm256,
    int_sub: Code::VEX_Vpsubq_ymm_ymm_ymmm256,
    int_equal: Code::VEX_Vpcmpeqq_ymm_ymm_ymmm256,
    int_greater: Code::VEX_Vpcmpgtq_ymm_ymm_ymmm256,
};
