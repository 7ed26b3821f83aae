// SPDX-License-Identifier: Apache-2.0

package known

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cudaabi"
)

// structures are what the driver gets unchanged, with values that are right, and values that must
// be refused. Both are by offset, so that the names that the code uses are checked, too.
var structures = []struct {
	name  string
	bytes int
	known func([]byte) gpubackend.Result
	good  map[int]uint32
	bad   []map[int]uint32
}{
	{"operations", 2 * cudaabi.StreamBatchMemOpParamsSize, Ops,
		map[int]uint32{0: 1, 24: 1 << 30, 48: 5, 72: 1}, []map[int]uint32{
			{0: 0}, {0: 6, 4: 2}, {0: 3, 4: 1 << 31}, {0: 8}, {48: 77}, {24: 4}, {24: 1 << 31},
			{72: 2}, {72: 1 << 30},
		}},
	{"pool", cudaabi.MemPoolPropsSize, PlainPool, map[int]uint32{0: 1, 8: 1}, []map[int]uint32{
		{0: 0}, {0: 2}, {4: 1}, {4: 8}, {8: 0}, {8: 2}, {16: 1}, {20: 1}, {32: 1}, {84: 1},
	}},
	{"array", cudaabi.Array3DDescriptorSize, Array, map[int]uint32{32: 0x1ff},
		[]map[int]uint32{{32: 0x200}, {32: 1 << 31}}},
	{"attributes", ShapeBytes + 2*cudaabi.LaunchAttributeSize, Attributes,
		map[int]uint32{32: 4, 104: 14}, []map[int]uint32{
			{32: 13}, {32: 15}, {104: 40}, {104: 1 << 31},
		}},
}

func TestUnknownContentsAreRefused(t *testing.T) {
	fill := func(b []byte, values map[int]uint32) {
		for at, v := range values {
			binary.LittleEndian.PutUint32(b[at:], v)
		}
	}
	for _, s := range structures {
		b := make([]byte, s.bytes)
		fill(b, s.good)
		if s.known(b) != gpubackend.Success {
			t.Errorf("%s: what is right is refused", s.name)
		}
		for _, bad := range s.bad {
			b := make([]byte, s.bytes)
			fill(b, s.good)
			fill(b, bad)
			if s.known(b) == gpubackend.Success {
				t.Errorf("%s: %v isn't refused", s.name, bad)
			}
		}
	}
}

// TestOpsAreReadInTheirOrder: a wait that is to flush is refused before what comes behind it, as
// the driver does on a GPU that can't.
func TestOpsAreReadInTheirOrder(t *testing.T) {
	const (
		wait, write, remote, unknown = 1, 2, cudaabi.MemOpFlushRemoteWrites, 77
		flush                        = cudaabi.StreamWaitValueFlush
		bad, not                     = gpubackend.InvalidValue, gpubackend.NotSupported
	)
	for _, x := range []struct {
		name  string
		ops   [][2]uint32 // kind and flags
		first gpubackend.Result
	}{
		{"an unknown one", [][2]uint32{{write, 0}, {unknown, 0}}, bad},
		{"a wait that flushes", [][2]uint32{{wait, flush}}, gpubackend.Success},
		{"an unknown one behind such a wait", [][2]uint32{{wait, flush}, {unknown, 0}}, not},
		{"unknown flags behind it", [][2]uint32{{wait, flush | 3}, {write, 0}, {wait, 8}}, not},
		{"an unknown one behind a flush", [][2]uint32{{remote, 0}, {unknown, 0}}, not},
		{"an unknown one before it", [][2]uint32{{unknown, 0}, {wait, flush}}, bad},
		{"a write with the same flag", [][2]uint32{{write, flush}, {unknown, 0}}, bad},
	} {
		var b []byte
		for _, op := range x.ops {
			p := make(cudaabi.StreamBatchMemOpParams, cudaabi.StreamBatchMemOpParamsSize)
			p.SetOperation(op[0])
			if op[0] != remote { // whose flags are elsewhere
				p.SetWaitValueFlags(op[1])
			}
			b = append(b, p...)
		}
		if got := Ops(b); got != x.first {
			t.Errorf("%s: %d, want %d", x.name, got, x.first)
		}
	}
}
