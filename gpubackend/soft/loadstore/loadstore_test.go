// SPDX-License-Identifier: Apache-2.0

package loadstore

import (
	"encoding/binary"
	"math/rand"
	"slices"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/cudaabi"
	"github.com/paracuda/paracuda/gpubackend/soft/decoded"
	"github.com/paracuda/paracuda/gpubackend/soft/lanes"
	"github.com/paracuda/paracuda/gpubackend/soft/ptx"
)

// bank is device memory: two ranges, the second of which can't be written, with nothing between.
type bank struct {
	words []uint64
	base  uintptr
}

const bankBytes = 4096

func newBank() *bank {
	b := &bank{}
	b.words, b.base = NewBytes(4 * bankBytes)
	return b
}

func (b *bank) Lookup(addr uint64) (base, end uint64, writable, ok bool) {
	first := uint64(b.base)
	switch {
	case addr >= first && addr < first+bankBytes:
		return first, first + bankBytes, true, true
	case addr >= first+2*bankBytes && addr < first+3*bankBytes:
		return first + 2*bankBytes, first + 3*bankBytes, false, true
	}
	return 0, 0, false, false
}

// rig is a unit with memory of all kinds.
type rig struct {
	Unit
	device, shared, local, params *bank
	slab                          []uint64
	failed                        []int
}

// Registers of the rig, by their offsets.
const (
	addresses = 0
	value     = 8 * lanes.Count
	first     = 16 * lanes.Count // of a vector of four
	registers = 48 * lanes.Count
)

func newRig() *rig {
	r := &rig{device: newBank(), shared: newBank(), local: newBank(), params: newBank()}
	slab, regs := lanes.NewRegisters(registers)
	r.slab = slab
	r.Unit = Unit{Registers: regs, Cache: &Cache{Memory: r.device}, Shared: r.shared.base,
		SharedSize: bankBytes, Params: r.params.base, ParamSize: 64, LocalBase: r.local.base,
		LocalStride: 64,
		Fail:        func(_, code int, _ string, _ ...any) { r.failed = append(r.failed, code) }}
	return r
}

// state is all that an access may change.
func (r *rig) state() []uint64 {
	return slices.Concat(r.slab, r.device.words, r.shared.words, r.local.words)
}

func (r *rig) restore(state []uint64) {
	for _, part := range [][]uint64{r.slab, r.device.words, r.shared.words, r.local.words} {
		copy(part, state)
		state = state[len(part):]
	}
	r.failed = nil
}

// access is a load or store of elements as large as a way moves.
func access(
	way decoded.AccessWay, element decoded.AccessElement, store bool,
) *decoded.Inst {
	size := []uint8{4, 8, 2, 1, 1, 1, 1}[element]
	wd := []lanes.Width{lanes.Width32, lanes.Width64, lanes.Width16, lanes.Width16, lanes.Width16,
		lanes.Width32, lanes.Width32}[element]
	signed := element == decoded.AccessS8in16 || element == decoded.AccessS8in32
	in := &decoded.Inst{Op: decoded.QuickAccess(way, element, store), Imm: 16,
		Operands: lanes.Operands{A: addresses, AW: lanes.Width64, B: value, BW: wd, D: value,
			DW: wd},
		Mem: decoded.Access{Space: ptx.Global, Size: size, Count: 1, Signed: signed}}
	switch way {
	case decoded.AccessShared32:
		in.AW, in.Mem.Space = lanes.Width32, ptx.Shared
	case decoded.AccessShared:
		in.Mem.Space = ptx.Shared
	case decoded.AccessVector:
		in.Mem.Count, in.More = 4, &decoded.More{}
		for k := range uint32(4) {
			in.More.Regs = append(in.More.Regs, first+k*8*lanes.Count)
			in.More.Widths = append(in.More.Widths, wd)
		}
	}
	return in
}

// aim gives the lanes addresses: in a row, anywhere in the range, or wild.
func (r *rig) aim(random *rand.Rand, in *decoded.Inst) {
	unit := uint64(in.Mem.Size) * uint64(in.Mem.Count)
	base := uint64(0)
	if in.Mem.Space == ptx.Global {
		base = uint64(r.device.base) + uint64(random.Intn(2))*2*bankBytes
	}
	how := random.Intn(4)
	var addr [lanes.Count]uint64
	for i := range addr {
		switch n := uint64(random.Intn(bankBytes - 64)); how {
		case 0:
			addr[i] = base + uint64(i)*unit
		case 3:
			addr[i] = base + n*2
		default:
			addr[i] = base + n&^(unit-1)
		}
	}
	r.Store(addresses, in.AW, &addr, lanes.All)
}

// TestQuickWays compares each quick way with the general one, at good and at bad addresses.
func TestQuickWays(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(1))
	faults := 0
	for op := range decoded.Ops {
		way, element, store, ok := quickOf(op)
		if !ok {
			continue
		}
		r := newRig()
		in := access(way, element, store)
		general := execLoad
		if store {
			general = execStore
		}
		for range 200 {
			for i := range r.slab {
				r.slab[i] = random.Uint64()
			}
			for i := range r.device.words {
				r.device.words[i], r.shared.words[i] = random.Uint64(), random.Uint64()
			}
			r.aim(random, in)
			mask := lanes.All
			if random.Intn(2) == 0 {
				mask = random.Uint32() | 1
			}
			before := r.state()
			general(&r.Unit, in, mask)
			want, failed := r.state(), slices.Clone(r.failed)
			r.restore(before)
			Accesses[op](&r.Unit, in, mask)
			if !slices.Equal(r.failed, failed) {
				t.Fatalf("way %d, element %d: fails with %v, want %v", way, element, r.failed,
					failed)
			}
			if faults += len(failed); len(failed) == 0 && !slices.Equal(r.state(), want) {
				t.Fatalf("way %d, element %d, store %v: another result", way, element, store)
			}
			r.restore(before)
		}
	}
	if faults < 100 {
		t.Errorf("%d accesses failed: fewer than should", faults)
	}
}

// quickOf is what QuickAccess made an operation of.
func quickOf(op decoded.Op) (decoded.AccessWay, decoded.AccessElement, bool, bool) {
	for way := decoded.AccessGlobal; way <= decoded.AccessVector; way++ {
		for element := decoded.Access32; element <= decoded.AccessS8in32; element++ {
			for _, store := range []bool{false, true} {
				if decoded.QuickAccess(way, element, store) == op {
					return way, element, store, true
				}
			}
		}
	}
	return 0, 0, false, false
}

// TestResolve: what may be accessed, and with what others fail.
func TestResolve(t *testing.T) {
	t.Parallel()
	r := newRig()
	device := uint64(r.device.base)
	for _, c := range []struct {
		name  string
		at, n uint64
		write bool
		want  uintptr
		code  int // of the failure, 0: none
	}{
		{"device memory", device + 8, 8, true, r.device.base + 8, 0},
		{"its end", device + bankBytes - 8, 8, true, r.device.base + bankBytes - 8, 0},
		{"beyond it", device + bankBytes, 8, false, 0, cudaabi.ErrorIllegalAddress},
		{"read-only memory", device + 2*bankBytes, 4, false, r.device.base + 2*bankBytes, 0},
		{"written", device + 2*bankBytes, 4, true, 0, cudaabi.ErrorIllegalAddress},
		{"misaligned", device + 2, 4, false, 0, cudaabi.ErrorMisalignedAddress},
		{"null", 0, 4, false, 0, cudaabi.ErrorIllegalAddress},
		{"shared memory", decoded.SharedWindow + 4, 4, true, r.shared.base + 4, 0},
		{"beyond it", decoded.SharedWindow + bankBytes, 4, true, 0, cudaabi.ErrorIllegalAddress},
		{"lane 3's memory", decoded.LocalWindow + 8, 8, true, r.local.base + 3*64 + 8, 0},
		{"lane 4's", decoded.LocalWindow + 64, 8, true, 0, cudaabi.ErrorIllegalAddress},
		{"a parameter", decoded.ParamWindow + 60, 4, false, r.params.base + 60, 0},
		{"written", decoded.ParamWindow, 4, true, 0, cudaabi.ErrorIllegalAddress},
		{"a function", decoded.FunctionWindow, 8, false, 0, cudaabi.ErrorIllegalAddress},
		{"the last address", ^uint64(7), 8, false, 0, cudaabi.ErrorIllegalAddress},
	} {
		r.failed = nil
		got := r.Resolve(c.at, 3, c.n, c.write)
		if want := []int{c.code}; c.code == 0 && r.failed != nil ||
			c.code != 0 && !slices.Equal(r.failed, want) || got != c.want {
			t.Errorf("%s: %#x, fails with %v, want %#x, %d", c.name, got, r.failed, c.want, c.code)
		}
	}
}

// TestAtomics: each kind of operation on words that lanes share, with what was there before.
func TestAtomics(t *testing.T) {
	t.Parallel()
	r := newRig()
	in := &decoded.Inst{Op: decoded.OpAdd32, Mem: decoded.Access{Space: ptx.Global, Size: 4},
		More: &decoded.More{}, Operands: lanes.Operands{A: addresses, AW: lanes.Width64, B: value,
			BW: lanes.Width32, C: value, CW: lanes.Width32, D: first, DW: lanes.Width32}}
	r.Fill(addresses, lanes.Width64, uint64(r.device.base), lanes.All)
	r.Fill(value, lanes.Width32, 3, lanes.All)
	Accesses[in.Op](&r.Unit, in, lanes.All)
	if sum, last := Peek(r.device.base, 4), r.Lane(first, lanes.Width32,
		31); sum != 3*lanes.Count ||
		last != 3*31 {
		t.Errorf("the sum is %d, the last lane found %d", sum, last)
	}
	in.Op, in.More.Scalar = decoded.OpUpdate32, func(old, b, _ uint64) uint64 { return old ^ b }
	Accesses[in.Op](&r.Unit, in, 0b11)
	if got := Peek(r.device.base, 4); got != 3*lanes.Count {
		t.Errorf("twice exclusive or: %d", got)
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], Peek(r.device.base, 8))
	if b[4] != 0 {
		t.Errorf("the next word has changed: %v", b)
	}
}
