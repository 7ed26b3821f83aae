// SPDX-License-Identifier: Apache-2.0

package ptx

import "strings"

// NoReg stands for no register.
const NoReg = -1

// An Inst is an instruction: [@[!]Guard] Op.Mods Args.
type Inst struct {
	Line int
	// Guard is the predicate register that guards the instruction, or NoReg.
	Guard    int
	GuardNot bool
	// Op is the opcode up to the first dot, Mods the words after it:
	// "ld" and ["global", "v2", "f32"].
	Op   string
	Mods []string
	Args []Operand
	// Call is set for the call instruction, which has no Args.
	Call *Call
	// Targets are the labels of brx.idx, as indices of instructions.
	Targets []int
}

// Name is the opcode with its modifiers.
func (in *Inst) Name() string {
	if len(in.Mods) == 0 {
		return in.Op
	}
	return in.Op + "." + strings.Join(in.Mods, ".")
}

// A Call is what a call instruction names.
type Call struct {
	// Target is the function called; nil for an indirect call.
	Target *Function
	// Pointer is the register of an indirect call.
	Pointer int
	// Proto describes results and parameters of an indirect call.
	Proto *Function
	// Results and Args are .param variables of the caller or registers.
	Results []Operand
	Args    []Operand
}

// OperandKind says which of an Operand's fields count.
type OperandKind uint8

// Kinds of operands.
const (
	// Reg is register Reg; Not when written !%p.
	Reg OperandKind = iota
	// Int is the integer constant Value.
	Int
	// Float is a floating-point constant: Value holds the bits of a float64.
	Float
	// Float32 is a 0f constant: Value holds the bits of a float32.
	Float32
	// Vector is {Elems}.
	Vector
	// Pair is %p|%q: two destinations in Elems.
	Pair
	// Memory is [Elems[0]+Offset], Elems[0] being a register, a constant or an
	// address.
	Memory
	// Texture is [Elems[0], Elems[1]...]: a texture or surface and coordinates.
	Texture
	// Address is the address of module variable Var, or of the function-scope
	// variable with index Index, or of parameter Index, or of function Func,
	// plus Offset.
	Address
	// Label is the instruction with index Index.
	Label
	// Special is the special register Name.
	Special
	// Sink is the placeholder _.
	Sink
)

// AddressOf says what an Address operand refers to.
type AddressOf uint8

// What an address refers to.
const (
	ModuleVar AddressOf = iota
	FunctionVar
	ParamVar
	ResultVar
	FunctionAddr
)

// An Operand is an argument of an instruction.
type Operand struct {
	Kind   OperandKind
	Not    bool
	Of     AddressOf
	Reg    int
	Index  int
	Value  uint64
	Offset int64
	Name   string
	Var    *Variable
	Func   *Function
	Elems  []Operand
}
