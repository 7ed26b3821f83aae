// SPDX-License-Identifier: Apache-2.0

package code

import (
	"encoding/binary"
	"testing"

	"github.com/paracuda/paracuda/gpubackend"
	"github.com/paracuda/paracuda/gpubackend/cuda/output"
	"github.com/paracuda/paracuda/gpubackend/fatbin"
)

func TestCheckImage(t *testing.T) {
	elf := func(change func(b []byte)) string {
		b := make([]byte, 256)
		copy(b, "\x7fELF\x02\x01\x01")
		binary.LittleEndian.PutUint64(b[32:], 64)
		binary.LittleEndian.PutUint16(b[54:], 56)
		binary.LittleEndian.PutUint16(b[56:], 1)
		binary.LittleEndian.PutUint64(b[40:], 128)
		binary.LittleEndian.PutUint16(b[58:], 64)
		binary.LittleEndian.PutUint16(b[60:], 2)
		if change != nil {
			change(b)
		}
		return string(b)
	}
	container := func(header uint16, body uint64, n int) string {
		b := make([]byte, n)
		binary.LittleEndian.PutUint32(b, fatbin.MagicContainer)
		binary.LittleEndian.PutUint16(b[6:], header)
		binary.LittleEndian.PutUint64(b[8:], body)
		return string(b)
	}
	for _, test := range []struct {
		name, image string
		want        gpubackend.Result
	}{
		{"PTX", "// PTX\n.version 8.0", 0},
		{"empty", "", gpubackend.InvalidImage},
		{"short", ".v", gpubackend.InvalidImage},
		{"wrapper with a pointer", "\xb1\x43\x62\x46\x01\x00\x00\x00AAAAAAAA",
			gpubackend.InvalidImage},
		{"archive", "!<arch>\n", gpubackend.InvalidImage},
		{"bytes", "\x00\x01\x02\x03\x04", gpubackend.InvalidImage},
		{"ELF", elf(nil), 0},
		{"ELF cut short", elf(nil)[:40], gpubackend.InvalidImage},
		{"ELF of 32 bits", elf(func(b []byte) { b[4] = 1 }), gpubackend.InvalidImage},
		{"ELF sections outside", elf(func(b []byte) { b[60] = 3 }), gpubackend.InvalidImage},
		{"ELF segments far outside",
			elf(func(b []byte) { binary.LittleEndian.PutUint64(b[32:], ^uint64(0)) }),
			gpubackend.InvalidImage},
		{"fatbin", container(16, 48, 64), 0},
		{"fatbin cut short", container(16, 49, 64), gpubackend.InvalidImage},
		{"fatbin that wraps", container(16, ^uint64(0), 64), gpubackend.InvalidImage},
		{"fatbin with a small header", container(8, 8, 64), gpubackend.InvalidImage},
	} {
		t.Run(test.name, func(t *testing.T) {
			if r := checkImage([]byte(test.image)); r != test.want {
				t.Errorf("result %d, want %d", r, test.want)
			}
		})
	}
}

func FuzzImage(f *testing.F) {
	f.Add([]byte(".version 6.5\n.target sm_75\n.visible .entry empty() {}\n"))
	f.Add([]byte("\x50\xed\x55\xba\x01\x00\x10\x00\x40\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(_ *testing.T, image []byte) {
		if checkImage(image) == gpubackend.Success {
			output.Find(image, func(int) bool { return true }, nil)
		}
	})
}
