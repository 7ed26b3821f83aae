// SPDX-License-Identifier: Apache-2.0

package printf

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

// memory is memory at base, with arguments.
type memory []byte

const base = 0x1000

func (m memory) Word(addr, size uint64) (word uint64, ok bool) {
	if addr < base || addr+size > base+uint64(len(m)) || addr%size != 0 {
		return 0, false
	}
	b := m[addr-base:]
	if size == 4 {
		return uint64(binary.LittleEndian.Uint32(b)), true
	}
	return binary.LittleEndian.Uint64(b), true
}

func (m memory) Text(addr uint64) (text string, ok bool) {
	if addr < base || addr >= base+uint64(len(m)) {
		return "", false
	}
	text, _, ok = strings.Cut(string(m[addr-base:]), "\x00")
	return text, ok
}

func TestFormat(t *testing.T) {
	t.Parallel()
	nan := math.Float64bits(math.NaN())
	tests := []struct {
		format string
		args   []uint64
		sizes  []int
		want   string
	}{
		{"plain 100%%", nil, nil, "plain 100%"},
		{"%d|%5d|%-5d|%05d|%+d", []uint64{1, 2, 3, 4, 5}, []int{4, 4, 4, 4, 4},
			"1|    2|3    |00004|+5"},
		{"%d %ld", []uint64{0xffffffff, ^uint64(0)}, []int{4, 8}, "-1 -1"},
		{"%u %x %#X %o", []uint64{0xffffffff, 0xffffffff, 0xab, 8}, []int{4, 4, 4, 4},
			"4294967295 ffffffff 0XAB 10"},
		{"%.3d|%8.3d", []uint64{7, 7}, []int{4, 4}, "007|     007"},
		{"%f %e %g %G",
			[]uint64{math.Float64bits(1.5), math.Float64bits(12345.678), math.Float64bits(1e-7),
				math.Float64bits(100000)}, []int{8, 8, 8, 8}, "1.500000 1.234568e+04 1e-07 100000"},
		{"%8.2f|%-8.1f|", []uint64{math.Float64bits(3.14159), math.Float64bits(2)}, []int{8, 8},
			"    3.14|2.0     |"},
		{"%f %5.1f %F", []uint64{math.Float64bits(math.Inf(-1)), nan, nan}, []int{8, 8, 8},
			"-inf   nan NAN"},
		{"%*d|%.*f", []uint64{6, 42, 1, math.Float64bits(2.55)}, []int{4, 4, 4, 8}, "    42|2.5"},
		{"%s|%10s|%p", []uint64{0, 0, 0}, []int{8, 8, 8}, "(null)|    (null)|(nil)"},
		{"%a", []uint64{math.Float64bits(1)}, []int{8}, "0x1p+0"},
		{"%y %", nil, nil, "%y %"},
	}
	for _, test := range tests {
		t.Run(test.format, func(t *testing.T) {
			var args []byte
			for i, a := range test.args {
				for len(args)%test.sizes[i] != 0 {
					args = append(args, 0)
				}
				var b [8]byte
				binary.LittleEndian.PutUint64(b[:], a)
				args = append(args, b[:test.sizes[i]]...)
			}
			got, count, ok := Format(test.format, base, memory(args))
			if string(got) != test.want || count != len(test.args) || !ok {
				t.Errorf("%q of %d arguments, want %q", got, count, test.want)
			}
		})
	}
}

// TestFaults: arguments that can't be read are a fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	wild := binary.LittleEndian.AppendUint64(nil, 0xdead)
	for _, test := range []struct {
		format string
		args   memory
	}{
		{"%d", nil}, {"%d %d", memory{1, 0, 0, 0}}, {"%*d", memory{1, 0, 0, 0}}, {"%s", wild},
	} {
		if _, _, ok := Format(test.format, base, test.args); ok {
			t.Errorf("%q of %d bytes was formatted", test.format, len(test.args))
		}
	}
	// A string is read where its address says.
	args := append(binary.LittleEndian.AppendUint64(nil, base+8), "text\x00"...)
	if got, _, ok := Format("<%6.3s>", base, memory(args)); string(got) != "<   tex>" || !ok {
		t.Errorf("%q", got)
	}
}

// TestWidthsAreBounded: a guest can't make a message as long as it likes.
func TestWidthsAreBounded(t *testing.T) {
	t.Parallel()
	args := binary.LittleEndian.AppendUint32(nil, 1<<30)
	args = binary.LittleEndian.AppendUint32(args, 7)
	for _, format := range []string{"%*d", "%99999999d", "%.99999999d"} {
		if got, _, _ := Format(format, base, memory(args)); len(got) > maxField {
			t.Errorf("%s: %d bytes", format, len(got))
		}
	}
}
