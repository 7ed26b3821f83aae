// SPDX-License-Identifier: Apache-2.0

package ptx

import "github.com/paracuda/paracuda/gpubackend/ptxlex"

// An Error is a reason why PTX can't be loaded.
type Error = ptxlex.Error

// A Module is a parsed PTX text.
type Module struct {
	// Major and Minor are the version of the PTX ISA.
	Major, Minor int
	// Target is the first word of .target, such as "sm_90a".
	Target string
	// Arch is the number in Target.
	Arch int
	// Functions are the entries and device functions, declarations without a
	// body included, each name once.
	Functions []*Function
	// Vars are the variables of module scope.
	Vars []*Variable

	// Sum tells texts apart. It is the same in each process.
	Sum uint64

	functions map[string]*Function
	vars      map[string]*Variable
	bodies    uint64 // what the functions' bodies count for
}

// DropBodies forgets the functions' instructions, which are of no use once they are decoded, and
// returns what they counted for.
func (m *Module) DropBodies() uint64 {
	for _, f := range m.Functions {
		f.Body = nil
	}
	bytes := m.bodies
	m.bodies = 0
	return bytes
}

// Function returns the entry or device function called name, or nil.
func (m *Module) Function(name string) *Function { return m.functions[name] }

// Var returns the module-scope variable called name, or nil.
func (m *Module) Var(name string) *Variable { return m.vars[name] }

// Linkage of a symbol.
type Linkage uint8

// Linkages.
const (
	Internal Linkage = iota
	Visible
	Weak
	Extern
	Common
)

// Space is a state space.
type Space uint8

// State spaces.
const (
	Generic Space = iota
	Global
	Const
	Shared
	Local
	Param
)

func (s Space) String() string {
	return [...]string{"generic", "global", "const", "shared", "local", "param"}[s]
}

// Type is a PTX fundamental type.
type Type uint8

// Types.
const (
	NoType Type = iota
	Pred
	B8
	B16
	B32
	B64
	B128
	U8
	U16
	U32
	U64
	S8
	S16
	S32
	S64
	F16
	F16x2
	BF16
	BF16x2
	F32
	F64
)

var typeNames = [...]string{"", "pred", "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32",
	"u64",
	"s8", "s16", "s32", "s64", "f16", "f16x2", "bf16", "bf16x2", "f32", "f64"}

var typeSizes = [...]int{0, 0, 1, 2, 4, 8, 16, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 2, 4, 4, 8}

var typesByName = func() map[string]Type {
	names := make(map[string]Type)
	for t, name := range typeNames[1:] {
		names[name] = Type(t + 1)
	}
	return names
}()

// TypeOf returns the type with the given name, without the dot; NoType if
// there is none.
func TypeOf(name string) Type { return typesByName[name] }

func (t Type) String() string { return typeNames[t] }

// Size is the type's size in memory in bytes; 0 for Pred.
func (t Type) Size() int { return typeSizes[t] }

// Signed tells whether t is a signed integer.
func (t Type) Signed() bool { return t >= S8 && t <= S64 }

// Float tells whether t is a floating-point type.
func (t Type) Float() bool { return t >= F16 }

// Opaque tells references to textures and surfaces from other variables.
type Opaque uint8

// What a variable may refer to.
const (
	NotOpaque Opaque = iota
	TextureRef
	SurfaceRef
)

// A Variable is a variable of module or function scope.
type Variable struct {
	Name    string
	Linkage Linkage
	Space   Space
	Type    Type
	Align   int
	// Size in bytes; 0 for an extern shared array, whose size a launch gives.
	Size uint64
	// Managed is set for __managed__ variables.
	Managed bool
	// Opaque says what a reference is one to; such a variable has no content.
	Opaque Opaque
	// Init is the initial content, Size bytes long, or nil for all zero.
	Init []byte
	// Relocs are addresses to be added to Init.
	Relocs []Reloc
	Line   int
}

// A Reloc asks for the address of a symbol inside a variable's initial content:
// the bytes at Offset become (address + Addend) >> Shift, cut to Size bytes.
type Reloc struct {
	Offset uint64
	Size   int
	Shift  uint
	Symbol string
	Addend int64
	// Generic asks for the generic address, which for global and constant
	// variables is the address itself.
	Generic bool
}

// A Parameter is a formal parameter or result of a function.
type Parameter struct {
	Name   string
	Type   Type
	Align  int
	Offset int
	Size   int
}

// A Register is a virtual register of a function.
type Register struct {
	Name string
	Type Type
}

// A Function is an entry (kernel) or device function.
type Function struct {
	Name    string
	Entry   bool
	Linkage Linkage
	Params  []Parameter
	Results []Parameter
	// ParamSize is the size of the parameters with alignment.
	ParamSize int
	// MaxThreads and ReqThreads are .maxntid and .reqntid, 0 when not given.
	MaxThreads, ReqThreads [3]int
	// MinBlocks is .minnctapersm, 0 when not given.
	MinBlocks int
	// MaxRegisters is .maxnreg, 0 when not given.
	MaxRegisters int
	// Regs are the virtual registers, one for each declared name.
	Regs []Register
	// Vars are the .local, .shared and .param variables of function scope.
	// Names may repeat in different scopes; operands refer by index.
	Vars []*Variable
	// Defined is set when there is a body.
	Defined bool
	Body    []Inst
	Line    int
}

// SharedSize is the static shared memory that the function's own variables and
// those of module scope in m take.
func (f *Function) SharedSize(m *Module) uint64 {
	var size uint64
	add := func(vars []*Variable) {
		for _, v := range vars {
			if v.Space == Shared && v.Linkage != Extern {
				size = alignUp(size, uint64(v.Align)) + v.Size
			}
		}
	}
	add(m.Vars)
	add(f.Vars)
	return size
}

func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }
