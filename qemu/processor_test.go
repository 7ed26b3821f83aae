// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckProcessor(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       error
	}{
		{"Intel's", "processor\t: 0\nflags\t\t: fpu vmx ssse3\nvmx flags\t: vnmi\n", nil},
		{"AMD's", "flags : fpu svm\n", nil},
		{"in a VM", "processor\t: 0\nflags\t\t: fpu hypervisor\n", ErrNoVirtualization},
		{"flags of similar names", "flags : vmxnet xsvm\n", ErrNoVirtualization},
		{"only the first is asked", "flags : fpu\n\nflags : vmx\n", ErrNoVirtualization},
		{"other lines' words", "model name : vmx svm\nflags : fpu\n", ErrNoVirtualization},
		{"no flags", "processor : 0\nflags :\n", nil},
		{"nothing", "", nil},
		{"a line without an end", strings.Repeat("x", 1<<20), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := CheckProcessor(strings.NewReader(tt.text)); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}
