// SPDX-License-Identifier: Apache-2.0

package simt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/gpubackend/soft/scalar"
)

// goldenThreads is the number of inputs of each instruction.
const goldenThreads = 256

// instruction is a line of testdata/instructions.txt: which inputs it gets, the types of its
// registers d, a, b, c, and its text.
type instruction struct {
	inputs string
	types  []string
	text   string
}

func readInstructions(tb testing.TB) []instruction {
	tb.Helper()
	data, err := os.ReadFile("testdata/instructions.txt")
	if err != nil {
		tb.Fatal(err)
	}
	var list []instruction
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		head, text, _ := strings.Cut(line, " | ")
		fields := strings.Fields(head)
		list = append(list, instruction{fields[0], fields[1:], text})
	}
	return list
}

// goldenModule makes of each instruction a kernel, k0, k1, and so on. It loads a, b and c, executes
// the instruction, and stores d.
func goldenModule(list []instruction) []byte {
	var b bytes.Buffer
	b.WriteString(".version 8.0\n.target sm_90\n.address_size 64\n")
	for i, in := range list {
		fmt.Fprintf(&b, ".visible .entry k%d(.param .u64 in, .param .u64 out)\n{\n", i)
		b.WriteString(".reg .b64 from, to;\n.reg .b32 index;\nmov.u32 index, %tid.x;\n" +
			"ld.param.u64 from, [in];\nld.param.u64 to, [out];\n" +
			"mad.wide.u32 from, index, 8, from;\nmad.wide.u32 to, index, 8, to;\n")
		for k, t := range in.types {
			name := "dabc"[k : k+1]
			fmt.Fprintf(&b, ".reg .%s %s;\n", t, name)
			if k == 0 {
				fmt.Fprintf(&b, "mov.%s d, 0;\n", t)
			} else {
				fmt.Fprintf(&b, "ld.global.%s %s, [from+%d];\n", t, name, (k-1)*goldenThreads*8)
			}
		}
		fmt.Fprintf(&b, "{\n%s;\n}\nst.global.%s [to], d;\nret;\n}\n", in.text, in.types[0])
	}
	return b.Bytes()
}

// goldenInputs are three operands for each thread.
func goldenInputs(set string) []uint64 {
	r := rand.New(rand.NewSource(int64(set[0])))
	v := make([]uint64, 3*goldenThreads)
	for i := range v {
		v[i] = goldenInput(r, set)
	}
	return v
}

// edges are values worth a test, as bits.
var edges = []uint64{0, 1, 2, 31, 32, 33, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff,
	0x7fffffffffffffff, 1 << 63,
	^uint64(0), 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00000001, 0x80000001,
	0x4f000000, 0xcf000000,
	math.Float64bits(1), math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1)),
	scalar.NaN64,
	math.Float64bits(1e300),
	0x0000000000000001, 0x8000000000000000, 0x007fffff, 0x00800000}

func goldenInput(r *rand.Rand, set string) uint64 {
	kind := r.Intn(4)
	switch set {
	case "f":
		x := math.Float32bits(float32(r.NormFloat64() * math.Exp2(float64(r.Intn(60)-20))))
		switch kind {
		case 0:
			special := []uint32{0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
				0x7fc00000, 0x00000001,
				0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f000000, 0xbf000000,
				0x40200000,
				0x4f000000, 0xcf000000, 0x5f000000, 0x477fe000, 0x477ff000, 0x33000000, 0x33000001,
				0x387fffff}
			x = special[r.Intn(len(special))]
		case 1:
			x = r.Uint32()
		}
		return uint64(x) | uint64(r.Uint32())<<32
	case "d":
		switch kind {
		case 0:
			special := []float64{0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1),
				math.NaN(), 5e-324, -5e-324,
				math.MaxFloat64, 0x1p-1022, 0.5, -0.5, 2.5, 0x1p31, -0x1p31, 0x1p63, 65504, 65520,
				0x1p-24, 0x1p-25,
				0x1p-126, 0x1p-149, 0x1p-150, 3.4028235e38, 3.4028236e38}
			return math.Float64bits(special[r.Intn(len(special))])
		case 1:
			return r.Uint64()
		}
		return math.Float64bits(r.NormFloat64() * math.Exp2(float64(r.Intn(80)-30)))
	case "h":
		half := func() uint64 {
			if r.Intn(3) == 0 {
				special := []uint64{0, 0x8000, 0x3c00, 0x7c00, 0xfc00, 0x7e00, 1, 0x8001, 0x3ff,
					0x400, 0x7bff, 0x3f80, 0x7f80, 0xff80, 0x7fc0, 0x80}
				return special[r.Intn(len(special))]
			}
			return uint64(r.Intn(1 << 16))
		}
		return half() | half()<<16 | half()<<32 | half()<<48
	}
	switch kind {
	case 0:
		return edges[r.Intn(len(edges))]
	case 1:
		return uint64(int64(r.Intn(200) - 100))
	case 2:
		return r.Uint64() >> r.Intn(64)
	}
	return r.Uint64()
}

// golden reads the hashes of what a GPU gave for each instruction.
func golden(tb testing.TB) []string {
	tb.Helper()
	data, err := os.ReadFile("testdata/golden/instructions.txt")
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Fields(string(data))
}

func hashOf(v []uint64) string {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, v)
	return fmt.Sprintf("%016x", h.Sum64())
}

// TestInstructions compares what each instruction gives with what an H100 gave. There is one hash
// for each instruction of testdata/instructions.txt. Two lines of comments come before these.
func TestInstructions(t *testing.T) {
	t.Parallel()
	list := readInstructions(t)
	text := goldenModule(list)
	if dir := os.Getenv("PARACUDA_GOLDEN_DIR"); dir != "" {
		writeGolden(t, dir, list, text)
	}
	d := newDevice(t, 16<<20)
	d.load(parseText(t, "instructions", text))
	sets := make(map[string]uint64)
	for _, set := range []string{"i", "f", "d", "h"} {
		sets[set] = put(d, goldenInputs(set))
	}
	want := golden(t)
	if len(want) != len(list) {
		t.Fatalf("%d hashes for %d instructions", len(want), len(list))
	}
	out := d.alloc(goldenThreads * 8)
	for i, in := range list {
		clear(d.bytes(out, goldenThreads*8))
		d.run(fmt.Sprintf("k%d", i), 1, goldenThreads, sets[in.inputs], out)
		if got := hashOf(get[uint64](d, out, goldenThreads)); got != want[i] {
			t.Errorf("line %d: %v %s: results differ", i+3, in.types, in.text)
			reportGolden(t, i, in, get[uint64](d, out, goldenThreads))
		}
	}
}
