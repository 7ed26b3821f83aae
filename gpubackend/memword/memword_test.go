// SPDX-License-Identifier: Apache-2.0

package memword

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestWord(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	}()
	copy(mem[8:], "\x01\x02\x03\x04\x05\x06\x07\x08\x09")
	if n := *Of32(mem[12:]); n != 0x08070605 {
		t.Errorf("Of32: %#x", n)
	}
	if n := *Of64(mem[8:]); n != 0x0807060504030201 {
		t.Errorf("Of64: %#x", n)
	}
	Atomic64(mem[8:]).Add(1)
	if mem[8] != 2 || mem[16] != 9 {
		t.Errorf("Atomic64 has made %x of it", mem[8:17])
	}
	for name, of := range map[string]func(b []byte){
		"Of32":     func(b []byte) { Of32(b[:3]) },
		"Of64":     func(b []byte) { Of64(b[:7]) },
		"Atomic64": func(b []byte) { Atomic64(b[:7]) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s takes memory that is too short", name)
				}
			}()
			of(mem)
		}()
	}
}
