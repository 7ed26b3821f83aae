// SPDX-License-Identifier: Apache-2.0

package pcie

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// members are the processors of a set.
func members(set *unix.CPUSet) (all []int) {
	for i := range maxProcessors {
		if set.IsSet(i) {
			all = append(all, i)
		}
	}
	return all
}

func TestNear(t *testing.T) {
	a := Address{Bus: 0x65}
	for _, tt := range []struct {
		name, list string
		want       []int
	}{
		{"one", "3", []int{3}},
		{"two threads of each core", "2-3,6-7", []int{2, 3, 6, 7}},
		{"the last", "1023", []int{1023}},
		{"one too far", "1024", nil},
		{"far too many", "0-99999999999", nil},
		{"backwards", "3-2", nil},
		{"nonsense", "0,all", nil},
		{"empty", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := plug(t, a, map[string]string{"local_cpulist": tt.list}, nil)
			var set unix.CPUSet
			if ok := Near(folder, a, &set); ok != (tt.want != nil) ||
				!slices.Equal(members(&set), tt.want) {
				t.Errorf("%v of %q, want %v", members(&set), tt.list, tt.want)
			}
		})
	}
	var set unix.CPUSet
	if Near(t.TempDir(), a, &set) {
		t.Error("a device that isn't there is near to something")
	}
}

// TestNearToTwo: processors of several devices add up.
func TestNearToTwo(t *testing.T) {
	var set unix.CPUSet
	for _, list := range []string{"0-1", "4"} {
		if a := (Address{Bus: 1}); !Near(plug(t, a, map[string]string{"local_cpulist": list}, nil),
			a, &set) {
			t.Error("nobody is near")
		}
	}
	if got := members(&set); !slices.Equal(got, []int{0, 1, 4}) {
		t.Errorf("processors %v", got)
	}
}
